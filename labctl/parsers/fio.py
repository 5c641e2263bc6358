"""fio's JSON and JSON+ of 2.x and 3.x → measurements.

Format: https://fio.readthedocs.io/en/latest/fio_doc.html#json-output; field by field from fio's ``stat.c``.

=====================  ==========================  =====================================
field                  fio 2.x                     fio 3.x
=====================  ==========================  =====================================
``io_bytes``           KiB                         bytes (``io_kbytes`` stands beside it)
``bw``                 KiB/s                       KiB/s (``bw_bytes``: bytes/s)
latencies              ``slat clat lat`` in µs     ``slat_ns clat_ns lat_ns`` in ns
``runtime``            ms                          ms
=====================  ==========================  =====================================

The field names decide, not the version: pre-releases mixed both.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from labctl.parsers.base import Finding, Histogram, Measurement, Metric, ParseResult, Severity, Status
from labctl.parsers.fio_documents import find_documents
from labctl.parsers.fio_log import log_kind, parse_log
from labctl.parsers.fio_runs import drop_snapshots, numbered_rows
from labctl.parsers.text import decode, words

__all__ = ["NAME", "VERSION", "log_kind", "parse", "parse_log", "sniff"]

NAME = "fio"
VERSION = 1

_KIB = 1024
_INFINITY = float("inf")
_NUMBERS = (int, float)
#: Operation, component, job, run index: what follows the value in a measurement.
_Place = tuple[str, str, str, int]

_OPERATIONS = ("read", "write", "trim", "mixed")
_COMPONENTS = (("slat", "submission"), ("clat", "completion"), ("lat", "total"))
_STATISTICS = ("mean", "min", "max", "stddev")
_DEPTHS = (1, 2, 4, 8, 16, 32, 64)
#: Bandwidth must equal bytes / runtime but for the rounding of the runtime to milliseconds.
_ARITHMETIC_TOLERANCE = 0.02
_SNIFF = re.compile(
    rb'"fio version"\s*:|^\xef?\xbb?\xbf?fio-\d+\.\d+|^fio: |^\xef?\xbb?\xbf?[^\n]*: \(g=\d+\): rw=', re.MULTILINE
)
_VERSION = re.compile(r"^(?:fio-)?(\d+\.\d+\S*)")
_BANNER = re.compile(r"^fio-(\d+\.\d+\S*)$", re.MULTILINE)
_TEXT_RESULT = re.compile(r"^\s*(?:read|write|trim)\s*:\s*(?:IOPS=|io=)", re.MULTILINE)
#: What fio says when something is wrong; the rest of its text (layout, status) is not evidence.
_COMPLAINT = re.compile(r"^(?:fio: |verify: |fio\S* .*(?:error|failed)|.*\berror=|.*bad (?:pattern|header|magic|crc))")


def sniff(head: bytes) -> bool:
    """By the first key of the JSON, or by the lines that fio prints before it."""
    return _SNIFF.search(head) is not None


def parse(data: bytes) -> ParseResult:
    """Read every JSON document of an output; ``run_index`` numbers the runs that it holds.

    A job with ``error`` other than 0 fails the result even where fio exits with 0; its values stay, as ``partial``.
    """
    text = decode(data)
    documents = find_documents(text)
    result = ParseResult(NAME, findings=documents.findings)
    complaints = [line for line in documents.outside if _COMPLAINT.match(line)]
    if complaints:
        result.words = words(complaints)
    runs, dropped = drop_snapshots(documents.found)
    if dropped:
        result.findings.append(
            Finding(
                "fio.status-interval",
                Severity.NOTE,
                f"{dropped} intermediate reports of a run were left out; its last report has the totals.",
                {"reports": dropped},
            )
        )
    for run_index, (document, cut) in enumerate(runs):
        _read_document(document, run_index, result, cut=cut)
    if result.failed and result.words is None:
        result.words = "; ".join(f.message for f in result.findings if f.rule == "fio.job-error")
    if not runs:
        _nothing(text, complaints, result)
    elif complaints and not result.failed:
        result.findings.append(Finding("fio.words", Severity.WARNING, "fio complained: " + words(complaints)[:300], {}))
    return result


def _nothing(text: str, complaints: list[str], result: ParseResult) -> None:
    banner = _BANNER.search(text)
    result.tool_version = banner.group(1) if banner else None
    if complaints:
        result.failed = True
        message = f"fio failed and printed no result; it said: {complaints[0].strip()[:300]}"
        result.findings.append(Finding("fio.failed", Severity.ERROR, message, {"lines": len(complaints)}))
    elif _TEXT_RESULT.search(text):
        message = "fio's text output is not read; run fio with --output-format=json+."
        result.findings.append(Finding("fio.not-json", Severity.ERROR, message, {}))
    else:
        message = "There is no JSON document of fio in the output."
        result.findings.append(Finding("fio.no-result", Severity.ERROR, message, {}))


def _read_document(document: dict[str, Any], run_index: int, result: ParseResult, *, cut: bool) -> None:
    version = _VERSION.match(str(document.get("fio version", "")))
    if version is not None:
        result.tool_version = version.group(1)
    rows = numbered_rows(document, result.findings)
    global_options = _options(document.get("global options"))
    result.parameters.update(global_options)
    for job, row in rows:
        options = _options(row.get("job options"))
        prefix = f"{job}." if len(rows) > 1 else ""
        result.parameters.update({prefix + key: value for key, value in options.items()})
        _read_job(job, row, {**global_options, **options}, run_index, result, cut=cut)
    if not rows and not cut:
        result.findings.append(Finding("fio.no-jobs", Severity.ERROR, "The document has no job in it.", {}))


def _read_job(
    job: str,
    row: dict[str, Any],
    options: dict[str, str],
    run_index: int,
    result: ParseResult,
    *,
    cut: bool,
) -> None:
    error = row.get("error", 0)
    failed = error not in (0, None)
    status = Status.PARTIAL if failed or cut else Status.OK
    if failed:
        result.failed = True
        said = f" It said: {result.words[:300]}" if result.words else ""
        message = f"fio job {job!r} ended with error {error}.{said}"
        result.findings.append(Finding("fio.job-error", Severity.ERROR, message, {"job": job, "error": str(error)}))
    rows: list[Measurement] = []
    did_anything = False
    for operation in _OPERATIONS:
        section = row.get(operation)
        if isinstance(section, dict) and (_positive(section, "total_ios") or _positive(section, "io_bytes")):
            did_anything = True
            _read_operation(section, (operation, "total", job, run_index), rows, result)
    sync = row.get("sync")
    if isinstance(sync, dict) and _positive(sync, "total_ios"):
        rows.append(
            Measurement(Metric.OPERATIONS, "total", _number(sync, "total_ios"), "sync", "total", job, run_index)
        )
        _read_latency(sync, "lat", ("sync", "sync", job, run_index), rows, result)
    if not did_anything and not failed:
        message = f"fio job {job!r} did no I/O."
        result.findings.append(Finding("fio.no-io", Severity.WARNING, message, {"job": job}))
    _read_errors(row, job, run_index, rows, result)
    if did_anything:
        _read_cpu(row, options, job, run_index, rows)
        _read_depth(row, options, ("", "", job, run_index), rows, result)
    if status is not Status.OK:
        rows = [r if r.status is Status.MISSING else r._replace(status=status) for r in rows]
    result.measurements += rows


def _read_operation(section: dict[str, Any], place: _Place, rows: list[Measurement], result: ParseResult) -> None:
    operation, _, job, run_index = place
    bandwidth = _number(section, "bw_bytes")
    if bandwidth is None and (kib := _number(section, "bw")) is not None:
        bandwidth = kib * _KIB
    done = _number(section, "io_bytes")
    if done is not None and "io_kbytes" not in section and "bw_bytes" not in section:
        done *= _KIB
    runtime_ms = _number(section, "runtime")
    runtime = None if runtime_ms is None else runtime_ms / 1000
    if not done and not runtime:
        # Issued, but nothing came back: fio's zeros are no rates.
        rows += [_row(metric, "mean", None, place) for metric in (Metric.IOPS, Metric.BANDWIDTH, Metric.LATENCY)]
        return
    rows.append(_row(Metric.IOPS, "mean", _number(section, "iops"), place))
    rows.append(_row(Metric.BANDWIDTH, "mean", bandwidth, place))
    rows.append(_row(Metric.BYTES, "total", done, place))
    rows.append(_row(Metric.RUNTIME, "total", runtime, place))
    if "total_ios" in section:
        rows.append(_row(Metric.OPERATIONS, "total", _number(section, "total_ios"), place))
    for key, component in _COMPONENTS:
        _read_latency(section, key, (operation, component, job, run_index), rows, result)
    if bandwidth and done and runtime:
        expected = done / runtime
        if abs(bandwidth - expected) > expected * (_ARITHMETIC_TOLERANCE + 0.002 / runtime):
            result.findings.append(
                Finding(
                    "fio.bandwidth-arithmetic",
                    Severity.WARNING,
                    f"fio job {job!r}, {operation}: the bandwidth is not the bytes done over the runtime.",
                    {"bandwidth": bandwidth, "bytes": done, "runtime_s": runtime},
                )
            )
    short = (_number(section, "short_ios") or 0) + (_number(section, "drop_ios") or 0)
    if short:
        message = f"fio job {job!r}, {operation}: {short:.0f} short or dropped I/Os."
        result.findings.append(Finding("fio.short-io", Severity.WARNING, message, {"ios": short}))


def _read_latency(
    section: dict[str, Any],
    key: str,
    place: _Place,
    rows: list[Measurement],
    result: ParseResult,
) -> None:
    """One latency block. Not measured (``gtod_reduce``, ``disable_clat``): zeros, with ``N`` 0 in fio 3.x."""
    per_second = 1e9
    block = section.get(f"{key}_ns")
    if block is None:
        per_second = 1e6
        block = section.get(key)
    if not isinstance(block, dict):
        return
    measured = block.get("N", 1) != 0 and any(_number(block, name) for name in ("mean", "min", "max"))
    if not measured:
        # Submission is no figure of synchronous engines, so its absence says nothing.
        if key != "slat":
            rows.append(_row(Metric.LATENCY, "mean", None, place))
        return
    values = [(statistic, _number(block, statistic)) for statistic in _STATISTICS]
    percentiles = block.get("percentile")
    if isinstance(percentiles, dict):
        values += [(_percentile(name), number) for name, number in percentiles.items() if type(number) in _NUMBERS]
    rows += [
        Measurement(Metric.LATENCY, statistic, value / per_second, *place)
        for statistic, value in values
        if statistic and value is not None
    ]
    bins = block.get("bins")
    if isinstance(bins, dict) and bins:
        _read_bins(bins, per_second, place, result)


def _read_bins(bins: dict[str, Any], per_second: float, place: _Place, result: ParseResult) -> None:
    """JSON+ of fio 3.x: latency in ns → count. fio 2.x has indices of its internal table instead: not read."""
    try:
        values = [int(key) for key in bins]
        counts = tuple(int(count) for count in bins.values())
    except (ValueError, TypeError, OverflowError):
        if not any(f.rule == "fio.old-histogram" for f in result.findings):
            message = "The histograms of fio 2.x hold internal indices and were not read."
            result.findings.append(Finding("fio.old-histogram", Severity.NOTE, message, {}))
        return
    operation, component, job, run_index = place
    seconds = tuple(value / per_second for value in values)
    result.histograms.append(Histogram(Metric.LATENCY, operation, component, job, run_index, seconds, counts))


def _read_errors(row: dict[str, Any], job: str, run_index: int, rows: list[Measurement], result: ParseResult) -> None:
    """``total_err`` is printed only with ``continue_on_error``."""
    errors = _number(row, "total_err")
    if errors is None:
        return
    rows.append(Measurement(Metric.ERRORS, "total", errors, "", "total", job, run_index))
    if errors:
        message = f"fio job {job!r} went on after {errors:.0f} I/O errors (first: {row.get('first_error')})."
        result.findings.append(Finding("fio.io-errors", Severity.WARNING, message, {"job": job, "errors": errors}))


def _read_cpu(row: dict[str, Any], options: dict[str, str], job: str, run_index: int, rows: list[Measurement]) -> None:
    """Fio's CPU figures are percent of one process' runtime: cores only where the row is one process."""
    if "group_reporting" in options and options.get("numjobs", "1") != "1":
        return
    for key, component in (("usr_cpu", "user"), ("sys_cpu", "system")):
        if (percent := _number(row, key)) is not None:
            rows.append(Measurement(Metric.CPU_USED, "mean", percent / 100, "", component, job, run_index))


def _read_depth(
    row: dict[str, Any], options: dict[str, str], place: _Place, rows: list[Measurement], result: ParseResult
) -> None:
    """Share of the I/Os that were issued at each depth; fio sorts depths into 1, 2 to 3, 4 to 7 … 64 and more.

    A mean depth cannot be had from such classes, so none is given.
    """
    job, run_index = place[2:]
    levels = row.get("iodepth_level")
    if not isinstance(levels, dict):
        return
    shares = {low: _number(levels, str(low)) or _number(levels, f">={low}") or 0.0 for low in _DEPTHS}
    # fio counts fsyncs in the classes, but not in the total that it divides by: then they add up to more than 100.
    excess = max(1.0, sum(shares.values()) / 100)
    shares = {low: percent / excess for low, percent in shares.items()}
    for low, percent in shares.items():
        if percent > 0:
            rows.append(Measurement(Metric.QUEUE_DEPTH, "share", percent / 100, "", str(low), job, run_index))
    wanted = options.get("iodepth", "1")
    if not wanted.isdigit() or int(wanted) <= 1 or not any(shares.values()):
        return
    class_low = max(low for low in _DEPTHS if low <= int(wanted))
    reached = sum(percent for low, percent in shares.items() if low >= class_low)
    if reached < 50:  # noqa: PLR2004 - percent: most I/Os were issued below the wanted depth
        result.findings.append(
            Finding(
                "fio.queue-depth-not-reached",
                Severity.WARNING,
                f"fio job {job!r} asked for a queue depth of {wanted}, but only {reached:.1f} % of its I/Os had "
                f"{class_low} or more in flight.",
                {"job": job, "iodepth": int(wanted), "share": reached / 100},
            )
        )


def _row(metric: Metric, statistic: str, value: float | None, place: _Place) -> Measurement:
    status = Status.MISSING if value is None else Status.OK
    return Measurement(metric, statistic, value, *place, status)


@lru_cache(maxsize=1024)
def _percentile(name: str) -> str:
    """``99.990000`` → ``p99.99``; 2.x fills its list with ``0.00``, which is no percentile: empty."""
    try:
        if float(name) <= 0:
            return ""
    except ValueError:
        return ""
    return "p" + (name.rstrip("0").rstrip(".") if "." in name else name)


def _options(options: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in options.items()} if isinstance(options, dict) else {}


def _positive(section: dict[str, Any], key: str) -> bool:
    value = _number(section, key)
    return value is not None and value > 0


def _number(section: dict[str, Any], key: str) -> float | None:
    value = section.get(key)
    # The exact type, because this runs for every value; json reads NaN and Infinity, which are no values.
    if type(value) is float or type(value) is int:
        return float(value) if -_INFINITY < value < _INFINITY else None
    return None
