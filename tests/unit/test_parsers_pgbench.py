"""pgbench: right values read by hand from real outputs of 15 and from the layouts of 13, 14, 16, 17 and 18."""

from __future__ import annotations

import pytest

from labctl.parsers import pgbench
from labctl.parsers.base import Status
from tests.unit.parser_values import golden, row, rows, rules, series, value


def parsed(name):
    return pgbench.parse(golden("pgbench", name))


def test_values_of_15():
    result = parsed("v15-tpcb-r.stdout.txt")
    assert result.tool_version == "15.18"
    assert value(result, "transactions_rate", "mean") == 1828.990245
    assert value(result, "latency", "mean") == 1.092 / 1000
    assert value(result, "latency", "stddev") == 0.363 / 1000
    assert value(result, "runtime", "total", component="connect") == 3.664 / 1000
    assert value(result, "operations", "total") == 5487
    assert value(result, "errors", "total") == 0
    assert result.parameters["clients"] == "2"
    assert result.parameters["scale"] == "1"
    assert rules(result) == {}


def test_rate_is_transactions_over_time():
    result = parsed("v15-tpcb-r.stdout.txt")
    assert value(result, "transactions_rate", "mean") == pytest.approx(
        value(result, "operations", "total") / 3, rel=1e-2
    )


def test_statements():
    result = parsed("v15-tpcb-r.stdout.txt")
    assert value(result, "latency", "mean", "statement", "END;") == 0.302 / 1000
    assert value(result, "errors", "total", "statement", "BEGIN;") == 0
    fast = row(result, "latency", "mean", "statement", r"\set bid random(1, 1 * :scale)")
    assert (fast.value, fast.status) == (None, Status.MISSING)


def test_retries_and_failures():
    result = parsed("v15-retries.stdout.txt")
    assert value(result, "errors", "total") == 2720
    assert value(result, "errors", "total", component="serialization") == 2720
    assert value(result, "errors", "total", component="deadlock") == 0
    assert value(result, "retries", "total") == 6745
    assert value(result, "retries", "total", component="transactions") == 3627
    statement = "update pgbench_branches set bbalance=bbalance+:a where bid=1;"
    assert value(result, "errors", "total", "statement", statement) == 2720
    assert value(result, "retries", "total", "statement", statement) == 6747
    assert value(result, "latency", "mean", "statement", statement) == 0.123 / 1000
    progress = parsed("v15-retries.stderr.txt")
    assert series(progress.series, "errors", statistic="total") == [(1.0, 1353), (2.0, 1367)]
    assert series(progress.series, "retries", statistic="total") == [(1.0, 3452), (2.0, 3293)]


def test_progress_is_a_series():
    result = parsed("v15-tpcb.stderr.txt")
    assert series(result.series, "transactions_rate") == [(1.0, 1748.8), (2.0, 1952.1), (3.0, 1784.1)]
    assert series(result.series, "latency")[0] == (1.0, 1.138 / 1000)
    assert series(result.series, "latency", statistic="stddev")[2] == (3.0, 0.423 / 1000)
    assert result.measurements == []
    assert rules(result) == {"pgbench.progress-only": "note"}


def test_scripts_are_jobs():
    result = parsed("v15-multi-rate.stdout.txt")
    assert value(result, "transactions_rate", "mean") == 210.499684
    assert value(result, "transactions_rate", "mean", job="<builtin: select only>") == 158.886781
    assert value(result, "operations", "total", job="<builtin: simple update>") == 51
    assert value(result, "latency", "mean", job="<builtin: simple update>") == 1.034 / 1000
    assert value(result, "latency", "max", component="schedule-lag") == 1.288 / 1000
    assert value(result, "operations", "total", component="above-latency-limit") == 0


def test_initialisation():
    result = parsed("v15-init.stderr.txt")
    assert value(result, "runtime", "total", "initialise") == 0.28
    assert value(result, "runtime", "total", "initialise", "client-side generate") == 0.18
    assert value(result, "runtime", "total", "initialise", "primary keys") == 0.03
    assert rules(result) == {}


