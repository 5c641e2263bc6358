"""Published outputs of many versions give the values that were worked out by hand."""

from __future__ import annotations

import pytest

from labctl.parsers.base import Status
from labctl.parsers.registry import detect
from tests.unit.parser_values import row, rules, series, value

pytestmark = pytest.mark.needs("corpus")

KIB = 1024
FIO: dict[str, list[tuple[str, str, float, int, float, float]]] = {
    "v2.1.4-five-jobs.json": [
        ("sequential_write", "write", 133, 68118 * KIB, 0.47873747, 0.823296),
        ("sequential_read", "read", 253, 132952064, 0.25077005, 0.473088),
        ("random_write_test", "write", 1610, 6597632, 617.69e-6, 1.688e-3),
        ("random_read_test", "read", 317, 1299456, 3.1465e-3, 3.728e-3),
        ("random_read_test_parallel", "read", 323, 1323008, 0.19805886, 0.20992),
    ],
    "v2.17-dup-keys.json": [
        ("rand_16k_read_100%-io-depth-1-num-jobs-2", "read", 8086.674, 132491264, 245.531e-6, 1.352e-3),
        ("rand_16k_write_100%-io-depth-1-num-jobs-2", "write", 2457.017, 40255488, 810.977e-6, 2.384e-3),
    ],
    "v3.26-mixed-256k.json": [
        ("disk_fill", "read", 569.699, 149343283, 76.35254e-3, 104.333312e-3),
        ("disk_fill", "write", 256.607, 67267937, 79.766966e-3, 151.864912e-3),
    ],
}


def parsed(corpus, path):
    data = (corpus / path).read_bytes()
    found = detect(data)
    assert found is not None
    return found.parse(data)


@pytest.mark.parametrize("name", sorted(FIO))
def test_fio(corpus, name):
    result = parsed(corpus, f"fio/{name}")
    assert not result.failed
    for job, operation, iops, bandwidth, latency, p99 in FIO[name]:
        assert value(result, "iops", "mean", operation, job=job) == pytest.approx(iops, rel=1e-5)
        assert value(result, "bandwidth", "mean", operation, job=job) == bandwidth
        assert value(result, "latency", "mean", operation, job=job) == pytest.approx(latency, rel=1e-5)
        assert value(result, "latency", "p99", operation, "completion", job) == pytest.approx(p99, rel=1e-9)
    assert sum(r.metric.value == "iops" for r in result.measurements) == len(FIO[name])


def test_fio_error_is_partial(corpus):
    result = parsed(corpus, "fio/v3.13-err42-prelude.txt")
    assert result.failed
    assert "Illegal byte sequence" in (result.words or "")
    expected = (("iops", 49501.318), ("bandwidth", 202249835), ("latency", 5.933374e-3))
    for metric, right in expected:
        found = row(result, metric, "mean", "read", job="fiotest")
        assert found.value == pytest.approx(right, rel=1e-6)
        assert found.status is Status.PARTIAL
    assert row(result, "latency", "p99", "read", "completion", "fiotest").value == 10.420224e-3
    assert row(result, "runtime", "total", "read", job="fiotest").value == 2.655


def test_fio_gtod_reduce_has_no_latency(corpus):
    result = parsed(corpus, "fio/v3.20-kubestr-gtod-reduce.json")
    for job, operation, iops, bandwidth in (
        ("read_iops", "read", 982.051, 4039322),
        ("write_iops", "write", 390.525, 1616406),
    ):
        assert value(result, "iops", "mean", operation, job=job) == pytest.approx(iops, rel=1e-6)
        assert value(result, "bandwidth", "mean", operation, job=job) == bandwidth
        assert row(result, "latency", "mean", operation, job=job).status is Status.MISSING
    assert not any(r.metric.value == "latency" and r.value is not None for r in result.measurements)


def test_fio_without_json_failed(corpus):
    result = parsed(corpus, "fio/v3.26-verify-errors-no-json.txt")
    assert result.failed
    assert "verify: bad header" in (result.words or "")
    assert result.measurements == []


@pytest.mark.parametrize("name", ["v1.0.12-oltp-100pct.txt", "v1.1.0-rate-limited-bom.txt"])
def test_sysbench_oltp_is_unsupported_not_wrong(corpus, name):
    result = parsed(corpus, f"sysbench/{name}")
    assert result.measurements == []
    assert rules(result) == {"sysbench.unsupported-test": "error"}


def test_pgbench_of_9(corpus):
    result = parsed(corpus, "pgbench/pg9x-tpcb-r-latency-colon.stdout.txt")
    assert value(result, "transactions_rate", "mean") == 13.062579
    assert value(result, "transactions_rate", "mean", component="with-connects") == 12.580114
    assert value(result, "latency", "mean") == pytest.approx(1.108418)
    assert value(result, "latency", "stddev") == pytest.approx(0.760944)
    assert value(result, "operations", "total") == 77
    assert result.parameters["duration_s"] == "5"


def test_pgbench_progress_of_9(corpus):
    result = parsed(corpus, "pgbench/pg9x-progress.stderr.txt")
    assert len(series(result.series, "transactions_rate")) == 5
    assert series(result.series, "transactions_rate")[-1] == (5.0, 13.0)
    assert series(result.series, "latency")[-1] == (5.0, 1.358214)
    assert series(result.series, "latency", statistic="stddev")[-1] == (5.0, 0.900274)


def test_other_tools_are_unknown(corpus):
    others = [p for p in corpus.glob("*/*") if p.parent.name not in {"fio", "sysbench", "pgbench"}]
    assert others
    for path in others:
        assert detect(path.read_bytes()) is None, path
