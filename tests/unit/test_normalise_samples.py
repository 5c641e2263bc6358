"""Counters of the agent become rates of one step, null where a counter went back."""

from __future__ import annotations

import json

import pytest

from labctl.normalise.samples import read_samples, sample_series
from tests.unit.parser_values import series


def sample(t, step="01-run", **fields):
    return {"t": t, "step": step, **fields}


def cpu(user, system, **more):
    return {"cpu": {"user": user, "system": system, "iowait": 0.0, "idle": 0.0, "steal": 0.0, **more}}


def test_cpu_is_cores():
    points = sample_series([sample(100.0, **cpu(10, 5)), sample(102.0, **cpu(12, 6, iowait=1.0))], 99.0, None)
    assert series(points, "cpu_used") == [(3.0, 1.5)]
    assert series(points, "cpu_used", component="user") == [(3.0, 1.0)]
    assert series(points, "cpu_used", component="iowait") == [(3.0, 0.5)]


def test_disks_and_nics_are_rates_by_direction():
    before = {"sda": {"read_bytes": 0, "write_bytes": 4096, "reads": 0, "writes": 1, "io_s": 0}}
    after = {"sda": {"read_bytes": 1_000_000, "write_bytes": 4096, "reads": 250, "writes": 1, "io_s": 1}}
    nics = ({"eth0": {"rx_bytes": 10, "tx_bytes": 0}}, {"eth0": {"rx_bytes": 30, "tx_bytes": 8}})
    points = sample_series(
        [sample(10.0, disks=before, nics=nics[0]), sample(10.5, disks=after, nics=nics[1])], 10.0, None
    )
    assert series(points, "bandwidth", "read", "disk:sda") == [(0.5, 2_000_000)]
    assert series(points, "bandwidth", "write", "disk:sda") == [(0.5, 0)]
    assert series(points, "iops", "read", "disk:sda") == [(0.5, 500)]
    assert series(points, "bandwidth", "receive", "nic:eth0") == [(0.5, 40)]
    assert series(points, "bandwidth", "send", "nic:eth0") == [(0.5, 16)]


def test_memory_used_needs_the_total():
    samples = [sample(1.0, mem_available=300, mem_cached=50)]
    assert series(sample_series(samples, 1.0, 1000), "memory_used") == [(0.0, 700)]
    without = sample_series(samples, 1.0, None)
    assert series(without, "memory_used") == []
    assert series(without, "memory_used", component="cached") == [(0.0, 50)]


def test_a_counter_that_went_back_is_null():
    points = sample_series([sample(1.0, **cpu(10, 5)), sample(2.0, **cpu(1, 6))], 1.0, None)
    assert series(points, "cpu_used") == [(1.0, None)]
    assert series(points, "cpu_used", component="system") == [(1.0, 1.0)]


def test_no_rate_without_time_or_over_two_steps():
    same = sample_series([sample(1.0, **cpu(1, 1)), sample(1.0, **cpu(2, 2))], 1.0, None)
    assert series(same, "cpu_used") == []
    lines = [sample(1.0, "01-a", **cpu(1, 1)), sample(2.0, "02-b", **cpu(9, 9))]
    steps, _ = read_samples("\n".join(map(json.dumps, lines)).encode())
    assert {step: series(sample_series(s, None, None), "cpu_used") for step, s in steps.items()} == {
        "01-a": [],
        "02-b": [],
    }


@pytest.mark.parametrize("bad", [b'{"t": 3', b"[]", b'{"t": "x"}', b"\xff\xfe", b"[" * 5000])
def test_half_lines_are_counted(bad):
    steps, findings = read_samples(json.dumps(sample(1.0)).encode() + b"\n" + bad)
    assert list(steps) == ["01-run"]
    assert [(f.rule, f.evidence) for f in findings] == [("samples.lines", {"lines": 1})]


def test_odd_fields_are_left_out():
    odd = sample(1.0, cpu=None, disks=[1], nics={"eth0": 5}, mem_available="x", mem_cached=None, psi=None)
    assert sample_series([odd, {**odd, "t": 2.0}], 1.0, 100) == []
