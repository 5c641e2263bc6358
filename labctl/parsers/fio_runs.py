"""Which documents and rows of fio's JSON are runs and jobs of their own, and which say the same again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labctl.parsers.base import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

_ALL_CLIENTS = "All clients"
_OPERATIONS = ("read", "write", "trim", "mixed")
#: ``elapsed`` is whole seconds, rounded up: a start computed from it may be this much too early.
_ELAPSED_SLACK_MS = 1500
_RUNTIME_SLACK_MS = 2

Run = tuple[dict[str, Any], bool]


def drop_snapshots(documents: Sequence[Run]) -> tuple[list[Run], int]:
    """Keep the last of the cumulative reports that ``--status-interval`` prints of one run.

    A report is a snapshot if the next one started before it was printed, has the same jobs and options, and did not
    less. Runs one after another never overlap; runs side by side differ in their options or are kept.
    """
    kept: list[Run] = []
    dropped = 0
    for document, cut in documents:
        if kept and not kept[-1][1] and not cut and _continues(kept[-1][0], document):
            kept[-1] = (document, cut)
            dropped += 1
        else:
            kept.append((document, cut))
    return kept, dropped


def _continues(before: dict[str, Any], after: dict[str, Any]) -> bool:
    printed, printed_after = before.get("timestamp_ms"), after.get("timestamp_ms")
    if not isinstance(printed, int) or not isinstance(printed_after, int) or printed_after < printed:
        return False
    rows, rows_after = _rows(before), _rows(after)
    if not rows or _identity(before, rows) != _identity(after, rows_after):
        return False
    longest = max(_value(row, "elapsed") for row in rows_after) * 1000
    runtime = max(_value(_section(row, name), "runtime") for row in rows_after for name in _OPERATIONS)
    started_by_elapsed = printed_after - longest + _ELAPSED_SLACK_MS
    started_by_runtime = printed_after - runtime + _RUNTIME_SLACK_MS
    if min(started_by_elapsed, started_by_runtime) >= printed:
        return False
    return all(
        _value(_section(a, name), "io_bytes") >= _value(_section(b, name), "io_bytes")
        for b, a in zip(rows, rows_after, strict=True)
        for name in _OPERATIONS
    )


def numbered_rows(document: dict[str, Any], findings: list[Finding]) -> list[tuple[str, dict[str, Any]]]:
    """The rows that are jobs, each with a name of its own.

    ``All clients`` of the client/server mode repeats its clients and is left out (axboe/fio#752 shows what it is
    worth). Rows of equal name (``numjobs`` without ``group_reporting``) are told apart as ``name``, ``name#2`` ….
    """
    named: list[tuple[str, dict[str, Any]]] = []
    seen: dict[str, int] = {}
    for row in _rows(document):
        name = str(row.get("jobname", ""))
        if name == _ALL_CLIENTS:
            message = "The row 'All clients' repeats its clients and was left out."
            findings.append(Finding("fio.all-clients", Severity.NOTE, message, {}))
            continue
        if row.get("hostname"):
            name = f"{name}@{row['hostname']}"
        seen[name] = seen.get(name, 0) + 1
        named.append((name if seen[name] == 1 else f"{name}#{seen[name]}", row))
    return named


def _rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    rows = document.get("jobs", document.get("client_stats"))
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _identity(document: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[object, ...]:
    return (
        document.get("fio version"),
        document.get("global options"),
        [(row.get("jobname"), row.get("hostname"), row.get("job options")) for row in rows],
    )


def _section(row: dict[str, Any], name: str) -> dict[str, Any]:
    section = row.get(name)
    return section if isinstance(section, dict) else {}


def _value(section: dict[str, Any], key: str) -> float:
    value = section.get(key, 0)
    return value if isinstance(value, int | float) else 0
