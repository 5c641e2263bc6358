"""Which cells are next, how long the rest will take, and when to give up. Pure functions of plan and ledger."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labctl.plan.models import Cell, Plan
from labctl.record.ledger import LedgerView

#: Estimated work below which the fixed costs of a batch would be felt.
MIN_BATCH_S = 60.0
#: A batch ends after this much estimated work, so that evidence comes home at least so often.
MAX_BATCH_S = 1800.0
#: A cell that was lost this often (reboot, killed agent) is failed, so that a run always ends.
MAX_ATTEMPTS = 3


def failed_attempts(plan: Plan, ledger: LedgerView) -> dict[str, int]:
    """Failed cells with the number of the attempt that failed: what ``--retry-failed`` repeats, once."""
    entries = ((cell.id, ledger.cells.get(cell.id)) for cell in plan.cells)
    return {cell: entry.attempt for cell, entry in entries if entry is not None and entry.state == "failed"}


def pending_cells(plan: Plan, ledger: LedgerView, retry: Mapping[str, int] | None = None) -> list[Cell]:
    """Cells that still need a finished attempt, in plan order.

    Args:
        plan: The plan.
        ledger: What happened so far.
        retry: Failed attempts that do not count (:func:`failed_attempts`); a later failure of the same cell does.
    """
    again = retry or {}

    def settled(cell: str) -> bool:
        entry = ledger.cells.get(cell)
        if entry is None or entry.state not in {"done", "failed"}:
            return False
        return entry.state == "done" or again.get(cell) != entry.attempt

    return [cell for cell in plan.cells if not settled(cell.id)]


def next_batch(pending: Sequence[Cell], *, min_s: float = MIN_BATCH_S, max_s: float = MAX_BATCH_S) -> list[Cell]:
    """Cells from the front that are handed to the agents at once: whole blocks, as many as make ``min_s`` of work.

    Handing over and collecting costs some seconds, and is done between batches, never beside a measurement: so short
    blocks go together. A batch ends in the middle of a block only where the block is longer than ``max_s``. The first
    cell is always in, however long it is.
    """
    batch: list[Cell] = []
    total = 0.0
    for cell in pending:
        if batch and (total + cell.estimate_s > max_s or (cell.block != batch[-1].block and total >= min_s)):
            break
        batch.append(cell)
        total += cell.estimate_s
    return batch


def by_host(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Cells grouped by host, both orders kept."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.host, []).append(cell)
    return groups


def failure_kind(error: str) -> str:
    """An error with everything taken out that differs from cell to cell (numbers, paths), for counting equal ones."""
    without_paths = re.sub(r"(?:/[\w.@+-]+)+/?", "<path>", error)
    return re.sub(r"\d+(?:\.\d+)?", "#", without_paths).strip().lower()


@dataclass(slots=True)
class CircuitBreaker:
    """Opens after ``limit`` finished cells in a row on one host failed in the same way."""

    limit: int
    _streaks: dict[str, tuple[str, int]] = field(default_factory=dict)
    reason: str | None = None

    def saw(self, host: str, *, failed: bool, error: str = "") -> None:
        """Take one finished cell into account."""
        if not failed:
            self._streaks.pop(host, None)
            return
        kind = failure_kind(error)
        known, count = self._streaks.get(host, ("", 0))
        count = count + 1 if known == kind else 1
        self._streaks[host] = (kind, count)
        if count >= self.limit and self.reason is None:
            self.reason = f"{count} cells in a row failed on {host} in the same way: {error}"


@dataclass(slots=True)
class Pace:
    """Estimates the time left from the plan's estimates, corrected by how long the finished cells really took."""

    planned_s: float = 0.0
    real_s: float = 0.0

    def finished(self, estimate_s: float, took_s: float) -> None:
        """A cell that was planned for ``estimate_s`` took ``took_s`` seconds."""
        self.planned_s += estimate_s
        self.real_s += took_s

    def left(self, cells: Iterable[Cell], *, parallel_hosts: bool) -> float:
        """Seconds that ``cells`` will take."""
        factor = self.real_s / self.planned_s if self.planned_s > 0 else 1.0
        per_host = [sum(cell.estimate_s for cell in group) for group in by_host(cells).values()]
        if not per_host:
            return 0.0
        return factor * (max(per_host) if parallel_hosts else sum(per_host))
