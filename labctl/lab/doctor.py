"""What stands in the way of honest measurements, and how to mend it. Pure: facts in, checks out.

``fail``: labctl cannot work there, or the figures would be wrong. ``warn``: it works, but figures may be noisy or
something is left out. ``skip``: could not be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from labctl.automation.models import TaskError
from labctl.lab.facts import HostFacts, PathFacts
from labctl.lab.models import Host

Status = Literal["ok", "warn", "fail", "skip"]

GIB = 1 << 30
MIN_FREE_BYTES = 5 * GIB
"""Below this not even the smallest study with real file sizes has room."""
COMFORTABLE_FREE_BYTES = 20 * GIB
MIN_RAM_BYTES = 2 * GIB
MAX_SKEW_S = 1.0
"""Instances on several hosts are started at one moment; clocks must agree far below a second-long sample."""
BROKEN_SKEW_S = 60.0
BUSY_LOAD_PER_THREAD = 0.25
"""A quarter of the machine's threads busy with something else is seen in every figure."""
MIN_CONTROLLER_FREE_BYTES = 1 * GIB
MIN_PYTHON = (3, 11)
MIN_CORE = (2, 19)
BY_ID = "/dev/disk/by-id"

_NEEDED_TOOLS = {"fio": (3, 0), "sysbench": (1, 0), "pgbench": (13,), "initdb": (13,)}
_PACKAGES = {"pgbench": "PostgreSQL (server and contrib)", "initdb": "PostgreSQL (server)"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. ``host`` is empty for the controller."""

    id: str
    status: Status
    host: str
    what: str
    evidence: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """The machine that labctl runs on; versions are None where the part is missing."""

    python: tuple[int, ...]
    ansible_core: str | None
    ansible_runner: str | None
    ssh: str | None
    records: str
    """Nearest existing directory of where records go."""
    records_free_bytes: int
    records_writable: bool
    collection: str | None
    """Directory of labctl.lab, None if it is missing; ``collection_problem`` says why."""
    collection_problem: str
    synchronised: bool | None


@dataclass(frozen=True, slots=True)
class Seen:
    """When the controller saw the host's probe begin and end, in seconds since the epoch."""

    begin_s: float
    end_s: float


def numbers(version: str | None) -> tuple[int, ...]:
    """``3.33`` and ``15.4 (Debian …)`` as numbers; empty where there are none."""
    match = re.match(r"\D*(\d+(?:\.\d+)*)", version or "")
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def size(count: float) -> str:
    """Bytes for people, in binary units."""
    return f"{count / GIB:.1f} GiB"


def controller_checks(facts: ControllerFacts, *, needs_ssh: bool) -> Iterator[Check]:
    """Checks of the controller; ``needs_ssh``: some host of the lab is reached over SSH."""
    python = ".".join(str(part) for part in facts.python[:3])
    good = facts.python >= MIN_PYTHON
    yield Check("python", _ok(good), "", "Python of labctl", python, "" if good else "use Python 3.11 or newer")
    good = numbers(facts.ansible_core) >= MIN_CORE
    fix = "" if good else "pip install --upgrade ansible"
    yield Check("ansible-core", _ok(good), "", "ansible-core", facts.ansible_core or "not found", fix)
    good = facts.ansible_runner is not None
    fix = "" if good else "pip install --upgrade labctl"
    yield Check("ansible-runner", _ok(good), "", "ansible-runner", facts.ansible_runner or "not found", fix)
    good = facts.collection is not None
    evidence = facts.collection or facts.collection_problem
    fix = "" if good else "pip install --force-reinstall labctl"
    yield Check("collection", _ok(good), "", "collection labctl.lab", evidence, fix)
    if needs_ssh:
        fix = "" if facts.ssh else "install the package openssh-client (openssh-clients on Fedora and RHEL)"
        yield Check("ssh", _ok(facts.ssh is not None), "", "SSH client", facts.ssh or "not found", fix)
    yield _records(facts)
    yield _synchronised("", facts.synchronised, None)


def _records(facts: ControllerFacts) -> Check:
    evidence = f"{size(facts.records_free_bytes)} free below {facts.records}"
    if not facts.records_writable:
        fix = "choose a directory that you can write: --records DIR or LABCTL_RECORDS"
        return Check("records", "fail", "", "room for records", f"{facts.records} is not writable", fix)
    enough = facts.records_free_bytes >= MIN_CONTROLLER_FREE_BYTES
    fix = "" if enough else "make room, or choose another disk: --records DIR or LABCTL_RECORDS"
    return Check("records", _ok(enough), "", "room for records", evidence, fix)


def host_checks(host: Host, facts: HostFacts, workdir: str, seen: Seen | None) -> Iterator[Check]:
    """Checks of a host whose probe worked; ``workdir`` is the directory that was probed for labctl's data."""
    name = host.name
    who = f"as {facts.user.name} on {facts.host.os.pretty or facts.host.kernel}"
    yield Check("reachable", "ok", name, "reachable", who)
    if host.connection in (None, "ssh", "ansible.builtin.ssh", "smart", "paramiko"):
        yield Check("host-key", "ok", name, "SSH host key", "known, and checked")
    yield _root(name, facts)
    yield from _tools(name, facts)
    yield _space(name, facts.paths.get(workdir), facts, workdir)
    yield from _inventory_matches(host, facts)
    yield _synchronised(name, facts.time.synchronised, facts.time.source)
    yield _skew(name, facts.time.epoch_s, seen)
    yield _governor(name, facts)
    yield _neighbours(name, facts)
    yield from _memory(name, facts)
    yield _machine(name, facts)


def failure_check(error: TaskError, user_at_host: str) -> Check:
    """Why a host could not be probed, in SSH's or Ansible's own words.

    Args:
        error: from the probe playbook.
        user_at_host: what the user would hand to ``ssh`` to try it by hand.
    """
    words = " ".join(error.message.split())
    if not error.unreachable:
        fix = "see the words of the host; the probe needs Python 3.9 or newer there"
        return Check("probe", "fail", error.host, "probe", words, fix)
    fixes = (
        ("host key verification failed", f"compare the host's fingerprint, then accept it: ssh {user_at_host}"),
        ("remote host identification has changed", "if the host was reinstalled: ssh-keygen -R HOST, then ssh HOST"),
        ("permission denied", f"check ansible_user and the key: ssh {user_at_host}; ssh-copy-id {user_at_host}"),
        ("connection refused", "start sshd on the host, or set ansible_port"),
        ("could not resolve", "set ansible_host to an address, or mend the name service"),
        ("timed out", "check that the host is up, its address, and firewalls between here and there"),
        ("no route to host", "check that the host is up, its address, and firewalls between here and there"),
    )
    lower = words.lower()
    fix = next((fix for part, fix in fixes if part in lower), f"try it by hand: ssh -v {user_at_host}")
    return Check("reachable", "fail", error.host, "reachable", words, fix)


def _ok(good: bool) -> Status:  # noqa: FBT001 - a condition, nothing to name
    return "ok" if good else "fail"


def _root(name: str, facts: HostFacts) -> Check:
    if facts.user.can_be_root:
        evidence = "root already" if facts.user.uid == 0 else "sudo without a password"
        return Check("root", "ok", name, "can become root", evidence)
    fix = f"allow it in /etc/sudoers.d: {facts.user.name} ALL=(ALL) NOPASSWD: ALL; or do without"
    evidence = f"sudo asks {facts.user.name} for a password; arms that need root are left out"
    return Check("root", "warn", name, "can become root", evidence, fix)


def _tools(name: str, facts: HostFacts) -> Iterator[Check]:
    for tool, minimum in _NEEDED_TOOLS.items():
        found = facts.tools.get(tool)
        wanted = ".".join(str(part) for part in minimum)
        package = _PACKAGES.get(tool, tool)
        if found is None and facts.user.can_be_root:
            fix = f"nothing to do; or install {package} yourself"
            yield Check(f"tool-{tool}", "warn", name, tool, "missing; the host stage installs it", fix)
        elif found is None:
            fix = f"install {package} {wanted} or newer"
            yield Check(f"tool-{tool}", "fail", name, tool, "missing, and labctl cannot become root", fix)
        elif numbers(found.version) and numbers(found.version) < minimum:
            fix = f"install {package} {wanted} or newer"
            yield Check(f"tool-{tool}", "fail", name, tool, f"{found.version} at {found.path}", fix)
        else:
            yield Check(f"tool-{tool}", "ok", name, tool, f"{found.version or 'unknown version'} at {found.path}")


def _space(name: str, path: PathFacts | None, facts: HostFacts, workdir: str) -> Check:
    if path is None or path.free_bytes is None:
        return Check("space", "skip", name, "room for data", f"the file system of {workdir} could not be read")
    evidence = f"{size(path.free_bytes)} free on {path.fs_type or 'unknown file system'} for {workdir}"
    if not path.writable and not facts.user.can_be_root:
        fix = f"make {workdir} writable for {facts.user.name}, or set lab_workdir"
        return Check("space", "fail", name, "room for data", f"{path.existing_parent} is not writable", fix)
    fix = "make room, or set lab_workdir to a larger file system"
    if path.free_bytes < MIN_FREE_BYTES:
        return Check("space", "fail", name, "room for data", evidence, fix)
    if path.fs_type in ("tmpfs", "ramfs"):
        fix = "set lab_workdir to a directory on a disk"
        return Check("space", "warn", name, "room for data", f"{evidence}: that is memory, not a disk", fix)
    if path.free_bytes < COMFORTABLE_FREE_BYTES:
        return Check("space", "warn", name, "room for data", f"{evidence}: enough for small studies only", fix)
    return Check("space", "ok", name, "room for data", evidence)


def _inventory_matches(host: Host, facts: HostFacts) -> Iterator[Check]:
    """Disks and interfaces of the inventory are really there (each was probed as a path)."""

    def parent(path: str) -> str | None:
        found = facts.paths.get(path)
        return found.existing_parent if found else None

    def check(kind: str, shown: str, there: bool | None, fix: str) -> Check:  # noqa: FBT001 - a fact
        if there is None:
            return Check(kind, "skip", host.name, kind, f"{shown} was not looked at")
        evidence = f"{shown} is {'there' if there else 'missing'}"
        return Check(kind, _ok(there), host.name, kind, evidence, "" if there else fix)

    for disk in host.disks:
        # The probe resolves links: an id that exists leads out of this directory.
        found = parent(disk.id)
        there = None if found is None else parent(BY_ID) == BY_ID and found != BY_ID
        yield check("disk", disk.id, there, "compare lab_disks with `ls -l /dev/disk/by-id`")
    for nic in host.nics:
        found = parent(nic_path(nic.name))
        there = None if found is None else PurePosixPath(found).name == nic.name
        yield check("nic", nic.name, there, "compare lab_nics with `ip link`")


def nic_path(name: str) -> str:
    """Where the kernel shows a network interface."""
    return f"/sys/class/net/{name}"


def _synchronised(name: str, synchronised: bool | None, source: str | None) -> Check:  # noqa: FBT001 - a fact
    if synchronised is None:
        return Check("time-sync", "skip", name, "clock kept in step", "the kernel does not say")
    if synchronised:
        return Check("time-sync", "ok", name, "clock kept in step", source or "yes")
    evidence = f"no, although {source} runs" if source else "no time service keeps the clock"
    return Check("time-sync", "warn", name, "clock kept in step", evidence, "install and start chrony")


def _skew(name: str, epoch_s: float, seen: Seen | None) -> Check:
    if seen is None:
        return Check("time-skew", "skip", name, "clock against the controller", "not known when the probe ran")
    # The host read its clock between these two moments; only what lies outside of them is certain.
    skew = max(0.0, seen.begin_s - epoch_s, epoch_s - seen.end_s)
    direction = "behind" if epoch_s < seen.begin_s else "ahead"
    evidence = f"{skew:.1f} s {direction}" if skew > 0 else "no difference seen"
    if skew <= MAX_SKEW_S:
        return Check("time-skew", "ok", name, "clock against the controller", evidence)
    status: Status = "fail" if skew > BROKEN_SKEW_S else "warn"
    return Check("time-skew", status, name, "clock against the controller", evidence, "set the clock: chronyc makestep")


def _governor(name: str, facts: HostFacts) -> Check:
    governor = facts.cpu.governor
    if governor is None:
        return Check("governor", "skip", name, "CPU frequency governor", "the machine shows none")
    if governor == "performance":
        return Check("governor", "ok", name, "CPU frequency governor", governor)
    fix = "cpupower frequency-set -g performance"
    return Check("governor", "warn", name, "CPU frequency governor", f"{governor}: clocks follow the load", fix)


def _neighbours(name: str, facts: HostFacts) -> Check:
    load = facts.load.load1
    busy = ", ".join(f"{process.command} ({process.cpu:.1f} cores)" for process in facts.load.busy[:3])
    if load is None:
        return Check("load", "skip", name, "quiet machine", "the load could not be read")
    evidence = f"load {load:.1f} on {facts.cpu.threads} threads" + (f"; busy: {busy}" if busy else "")
    busy_cores = sum(process.cpu for process in facts.load.busy)
    quiet = max(load, busy_cores) <= BUSY_LOAD_PER_THREAD * facts.cpu.threads
    fix = "" if quiet else "stop or move what runs there, and wait until the load has gone"
    return Check("load", "ok" if quiet else "warn", name, "quiet machine", evidence, fix)


def _memory(name: str, facts: HostFacts) -> Iterator[Check]:
    usable = facts.memory.usable_bytes
    enough = usable >= MIN_RAM_BYTES
    fix = "" if enough else "use a larger machine; databases and page cache need room"
    limited = " (limited by a cgroup)" if usable < facts.memory.total_bytes else ""
    yield Check("memory", "ok" if enough else "warn", name, "memory", f"{size(usable)}{limited}", fix)
    swap = facts.memory.swap_total_bytes
    if swap is None:
        yield Check("swap", "skip", name, "swap", "could not be read")
    elif swap:
        fix = "swapoff -a while measuring: swapping shows up as storage latency"
        yield Check("swap", "warn", name, "swap", size(swap), fix)
    else:
        yield Check("swap", "ok", name, "swap", "none")


def _machine(name: str, facts: HostFacts) -> Check:
    """No fault: what the figures will be valid for."""
    kinds = []
    if facts.host.container:
        kinds.append(f"container ({facts.host.container})")
    if facts.host.virtualization:
        kinds.append(f"virtual machine ({facts.host.virtualization})")
    evidence = " in a ".join(kinds)
    told = f"{evidence}: figures hold for it, not for the bare machine" if kinds else "bare metal, as far as it shows"
    return Check("machine", "ok", name, "kind of machine", told)
