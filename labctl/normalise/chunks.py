"""What parsers say → chunks of the tables. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from labctl.normalise.files import FileResult
from labctl.normalise.tables import Chunk, add, build_tables
from labctl.normalise.values import capped, finite
from labctl.parsers.base import UNIT_OF, Finding, Histogram, Measurement, ParseResult, SeriesPoint, Status

Context = Mapping[str, Any]
Chunks = dict[str, list[Chunk]]


def add_result(
    chunks: Chunks,
    result: ParseResult,
    context: Context,
    *,
    raw_file: str,
    parser: str,
    status: Status = Status.OK,
) -> None:
    """Add everything that one file said.

    Args:
        chunks: collects, by table.
        result: of the parser.
        context: the columns of ``schema.CONTEXT`` but for the tool and its version.
        raw_file: path relative to the record.
        parser: ``name/version``.
        status: the best that a measurement can have; a cell that failed has no value that is ``ok``.
    """
    constants = {**context, "tool": result.tool, "tool_version": result.tool_version, "raw_file": raw_file}
    add(chunks, "measurements", [_measurements(result.measurements, {**constants, "parser": parser}, status)])
    add(chunks, "series", [_series(result.series, {**constants, "source": result.tool})])
    add(chunks, "histograms", [_histogram(histogram, constants) for histogram in result.histograms])
    add_findings(chunks, result.findings, constants)


def tables_of_files(results: Iterable[FileResult]) -> dict[str, pa.Table]:
    """Outputs that no record holds → the same tables as of a record; only their file says where they are from."""
    chunks: Chunks = {}
    for one in results:
        add_result(chunks, one.result, {}, raw_file=one.source, parser=one.parser)
    return build_tables(chunks)


def add_findings(chunks: Chunks, findings: Sequence[Finding], constants: Context) -> None:
    """Add findings; ``constants`` may have ``raw_file``."""
    columns: dict[str, Sequence[Any]] = {
        "rule": [f.rule for f in findings],
        "severity": [f.severity for f in findings],
        "message": [f.message for f in findings],
        "evidence": [json.dumps(f.evidence, sort_keys=True) for f in findings],
    }
    add(chunks, "findings", [Chunk(len(findings), constants, columns)])


def add_series(chunks: Chunks, points: Sequence[SeriesPoint], constants: Context) -> None:
    """Add a time series; ``constants`` must have ``source`` and ``raw_file``."""
    add(chunks, "series", [_series(points, constants)])


def add_measurements(chunks: Chunks, rows: Sequence[Measurement], constants: Context, status: Status) -> None:
    """Add measurements; ``constants`` must have ``raw_file`` and ``parser``; ``status`` as in :func:`add_result`."""
    add(chunks, "measurements", [_measurements(rows, constants, status)])


def _measurements(rows: Sequence[Measurement], constants: Context, status: Status) -> Chunk:
    metrics, statistics, said, operations, components, jobs, runs, statuses = _transposed(rows, 8)
    values = [finite(value) for value in said]
    if status is not Status.OK or None in values:
        statuses = [capped(one, value, status) for one, value in zip(statuses, values, strict=True)]
    return Chunk(
        len(rows),
        constants,
        {
            "run_index": runs,
            "job": jobs,
            "operation": operations,
            "metric": metrics,
            "component": components,
            "statistic": statistics,
            "value": values,
            "unit": [UNIT_OF[metric] for metric in metrics],
            "status": statuses,
        },
    )


def _series(points: Sequence[SeriesPoint], constants: Context) -> Chunk:
    times, metrics, values, operations, components, statistics, _, _ = _transposed(points, 8)
    return Chunk(
        len(points),
        constants,
        {
            "t": times,
            "operation": operations,
            "metric": metrics,
            "component": components,
            "statistic": statistics,
            "value": [finite(value) for value in values],
            "unit": [UNIT_OF[metric] for metric in metrics],
        },
    )


def _histogram(histogram: Histogram, constants: Context) -> Chunk:
    same = {
        **constants,
        "job": histogram.job,
        "operation": histogram.operation,
        "metric": histogram.metric,
        "component": histogram.component,
    }
    return Chunk(len(histogram.bins), same, {"bin": histogram.bins, "count": histogram.counts})


def _transposed(rows: Sequence[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width
