"""Where things go: hosts of an arm, labctl's directory on a host, the arm's directory, image and socket."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from typing import TYPE_CHECKING

from labctl.errors import ExitCode, LabctlError
from labctl.plan.models import PlannedStorage

if TYPE_CHECKING:
    from labctl.lab.facts import HostFacts
    from labctl.lab.models import Lab
    from labctl.study.models import Arm, Study

DEFAULT_BASE = "/var/tmp"  # noqa: S108  a directory of the user's own is made in it, with an owner's marker
MAX_SOCKET_DIR = 93
"""Bytes: ``sun_path`` has 108 with its end, and PostgreSQL appends ``/.s.PGSQL.5432``."""

_MIB = 1024**2


def select_hosts(pattern: str, lab: Lab) -> list[str]:
    """Hosts of a pattern in the lab's order: names, groups, shell patterns, ``all``; by commas; ``!x`` takes away.

    Raises:
        LabctlError: a part of the pattern fits no host and no group.
    """
    chosen: set[str] = set()
    removed: set[str] = set()
    for part in filter(None, (text.strip() for text in pattern.split(","))):
        name = part.removeprefix("!")
        hosts = {host for host in lab.hosts if name == "all" or fnmatch.fnmatchcase(host, name)}
        for group, members in lab.groups.items():
            if fnmatch.fnmatchcase(group, name):
                hosts.update(members)
        if not hosts:
            known = ", ".join([*lab.hosts, *lab.groups][:20])
            raise LabctlError(f"hosts {part!r} fit no host and no group", hint=f"known: {known}", code=ExitCode.USAGE)
        (removed if part.startswith("!") else chosen).update(hosts)
    return [host for host in lab.hosts if host in (chosen or set(lab.hosts)) - removed]


def workdir_of(lab: Lab, host: str, facts: HostFacts) -> str:
    """Labctl's directory on a host: ``lab_workdir``, else ``/var/tmp/labctl-<user>``."""
    return lab.hosts[host].workdir or f"{DEFAULT_BASE}/labctl-{facts.user.name}"


def base_path(lab: Lab, host: str, arm: Arm) -> str:
    """The path whose file system carries the arm; what the probe must have looked at."""
    return arm.storage.path or lab.hosts[host].workdir or DEFAULT_BASE


def paths_to_probe(study: Study, lab: Lab) -> tuple[str, ...]:
    """Every base path that a plan of this study asks the facts for."""
    paths = {lab.hosts[host].workdir or DEFAULT_BASE for host in lab.hosts}
    paths |= {arm.storage.path for arm in study.arms.values() if arm.storage.path}
    return tuple(sorted(paths))


def place_storage(arm: Arm, name: str, workdir: str, run_id: str) -> PlannedStorage:
    """The arm's directory: ``<workdir>/arms/<run>/<arm>``, or ``<path>/labctl-<run>-<arm>`` below a given path."""
    given = arm.storage.path
    path = f"{given}/labctl-{run_id}-{name}" if given else f"{workdir}/arms/{run_id}/{name}"
    if arm.storage.kind == "directory":
        return PlannedStorage(kind="directory", path=path)
    return PlannedStorage(
        kind="loop",
        path=path,
        filesystem=arm.storage.filesystem,
        size_bytes=arm.storage.size,
        image=f"{path}.img",
    )


def socket_dir(workdir: str, run_id: str, arm: str) -> str:
    """A short directory for PostgreSQL's socket, one an arm; goes with the run's directory."""
    return f"{workdir}/arms/{run_id}/s-{hashlib.sha256(arm.encode()).hexdigest()[:6]}"


def loop_capacity(filesystem: str | None, size_bytes: int) -> int:
    """Bytes for data in a fresh file system: XFS keeps a log of 64 MiB, ext4 its inode tables, journal and reserve."""
    if filesystem == "xfs":
        return int((size_bytes - 64 * _MIB) * 0.92)
    return int(size_bytes * 0.85) - 16 * _MIB


def cell_id(workload: str, point: str, arm: str, host: str, repeat: int) -> str:
    """``<workload>.<point>.<arm>.<host>.r<k>``: unique, safe as a file name, at most 200 bytes.

    A host name that is long or has unsafe characters is cut to safe ones and gets a digest of the whole name.
    """
    safe = re.sub(r"[^A-Za-z0-9.-]+", "-", host)[:48]
    if safe != host:
        safe = f"{safe}-{hashlib.sha256(host.encode()).hexdigest()[:8]}"
    return f"{workload}.{point}.{arm}.{safe}.r{repeat}"
