"""The ledger: one JSON object a line, fsynced, never rewritten.

A torn last line (power cut, full disk, kill) is left as it is; the next append starts a new line, and reading reports
the damage instead of failing.

Lines::

    {"t": 1764560000.1, "kind": "run",   "state": "created|resumed|finished|interrupted|failed", "reason": "…"}
    {"t": …,            "kind": "stage", "state": "started|done|failed|canceled",
                                 "stage": "host", "artifacts": "01-host"}
    {"t": …,            "kind": "cell",  "state": "planned|running|done|failed|interrupted",
                                 "cell": "…", "attempt": 1, "error": "…"}
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from labctl.record.files import explained

RunState = Literal["created", "resumed", "finished", "interrupted", "failed"]
StageState = Literal["started", "done", "failed", "canceled"]
CellState = Literal["planned", "running", "done", "failed", "interrupted"]
CELL_STATES: frozenset[str] = frozenset({"planned", "running", "done", "failed", "interrupted"})


@dataclass(frozen=True, slots=True)
class CellEntry:
    """The latest word of the ledger on one cell; ``attempt`` 0 means never started."""

    state: CellState
    attempt: int = 0
    error: str | None = None
    t: float | None = None


@dataclass(slots=True)
class LedgerView:
    """What a ledger says. ``damaged`` holds (line number, reason) for every line that could not be used."""

    cells: dict[str, CellEntry] = field(default_factory=dict)
    run_state: RunState | None = None
    run_reason: str | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)
    started: float | None = None
    updated: float | None = None

    def next_attempt(self, cell: str) -> int:
        """The number for a new attempt at ``cell``."""
        entry = self.cells.get(cell)
        return (entry.attempt if entry else 0) + 1

    def apply(self, line: dict[str, Any]) -> None:
        """Take one parsed line into account; unknown kinds are left alone (a newer labctl may write them)."""
        moment = line.get("t")
        if isinstance(moment, int | float):
            self.started = self.started if self.started is not None else float(moment)
            self.updated = float(moment)
        kind, state = line.get("kind"), line.get("state")
        if kind == "run" and state in {"created", "resumed", "finished", "interrupted", "failed"}:
            self.run_state, self.run_reason = state, line.get("reason")
        elif kind == "stage":
            self.stages.append(line)
        elif kind == "cell" and state in CELL_STATES and isinstance(line.get("cell"), str):
            self._apply_cell(line)

    def _apply_cell(self, line: dict[str, Any]) -> None:
        cell, attempt = line["cell"], int(line.get("attempt") or 0)
        known = self.cells.get(cell)
        # A late word on an older attempt (its bundle was found afterwards) must not undo a newer one.
        if known is not None and attempt < known.attempt:
            return
        self.cells[cell] = CellEntry(line["state"], attempt, line.get("error"), line.get("t"))


def parse_ledger(data: bytes) -> LedgerView:
    """Read ledger bytes; never raises, whatever they are."""
    view = LedgerView()
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
            if not isinstance(line, dict):
                raise TypeError("not a JSON object")  # noqa: TRY301 - one place reports every kind of damage
            view.apply(line)
        except (ValueError, TypeError, RecursionError) as error:
            view.damaged.append((number, str(error)))
    return view


def read_ledger(path: Path) -> LedgerView:
    """Read a ledger file; a missing one is an empty one with that damage noted."""
    try:
        return parse_ledger(path.read_bytes())
    except OSError as error:
        return LedgerView(damaged=[(0, f"cannot read: {error.strerror}")])


class Ledger:
    """The writing end. Thread-safe; the caller holds the record's lock, so there is one writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.view = read_ledger(path) if path.exists() else LedgerView()

    def append(self, *lines: dict[str, Any]) -> None:
        """Add lines with one fsync.

        Raises:
            LabctlError: The disk is full or the file cannot be written; earlier lines are safe.
        """
        now = time.time()
        stamped = [{"t": now, **line} for line in lines]
        data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in stamped)
        with self._lock, explained(self._path, "write the ledger"):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, self._after_torn_line(descriptor) + data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            for line in stamped:
                self.view.apply(line)

    @staticmethod
    def _after_torn_line(descriptor: int) -> bytes:
        size = os.fstat(descriptor).st_size
        return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""

    def run(self, state: RunState, reason: str | None = None) -> None:
        """The run as a whole changed state."""
        self.append({"kind": "run", "state": state, **({"reason": reason} if reason else {})})

    def stage(self, stage: str, state: StageState, artifacts: str) -> None:
        """A playbook started or ended."""
        self.append({"kind": "stage", "stage": stage, "state": state, "artifacts": artifacts})

    def cell(self, cell: str, attempt: int, state: CellState, error: str | None = None) -> None:
        """A cell changed state."""
        line: dict[str, Any] = {"kind": "cell", "cell": cell, "attempt": attempt, "state": state}
        self.append({**line, "error": error} if error else line)
