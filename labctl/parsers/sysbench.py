"""sysbench 1.0 and 1.1, tests ``fileio`` and ``cpu`` → measurements.

Format: ``sb_fileio.c``, ``sb_cpu.c`` and ``sysbench.c`` of https://github.com/akopytov/sysbench. 1.1 prints another
layout of ``fileio`` (``read:  IOPS=…``), and a ``Throughput:`` block instead of ``General statistics:`` for ``cpu``.

What sysbench cannot tell: latencies have a resolution of 0.01 ms, so ``0.00`` is *below resolution* and becomes null;
the latency of ``fileio`` covers reads, writes and fsyncs together, so its operation is empty.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from labctl.parsers.base import Finding, Histogram, Measurement, Metric, ParseResult, SeriesPoint, Severity, Status
from labctl.parsers.text import decode, number, whole_lines, words

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "sysbench"
VERSION = 1

_MIB = 1024**2
_UNITS = {"MiB": _MIB, "MB": 10**6}
_SIZES = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
#: Printed figures are rounded to two decimals; beyond that, rate times block size must be the bandwidth.
_ARITHMETIC_TOLERANCE = 0.02
#: Below this mean latency in ms the resolution of 0.01 ms is more than 5 % of the value.
_COARSE_MS = 0.2

_SNIFF = re.compile(
    rb"^[^\w\n]*sysbench \d+\.\d+|^Threads started!|^Threads fairness:|^Running the test with following options:",
    re.MULTILINE,
)
_BANNER = re.compile(r"^sysbench (\d+\.\d+[^\s:]*)")
#: sysbench prints two decimals, a closing bracket or a unit at the end of every line with a figure.
_ENDING = re.compile(r"(?:\.\d\d|\.\d{4}s|\))$")
_TESTS = {
    "fileio": re.compile(r"^(?:Extra file open flags:|File operations:|Doing .* test$|\s+read:\s+IOPS=)"),
    "cpu": re.compile(r"^(?:Prime numbers limit:|CPU speed:)"),
    "oltp": re.compile(r"^SQL statistics:"),
    "memory": re.compile(r"^Running memory speed test"),
}
_SUPPORTED = ("fileio", "cpu")
_PREPARE = re.compile(r"^(?:Creating files for the test|Removing test files|\d+ bytes written in )")
_MODES = {
    "sequential write (creation)": ("write", "sync"),
    "sequential rewrite": ("write", "sync"),
    "sequential read": ("read",),
    "random read": ("read",),
    "random write": ("write", "sync"),
    "random r/w": ("read", "write", "sync"),
    "combined random r/w": ("read", "write", "sync"),
}
_OPERATION = {"reads": "read", "writes": "write", "fsyncs": "sync", "read": "read", "written": "write"}
_PARAMETERS = (
    ("threads", re.compile(r"^Number of threads: (\d+)$")),
    ("rate", re.compile(r"^Target transaction rate: (\d+)/sec$")),
    ("file_extra_flags", re.compile(r"^Extra file open flags: (.+)$")),
    ("files", re.compile(r"^(\d+) files, .+ each$")),
    ("file_total_size", re.compile(r"^(\S+) total file size$")),
    ("block_size", re.compile(r"^Block size (\S+)$")),
    ("fsync_freq", re.compile(r"^Periodic FSYNC enabled, calling fsync\(\) each (\d+) requests\.$")),
    ("io_mode", re.compile(r"^Using (\S+) I/O mode$")),
    ("test_mode", re.compile(r"^Doing (.+) test$")),
    ("cpu_max_prime", re.compile(r"^Prime numbers limit: (\d+)$")),
)
_N = r"(-?\d+\.\d\d)"
_INTERVAL_IO = re.compile(
    rf"^\[ (\d+)s ?\] reads: {_N} (MiB|MB)/s writes: {_N} (?:MiB|MB)/s fsyncs: {_N}/s"
    r"(?: latency \(ms,(\d+)%\): (\d+\.\d{2,3}))?"
)
_INTERVAL_CPU = re.compile(rf"^\[ (\d+)s ?\] thds: \d+ eps: {_N}(?: lat \(ms,(\d+)%\): (\d+\.\d\d))?")
_RATE_10 = re.compile(rf"^\s+(reads|writes|fsyncs)/s:\s+{_N}$")
_THROUGHPUT_10 = re.compile(rf"^\s+(read|written), (MiB|MB)/s:\s+{_N}$")
_OPERATION_11 = re.compile(rf"^\s+(read|write): +IOPS={_N} {_N} MiB/s \({_N} MB/s\)$")
_FSYNC_11 = re.compile(rf"^\s+fsync: IOPS={_N}$")
_LATENCY = re.compile(rf"^\s+(min|avg|max|sum|(\d+)th percentile):\s+{_N}$")
_EPS = re.compile(r"^\s+(?:events per second|events/s \(eps\)):\s+(\d+\.\d\d(?:\d\d)?)$")
_TIME = re.compile(r"^\s+(?:total time|time elapsed):\s+(\d+\.\d{4})s$")
_EVENTS = re.compile(r"^\s+total number of events:\s+(\d+)$")
_FAIRNESS = re.compile(r"^\s+(events|execution time) \(avg/stddev\):\s+(\d+\.\d{4})/(\d+\.\d\d)$")
_BIN = re.compile(r"^\s+(\d+\.\d{3}) \|[* ]{40}\s*(\d+)$")
_FATAL = re.compile(r"^(?:FATAL|ALERT): ")
_WARNING = re.compile(r"^WARNING: ")


def sniff(head: bytes) -> bool:
    """By sysbench's banner or the headings that it prints."""
    return _SNIFF.search(head) is not None


