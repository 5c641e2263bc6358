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

from labctl.plan.models import Plan
from labctl.record.bundle import BundleResult
from labctl.record.layout import RecordLayout
from labctl.record.ledger import Ledger

_ATTEMPT = re.compile(r"^a([1-9][0-9]*)$")


@dataclass(frozen=True, slots=True)
class HomeBundle:
    """A bundle in the record; ``result`` None means that its ``result.json`` is absent or unreadable."""

    cell_id: str
    attempt: int
    path: Path
    result: BundleResult | None


def bundles(layout: RecordLayout) -> Iterator[HomeBundle]:
    """Every bundle in the record, by cell and attempt."""
    if not layout.raw.is_dir():
        return
    for cell_dir in sorted(path for path in layout.raw.iterdir() if path.is_dir()):
        numbered = ((_ATTEMPT.match(path.name), path) for path in cell_dir.iterdir())
        for attempt, path in sorted((int(match[1]), path) for match, path in numbered if match):
            yield HomeBundle(cell_dir.name, attempt, path, _read_result(path))


def _read_result(bundle: Path) -> BundleResult | None:
    try:
        return BundleResult.model_validate_json((bundle / "result.json").read_bytes())
    except (OSError, ValidationError):
        return None


def reconcile(layout: RecordLayout, plan: Plan, ledger: Ledger) -> list[HomeBundle]:
    """Write a ledger line for every bundle that the ledger has no last word on; return these bundles."""
    known_cells = {cell.id for cell in plan.cells}
    news: list[HomeBundle] = []
    for bundle in bundles(layout):
        entry = ledger.view.cells.get(bundle.cell_id)
        if bundle.cell_id not in known_cells or bundle.result is None:
            continue
        if entry is not None and (
            entry.attempt > bundle.attempt
            or (entry.attempt == bundle.attempt and entry.state in {"done", "failed", bundle.result.status})
        ):
            continue
        news.append(bundle)
    ledger_lines = [
        {
            "kind": "cell",
            "cell": bundle.cell_id,
            "attempt": bundle.attempt,
            "state": bundle.result.status,
            **({"error": bundle.result.error} if bundle.result.error else {}),
        }
        for bundle in news
        if bundle.result is not None
    ]
    if ledger_lines:
        ledger.append(*ledger_lines)
    return news
