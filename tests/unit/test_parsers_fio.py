"""fio: right values read by hand from real outputs, and everything that stands around the JSON."""

from __future__ import annotations

import json

import pytest

from labctl.parsers import fio
from labctl.parsers.base import Status
from tests.unit.parser_values import golden, metrics, row, rows, rules, series, value

LIBAIO = golden("fio", "v3.33-libaio-group.json")


def test_values_of_a_3x_read_job():
    result = fio.parse(LIBAIO)
    assert (result.tool, result.tool_version, result.failed, result.words) == ("fio", "3.33", False, None)
    assert value(result, "iops", "mean", "read", job="q") == 19598.086124
    assert value(result, "bandwidth", "mean", "read", job="q") == 80273760
    assert value(result, "bytes", "total", "read", job="q") == 16777216
    assert value(result, "runtime", "total", "read", job="q") == 0.209
    assert value(result, "operations", "total", "read", job="q") == 4096
    assert value(result, "latency", "mean", "read", "submission", "q") == pytest.approx(99.209091553e-6, rel=1e-12)
    assert value(result, "latency", "max", "read", "completion", "q") == 0.00411589
    assert value(result, "latency", "p50", "read", "completion", "q") == 0.000602112
    assert value(result, "latency", "p99.99", "read", "completion", "q") == 0.004112384
    assert value(result, "latency", "stddev", "read", "total", "q") == pytest.approx(469.156338578e-6, rel=1e-12)
    assert not any(r.operation in {"write", "trim", "sync"} for r in result.measurements)


def test_options_are_the_parameters():
    result = fio.parse(LIBAIO)
    assert result.parameters["ioengine"] == "libaio"
    assert result.parameters["iodepth"] == "8"
    assert result.parameters["size"] == "8m"


def test_bandwidth_is_bytes_over_time_in_every_fixture():
    for name in ("v3.33-libaio-group.json", "v3.33-gtod-reduce.json", "v3.33-write-fsync-two-jobs.json"):
        result = fio.parse(golden("fio", name))
        bandwidths = [r for r in result.measurements if r.metric.value == "bandwidth"]
        assert bandwidths
        for one in bandwidths:
            done = value(result, "bytes", "total", one.operation, job=one.job)
            seconds = value(result, "runtime", "total", one.operation, job=one.job)
            assert one.value == pytest.approx(done / seconds, rel=1e-6)
            assert value(result, "iops", "mean", one.operation, job=one.job) == pytest.approx(
                value(result, "operations", "total", one.operation, job=one.job) / seconds, rel=1e-6
            )


def test_units_of_2x_are_kib_and_microseconds():
    old = {
        "fio version": "fio-2.21",
        "jobs": [
            {
                "jobname": "a",
                "error": 0,
                "read": {
                    "io_bytes": 1024,
                    "bw": 512,
                    "iops": 128.0,
                    "runtime": 2000,
                    "total_ios": 256,
                    "clat": {"min": 5, "max": 900, "mean": 250.5, "stddev": 1.0, "percentile": {"99.000000": 800}},
                },
            }
        ],
    }
    result = fio.parse(json.dumps(old).encode())
    assert value(result, "bytes", "total", "read", job="a") == 1024 * 1024
    assert value(result, "bandwidth", "mean", "read", job="a") == 512 * 1024
    assert value(result, "latency", "mean", "read", "completion", "a") == 250.5e-6
    assert value(result, "latency", "p99", "read", "completion", "a") == 800e-6
    assert rules(result) == {}


def test_bandwidth_that_is_not_bytes_over_time_is_said():
    document = json.loads(LIBAIO)
    document["jobs"][0]["read"]["bw_bytes"] *= 1024
    assert rules(fio.parse(json.dumps(document).encode())) == {"fio.bandwidth-arithmetic": "warning"}


def test_json_plus_has_custom_percentiles_and_histograms():
    result = fio.parse(golden("fio", "v3.33-randrw-jsonplus.json"))
    assert value(result, "latency", "p99.95", "write", "completion", "randrw") == 40192e-9
    percentiles = {r.statistic for r in result.measurements if r.statistic.startswith("p")}
    assert percentiles == {"p50", "p99", "p99.95"}
    read, write = result.histograms
    assert (read.operation, read.component, read.job) == ("read", "completion", "randrw")
    assert sum(read.counts) == 28267
    assert sum(write.counts) == 28013
    assert (read.bins[0], read.counts[0]) == (34560e-9, 1)
    assert list(read.bins) == sorted(read.bins)


def test_synchronous_engine_has_no_submission_latency():
    result = fio.parse(golden("fio", "v3.33-randrw-jsonplus.json"))
    assert not any(r.component == "submission" for r in result.measurements)


