"""sysbench: right values read by hand from real outputs of 1.0.20 and from the layout of 1.1."""

from __future__ import annotations

import pytest

from labctl.parsers import sysbench
from labctl.parsers.base import Status
from tests.unit.parser_values import golden, metrics, row, rows, rules, series, value

MIB = 1024**2
RNDRW = golden("sysbench", "v1.0.20-fileio-rndrw.txt")


def test_fileio_of_1_0():
    result = sysbench.parse(RNDRW)
    assert result.tool_version == "1.0.20"
    assert value(result, "iops", "mean", "read") == 67702.72
    assert value(result, "iops", "mean", "write") == 45135.15
    assert value(result, "iops", "mean", "sync") == 4515.51
    assert value(result, "bandwidth", "mean", "read") == 1057.86 * MIB
    assert value(result, "bandwidth", "mean", "write") == 705.24 * MIB
    assert value(result, "runtime", "total") == 3.0021
    assert value(result, "operations", "total") == 352454
    assert value(result, "latency", "mean") == 0.02 / 1000
    assert value(result, "latency", "max") == 2.92 / 1000
    assert value(result, "latency", "p95") == 0.01 / 1000
    assert value(result, "latency", "total") == pytest.approx(5.85255)
    assert value(result, "operations", "mean", component="thread") == 176227
    assert value(result, "runtime", "stddev", component="thread") == 0
    assert result.parameters["threads"] == "2"
    assert result.parameters["block_size"] == "16KiB"
    assert result.parameters["test_mode"] == "random r/w"


def test_bandwidth_is_rate_times_block_size():
    for name, block in (("v1.0.20-fileio-rndrw.txt", 16384), ("v1.0.20-fileio-seqrd-1m-nopct.txt", MIB)):
        result = sysbench.parse(golden("sysbench", name))
        assert value(result, "bandwidth", "mean", "read") == pytest.approx(
            value(result, "iops", "mean", "read") * block, rel=1e-4
        )
        assert "sysbench.bandwidth-arithmetic" not in rules(result)


def test_bandwidth_that_is_not_rate_times_block_size_is_said():
    text = RNDRW.replace(b"read, MiB/s:                  1057.86", b"read, MiB/s:                  1109.25")
    assert rules(sysbench.parse(text))["sysbench.bandwidth-arithmetic"] == "warning"


def test_megabytes_are_not_mebibytes():
    text = RNDRW.replace(b"read, MiB/s:                  1057.86", b"read, MB/s:                   1109.25")
    result = sysbench.parse(text)
    assert value(result, "bandwidth", "mean", "read") == 1109.25e6
    assert "sysbench.bandwidth-arithmetic" not in rules(result)


def test_below_resolution_is_missing_not_zero():
    found = row(sysbench.parse(RNDRW), "latency", "min")
    assert (found.value, found.status) == (None, Status.MISSING)
    assert rules(sysbench.parse(RNDRW))["sysbench.latency-resolution"] == "note"


def test_interval_lines_are_series():
    result = sysbench.parse(RNDRW)
    assert series(result.series, "bandwidth", "read") == [(1.0, 1099.31 * MIB), (2.0, 1046.17 * MIB)]
    assert series(result.series, "iops", "sync") == [(1.0, 4687.39), (2.0, 4463.68)]
    assert series(result.series, "latency", statistic="p95") == [(1.0, 0.007 / 1000), (2.0, 0.006 / 1000)]
    cpu = sysbench.parse(golden("sysbench", "v1.0.20-cpu.txt"))
    assert series(cpu.series, "events_rate") == [(1.0, 5517.79), (2.0, 5579.85)]


def test_operations_of_another_mode_are_no_zeros():
    result = sysbench.parse(golden("sysbench", "v1.0.20-fileio-seqrd-1m-nopct.txt"))
    assert {r.operation for r in result.measurements} == {"read", ""}
    assert not any(r.statistic.startswith("p") for r in result.measurements)


