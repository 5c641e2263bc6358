"""Measurements → figures: which cell's value is which sample, and what describes them. Pure functions on tables."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from labctl.parsers.base import UNIT_OF, Metric
from labctl.plan.models import Cell, Plan
from labctl.report.figures import ADDITIVE, KINDS, LOAD_OPERATIONS, RUN_PHASES, Kind, kind_of, telling_rate
from labctl.report.model import (
    ArmFigure,
    CellRow,
    Figure,
    HostResults,
    MissingValue,
    OverviewRow,
    Point,
    Sample,
    StepCommand,
    Workload,
)
from labctl.report.panels import Panels
from labctl.report.stats import ratio, summarise
from labctl.report.units import Scale, scale_for

_OPERATIONS = {"read": 0, "write": 1}


@dataclass(frozen=True, slots=True)
class _Reading:
    value: float | None
    status: str
    raw_file: str
    note: str = ""


#: (metric, statistic, operation, component, phase) of one figure.
_Key = tuple[str, str, str, str, str]


def build_workloads(
    plan: Plan, cells: Sequence[CellRow], measurements: pd.DataFrame, panels: Panels
) -> tuple[Workload, ...]:
    """All results, in the order of the plan.

    Args:
        plan: the frozen plan.
        cells: one row a planned cell, in the order of execution.
        measurements: the table of that name.
        panels: time series and distributions by (workload, point, host).
    """
    good = {(cell.cell, cell.attempt) for cell in cells if cell.status == "done"}
    chosen = [pair in good for pair in zip(measurements["cell"], measurements["attempt"], strict=True)]
    readings = _readings(measurements.loc[chosen])
    versions = _versions(measurements)
    rows = {row.cell: row for row in cells}
    by_workload: dict[str, dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in sorted(plan.cells, key=lambda cell: (cell.workload, _natural(cell.point))):
        by_workload[cell.workload][cell.point].append(cell)
    # The study's figures come in the order of its questions; cells are shuffled and say nothing about order.
    order = dict.fromkeys(figure.get("workload", "") for figure in plan.figures)
    order.update(dict.fromkeys(sorted(by_workload)))
    arm_names = tuple(dict.fromkeys(arm.name for arm in plan.arms))
    workloads = []
    for name in (name for name in order if name in by_workload):
        wanted = [figure for figure in plan.figures if figure.get("workload") == name]
        points = tuple(
            _point(name, point, group, _Context(plan.baseline, arm_names, rows, readings, panels, wanted))
            for point, group in by_workload[name].items()
        )
        tool = next(cell.tool for cell in plan.cells if cell.workload == name)
        workloads.append(Workload(name, tool, versions.get(name, ()), points, _overview(points, wanted)))
    return tuple(workloads)


def missing_values(workloads: Iterable[Workload]) -> tuple[MissingValue, ...]:
    """Every sample that a table shows as a dash or does not count; one entry a cell and reason."""
    found: dict[tuple[str, str], MissingValue] = {}
    for workload in workloads:
        for point in workload.points:
            for host in point.hosts:
                for figure in host.figures:
                    for arm in figure.arms:
                        for sample in arm.missing:
                            title = figure_title(figure)
                            known = found.get((sample.cell, sample.note))
                            found[sample.cell, sample.note] = MissingValue(
                                workload.name,
                                point.name,
                                arm.arm,
                                host.host,
                                sample.number,
                                f"{known.figure}; {title}" if known else title,
                                sample.note,
                                sample.cell,
                            )
    return tuple(found.values())


def figure_title(figure: Figure) -> str:
    """``Bandwidth (read)``."""
    return f"{figure.title} ({figure.operation})" if figure.operation else figure.title


def scale_of(figure: Figure) -> Scale:
    """One scale for all arms of a figure, so that they can be read side by side."""
    values = [sample.value for arm in figure.arms for sample in arm.samples]
    return scale_for(values, figure.unit, figure.metric)


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Sort key that puts ``bs=4k`` before ``bs=16k``."""
    parts: list[tuple[int, int | str]] = []
    digits = ""
    for character in text:
        if character.isascii() and character.isdigit():
            digits += character
            continue
        if digits:
            parts.append((0, int(digits)))
            digits = ""
        parts.append((1, character))
    if digits:
        parts.append((0, int(digits)))
    return parts


