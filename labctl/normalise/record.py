"""A record → tables: everything derived is derived here, anew and the same each time.

A damaged record gives what is left of it and findings that say what is not. Values of an attempt that did not end well
are never ``ok``, and attempts that a later one replaced give no values at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from labctl.normalise.bundles import Bundle, find_attempts, open_bundle
from labctl.normalise.cell import CellReader
from labctl.normalise.chunks import Chunks, add_findings
from labctl.normalise.tables import Chunk, add, build_tables
from labctl.parsers.base import Finding, Severity
from labctl.plan.models import Cell, Plan
from labctl.record.ledger import CellEntry
from labctl.record.record import Record, open_record


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one cell beside its bundles; ``cell`` is None where the plan does not have it."""

    context: dict[str, Any]
    cell: Cell | None
    entry: CellEntry | None


def normalise_record(root: Path) -> dict[str, pa.Table]:
    """Derive every table of the record at ``root``. Files are read one at a time.

    Returns:
        Table name → table, as in :data:`labctl.normalise.schema.TABLES`.

    Raises:
        LabctlError: there is no record at ``root``.
    """
    record = open_record(root)
    chunks: Chunks = {}
    run = _run_context(record)
    _say_missing(record, run, chunks)
    if record.plan is not None:
        _say_plan(record.plan, run, chunks)
    planned = {cell.id: cell for cell in record.plan.cells} if record.plan is not None else {}
    attempts = find_attempts(record.layout.raw)
    for cell_id in sorted({*planned, *attempts}):
        cell = planned.get(cell_id)
        context = {**run, **_cell_context(cell_id, cell)}
        known = _Known(context, cell, record.ledger.cells.get(cell_id))
        bundles = [
            open_bundle(record.layout.bundle(cell_id, number), number) for number in sorted(attempts.get(cell_id, ()))
        ]
        _read_cell(known, bundles, record.layout.root, chunks)
    return build_tables(chunks)


def _run_context(record: Record) -> dict[str, Any]:
    identity, plan = record.identity, record.plan
    source = identity if identity is not None else plan
    return {
        "run": identity.run_id if identity is not None else record.layout.root.name,
        "lab": source.lab if source is not None else None,
        "study": source.study if source is not None else None,
    }


def _cell_context(cell_id: str, cell: Cell | None) -> dict[str, Any]:
    if cell is None:
        return {"cell": cell_id}
    return {
        "cell": cell_id,
        "arm": cell.arm,
        "block": cell.block,
        "sample": cell.repeat,
        "instance": 1,
        "target": cell.target,
        "host": cell.host,
        "workload": cell.workload,
        "point": cell.point,
        "tool": cell.tool,
        "parameters": json.dumps(cell.parameters, sort_keys=True),
    }


def _say_missing(record: Record, run: Mapping[str, Any], chunks: Chunks) -> None:
    findings = [Finding("record.damaged", Severity.ERROR, words) for words in record.missing]
    add_findings(chunks, findings, run)


def _say_plan(plan: Plan, run: Mapping[str, Any], chunks: Chunks) -> None:
    for finding in plan.findings:
        evidence: dict[str, str | int | float | bool | None] = {"where": finding.where} if finding.where else {}
        said = Finding(finding.rule, Severity(finding.severity), finding.message, evidence)
        add_findings(chunks, [said], run)
    for left_out in plan.left_out:
        said = Finding("plan.left-out", Severity.NOTE, left_out.reason)
        add_findings(chunks, [said], {**run, "arm": left_out.arm, "host": left_out.host})


def _read_cell(known: _Known, bundles: list[Bundle], root: Path, chunks: Chunks) -> None:
    chosen = _chosen(bundles)
    for bundle in bundles:
        _add_attempt(known, bundle, chunks)
    entry = known.entry
    if not any(bundle.attempt == entry.attempt for bundle in bundles) if entry is not None else not bundles:
        state = entry.state if entry is not None else "planned"
        attempt = entry.attempt if entry is not None else 0
        columns: dict[str, list[Any]] = {"status": [state], "error": [entry.error if entry is not None else None]}
        add(chunks, "cells", [Chunk(1, {**known.context, "attempt": attempt}, columns)])
        if state == "done":
            message = "The ledger says that the cell is done, but its bundle is not in the record."
            add_findings(chunks, [Finding("record.no-bundle", Severity.ERROR, message)], known.context)
    if chosen is not None:
        CellReader(root, chosen, {**known.context, "attempt": chosen.attempt}, known.cell, chunks).read()


def _chosen(bundles: list[Bundle]) -> Bundle | None:
    """The attempt that counts: the last one that is done, else the last one."""
    done = [bundle for bundle in bundles if bundle.status == "done"]
    return done[-1] if done else bundles[-1] if bundles else None


def _add_attempt(known: _Known, bundle: Bundle, chunks: Chunks) -> None:
    result = bundle.result
    entry = known.entry
    status: str
    if result is not None:
        status, error = result.status, result.error
        if status == "done" and entry is not None and entry.attempt == bundle.attempt and entry.state == "failed":
            status, error = "failed", entry.error
    else:
        # Without result.json the attempt never ended, whatever the ledger last heard.
        status, error = "interrupted", "the bundle has no result"
    columns: dict[str, list[Any]] = {
        "status": [status],
        "started": [result.started if result is not None else None],
        "finished": [result.finished if result is not None else None],
        "error": [error],
    }
    add(chunks, "cells", [Chunk(1, {**known.context, "attempt": bundle.attempt}, columns)])
