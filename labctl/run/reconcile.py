"""Bring the ledger in line with the bundles that are home.

A bundle arrives by an atomic rename, so it is whole or absent; the ledger's line comes after it. Whatever happened
between the two (kill, full disk), this closes the gap, and does nothing when called again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from labctl.plan.models import Cell, Plan
from labctl.record.bundle import BundleResult, CellStatus
from labctl.record.layout import RecordLayout
from labctl.record.ledger import Ledger, LedgerView

_ATTEMPT = re.compile(r"^a([1-9][0-9]*)$")


@dataclass(frozen=True, slots=True)
class HomeBundle:
    """A finished attempt in the record, and how its cell ended by everything that is known."""

    cell_id: str
    attempt: int
    status: CellStatus
    error: str | None
    seconds: float


def reconcile(layout: RecordLayout, plan: Plan, ledger: Ledger) -> list[HomeBundle]:
    """Write a ledger line for every bundle that the ledger has no last word on; return these bundles."""
    cells = {cell.id: cell for cell in plan.cells}
    news = [
        bundle
        for cell_id, attempt, path in _bundles(layout)
        if cell_id in cells
        and not _is_settled(ledger.view, cell_id, attempt)
        and (bundle := _judge(cells[cell_id], attempt, path)) is not None
        and not _is_known(ledger.view, bundle)
    ]
    if news:
        ledger.append(
            *(
                {
                    "kind": "cell",
                    "cell": bundle.cell_id,
                    "attempt": bundle.attempt,
                    "state": bundle.status,
                    **({"error": bundle.error} if bundle.error else {}),
                }
                for bundle in news
            )
        )
    return news


def _bundles(layout: RecordLayout) -> Iterator[tuple[str, int, Path]]:
    """Every bundle in the record, by cell and attempt."""
    if not layout.raw.is_dir():
        return
    for cell_dir in sorted(path for path in layout.raw.iterdir() if path.is_dir()):
        numbered = ((_ATTEMPT.match(path.name), path) for path in cell_dir.iterdir())
        for attempt, path in sorted((int(match[1]), path) for match, path in numbered if match):
            yield cell_dir.name, attempt, path


def _is_settled(view: LedgerView, cell_id: str, attempt: int) -> bool:
    entry = view.cells.get(cell_id)
    if entry is None or entry.attempt < attempt:
        return False
    return entry.attempt > attempt or entry.state in {"done", "failed"}


def _is_known(view: LedgerView, bundle: HomeBundle) -> bool:
    entry = view.cells.get(bundle.cell_id)
    return entry is not None and (entry.attempt, entry.state) == (bundle.attempt, bundle.status)


def _judge(cell: Cell, attempt: int, path: Path) -> HomeBundle | None:
    """How the attempt ended; None without a readable ``result.json``: then it has not ended."""
    try:
        result = BundleResult.model_validate_json((path / "result.json").read_bytes())
    except (OSError, ValidationError):
        return None
    status, error = result.status, result.error
    if status == "done" and (words := inner_failure(cell, result, path)):
        status, error = "failed", words
    return HomeBundle(cell.id, attempt, status, error, result.finished - result.started)


def inner_failure(cell: Cell, result: BundleResult, path: Path) -> str | None:
    """The tool's own words if it reports failure inside its output although it ended with 0 (fio can); else None."""
    from labctl.normalise.files import parse_output  # noqa: PLC0415 - only when a bundle came home

    outputs = {step.name: step.outputs for step in cell.steps if step.phase == "run"}
    for step in result.steps:
        for name in outputs.get(step.name, ()):
            try:
                data = (path / step.directory / name).read_bytes()
            except OSError:
                continue
            known = parse_output(data, name)
            if known is not None and known[0].failed:
                return f"step {step.name}: {known[0].tool} ended with 0 but reports: {known[0].words or 'failure'}"
    return None
