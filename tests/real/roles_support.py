"""Plays the stages ``host`` and ``teardown`` on a machine, and lists what there is on it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labctl.automation.models import HostStats, PlaybookResult
from labctl.automation.runner import run_playbook

# Nodes share the machine's loop devices, and sessions may run at once: the id, and so every path, is this one's own.
RUN = f"r{os.getpid()}"
MIB = 1 << 20
# Everything that a run could leave, by name only: what is left counts, not when a log grew. Below /run/user systemd
# mounts a directory for whoever logs in.
LISTING = f"""\
find /var/tmp /dev/shm /mnt /srv /opt /etc -xdev ! -path '/var/tmp/systemd-private-*' | LC_ALL=C sort
cut -d' ' -f5 /proc/self/mountinfo | grep -v ^/run/user/ | LC_ALL=C sort
losetup --noheadings --output BACK-FILE | grep /{RUN}/ || true
pgrep -a 'postgres|pg_ctl' || true
"""


@dataclass
class Machine:
    """One host of an inventory; ``shell`` runs a command on it as root and returns its output."""

    name: str
    inventory: Path
    scratch: Path
    shell: Callable[[str], str]
    workdir: str
    numbers: Any = field(default_factory=itertools.count)

    @property
    def arms(self) -> str:
        """Directory of the run's arms."""
        return f"{self.workdir}/arms/{RUN}"

    def play(self, stage: str, *, check: bool = False, run_id: str = RUN, **variables: object) -> PlaybookResult:
        """Run a stage with these role variables; the working directory is given unless it is among them."""
        given = {"bench_host_workdir": self.workdir, **variables}
        return run_playbook(
            f"labctl.lab.{stage}",
            inventory=self.inventory,
            artifacts=self.scratch / f"artifacts-{next(self.numbers)}",
            extravars={"labctl_hosts": self.name, "labctl_run_id": run_id, "labctl_host_vars": {self.name: given}},
            check=check,
            diff=True,
        )

    def stats(self, result: PlaybookResult) -> HostStats:
        """Counts of a play that went well."""
        assert result.ok, [error.message for error in result.errors]
        return result.hosts[self.name]

    def refusal(self, result: PlaybookResult) -> str:
        """The last error of a play that failed in order: not unreachable, not a fault in the playbook."""
        assert result.status == "failed", result
        assert result.errors
        return result.errors[-1].message

    def listing(self) -> str:
        """Files, mounts, loop devices and servers of the machine."""
        return self.shell(LISTING)

    def directory_arm(self, name: str = "dir", **more: object) -> dict[str, object]:
        """An arm on a directory below the run's."""
        return {"name": name, "kind": "directory", "path": f"{self.arms}/{name}", **more}

    def loop_arm(self, name: str = "xfs", filesystem: str = "xfs", **more: object) -> dict[str, object]:
        """An arm on a file system in a file; 320 MiB is little more than the least that mkfs.xfs takes."""
        path = f"{self.arms}/{name}"
        size = {"filesystem": filesystem, "size_bytes": 320 * MIB, "image": f"{path}.img"}
        return {"name": name, "kind": "loop", "path": path, **size, **more}

    def instance(self, arm: str) -> dict[str, object]:
        """A PostgreSQL on an arm, as the planner asks for it."""
        settings = {"shared_buffers": "64MB"}
        return {
            "name": arm,
            "data_dir": f"{self.arms}/{arm}/pg",
            "socket_dir": f"{self.arms}/s-{arm}",
            "settings": settings,
        }
