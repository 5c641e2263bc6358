"""CSV files in canonical units and full precision: ``cells.csv``, ``samples.csv``, ``summary.csv``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from labctl.report.model import ArmFigure, Figure, HostResults, Point, Report, Workload

_PLACE = ("run", "lab", "study", "workload", "tool", "point", "host", "arm")
_FIGURE = ("metric", "statistic", "operation", "component", "phase", "unit")
_CELLS = (
    *("run", "lab", "study", "cell", "order", "block", "arm", "host", "workload", "tool", "point", "repeat"),
    *("attempt", "status", "started", "finished", "error", "raw"),
)
_SAMPLES = (*_PLACE, "sample", "cell", "order", *_FIGURE, "value", "counted", "note", "raw_file")
_SUMMARY = (*_PLACE, *_FIGURE, "n", "median", "min", "max", "stddev", "cv", "ratio_to_baseline", "baseline", "note")

Value = str | int | float | bool | None


def render_csv(report: Report) -> dict[str, str]:
    """File name → text. An empty field is a value that is not there; the ``note`` beside it says why."""
    identity = (report.run_id, report.lab, report.study)
    cells = (
        (
            *identity,
            *(
                cell.cell,
                cell.order,
                cell.block,
                cell.arm,
                cell.host,
                cell.workload,
                cell.tool,
                cell.point,
                cell.repeat,
            ),
            *(cell.attempt, cell.status, cell.started, cell.finished, cell.error, cell.raw),
        )
        for cell in report.cells
    )
    return {
        "cells.csv": _text(_CELLS, cells),
        "samples.csv": _text(_SAMPLES, _samples(report)),
        "summary.csv": _text(_SUMMARY, _summaries(report)),
    }


def _walk(report: Report) -> Iterator[tuple[Workload, Point, HostResults, Figure, ArmFigure]]:
    for workload in report.workloads:
        for point in workload.points:
            for host in point.hosts:
                for figure in host.figures:
                    for arm in figure.arms:
                        yield workload, point, host, figure, arm


def _place(report: Report, workload: Workload, point: Point, host: HostResults, arm: ArmFigure) -> tuple[Value, ...]:
    return (
        *(report.run_id, report.lab, report.study),
        *(workload.name, workload.tool, point.name, host.host, arm.arm),
    )


def _figure(figure: Figure) -> tuple[Value, ...]:
    return (figure.metric, figure.statistic, figure.operation, figure.component, figure.phase, figure.unit)


def _samples(report: Report) -> Iterator[tuple[Value, ...]]:
    for workload, point, host, figure, arm in _walk(report):
        for sample in arm.samples:
            yield (
                *_place(report, workload, point, host, arm),
                *(sample.number, sample.cell, sample.order),
                *_figure(figure),
                *(sample.value, sample.counted and sample.value is not None, sample.note, sample.raw_file),
            )


def _summaries(report: Report) -> Iterator[tuple[Value, ...]]:
    for workload, point, host, figure, arm in _walk(report):
        described = arm.summary
        numbers: tuple[Value, ...] = (0, None, None, None, None, None)
        if described is not None:
            numbers = (
                *(described.n, described.median, described.minimum, described.maximum),
                *(described.stddev, described.cv),
            )
        yield (
            *_place(report, workload, point, host, arm),
            *_figure(figure),
            *numbers,
            *(arm.ratio, report.baseline, "" if described else arm.reason),
        )


def _text(header: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_field(value) for value in row] for row in rows)
    return buffer.getvalue()


def _field(value: Value) -> str:
    """Numbers with all their digits; text that a spreadsheet would run as a formula gets an apostrophe in front."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value.replace("\x00", "\ufffd")
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
