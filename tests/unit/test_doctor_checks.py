"""Judging facts: every threshold, and a fix for everything that is wrong."""

from __future__ import annotations

import pytest

from labctl.automation.models import TaskError
from labctl.cli.doctor import exit_code
from labctl.errors import ExitCode
from labctl.lab.doctor import (
    GIB,
    Check,
    ControllerFacts,
    Seen,
    controller_checks,
    failure_check,
    host_checks,
    nic_path,
    numbers,
)
from labctl.lab.facts import HostFacts
from labctl.lab.models import Host

WORKDIR = "/srv/labctl"
DISK = "/dev/disk/by-id/nvme-A"
TOOLS = {name: {"path": f"/usr/bin/{name}", "version": version} for name, version in
         {"fio": "3.33", "sysbench": "1.0.20", "pgbench": "15.4", "initdb": "15.4"}.items()}  # fmt: skip


def facts(**changes):
    base = {
        "host": {"kernel": "6.1", "os": {"pretty": "Debian 12"}},
        "cpu": {"threads": 8, "governor": "performance"},
        "memory": {"total_bytes": 64 * GIB, "swap_total_bytes": 0},
        "load": {"load1": 0.1, "busy": []},
        "time": {"epoch_s": 1000.0, "synchronised": True, "source": "chronyd"},
        "user": {"name": "bench", "uid": 1000, "sudo": True},
        "tools": TOOLS,
        "paths": {WORKDIR: place(WORKDIR)},
    }
    return HostFacts.model_validate({**base, **changes})


def place(parent, free=100 * GIB, **more):
    return {
        "requested": parent,
        "existing_parent": parent,
        "free_bytes": free,
        "writable": True,
        "fs_type": "xfs",
        **more,
    }


def checks(found, host=None, seen=None):
    host = host or Host(name="a")
    return {check.id: check for check in host_checks(host, found, WORKDIR, seen or Seen(999.5, 1000.5))}


def test_a_good_host_has_nothing_to_mend():
    found = checks(facts())
    assert {check.status for check in found.values()} == {"ok"}
    assert all(not check.fix for check in found.values())


@pytest.mark.parametrize(
    ("change", "check_id", "status"),
    [
        ({"user": {"name": "b", "uid": 1000, "sudo": False}}, "root", "warn"),
        ({"tools": {**TOOLS, "fio": None}}, "tool-fio", "warn"),
        ({"tools": {**TOOLS, "fio": None}, "user": {"name": "b", "uid": 1, "sudo": False}}, "tool-fio", "fail"),
        ({"tools": {**TOOLS, "pgbench": {"path": "/p", "version": "12.9"}}}, "tool-pgbench", "fail"),
        ({"paths": {WORKDIR: place(WORKDIR, free=4 * GIB)}}, "space", "fail"),
        ({"paths": {WORKDIR: place(WORKDIR, free=10 * GIB)}}, "space", "warn"),
        ({"paths": {WORKDIR: place(WORKDIR, fs_type="tmpfs")}}, "space", "warn"),
        ({"time": {"epoch_s": 1000.0, "synchronised": False}}, "time-sync", "warn"),
        ({"time": {"epoch_s": 1003.0, "synchronised": True}}, "time-skew", "warn"),
        ({"time": {"epoch_s": 900.0, "synchronised": True}}, "time-skew", "fail"),
        ({"cpu": {"threads": 8, "governor": "powersave"}}, "governor", "warn"),
        ({"load": {"load1": 2.1}}, "load", "warn"),
        ({"load": {"load1": 0.0, "busy": [{"pid": 1, "command": "backup", "cpu": 2.5}]}}, "load", "warn"),
        ({"memory": {"total_bytes": 64 * GIB, "cgroup_limit_bytes": GIB, "swap_total_bytes": 0}}, "memory", "warn"),
        ({"memory": {"total_bytes": 64 * GIB, "swap_total_bytes": GIB}}, "swap", "warn"),
    ],
)
def test_each_fault_is_found_alone_and_has_a_fix(change, check_id, status):
    found = checks(facts(**change))
    assert found[check_id].status == status
    assert found[check_id].fix
    assert found[check_id].evidence
    expected = {check_id, "root"} if "user" in change else {check_id}
    assert {name for name, check in found.items() if check.status != "ok"} == expected


