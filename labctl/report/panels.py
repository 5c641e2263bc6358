"""Time series and latency distributions → panels small enough for a page. Pure functions on tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from labctl.report.figures import telling_rate
from labctl.report.model import CellRow, Distribution, DistributionPanel, Line, SeriesPanel

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: (workload, point, host) → time series and distributions.
Panels = Mapping[tuple[str, str, str], tuple[tuple[SeriesPanel, ...], tuple[DistributionPanel, ...]]]

#: Points of one line: about one a pixel pair of a small chart.
MAX_POINTS = 120
#: Charts of one point on one host: of the tool's own lines, and of the target's counters.
MAX_PANELS = 6
MAX_COUNTERS = 3

_PREFERRED = (
    *("iops", "bandwidth", "transactions_rate", "queries_rate", "events_rate", "latency"),
    *("cpu_used", "queue_depth", "memory_used"),
)
_TITLES = {
    "iops": "IOPS",
    "bandwidth": "Bandwidth",
    "transactions_rate": "Transactions",
    "queries_rate": "Queries",
    "events_rate": "Events",
    "latency": "Latency",
    "cpu_used": "CPU used",
    "queue_depth": "Queue depth",
    "memory_used": "Memory used",
}
_RAMP_PARAMETERS = ("ramp_time", "ramp_time_s", "ramp_s", "ramp", "warmup_time", "warmup_s", "warmup")


def downsample(t: NDArray[np.float64], values: NDArray[np.float64], limit: int) -> tuple[list[float], list[float]]:
    """Mean of equal stretches of time, at most ``limit`` of them; a stretch without a value is NaN.

    Args:
        t: seconds, ascending.
        values: one a time, NaN where missing.
        limit: most points to keep, at least 1.
    """
    if len(t) <= limit:
        return t.tolist(), values.tolist()
    edges = np.linspace(t[0], t[-1], limit + 1)
    index = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, limit - 1)
    good = ~np.isnan(values)
    counts = np.bincount(index[good], minlength=limit)
    sums = np.bincount(index[good], weights=values[good], minlength=limit)
    times = np.bincount(index, weights=t, minlength=limit) / np.maximum(np.bincount(index, minlength=limit), 1)
    kept = np.bincount(index, minlength=limit) > 0
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return times[kept].tolist(), means[kept].tolist()


def quantile(bins: Sequence[float], counts: Sequence[int], q: float) -> float | None:
    """The bin that holds the ``ceil(q n)``-th smallest value, as fio itself does; None for an empty histogram."""
    cumulated = np.cumsum(np.asarray(counts, dtype=np.int64))
    if not len(cumulated) or cumulated[-1] == 0:
        return None
    rank = max(1, math.ceil(q * float(cumulated[-1]) - 1e-9))
    return float(bins[int(np.searchsorted(cumulated, rank))])


def build_panels(
    cells: Iterable[CellRow],
    parameters: Mapping[tuple[str, str], Mapping[str, object]],
    series: pd.DataFrame,
    histograms: pd.DataFrame,
) -> Panels:
    """Panels of every (workload, point, host).

    Args:
        cells: one row a planned cell; series of an attempt that did not count are left out.
        parameters: of each (workload, point), for the length of the ramp.
        series: the table of that name.
        histograms: the table of that name.
    """
    good = {(cell.cell, cell.attempt): cell.order for cell in cells if cell.status == "done"}
    lines = _series_panels(_of_cells(series, good), parameters)
    distributions = _distribution_panels(_of_cells(histograms, good))
    keys = {**lines, **distributions}
    return {key: (tuple(lines.get(key, ())), tuple(distributions.get(key, ()))) for key in keys}


def _of_cells(frame: pd.DataFrame, good: Mapping[tuple[str, int], int]) -> pd.DataFrame:
    chosen = [
        pair in good and phase in {"run", ""}
        for *pair_, phase in zip(frame["cell"], frame["attempt"], frame["phase"], strict=True)
        for pair in [tuple(pair_)]
    ]
    return frame.loc[chosen]


def _series_panels(
    frame: pd.DataFrame, parameters: Mapping[tuple[str, str], Mapping[str, object]]
) -> dict[tuple[str, str, str], list[SeriesPanel]]:
    frame = frame[frame["statistic"].isin(["mean", "total", ""])]
    found: dict[tuple[str, str, str], dict[_Counter, list[Line]]] = defaultdict(dict)
    units: dict[str, str] = {}
    by = ["workload", "point", "host", "source", "operation", "metric", "component", "arm", "sample"]
    for key, group in frame.groupby(by, sort=True, observed=True):
        workload, point, host, source, operation, metric, component, arm, sample = map(str, key)
        values = _one_line(group, metric)
        if values is None or (source == "agent" and not _telling(metric, component)):
            continue
        t, kept = downsample(
            np.asarray(values.index, dtype=np.float64), np.asarray(values, dtype=np.float64), MAX_POINTS
        )
        panel = found[workload, point, host].setdefault((source, metric, operation, component), [])
        panel.append(Line(arm, int(float(sample)), tuple(t), tuple(kept)))
        units[metric] = str(group["unit"].iloc[0])
    result: dict[tuple[str, str, str], list[SeriesPanel]] = {}
    for place, panels in found.items():
        ramp = _ramp(parameters.get(place[:2], {}))
        result[place] = [
            # Tools start their clock after the ramp; the counters of the target run from the start of the step.
            SeriesPanel(
                *(_panel_title(key), key[0], key[1], units[key[1]], tuple(panels[key])),
                ramp_s=ramp if key[0] == "agent" else None,
            )
            for key in _choose(panels, telling_rate(parameters.get(place[:2], {})))
        ]
    return result


#: Source, metric, operation, component.
_Counter = tuple[str, str, str, str]

_ADDED = frozenset({"iops", "bandwidth", "transactions_rate", "queries_rate", "events_rate", "cpu_used"})


def _one_line(group: pd.DataFrame, metric: str) -> pd.Series[float] | None:
    """Time → value of one sample; None where several files (one a job) cannot be put together soundly."""
    files = group["raw_file"].nunique()
    if files <= 1 and group["t"].is_monotonic_increasing and group["t"].is_unique:
        return pd.Series(group["value"].to_numpy(), index=group["t"].to_numpy())
    if files <= 1:
        return group.groupby("t", sort=True)["value"].mean()
    if metric not in _ADDED:
        return None
    # Jobs log at about, not exactly, the same times: rates are averaged over one interval and then added up.
    first = np.sort(group.loc[group["raw_file"] == group["raw_file"].iloc[0], "t"].to_numpy(dtype=np.float64))
    width = float(np.median(np.diff(first))) if len(first) > 1 else 1.0
    interval = (group["t"] / max(width, 1e-3)).round()
    means = group.groupby([interval, group["raw_file"]])["value"].mean()
    summed = means.groupby(level=0).sum(min_count=files)
    summed.index = summed.index * max(width, 1e-3)
    return summed


def _telling(metric: str, component: str) -> bool:
    """Counters of the target that belong into a report; all others stay in the table."""
    return (metric in {"cpu_used", "memory_used"} and component in {"", "total"}) or (
        metric == "bandwidth" and component.startswith("disk:")
    )


def _choose(panels: Mapping[_Counter, Sequence[Line]], rate: str) -> list[_Counter]:
    """The tool's own lines first, then the counters, the busiest disks before the idle ones; nothing twice."""
    busy = {key: _activity(lines) for key, lines in panels.items()}
    alive = [key for key in panels if busy[key] > 0 and not _told_better(key, panels, rate)]
    own = sorted((key for key in alive if key[0] != "agent"), key=_panel_rank)[:MAX_PANELS]
    counters = sorted(
        (key for key in alive if key[0] == "agent"), key=lambda key: (_AGENT_RANK[key[1]], -busy[key], key)
    )
    return [*own, *counters[:MAX_COUNTERS]]