def test_latencies_not_measured_are_missing_not_zero():
    result = fio.parse(golden("fio", "v3.33-gtod-reduce.json"))
    assert value(result, "iops", "mean", "read", job="g") == 11505.617978
    latencies = [r for r in result.measurements if r.metric.value == "latency"]
    assert {(r.component, r.value, r.status) for r in latencies} == {
        ("completion", None, Status.MISSING),
        ("total", None, Status.MISSING),
    }


def test_unified_reporting_is_operation_mixed():
    result = fio.parse(golden("fio", "v3.33-unified-mixed.json"))
    assert value(result, "iops", "mean", "mixed", job="m") == 32507.936508
    assert {r.operation for r in result.measurements} == {"mixed", ""}
    both = fio.parse(golden("fio", "v3.33-unified-both.json"))
    assert value(both, "operations", "total", "read", job="b") == 994
    assert value(both, "operations", "total", "write", job="b") == 1054
    assert value(both, "operations", "total", "mixed", job="b") == 2048


def test_fsync_is_an_operation_and_equal_job_names_are_told_apart():
    result = fio.parse(golden("fio", "v3.33-write-fsync-two-jobs.json"))
    assert value(result, "operations", "total", "sync", job="w") == 31
    assert value(result, "latency", "mean", "sync", "sync", "w") == pytest.approx(957222.83871e-9, rel=1e-12)
    assert value(result, "latency", "max", "sync", "sync", "w#2") == 0.003182971
    assert value(result, "bandwidth", "mean", "write", job="w#2") == 135300129


def test_queue_depth_classes_are_shares_that_never_exceed_one():
    shares = [r.value for r in fio.parse(LIBAIO).measurements if r.metric.value == "queue_depth"]
    assert sum(share or 0 for share in shares) == pytest.approx(1, abs=0.01)
    # fio counts the fsyncs into the classes: 124 % in the raw file.
    synced = fio.parse(golden("fio", "v3.33-write-fsync-two-jobs.json"))
    assert value(synced, "queue_depth", "share", component="1", job="w") == 1


def test_depth_that_was_not_reached_is_said():
    document = json.loads(golden("fio", "v3.33-unified-mixed.json"))
    document["jobs"][0]["job options"]["iodepth"] = "32"
    assert rules(fio.parse(json.dumps(document).encode())) == {"fio.queue-depth-not-reached": "warning"}


def test_error_fails_with_the_tools_words_and_without_rates():
    result = fio.parse(golden("fio", "v3.33-error-enospc.json"))
    assert result.failed
    assert result.words is not None
    assert "error=No space left on device" in result.words
    (said,) = [f for f in result.findings if f.rule == "fio.job-error"]
    assert "No space left on device" in said.message
    for metric in ("iops", "bandwidth", "latency"):
        assert row(result, metric, "mean", "write", job="e")[2] is None
    assert not any(r.status is Status.OK for r in result.measurements)


def test_trim_is_an_operation():
    document = json.loads(LIBAIO)
    job = document["jobs"][0]
    job["trim"], job["read"] = job["read"], job["trim"]
    result = fio.parse(json.dumps(document).encode())
    assert value(result, "iops", "mean", "trim", job="q") == 19598.086124
    assert fio.parse(golden("fio", "v3.33-trim-error.txt")).failed


def test_error_with_return_code_zero_keeps_values_as_partial():
    document = json.loads(LIBAIO)
    document["jobs"][0]["error"] = 5
    result = fio.parse(json.dumps(document).encode())
    assert result.failed
    assert row(result, "iops", "mean", "read", job="q")[2] == 19598.086124
    assert {r.status for r in result.measurements} == {Status.PARTIAL}


def test_intermediate_reports_are_not_runs():
    result = fio.parse(golden("fio", "v3.33-status-interval.json"))
    assert {r.run_index for r in result.measurements} == {0}
    assert value(result, "operations", "total", "read", job="s") == 45489
    assert rules(result) == {"fio.status-interval": "note"}


def test_runs_one_after_another_are_numbered():
    first = json.loads(LIBAIO)
    second = json.loads(LIBAIO)
    second["timestamp_ms"] += 209 + 40
    second["jobs"][0]["read"]["iops"] = 20000.5
    result = fio.parse(json.dumps(first).encode() + b"\nsome words\n" + json.dumps(second, indent=2).encode())
    assert value(result, "iops", "mean", "read", job="q", run=0) == 19598.086124
    assert value(result, "iops", "mean", "read", job="q", run=1) == 20000.5


def test_all_clients_is_left_out():
    document = json.loads(LIBAIO)
    client = document.pop("jobs")[0]
    rows_of = [{**client, "hostname": host, "port": 8765} for host in ("n1", "n2")]
    document["client_stats"] = [*rows_of, {**client, "jobname": "All clients"}]
    result = fio.parse(json.dumps(document).encode())
    assert {r.job for r in result.measurements} == {"q@n1", "q@n2"}
    assert rules(result) == {"fio.all-clients": "note"}