@dataclass(frozen=True, slots=True)
class _Context:
    baseline: str
    arms: tuple[str, ...]
    rows: Mapping[str, CellRow]
    readings: Mapping[str, Mapping[_Key, _Reading]]
    panels: Panels
    wanted: Sequence[Mapping[str, str]]
    """The study's figures of this workload."""


def _readings(frame: pd.DataFrame) -> dict[str, dict[_Key, _Reading]]:
    """Cell → figure → one reading; parts of one load (jobs, instances) are added where that is sound."""
    parts: dict[tuple[str, _Key], list[Any]] = defaultdict(list)
    for row in frame.itertuples(index=False):
        key = (str(row.metric), str(row.statistic), str(row.operation), str(row.component), str(row.phase))
        parts[str(row.cell), key].append(row)
    readings: dict[str, dict[_Key, _Reading]] = defaultdict(dict)
    for (cell, key), rows in parts.items():
        readings[cell][key] = _combine(key, rows)
    return readings


def _combine(key: _Key, rows: list[Any]) -> _Reading:
    first = rows[0]
    if len(rows) == 1:
        value = None if pd.isna(first.value) else float(first.value)
        note = "" if str(first.status) == "ok" else f"{first.status}: the tool's value is not complete"
        if value is None:
            note = f"{first.status}: the tool gave no value"
        return _Reading(value, str(first.status), str(first.raw_file), note)
    one_load = len({row.run_index for row in rows}) == 1
    usable = all(str(row.status) == "ok" and not pd.isna(row.value) for row in rows)
    # Parts of one load run side by side, so rates add up; steps of a load phase follow each other, so times do.
    adds_up = (key[0] in ADDITIVE and one_load) or (key[0] == "runtime" and key[4] == "load")
    if adds_up and usable:
        return _Reading(sum(float(row.value) for row in rows), "ok", str(first.raw_file))
    return _Reading(None, "missing", str(first.raw_file), f"{len(rows)} values that cannot be combined soundly")