def test_aborted_run_fails_with_words():
    result = parsed("v15-aborted.stderr.txt")
    assert result.failed
    assert result.words is not None
    assert "ERROR:  division by zero" in result.words
    shown = parsed("v15-aborted.stdout.txt")
    assert row(shown, "operations", "total").status is Status.PARTIAL
    assert row(shown, "transactions_rate", "mean").value is None
    assert rules(shown) == {"pgbench.incomplete": "error", "pgbench.no-rate": "error"}
    both = pgbench.parse(golden("pgbench", "v15-aborted.stderr.txt") + golden("pgbench", "v15-select.stdout.txt"))
    assert both.failed
    assert {r.status for r in both.measurements} == {Status.PARTIAL}


def test_no_server_fails_with_words():
    result = parsed("v15-noconn.txt")
    assert result.failed
    assert result.words is not None
    assert "No such file or directory" in result.words
    assert result.measurements == []


def test_reconnecting_rate_is_not_mistaken():
    result = parsed("v15-connect-each.stdout.txt")
    assert value(result, "transactions_rate", "mean", component="with-connects") == 325.93517
    assert value(result, "latency", "mean", component="connect") == 2.948 / 1000
    assert rules(result) == {"pgbench.reconnects": "note"}


def test_13_has_two_rates_and_no_banner():
    result = parsed("documented-v13-tpcb-r.txt")
    assert result.tool_version is None
    assert value(result, "transactions_rate", "mean") == 1321.889004
    assert value(result, "transactions_rate", "mean", component="with-connects") == 1319.412331
    assert value(result, "latency", "mean", "statement", "BEGIN;") == 0.25 / 1000
    assert series(result.series, "transactions_rate") == [(5.0, 1310.2), (10.0, 1328.8)]
    assert {r.run_index for r in result.measurements} == {0}


@pytest.mark.parametrize(
    ("name", "version", "rate", "latency"),
    [
        ("documented-v14-tpcb.txt", "14.9", 4935.71125, 2.025),
        ("documented-v16-server15-retries.txt", "16.3", 222.150123, 111.033),
        ("documented-v17-rate.txt", "17.2", 100.155502, 2.873),
        ("documented-v18-failures.txt", "18.0", 12365.591819, 1.617),
    ],
)
def test_newer_versions(name, version, rate, latency):
    result = parsed(name)
    assert result.tool_version == version
    assert value(result, "transactions_rate", "mean") == rate
    assert value(result, "latency", "mean") == latency / 1000


def test_no_transactions_in_an_interval_is_missing_latency():
    result = parsed("documented-v16-server15-retries.txt")
    assert series(result.series, "transactions_rate")[1] == (20.0, 0.0)
    assert series(result.series, "latency")[1] == (20.0, None)


def test_lag_and_skipped_of_limited_rate():
    result = parsed("documented-v17-rate.txt")
    assert series(result.series, "latency", component="schedule-lag") == [(1.0, 0.101 / 1000)]
    assert series(result.series, "operations", component="skipped", statistic="total") == [(1.0, 4)]
    assert value(result, "operations", "total", component="skipped") == 4
    assert value(result, "operations", "total", component="above-latency-limit") == 2


def test_mean_that_includes_failures_is_said():
    assert rules(parsed("documented-v18-failures.txt")) == {"pgbench.latency-with-failures": "note"}


def test_runs_are_numbered():
    text = golden("pgbench", "documented-v13-tpcb-r.txt") * 2 + golden("pgbench", "documented-v14-tpcb.txt")
    result = pgbench.parse(text)
    assert [value(result, "transactions_rate", "mean", run=n) for n in range(3)] == [
        1321.889004,
        1321.889004,
        4935.71125,
    ]
    assert [p.run_index for p in result.series if p.statistic == "stddev"] == [0, 0, 1, 1]


def test_wall_clock_of_progress_is_made_relative():
    text = b"progress: 1764560000.5 s, 10.0 tps, lat 1.000 ms stddev 0.100\n"
    text += b"progress: 1764560001.5 s, 11.0 tps, lat 1.000 ms stddev 0.100\n"
    assert series(pgbench.parse(text).series, "transactions_rate") == [(0.0, 10.0), (1.0, 11.0)]


@pytest.mark.parametrize(
    "dress", [lambda d: b"\xef\xbb\xbf" + d, lambda d: d.replace(b"\n", b"\r\n"), lambda d: b"na\xefve\n" + d + b"bye"]
)
def test_dress_does_not_change_values(dress):
    data = golden("pgbench", "v15-tpcb-r.stdout.txt")
    assert rows(pgbench.parse(dress(data))) == rows(pgbench.parse(data))