def parse(data: bytes) -> ParseResult:
    """Read every run of an output; ``run_index`` numbers them. FATAL lines fail the result, with their words."""
    lines, findings = whole_lines(decode(data), _ENDING)
    result = ParseResult(NAME, findings=findings)
    starts = [n for n, line in enumerate(lines) if _BANNER.match(line)]
    # What stands before the first banner (deprecation warnings) belongs to the first run.
    edges = [0, *starts[1:], len(lines)]
    run_index = 0
    for start, end in pairwise(edges):
        if _Run(lines[start:end], run_index, result).read():
            run_index += 1
    return result


class _Run:
    """One run of sysbench in an output; collects into ``result``."""

    def __init__(self, lines: list[str], run_index: int, result: ParseResult) -> None:
        self.lines = lines
        self.run_index = run_index
        self.result = result
        self.rows: list[Measurement] = []
        self.test = next((t for t, p in _TESTS.items() if any(p.match(line) for line in lines)), None)
        self.parameters: dict[str, str] = {}

    def read(self) -> bool:
        """Whether the lines were a run (and not ``prepare`` or ``cleanup``)."""
        self._read_head()
        fatal = [line for line in self.lines if _FATAL.match(line)]
        self._complaints(fatal)
        if any(_PREPARE.match(line) for line in self.lines):
            return False
        if self.test not in _SUPPORTED:
            if not fatal:
                self._unsupported()
            return True
        self.result.parameters.update({"test": str(self.test), **self.parameters})
        finished = self._read_lines()
        if "rate" in self.parameters:
            self._say("rate-limited", Severity.NOTE, "The rate was limited; the throughput is no maximum.")
        if not finished and not fatal:
            self._say("cut", Severity.ERROR, "The output ends before the result of the run is complete.")
        if not finished or fatal:
            self.rows = [r if r.status is Status.MISSING else r._replace(status=Status.PARTIAL) for r in self.rows]
        self.result.measurements += self.rows
        return True

    def _read_head(self) -> None:
        for line in self.lines:
            if banner := _BANNER.match(line):
                self.result.tool_version = banner.group(1)
            for name, pattern in _PARAMETERS:
                if match := pattern.match(line):
                    self.parameters.setdefault(name, match.group(1))

    def _say(self, rule: str, severity: Severity, message: str, **evidence: str | float) -> None:
        finding = Finding(f"sysbench.{rule}", severity, message, dict(evidence))
        if finding not in self.result.findings:
            self.result.findings.append(finding)

    def _complaints(self, fatal: list[str]) -> None:
        for line in self.lines:
            if _WARNING.match(line):
                self._say("warning", Severity.WARNING, line.strip()[:300])
        if fatal:
            self.result.failed = True
            self.result.words = words([*(self.result.words or "").split("\n"), *fatal])
            self._say("fatal", Severity.ERROR, f"sysbench failed: {fatal[0].strip()[:300]}")

    def _unsupported(self) -> None:
        if self.test is None:
            message = "The output does not say which test of sysbench this is, or ends before it; nothing was read."
            self._say("unknown-test", Severity.ERROR, message)
        else:
            message = f"The test {self.test!r} of sysbench is not read yet; no value was taken."
            self._say("unsupported-test", Severity.ERROR, message, test=self.test)

    def _read_lines(self) -> bool:
        """Read everything; whether the run's last block is there."""
        readers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (_INTERVAL_IO, self._interval_io),
            (_INTERVAL_CPU, self._interval_cpu),
            (_RATE_10, self._rate_10),
            (_THROUGHPUT_10, self._throughput_10),
            (_OPERATION_11, self._operation_11),
            (_FSYNC_11, self._fsync_11),
            (_LATENCY, self._latency),
            (_EPS, self._events_rate),
            (_TIME, self._time),
            (_EVENTS, self._events),
            (_FAIRNESS, self._fairness),
        )
        bins: dict[float, int] = {}
        latencies = fairness = False
        for line in self.lines:
            if match := _BIN.match(line):
                value = float(match.group(1)) / 1000
                bins[value] = bins.get(value, 0) + int(match.group(2))
                continue
            for pattern, reader in readers:
                if match := pattern.match(line):
                    reader(match)
                    latencies = latencies or (pattern is _LATENCY and match.group(1) == "sum")
                    fairness = fairness or (pattern is _FAIRNESS and match.group(1) == "execution time")
                    break
        if bins:
            self.result.histograms.append(
                Histogram(Metric.LATENCY, "", "total", "", self.run_index, tuple(bins), tuple(bins.values()))
            )
        self._check_arithmetic()
        # fileio of 1.1 ends with the latencies and tells no time; all else ends with the fairness of the threads.
        timed = any(r.metric is Metric.RUNTIME for r in self.rows)
        return latencies and (fairness or not timed)

    def _add(
        self,
        metric: Metric,
        statistic: str,
        value: float | None,
        operation: str = "",
        component: str = "total",
    ) -> None:
        status = Status.MISSING if value is None else Status.OK
        if any(r[:2] == (metric, statistic) and r[3:5] == (operation, component) for r in self.rows):
            return
        self.rows.append(Measurement(metric, statistic, value, operation, component, "", self.run_index, status))

    def _does(self, operation: str, value: float) -> bool:
        """Zeros of operations that the test mode does not have are no measurement."""
        mode = _MODES.get(self.parameters.get("test_mode", ""))
        return value > 0 or (mode is not None and operation in mode and operation != "sync")

    def _rate(self, operation: str, value: float) -> None:
        if self._does(operation, value):
            self._add(Metric.IOPS, "mean", value, operation)

    def _bandwidth(self, operation: str, value: float) -> None:
        if self._does(operation, value):
            self._add(Metric.BANDWIDTH, "mean", value, operation)

    def _rate_10(self, match: re.Match[str]) -> None:
        self._rate(_OPERATION[match.group(1)], float(match.group(2)))

    def _throughput_10(self, match: re.Match[str]) -> None:
        self._bandwidth(_OPERATION[match.group(1)], float(match.group(3)) * _UNITS[match.group(2)])

    def _operation_11(self, match: re.Match[str]) -> None:
        operation, iops, mib, mb = match.groups()
        self._rate(operation, float(iops))
        self._bandwidth(operation, float(mib) * _MIB)
        if abs(float(mib) * _MIB - float(mb) * 10**6) > float(mb) * 10**6 * _ARITHMETIC_TOLERANCE + 2e4:
            self._say("bandwidth-units", Severity.WARNING, "MiB/s and MB/s of one line do not agree.", line=match[0])

    def _fsync_11(self, match: re.Match[str]) -> None:
        self._rate("sync", float(match.group(1)))

    def _latency(self, match: re.Match[str]) -> None:
        name, percentile, text = match.groups()
        milliseconds = float(text)
        statistic = f"p{percentile}" if percentile else {"avg": "mean", "sum": "total"}.get(name, name)
        if milliseconds == 0:
            self._say(
                "latency-resolution",
                Severity.NOTE,
                "Latencies below sysbench's resolution of 0.01 ms are printed as 0.00; they are null here.",
            )
            self._add(Metric.LATENCY, statistic, None)
            return
        if name == "avg" and milliseconds < _COARSE_MS:
            self._say(
                "latency-coarse",
                Severity.NOTE,
                f"The mean latency of {text} ms is printed with a resolution of 0.01 ms.",
                mean_ms=milliseconds,
            )
        self._add(Metric.LATENCY, statistic, milliseconds / 1000)

    def _events_rate(self, match: re.Match[str]) -> None:
        self._add(Metric.EVENTS_RATE, "mean", float(match.group(1)))

    def _time(self, match: re.Match[str]) -> None:
        self._add(Metric.RUNTIME, "total", float(match.group(1)))

    def _events(self, match: re.Match[str]) -> None:
        self._add(Metric.OPERATIONS, "total", float(match.group(1)))

    def _fairness(self, match: re.Match[str]) -> None:
        metric = Metric.OPERATIONS if match.group(1) == "events" else Metric.RUNTIME
        self._add(metric, "mean", float(match.group(2)), component="thread")
        self._add(metric, "stddev", float(match.group(3)), component="thread")

    def _interval_io(self, match: re.Match[str]) -> None:
        time, reads, unit, writes, fsyncs, percentile, latency = match.groups()
        t = float(time)
        for operation, text in (("read", reads), ("write", writes)):
            if self._does(operation, float(text)):
                value = float(text) * _UNITS[unit]
                self._point(SeriesPoint(t, Metric.BANDWIDTH, value, operation))
        if self._does("sync", float(fsyncs)):
            self._point(SeriesPoint(t, Metric.IOPS, float(fsyncs), "sync"))
        self._interval_latency(t, percentile, latency)

    def _interval_cpu(self, match: re.Match[str]) -> None:
        time, rate, percentile, latency = match.groups()
        self._point(SeriesPoint(float(time), Metric.EVENTS_RATE, float(rate)))
        self._interval_latency(float(time), percentile, latency)

    def _interval_latency(self, t: float, percentile: str | None, latency: str | None) -> None:
        if percentile and latency and percentile != "0":
            milliseconds = number(latency)
            value = milliseconds / 1000 if milliseconds else None
            self._point(SeriesPoint(t, Metric.LATENCY, value, statistic=f"p{percentile}"))

    def _point(self, point: SeriesPoint) -> None:
        self.result.series.append(point._replace(run_index=self.run_index))

    def _check_arithmetic(self) -> None:
        """IOPS times block size is bandwidth, where the output names the block size: catches MB that are MiB."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]iB|B)?", self.parameters.get("block_size", ""))
        if match is None:
            return
        block = float(match.group(1)) * _SIZES[match.group(2) or ""]
        rates = {r.operation: r.value for r in self.rows if r.metric is Metric.IOPS}
        for row in self.rows:
            rate = rates.get(row.operation)
            if row.metric is not Metric.BANDWIDTH or row.value is None or rate is None:
                continue
            expected = rate * block
            rounding = 0.005 * (block + _MIB)
            if abs(row.value - expected) > expected * _ARITHMETIC_TOLERANCE + rounding:
                self._say(
                    "bandwidth-arithmetic",
                    Severity.WARNING,
                    f"{row.operation}: the bandwidth is not the rate times the block size.",
                    bandwidth=row.value,
                    iops=rate,
                    block_size=block,
                )