def _told_better(key: _Counter, panels: Iterable[_Counter], rate: str) -> bool:
    """Whether another line of the tool says the same: the other rate, or the whole latency instead of a part."""
    source, metric, operation, component = key
    if source == "agent":
        return False
    if metric in {"iops", "bandwidth"} and metric != rate:
        return (source, rate, operation, component) in panels
    return component in _PARTS and (source, metric, operation, "total") in panels


_PARTS = frozenset({"submission", "completion"})
_AGENT_RANK = {"cpu_used": 0, "bandwidth": 1, "memory_used": 2}


def _activity(lines: Iterable[Line]) -> float:
    return max((value for line in lines for value in line.y if not math.isnan(value)), default=0.0)


def _panel_rank(key: _Counter) -> tuple[int, str, str, str]:
    _, metric, operation, component = key
    rank = _PREFERRED.index(metric) if metric in _PREFERRED else len(_PREFERRED)
    return rank, metric, operation, component


def _panel_title(key: _Counter) -> str:
    source, metric, operation, component = key
    detail = ", ".join(
        part for part in (operation, "" if component in {"total", ""} else component.removeprefix("disk:")) if part
    )
    title = _TITLES.get(metric, metric.replace("_", " "))
    origin = "counters of the target" if source == "agent" else f"as {source} reports it"
    return f"{title} ({detail}), {origin}" if detail else f"{title}, {origin}"


def _ramp(parameters: Mapping[str, object]) -> float | None:
    for name in _RAMP_PARAMETERS:
        text = str(parameters.get(name, "")).removesuffix("s")
        try:
            value = float(text)
        except ValueError:
            continue
        return value if value > 0 and math.isfinite(value) else None
    return None


def _distribution_panels(frame: pd.DataFrame) -> dict[tuple[str, str, str], list[DistributionPanel]]:
    latency = frame[frame["metric"] == "latency"]
    result: dict[tuple[str, str, str], list[DistributionPanel]] = defaultdict(list)
    by = ["workload", "point", "host", "operation", "component"]
    groups = {tuple(map(str, key)): group for key, group in latency.groupby(by, sort=True, observed=True)}
    for (workload, point, host, operation, component), group in groups.items():
        if component in _PARTS and (workload, point, host, operation, "total") in groups:
            continue
        merged = [_distribution(str(arm), 0, part) for arm, part in group.groupby("arm", sort=False, observed=True)]
        single = [
            _distribution(str(arm), int(float(str(sample))), part)
            for (arm, sample), part in group.groupby(["arm", "sample"], sort=True, observed=True)
        ]
        title = f"Latency of {operation}" if operation else "Latency"
        if component not in {"", "total"}:
            title += f" ({component})"
        result[workload, point, host].append(
            DistributionPanel(title, operation, component, tuple(merged), tuple(single))
        )
    return result


def _distribution(arm: str, sample: int, frame: pd.DataFrame) -> Distribution:
    bins, place = np.unique(frame["bin"].to_numpy(dtype=np.float64), return_inverse=True)
    # Integers, because a float loses counts above 2**53.
    counts = np.zeros(len(bins), dtype=np.int64)
    np.add.at(counts, place, frame["count"].to_numpy(dtype=np.int64))
    used = counts > 0
    return Distribution(arm, sample, tuple(bins[used].tolist()), tuple(counts[used].tolist()))
