"""From the agents' progress lines to ledger lines and events, with the time that is left."""

from __future__ import annotations

import threading
from typing import Any

from labctl.plan.models import Plan
from labctl.record.ledger import Ledger
from labctl.run.events import Listener, RunEvent
from labctl.run.reconcile import HomeBundle
from labctl.run.schedule import CircuitBreaker, Pace, pending_cells


class Progress:
    """Takes what agents say while they run; opens the circuit breaker when cells keep failing in the same way."""

    def __init__(
        self, plan: Plan, ledger: Ledger, emit: Listener, breaker: CircuitBreaker, cancel: threading.Event
    ) -> None:
        self._cells = {cell.id: cell for cell in plan.cells}
        self._plan = plan
        self._ledger = ledger
        self._emit = emit
        self._breaker = breaker
        self._cancel = cancel
        self._pace = Pace()
        self._started: dict[tuple[str, int], float] = {}
        #: (cell, attempt) → how it was told to have ended.
        self._ended: dict[tuple[str, int], str] = {}
        #: Cells that are settled, whether or not their bundles are home.
        self._settled: set[str] = set()

    def saw(self, line: dict[str, Any]) -> None:
        """Take one progress line (format: docs/architecture.md)."""
        event, cell, attempt = line.get("event"), line.get("cell"), line.get("attempt")
        if event in {"reconnecting", "agent_lost"}:
            self._emit(
                RunEvent("notice", {"message": f"{line.get('host')}: {event}: {line.get('error') or ''}".strip()})
            )
        if not isinstance(cell, str) or not isinstance(attempt, int) or cell not in self._cells:
            return
        if event == "cell_started":
            self._cell_started(cell, attempt, float(line.get("t") or 0.0))
        elif event == "step_started":
            self._emit(RunEvent("step_started", {"cell": cell, "step": line.get("step"), "phase": line.get("phase")}))
        elif event == "cell_finished":
            self._cell_finished(cell, attempt, line)

    def home(self, bundle: HomeBundle) -> None:
        """A bundle came home; tell of it if its end was not seen while it ran (after a resume)."""
        told = self._ended.get((bundle.cell_id, bundle.attempt))
        if told == bundle.status:
            return
        self._told(bundle.cell_id, bundle.attempt, bundle.status, bundle.error, bundle.seconds)
        if told == "done" and bundle.status == "failed":
            # The tool ended with 0 and hid its failure in its output: only the bundle at home shows it.
            self._breaker.saw(self._cells[bundle.cell_id].host, failed=True, error=str(bundle.error or ""))

    def _cell_started(self, cell: str, attempt: int, moment: float) -> None:
        entry = self._ledger.view.cells.get(cell)
        if entry is not None and (entry.attempt > attempt or (entry.attempt == attempt and entry.state != "planned")):
            return
        self._started[cell, attempt] = moment
        self._ledger.cell(cell, attempt, "running")
        planned = self._cells[cell]
        data = {"cell": cell, "attempt": attempt, "host": planned.host, "arm": planned.arm, **self._where_we_are()}
        self._emit(RunEvent("cell_started", {**data, "estimate_s": planned.estimate_s}))

    def _cell_finished(self, cell: str, attempt: int, line: dict[str, Any]) -> None:
        if (cell, attempt) in self._ended:
            return
        status, error = str(line.get("status")), line.get("error")
        started = self._started.pop((cell, attempt), None)
        took = float(line["t"]) - started if started is not None and line.get("t") else None
        if took is not None and status == "done":
            self._pace.finished(self._cells[cell].estimate_s, took)
        self._told(cell, attempt, status, error, took)
        if status in {"done", "failed"}:
            self._breaker.saw(self._cells[cell].host, failed=status == "failed", error=str(error or ""))
            if self._breaker.reason:
                self._cancel.set()

    def _told(self, cell: str, attempt: int, status: str, error: str | None, took: float | None) -> None:
        self._ended[cell, attempt] = status
        if status in {"done", "failed"}:
            self._settled.add(cell)
        data = {"cell": cell, "attempt": attempt, "status": status, "error": error, "seconds": took}
        self._emit(RunEvent("cell_finished", {**data, **self._where_we_are()}))

    def _where_we_are(self) -> dict[str, Any]:
        rest = [cell for cell in pending_cells(self._plan, self._ledger.view) if cell.id not in self._settled]
        left = self._pace.left(rest, parallel_hosts=self._plan.parallel_hosts)
        return {"finished": len(self._plan.cells) - len(rest), "of": len(self._plan.cells), "left_s": round(left, 1)}