@pytest.mark.parametrize(
    ("change", "check_id"),
    [
        ({"cpu": {"threads": 8}}, "governor"),
        ({"paths": {}}, "space"),
        ({"time": {"epoch_s": 1000.0}}, "time-sync"),
        ({"load": {}}, "load"),
        ({"memory": {"total_bytes": 64 * GIB}}, "swap"),
    ],
)
def test_what_cannot_be_read_is_skipped_and_not_good(change, check_id):
    assert checks(facts(**change))[check_id].status == "skip"


def test_unwritable_is_fine_for_those_who_become_root():
    paths = {WORKDIR: place("/srv", writable=False)}
    assert checks(facts(paths=paths))["space"].status == "ok"
    found = checks(facts(paths=paths, user={"name": "b", "uid": 1, "sudo": False}))["space"]
    assert found.status == "fail"
    assert "/srv" in found.evidence


@pytest.mark.parametrize(
    ("by_id", "disk", "status"),
    [
        ("/dev/disk/by-id", "/dev", "ok"),
        ("/dev/disk/by-id", "/dev/disk/by-id", "fail"),
        ("/dev", "/dev", "fail"),
    ],
    ids=["there", "missing", "no-ids-at-all"],
)
def test_disks_of_the_inventory_are_looked_for(by_id, disk, status):
    host = Host.model_validate({"name": "a", "disks": [{"id": DISK}]})
    paths = {WORKDIR: place(WORKDIR), "/dev/disk/by-id": place(by_id), DISK: place(disk)}
    assert checks(facts(paths=paths), host)["disk"].status == status


def test_interfaces_of_the_inventory_are_looked_for():
    host = Host.model_validate({"name": "a", "nics": [{"name": "ens1"}]})
    there = {WORKDIR: place(WORKDIR), nic_path("ens1"): place("/sys/devices/pci0/net/ens1")}
    missing = {WORKDIR: place(WORKDIR), nic_path("ens1"): place("/sys/class/net")}
    assert checks(facts(paths=there), host)["nic"].status == "ok"
    assert checks(facts(paths=missing), host)["nic"].status == "fail"
    assert checks(facts(), host)["nic"].status == "skip"


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("Host key verification failed.", "ssh root@h"),
        ("root@h: Permission denied (publickey).", "ssh-copy-id root@h"),
        ("connect to host h port 22: Connection refused", "sshd"),
        ("Could not resolve hostname h", "ansible_host"),
        ("Connection timed out", "firewalls"),
        ("something new", "ssh -v root@h"),
    ],
)
def test_ssh_words_lead_to_a_fix(words, fix):
    check = failure_check(TaskError("h", "Read facts", "", words, unreachable=True), "root@h")
    assert check.status == "fail"
    assert check.evidence == words
    assert fix in check.fix


GOOD = ControllerFacts((3, 12, 1), "2.19.4", "2.4.2", "OpenSSH_9", "/r", 50 * GIB, True, "/c", "", True)


def test_a_good_controller():
    assert {check.status for check in controller_checks(GOOD, needs_ssh=True)} == {"ok"}
    assert "ssh" not in {check.id for check in controller_checks(GOOD, needs_ssh=False)}


def test_every_fault_of_the_controller_has_a_fix():
    bad = ControllerFacts((3, 10), "2.16.1", None, None, "/r", GIB // 2, True, None, "missing", False)
    found = list(controller_checks(bad, needs_ssh=True))
    assert {check.id: check.status for check in found} == {
        "python": "fail",
        "ansible-core": "fail",
        "ansible-runner": "fail",
        "collection": "fail",
        "ssh": "fail",
        "records": "fail",
        "time-sync": "warn",
    }
    assert all(check.fix for check in found)


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        ([], ExitCode.OK),
        ([("", "records")], ExitCode.ERROR),
        ([("", "records"), ("a", "space")], ExitCode.HOSTS_FAILED),
        ([("a", "space"), ("b", "reachable")], ExitCode.HOSTS_UNREACHABLE),
    ],
)
def test_the_exit_code_is_that_of_the_gravest_fault(failed, code):
    found = [Check("x", "warn", "a", "", "")] + [Check(name, "fail", host, "", "") for host, name in failed]
    assert exit_code(found) == code


def test_numbers_of_versions():
    assert numbers("15.4 (Debian 15.4-1)") == (15, 4)
    assert numbers("fio-3.33") == (3, 33)
    assert numbers(None) == ()
