"""The sampler's and the probe's parsers on real /proc texts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labctl.lab.facts import HostFacts
from tests.agent_support import ROOT, plugin_module

facts, paths, processes, sampler = (
    plugin_module(f"cell_agent.{name}") for name in ("facts", "paths", "processes", "sampler")
)

TICK = os.sysconf("SC_CLK_TCK")


def test_cpu_seconds():
    seconds, cores = sampler.cpu_seconds("cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n")
    assert cores == 2
    assert {key: round(value * TICK) for key, value in seconds.items()} == {
        "user": 120,
        "system": 43,
        "iowait": 50,
        "idle": 4000,
        "steal": 8,
    }


def test_memory_bytes():
    text = "MemTotal: 100 kB\nMemAvailable:    2048 kB\nCached: 1 kB\nHugePages_Total: 0\n"
    assert sampler.memory_bytes(text) == (2048 * 1024, 1024)
    assert sampler.memory_bytes("") == (None, None)


def test_disk_counters_are_of_used_whole_disks():
    text = (
        "   8       0 sda 10 0 80 5 20 0 160 9 0 1500 14 0 0 0 0\n"
        "   8       1 sda1 10 0 80 5 20 0 160 9 0 1500 14\n"
        "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n"
    )
    assert sampler.disk_counters(text, frozenset({"sda", "loop0"})) == {
        "sda": {"read_bytes": 40960, "write_bytes": 81920, "reads": 10, "writes": 20, "io_s": 1.5}
    }


def test_nic_counters_without_loopback():
    text = "Inter-| Receive\n face |bytes\n    lo: 1 0 0 0 0 0 0 0 1 0\n  eth0: 500 1 0 0 0 0 0 0 70 0 0 0 0 0 0 0\n"
    assert sampler.nic_counters(text) == {"eth0": {"rx_bytes": 500, "tx_bytes": 70}}


MOUNTS = (
    "21 1 254:0 / / rw,relatime - ext4 /dev/vda1 rw,errors=remount-ro\n"
    "30 21 0:40 / /mnt/a\\040b rw,nosuid shared:5 - tmpfs tmpfs rw,size=4k\n"
    "31 21 0:41 / /mnt/a rw - xfs /dev/loop0 rw\n"
    "32 21 0:42 / /mnt/a ro - btrfs /dev/sdb rw\n"
    "broken line\n"
)


@pytest.mark.parametrize(
    ("path", "fs", "point"),
    [
        ("/", "ext4", "/"),
        ("/mnt/ab", "ext4", "/"),
        ("/mnt/a b/c", "tmpfs", "/mnt/a b"),
        ("/mnt/a/x", "btrfs", "/mnt/a"),
    ],
)
def test_mount_of_a_path(path: str, fs: str, point: str):
    mount = paths.mount_of(path, paths.parse_mountinfo(MOUNTS))
    assert mount is not None
    assert (mount.fs_type, mount.point) == (fs, point)


def test_mount_options_are_of_mount_and_file_system():
    assert paths.parse_mountinfo(MOUNTS)[0].options == "rw,relatime,errors=remount-ro"


@pytest.mark.parametrize(("text", "name"), [("none mq-deadline [bfq]", "bfq"), ("none", "none"), ("", None)])
def test_chosen_scheduler(text: str, name: str | None):
    assert paths.chosen(text) == name


def test_whole_disk_through_partition_and_lvm(tmp_path: Path):
    disk = tmp_path / "devices/sda"
    (disk / "sda3").mkdir(parents=True)
    (disk / "sda3/partition").write_text("3")
    volume = tmp_path / "devices/dm-0"
    (volume / "slaves").mkdir(parents=True)
    (volume / "slaves/sda3").symlink_to(disk / "sda3")
    raid = tmp_path / "devices/md0"
    (raid / "slaves").mkdir(parents=True)
    (raid / "slaves/dm-0").symlink_to(volume)
    (raid / "slaves/sdb").symlink_to(disk)
    assert paths.whole_disk(str(volume)) == str(disk)
    assert paths.whole_disk(str(raid)) == str(raid)


def test_direct_io_leaves_no_name(tmp_path: Path):
    assert paths.direct_io(str(tmp_path)) in {True, False, None}
    assert paths.direct_io("/proc") is None
    assert list(tmp_path.iterdir()) == []


def test_topology():
    cpu = "processor: {}\nmodel name\t: Xeon\nphysical id\t: {}\ncore id\t: {}\n"
    text = "\n".join(cpu.format(n, n // 4, n // 2 % 2) for n in range(8))
    assert facts.topology(text) == ("Xeon", 2, 4)
    assert facts.topology("processor\t: 0\nBogoMIPS\t: 50\n") == (None, None, None)


def test_cgroup_limit_is_the_lowest_on_the_way_up(tmp_path: Path):
    for name, limit in (("a", "5000"), ("a/b", "max")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "memory.max").write_text(limit)
    assert facts.cgroup_limit("0::/a/b\n", 10_000, str(tmp_path)) == 5000
    assert facts.cgroup_limit("0::/a/b\n", 4000, str(tmp_path)) is None


def test_cgroup_limit_of_version_1(tmp_path: Path):
    (tmp_path / "memory/x").mkdir(parents=True)
    (tmp_path / "memory/x/memory.limit_in_bytes").write_text("700")
    (tmp_path / "memory/memory.limit_in_bytes").write_text("9223372036854771712")
    assert facts.cgroup_limit("3:cpu,memory:/x\n2:pids:/x\n", 10_000, str(tmp_path)) == 700


def test_os_release():
    text = '# comment\nID="rocky"\nVERSION_ID="9.4"\nPRETTY_NAME=\'Rocky Linux 9.4\'\n'
    assert facts.os_release(text) == {"id": "rocky", "version": "9.4", "pretty": "Rocky Linux 9.4"}


def test_descendants_stop_at_what_is_kept():
    table = {2: 1, 3: 2, 4: 3, 5: 1, 6: 5}
    assert processes.descendants(1, table) == {2, 3, 4, 5, 6}
    assert processes.descendants(1, table, frozenset({2})) == {5, 6}


def test_facts_of_this_host_fit_the_contract():
    found = facts.gather(["/", "/no/such/place"], ["sh", "no-such-tool"], interval_s=0.05)
    typed = HostFacts.model_validate_json(json.dumps(found))
    assert typed.host.kernel == os.uname().release
    assert typed.memory.total_bytes > 1 << 20
    assert typed.tools["no-such-tool"] is None
    assert typed.tools["sh"] is not None
    assert typed.paths["/no/such/place"].existing_parent == "/"
    assert typed.paths["/"].size_bytes


def test_probe_is_only_documented_with_what_it_returns():
    text = (ROOT / "plugins/modules/probe.py").read_text()
    for key in HostFacts.model_fields:
        if key != "schema_version":
            assert f"\n    {key}: {{" in text, key