def _versions(measurements: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    pairs = measurements[["workload", "tool_version"]].drop_duplicates()
    found: dict[str, list[str]] = defaultdict(list)
    for row in pairs.itertuples(index=False):
        if row.tool_version:
            found[str(row.workload)].append(str(row.tool_version))
    return {name: tuple(sorted(versions)) for name, versions in found.items()}


def _point(workload: str, name: str, cells: list[Cell], context: _Context) -> Point:
    first = cells[0]
    hosts = dict.fromkeys(cell.host for cell in cells)
    return Point(
        name=name,
        parameters=tuple((key, _scalar(value)) for key, value in first.parameters.items()),
        commands=tuple(
            StepCommand(step.phase, step.name, shlex.join(step.argv), tuple(step.files.items())) for step in first.steps
        ),
        hosts=tuple(
            _host(workload, name, host, [cell for cell in cells if cell.host == host], context) for host in hosts
        ),
    )


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _host(workload: str, point: str, host: str, cells: list[Cell], context: _Context) -> HostResults:
    present = {cell.arm for cell in cells}
    arms = tuple(arm for arm in context.arms if arm in present)
    by_arm = {arm: sorted((cell for cell in cells if cell.arm == arm), key=lambda cell: cell.repeat) for arm in arms}
    available: dict[_Key, None] = {}
    for cell in cells:
        available.update(dict.fromkeys(context.readings.get(cell.id, {})))
    rate = telling_rate(cells[0].parameters)
    figures = tuple(
        _figure(kind, key, by_arm, context, plotted=_plotted(kind, available, rate))
        for kind, key in _select(available, context.wanted)
    )
    series, distributions = context.panels.get((workload, point, host), ((), ()))
    done = {arm: sum(context.rows[cell.id].status == "done" for cell in group) for arm, group in by_arm.items()}
    planned = {arm: len(group) for arm, group in by_arm.items()}
    return HostResults(host, arms, done, planned, figures, series, distributions)


def _select(available: Iterable[_Key], wanted: Iterable[Mapping[str, str]]) -> list[tuple[Kind, _Key]]:
    """The figures to show: operations one after another, in each the kinds in their order; the load phase last."""
    keys = list(available)
    kinds = dict.fromkeys((*KINDS, *(kind_of(dict(figure)) for figure in wanted)))
    operations = sorted({key[2] for key in keys}, key=lambda name: (_OPERATIONS.get(name, 2), name))
    chosen = []
    for operation in operations:
        for kind in kinds:
            candidates = [key for key in keys if key[2] == operation and key[4] in RUN_PHASES and _fits(kind, key)]
            if candidates and not kind.load_phase:
                chosen.append((kind, min(candidates, key=partial(_preference, kind))))
    for kind in kinds:
        loads = [key for key in keys if key[2] in LOAD_OPERATIONS and key[4] == "load" and _fits(kind, key)]
        if loads and kind.load_phase:
            chosen.append((kind, min(loads, key=partial(_preference, kind))))
    return chosen


def _fits(kind: Kind, key: _Key) -> bool:
    return key[0] == kind.metric and key[1] in kind.statistics and key[3] in kind.components


def _preference(kind: Kind, key: _Key) -> tuple[int, int, int]:
    operation = LOAD_OPERATIONS.index(key[2]) if kind.load_phase else 0
    return operation, kind.statistics.index(key[1]), kind.components.index(key[3])


def _plotted(kind: Kind, available: Iterable[_Key], rate: str) -> bool:
    """One rate a chart is enough: bandwidth for large blocks, operations for small ones."""
    metrics = {key[0] for key in available}
    if {"iops", "bandwidth"} <= metrics and kind.metric in {"iops", "bandwidth"}:
        return kind.metric == rate
    return kind.plotted


def _figure(kind: Kind, key: _Key, by_arm: Mapping[str, list[Cell]], context: _Context, *, plotted: bool) -> Figure:
    samples = {arm: tuple(_sample(cell, key, context) for cell in cells) for arm, cells in by_arm.items()}
    summaries = {
        arm: summarise([sample.value for sample in group if sample.counted and sample.value is not None])
        for arm, group in samples.items()
    }
    base = summaries.get(context.baseline)
    metric, statistic, operation, component, phase = key
    title = kind.title
    if kind.metric == "latency" and component != "total":
        title = f"{title} of {component}"
    return Figure(
        key="/".join(part for part in key if part),
        title=title,
        metric=metric,
        statistic=statistic,
        operation=operation,
        component=component,
        phase=phase,
        unit=str(UNIT_OF[Metric(metric)]),
        plotted=plotted,
        higher_is_better=kind.higher_is_better,
        arms=tuple(
            ArmFigure(
                arm, samples[arm], summaries[arm], None if arm == context.baseline else ratio(summaries[arm], base)
            )
            for arm in by_arm
        ),
    )


def _sample(cell: Cell, key: _Key, context: _Context) -> Sample:
    row = context.rows[cell.id]
    reading = context.readings.get(cell.id, {}).get(key)
    if row.status != "done":
        note = f"{row.status}: {row.error}" if row.error else _NOT_DONE.get(row.status, row.status)
        return Sample(cell.repeat, None, cell.id, row.order, note=note)
    if reading is None:
        return Sample(cell.repeat, None, cell.id, row.order, note="the tool's output has no such value")
    counted = reading.value is not None and reading.status == "ok"
    return Sample(cell.repeat, reading.value, cell.id, row.order, counted, reading.note, reading.raw_file)


_NOT_DONE = {
    "planned": "not run",
    "running": "not finished",
    "failed": "failed",
    "interrupted": "interrupted",
}


def _overview(points: Iterable[Point], wanted: Sequence[Mapping[str, str]]) -> tuple[OverviewRow, ...]:
    """What the study asks for; where it asks for nothing, one rate of each operation."""
    rows = []
    for point in points:
        for host in point.hosts:
            asked = [figure for figure in host.figures if any(_asked(figure, item) for item in wanted)]
            rates = [figure for figure in host.figures if figure.plotted and figure.higher_is_better]
            rows += [OverviewRow(point.name, host.host, figure) for figure in asked or rates or host.figures[:1]]
    return tuple(rows)


def _asked(figure: Figure, item: Mapping[str, str]) -> bool:
    return (
        figure.metric == item.get("metric")
        and figure.statistic == item.get("statistic", "mean")
        and item.get("operation", "") in {"", figure.operation}
        and figure.phase in RUN_PHASES
    )
