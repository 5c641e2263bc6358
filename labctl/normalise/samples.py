"""The agent's counter samples (``samples.jsonl``) → time series. Pure.

Counters are cumulative, so a rate needs two samples of one step; it is given at the time of the later one. A counter
that went back (a device that came anew, a reboot) gives null, never a rate.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from labctl.normalise.values import finite
from labctl.parsers.base import Finding, Metric, SeriesPoint, Severity

#: The kernel counts CPU time in hundredths of a second: a rate over less than this would be mostly rounding.
_SHORTEST_S = 0.1
_BUSY = ("user", "system", "iowait", "steal")
_DISK_RATES = (
    ("read_bytes", Metric.BANDWIDTH, "read"),
    ("write_bytes", Metric.BANDWIDTH, "write"),
    ("reads", Metric.IOPS, "read"),
    ("writes", Metric.IOPS, "write"),
)
_NIC_RATES = (("rx_bytes", Metric.BANDWIDTH, "receive"), ("tx_bytes", Metric.BANDWIDTH, "send"))


def read_samples(data: bytes) -> tuple[dict[str, list[dict[str, Any]]], list[Finding]]:
    """Samples by step directory name, in time order; half lines are counted in a finding."""
    steps: dict[str, list[dict[str, Any]]] = defaultdict(list)
    bad = 0
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            sample = json.loads(line)
        except (ValueError, RecursionError):
            bad += 1
            continue
        if not isinstance(sample, dict) or _number(sample.get("t")) is None:
            bad += 1
            continue
        steps[str(sample.get("step") or "")].append(sample)
    findings = []
    if bad:
        message = f"{bad} lines of samples.jsonl could not be read."
        findings.append(Finding("samples.lines", Severity.WARNING, message, {"lines": bad}))
    return dict(steps), findings


def sample_series(samples: list[dict[str, Any]], started: float | None, memory_total: int | None) -> list[SeriesPoint]:
    """Series of one step.

    Args:
        samples: of the step, in time order.
        started: when the step started, seconds since the epoch; None: at the first sample.
        memory_total: bytes of RAM; without it the memory used cannot be told and is left out.

    Returns:
        ``cpu_used`` in cores (total is user + system), ``memory_used`` in bytes (``total``, and ``cached``: page
        cache), ``bandwidth`` and ``iops`` by ``disk:NAME`` and direction, ``bandwidth`` by ``nic:NAME`` and direction.
    """
    points: list[SeriesPoint] = []
    if not samples:
        return points
    origin = started if started is not None else float(samples[0]["t"])
    before: dict[str, Any] | None = None
    for sample in samples:
        t = float(sample["t"]) - origin
        points += _memory(sample, t, memory_total)
        if before is not None:
            seconds = float(sample["t"]) - float(before["t"])
            if seconds < _SHORTEST_S:
                continue
            points += _cpu(before, sample, t, seconds)
            for group, label, rates in (("disks", "disk", _DISK_RATES), ("nics", "nic", _NIC_RATES)):
                points += _rates(_map(before, group), _map(sample, group), rates, label=label, t=t, seconds=seconds)
        before = sample
    return points


def _memory(sample: Mapping[str, Any], t: float, total: int | None) -> Iterator[SeriesPoint]:
    available, cached = _number(sample.get("mem_available")), _number(sample.get("mem_cached"))
    if total and available is not None:
        yield SeriesPoint(t, Metric.MEMORY_USED, total - available)
    if cached is not None:
        yield SeriesPoint(t, Metric.MEMORY_USED, cached, component="cached")


def _cpu(before: Mapping[str, Any], after: Mapping[str, Any], t: float, seconds: float) -> Iterator[SeriesPoint]:
    old, new = _map(before, "cpu"), _map(after, "cpu")
    rates = {name: _rate(old.get(name), new.get(name), seconds) for name in _BUSY if name in old and name in new}
    user, system = rates.get("user"), rates.get("system")
    if "user" in rates and "system" in rates:
        both = None if user is None or system is None else user + system
        yield SeriesPoint(t, Metric.CPU_USED, both)
    for name, value in rates.items():
        yield SeriesPoint(t, Metric.CPU_USED, value, component=name)


def _rates(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    rates: tuple[tuple[str, Metric, str], ...],
    *,
    label: str,
    t: float,
    seconds: float,
) -> Iterator[SeriesPoint]:
    for name in sorted(before.keys() & after.keys()):
        old, new = _map(before, name), _map(after, name)
        for counter, metric, operation in rates:
            if counter in old and counter in new:
                value = _rate(old[counter], new[counter], seconds)
                yield SeriesPoint(t, metric, value, operation, f"{label}:{name}")


def _rate(old: object, new: object, seconds: float) -> float | None:
    first, second = _number(old), _number(new)
    if first is None or second is None or second < first:
        return None
    return (second - first) / seconds


def _map(source: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = source.get(key)
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float | None:
    return finite(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None
