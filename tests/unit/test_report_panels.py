import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.report.build import build_report
from labctl.report.load import load_record
from labctl.report.panels import downsample, quantile
from tests.report_records import Lab, build_record


def test_short_series_stay_as_they_are():
    assert downsample(np.array([0.0, 1.0]), np.array([5.0, math.nan]), 2)[0] == [0.0, 1.0]


def test_downsampling_takes_means_of_equal_stretches():
    t, values = downsample(np.arange(8.0), np.array([1.0, 3, 5, 7, 9, 11, 13, 15]), 4)
    assert values == [2.0, 6.0, 10.0, 14.0]
    assert t == [0.5, 2.5, 4.5, 6.5]


def test_a_stretch_without_a_value_stays_a_gap():
    _, values = downsample(np.arange(4.0), np.array([1.0, 1.0, math.nan, math.nan]), 2)
    assert values[0] == 1.0
    assert math.isnan(values[1])


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=400), st.integers(1, 50))
def test_downsampling_stays_within_the_values(values, limit):
    t, kept = downsample(np.arange(float(len(values))), np.array(values), limit)
    assert len(t) == len(kept) <= max(limit, 1)
    assert t == sorted(t)
    assert min(values) - 1e-3 <= min(kept)
    assert max(kept) <= max(values) + 1e-3


def test_quantiles_of_a_histogram_by_hand():
    bins, counts = (1.0, 2.0, 3.0), (50, 49, 1)
    assert [quantile(bins, counts, q) for q in (0.5, 0.51, 0.99, 1.0)] == [1.0, 2.0, 2.0, 3.0]
    assert quantile((), (), 0.5) is None


@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.sampled_from([0.1, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_agree_with_numpy(values, q):
    bins = sorted(set(values))
    counts = [values.count(value) for value in bins]
    assert quantile(bins, counts, q) == np.quantile(values, q, method="inverted_cdf")


def test_merged_histograms_are_sums_not_means(tmp_path):
    lab = Lab(arms=("disk",), tools=("fio",), block_sizes=("4k",), repeats=2)
    host = build_report(load_record(build_record(tmp_path / "r", lab))).workloads[0].points[0].hosts[0]
    panel = host.distributions[0]
    assert sum(panel.merged[0].counts) == sum(sum(item.counts) for item in panel.single)
    assert [item.sample for item in panel.single] == [1, 2]


def test_series_have_one_line_a_sample_and_shade_the_ramp_of_counters_only(tmp_path):
    lab = Lab(arms=("disk", "tmpfs"), tools=("fio",), block_sizes=("4k",))
    host = build_report(load_record(build_record(tmp_path / "r", lab))).workloads[0].points[0].hosts[0]
    assert [(line.arm, line.sample) for line in host.series[0].lines] == [
        (arm, sample) for arm in ("disk", "tmpfs") for sample in (1, 2, 3)
    ]
    assert {panel.source: panel.ramp_s for panel in host.series} == {"fio": None, "agent": pytest.approx(2.0)}


def rows_of(record, change):
    path = record / "tables" / "series.parquet"
    table = pq.read_table(path)
    rows = [row for old in table.to_pylist() for row in change(old)]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


@pytest.fixture
def one_arm(tmp_path):
    return build_record(tmp_path / "r", Lab(arms=("disk",), tools=("fio",), block_sizes=("4k",), repeats=1))


def panels_of(record):
    return build_report(load_record(record)).workloads[0].points[0].hosts[0].series


def test_rates_of_jobs_are_added_up_though_their_times_differ(one_arm):
    before = next(panel for panel in panels_of(one_arm) if panel.metric == "iops")
    rows_of(one_arm, lambda row: [row | {"raw_file": "a"}, row | {"raw_file": "b", "t": row["t"] + 0.002}])
    after = next(panel for panel in panels_of(one_arm) if panel.metric == "iops")
    assert after.lines[0].y == pytest.approx([2 * value for value in before.lines[0].y])


def test_latencies_of_jobs_have_no_common_line(one_arm):
    rows_of(one_arm, lambda row: [row | {"metric": "latency", "raw_file": name} for name in ("a", "b")])
    assert not [panel for panel in panels_of(one_arm) if panel.source == "fio"]


def test_what_says_the_same_is_drawn_once(one_arm):
    variants = (("iops", "total"), ("bandwidth", "total"), ("latency", "total"), ("latency", "completion"))
    rows_of(
        one_arm,
        lambda row: (
            [row | {"metric": metric, "component": component} for metric, component in variants]
            if row["source"] == "fio"
            else []
        ),
    )
    shown = {(panel.metric, "completion" in panel.title) for panel in panels_of(one_arm)}
    assert shown == {("iops", False), ("latency", False)}
