"""What a run tells while it goes on: one small typed event, for the terminal, for ``--json`` and for tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

EventKind = Literal[
    "run_started",
    "stage_started",
    "task",
    "stage_finished",
    "cell_started",
    "step_started",
    "cell_finished",
    "notice",
    "run_finished",
]


@dataclass(frozen=True, slots=True)
class RunEvent:
    """``data`` holds JSON values only; its keys depend on the kind (docs/reference/events.md)."""

    kind: EventKind
    data: dict[str, Any]
    t: float = field(default_factory=time.time)

    def to_json(self) -> dict[str, Any]:
        """One line of ``--json`` output."""
        return {"event": self.kind, "t": self.t, **self.data}


Listener = Callable[[RunEvent], None]
