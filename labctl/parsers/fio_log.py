"""fio's log files (``--write_bw_log``, ``--write_iops_log``, ``--write_lat_log``) as time series.

Format: https://fio.readthedocs.io/en/latest/fio_doc.html#log-file-formats. A line is ``time (ms), value, data
direction, block size (bytes), offset or priority``; there is no header, so the kind comes from the file's name.
"""

from __future__ import annotations

import re

from labctl.parsers.base import Finding, Metric, ParseResult, SeriesPoint, Severity
from labctl.parsers.text import decode, number

_NAME = re.compile(r"(?:^|[/_])(bw|iops|lat|clat|slat)(?:\.\d+)?\.log$")
_DIRECTIONS = {"0": "read", "1": "write", "2": "trim"}
_COMPONENTS = {"lat": "total", "clat": "completion", "slat": "submission"}
_KIB = 1024
#: Times beyond this many milliseconds (three years) are the wall clock (``log_unix_epoch``), not the run's.
_EPOCH_MS = 1e11
_MIN_FIELDS = 4


def log_kind(name: str) -> str | None:
    """``bw``, ``iops``, ``lat``, ``clat`` or ``slat`` by the names that fio gives its logs, else None."""
    match = _NAME.search(name)
    return match.group(1) if match else None


def parse_log(data: bytes, kind: str, tool_version: str | None = None) -> ParseResult:
    """Read one log.

    Args:
        data: the file.
        kind: as :func:`log_kind` says.
        tool_version: the version of fio where known; fio 2.x logs latencies in microseconds, 3.x in nanoseconds.

    Returns:
        Series in bytes/s (``bw`` is logged in KiB/s), 1/s or s; time in seconds since fio's start.
    """
    result = ParseResult("fio", tool_version)
    metric, factor, divisor = _metric(kind, tool_version)
    component = _COMPONENTS.get(kind, "total")
    text = decode(data)
    lines = text.split("\n")
    bad = 0
    if lines.pop():  # a line without an end may be cut in the middle of a number
        bad += 1
    start: float | None = None
    for line in lines:
        fields = [part.strip() for part in line.split(",")]
        if fields == [""]:
            continue
        time = number(fields[0])
        value = number(fields[1]) if len(fields) >= _MIN_FIELDS else None
        operation = _DIRECTIONS.get(fields[2]) if len(fields) >= _MIN_FIELDS else None
        if time is None or value is None or operation is None:
            bad += 1
            continue
        if start is None:
            start = time if time > _EPOCH_MS else 0.0
        result.series.append(
            SeriesPoint(
                (time - start) / 1000, metric, value * factor / divisor, operation=operation, component=component
            )
        )
    if bad:
        result.findings.append(
            Finding("fio.log-lines", Severity.WARNING, f"{bad} lines of the log could not be read.", {"lines": bad})
        )
    return result


def _metric(kind: str, tool_version: str | None) -> tuple[Metric, float, float]:
    if kind == "bw":
        return Metric.BANDWIDTH, _KIB, 1
    if kind == "iops":
        return Metric.IOPS, 1, 1
    return Metric.LATENCY, 1, 1e6 if tool_version is not None and tool_version.startswith(("1.", "2.")) else 1e9