@pytest.mark.parametrize(
    "dress",
    [
        lambda d: b"\xef\xbb\xbf" + d,
        lambda d: d.replace(b"\n", b"\r\n"),
        lambda d: b"note: both iodepth >= 1 and synchronous I/O engine are selected\n" + d + b"trailing words",
        lambda d: b"\xff\xfe" + d.decode().encode("utf-16-le"),
        lambda d: b"na\xefve {not json}\n{\n" + d + b"\n{",
        lambda d: b'[]\n{}\n{"a": 1}\n' + d,
        lambda d: json.dumps(json.loads(d)).encode(),
    ],
    ids=["bom", "crlf", "junk-around", "utf-16", "not-utf-8", "other-json", "one-line"],
)
def test_dress_does_not_change_values(dress):
    plain = rows(fio.parse(LIBAIO))
    dressed = fio.parse(dress(LIBAIO))
    assert rows(dressed) == plain
    assert not dressed.failed


def test_junk_within_is_left_out_and_said():
    lines = LIBAIO.decode().split("\n")
    lines.insert(40, "fio: warning: something in the middle")
    result = fio.parse("\n".join(lines).encode())
    assert rows(result) == rows(fio.parse(LIBAIO))
    assert rules(result)["fio.foreign-lines"] == "warning"


def test_nan_is_missing():
    text = LIBAIO.replace(b'"iops" : 19598.086124', b'"iops" : -nan')
    found = row(fio.parse(text), "iops", "mean", "read", job="q")
    assert (found.value, found.status) == (None, Status.MISSING)


def test_a_cut_document_gives_its_whole_jobs_as_partial():
    data = golden("fio", "v3.33-write-fsync-two-jobs.json")
    result = fio.parse(data[: len(data) * 3 // 4])
    assert {r.job for r in result.measurements} == {"w"}
    assert {r.status for r in result.measurements} == {Status.PARTIAL}
    assert row(result, "iops", "mean", "write", job="w")[2] == 2133.333333
    assert rules(result) == {"fio.cut": "error"}
    assert result.tool_version == "3.33"


@pytest.mark.parametrize("data", [b"", b"\n", b"\x00\xff", b"{", b"{}", b"fio-3.33\nStarting 1 process\n"])
def test_nothing_is_an_error_without_values(data):
    result = fio.parse(data)
    assert result.measurements == []
    assert rules(result) == {"fio.no-result": "error"}


def test_text_output_is_not_guessed():
    text = b"a: (groupid=0, jobs=1): err= 0: pid=1\n  read: IOPS=1000, BW=4000KiB/s (4096kB/s)(8192KiB/2000msec)\n"
    result = fio.parse(text)
    assert result.measurements == []
    assert rules(result) == {"fio.not-json": "error"}


def test_a_job_without_io_has_no_values():
    document = json.loads(LIBAIO)
    job = document["jobs"][0]
    job["read"] = job["write"]
    result = fio.parse(json.dumps(document).encode())
    assert metrics(result) == set()
    assert rules(result) == {"fio.no-io": "warning"}


def test_logs_are_series_in_canonical_units():
    bandwidth = fio.parse_log(golden("fio", "v3.33_bw.1.log"), "bw")
    assert series(bandwidth.series, "bandwidth", "read")[0] == (0.499, 55655 * 1024)
    assert series(bandwidth.series, "bandwidth", "write")[-1] == (1.999, 52537 * 1024)
    assert series(fio.parse_log(golden("fio", "v3.33_iops.1.log"), "iops").series, "iops", "read")[0] == (0.499, 13917)
    latency = golden("fio", "v3.33_clat.1.log")
    assert series(fio.parse_log(latency, "clat").series, "latency", "write", "completion")[0] == (0.5, 2624e-9)
    assert series(fio.parse_log(latency, "clat", "2.17").series, "latency", "write", "completion")[0] == (0.5, 2624e-6)


def test_half_a_line_of_a_log_is_no_value():
    data = golden("fio", "v3.33_bw.1.log")
    result = fio.parse_log(data[:-9], "bw")
    assert len(result.series) == 7
    assert rules(result) == {"fio.log-lines": "warning"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("steps/01-run/mix_bw.1.log", "bw"),
        ("mix_clat.12.log", "clat"),
        ("mix_iops.log", "iops"),
        ("pg.log", None),
        ("bw.txt", None),
        ("mix_bw_hist.log", None),
    ],
)
def test_log_kind_by_name(name, kind):
    assert fio.log_kind(name) == kind


def test_much_foreign_json_before_the_document_costs_little():
    foreign = b'{\n"a": [\n' * 2_000
    assert rows(fio.parse(foreign + LIBAIO)) == rows(fio.parse(LIBAIO))
    assert fio.parse(foreign).measurements == []
