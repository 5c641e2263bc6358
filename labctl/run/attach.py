"""Follow a record from outside: its ledger says everything that a spectator needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labctl.errors import ExitCode
from labctl.record.ledger import LedgerView
from labctl.record.locks import describe_holder, is_locked
from labctl.record.record import Record
from labctl.run.events import Listener, RunEvent
from labctl.run.watch import JsonLinesReader

_CODES = {"finished": ExitCode.OK, "interrupted": ExitCode.INTERRUPTED}


def follow(record: Record, emit: Listener, *, sleep: Callable[[float], None], interval_s: float = 0.5) -> ExitCode:
    """Emit an event for every change in the ledger until nobody writes the record any more.

    Args:
        record: The opened record.
        emit: Gets the events.
        sleep: ``time.sleep``, or a test's own.
        interval_s: Seconds between two looks.

    Returns:
        OK if the run finished, INTERRUPTED or ERROR otherwise.
    """
    layout = record.layout
    reader = JsonLinesReader(layout.ledger)
    spectator = _Spectator(record, emit)
    if is_locked(layout.lock):
        emit(RunEvent("notice", {"message": f"the run is driven by {describe_holder(layout.lock)}"}))
    spectator.catch_up(reader.read())
    while is_locked(layout.lock):
        sleep(interval_s)
        for line in reader.read():
            spectator.saw(line)
    for line in reader.read():
        spectator.saw(line)
    return spectator.end()


class _Spectator:
    def __init__(self, record: Record, emit: Listener) -> None:
        self._record = record
        self._emit = emit
        self._view = LedgerView()

    def catch_up(self, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            self._view.apply(line)
        total, settled = self._numbers()
        numbers = {"of": total, "finished": settled, "pending": total - settled, "left_s": None}
        root = str(self._record.layout.root)
        run = self._record.identity.run_id if self._record.identity else self._record.layout.root.name
        self._emit(RunEvent("run_started", {"run": run, "record": root, **numbers}))

    def _numbers(self) -> tuple[int, int]:
        entries = self._view.cells.values()
        return len(entries), sum(entry.state in {"done", "failed"} for entry in entries)

    def saw(self, line: dict[str, Any]) -> None:
        self._view.apply(line)
        moment = float(line.get("t") or 0.0)
        if line.get("kind") == "stage" and line.get("state") == "started":
            self._emit(RunEvent("notice", {"message": f"stage {line.get('stage')}"}, moment))
        if line.get("kind") == "cell":
            self._cell(line, moment)

    def _cell(self, line: dict[str, Any], moment: float) -> None:
        total, settled = self._numbers()
        who = {"cell": line.get("cell"), "attempt": line.get("attempt")}
        data = {**who, "finished": settled, "of": total, "left_s": None}
        if line.get("state") == "running":
            self._emit(RunEvent("cell_started", data, moment))
        elif line.get("state") in {"done", "failed", "interrupted"}:
            end = {**data, "status": line.get("state"), "error": line.get("error"), "seconds": None}
            self._emit(RunEvent("cell_finished", end, moment))

    def end(self) -> ExitCode:
        state = self._view.run_state
        killed = state in {"created", "resumed", None}
        counts: dict[str, int] = {}
        for entry in self._view.cells.values():
            counts[entry.state] = counts.get(entry.state, 0) + 1
        root = self._record.layout.root
        reason = "labctl vanished; its agents may still be at work" if killed else self._view.run_reason
        steps = [] if state == "finished" else [f"labctl resume {root}"]
        data = {"status": "killed" if killed else state, "reason": reason, "counts": counts, "record": str(root)}
        self._emit(RunEvent("run_finished", {**data, "next": steps}))
        return _CODES.get(state or "", ExitCode.ERROR)
