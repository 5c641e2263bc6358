"""What the rest of labctl sees of Ansible: typed events and one typed result per playbook."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

PlaybookStatus = Literal["successful", "failed", "unreachable", "timeout", "canceled", "spec-error"]


@dataclass(frozen=True, slots=True)
class HostStats:
    """Task counts of one host, from the playbook's recap."""

    ok: int = 0
    changed: int = 0
    failed: int = 0
    unreachable: int = 0
    skipped: int = 0
    rescued: int = 0
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One event of interest, already redacted: ``kind`` is ansible-runner's event name."""

    kind: str
    counter: int
    play: str = ""
    task: str = ""
    host: str = ""
    path: str = ""
    """``file:line`` of the task."""
    changed: bool = False
    message: str = ""
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class TaskError:
    """A failed or unreachable task: what to show to the user."""

    host: str
    task: str
    path: str
    message: str
    unreachable: bool = False
    spec_error: bool = False
    """Role argument validation failed: a fault in variables, not in the host."""


@dataclass(frozen=True, slots=True)
class PlaybookResult:
    """How one playbook ended. ``ok`` only if ansible-runner and Ansible both say so and no event was lost."""

    playbook: str
    status: PlaybookStatus
    rc: int | None
    command_line: str
    """The line that a user can run by hand for the same effect."""
    artifacts: Path
    hosts: dict[str, HostStats] = field(default_factory=dict)
    errors: tuple[TaskError, ...] = ()
    results: dict[str, dict[str, object]] = field(default_factory=dict)
    """Host → what the playbook published with ``set_stats`` (``per_host: true``). Not redacted: not to be shown."""
    lost_events: bool = False
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == "successful"