def test_an_operation_of_the_mode_that_did_nothing_is_zero():
    text = RNDRW.replace(b"reads/s:                      67702.72", b"reads/s:                      0.00")
    assert value(sysbench.parse(text), "iops", "mean", "read") == 0


def test_histogram():
    (histogram,) = sysbench.parse(golden("sysbench", "v1.0.20-fileio-seqwr-histogram.txt")).histograms
    assert sum(histogram.counts) == 81501
    assert (histogram.bins[-1], histogram.counts[-1]) == (3.956 / 1000, 1)


def test_cpu_of_1_0():
    result = sysbench.parse(golden("sysbench", "v1.0.20-cpu.txt"))
    assert value(result, "events_rate", "mean") == 5545.74
    assert value(result, "latency", "mean") == 0.36 / 1000
    assert value(result, "events_rate", "mean") == pytest.approx(
        value(result, "operations", "total") / value(result, "runtime", "total"), rel=2e-3
    )
    assert metrics(result) == {"events_rate", "runtime", "operations", "latency"}


def test_layout_of_1_1():
    result = sysbench.parse(golden("sysbench", "documented-v1.1-fileio.txt"))
    assert result.tool_version == "1.1.0"
    assert value(result, "iops", "mean", "read") == 1857
    assert value(result, "bandwidth", "mean", "write") == 19.34 * MIB
    assert value(result, "iops", "mean", "sync") == 3968.59
    assert value(result, "latency", "p95") == 0.40 / 1000
    assert rules(result) == {}
    cpu = sysbench.parse(golden("sysbench", "documented-v1.1-cpu.txt"))
    assert value(cpu, "events_rate", "mean") == 780.69
    assert value(cpu, "runtime", "total") == 10.0001
    assert value(cpu, "operations", "total") == 7807


def test_fatal_fails_with_words():
    result = sysbench.parse(golden("sysbench", "v1.0.20-fileio-fatal.txt"))
    assert result.failed
    assert result.words == "FATAL: Cannot open file 'test_file.0' errno = 2 (No such file or directory)"
    assert result.measurements == []
    assert rules(result) == {"sysbench.warning": "warning", "sysbench.fatal": "error"}


def test_warnings_are_findings():
    result = sysbench.parse(golden("sysbench", "v1.0.20-cpu-warning.txt"))
    assert value(result, "events_rate", "mean") == 1974.92
    assert rules(result) == {"sysbench.warning": "warning"}


def test_other_tests_are_not_guessed():
    result = sysbench.parse(golden("sysbench", "v1.0.20-memory.txt"))
    assert result.measurements == []
    assert rules(result) == {"sysbench.unsupported-test": "error"}


def test_prepare_is_no_run():
    result = sysbench.parse(golden("sysbench", "v1.0.20-fileio-prepare.txt"))
    assert (result.measurements, result.findings, result.failed) == ([], [], False)


def test_runs_are_numbered():
    cpu = golden("sysbench", "v1.0.20-cpu.txt")
    prepare = golden("sysbench", "v1.0.20-fileio-prepare.txt")
    result = sysbench.parse(prepare + RNDRW + cpu)
    assert value(result, "iops", "mean", "read", run=0) == 67702.72
    assert value(result, "events_rate", "mean", run=1) == 5545.74


def test_limited_rate_is_said():
    text = RNDRW.replace(b"Number of threads: 2\n", b"Number of threads: 2\nTarget transaction rate: 100/sec\n")
    assert rules(sysbench.parse(text))["sysbench.rate-limited"] == "note"


@pytest.mark.parametrize(
    "dress", [lambda d: b"\xef\xbb\xbf" + d, lambda d: d.replace(b"\n", b"\r\n"), lambda d: b"na\xefve\n" + d + b"bye"]
)
def test_dress_does_not_change_values(dress):
    assert rows(sysbench.parse(dress(RNDRW))) == rows(sysbench.parse(RNDRW))


def test_a_cut_output_is_partial():
    result = sysbench.parse(RNDRW[: RNDRW.index(b"Latency (ms):")])
    assert row(result, "iops", "mean", "read").status is Status.PARTIAL
    assert rules(result)["sysbench.cut"] == "error"
