import pytest

from labctl.report import units

NBSP = "\u00a0"


@pytest.mark.parametrize(
    ("value", "unit", "metric", "text"),
    [
        (48213.7, "1/s", "iops", "48,210 IOPS"),
        (1_234_567.0, "1/s", "iops", "1,235 kIOPS"),
        (812.34, "1/s", "transactions_rate", "812.3 tps"),
        (2**20 * 1.5, "bytes/s", "bandwidth", "1.500 MiB/s"),
        (1023.0, "bytes/s", "bandwidth", "1,023 B/s"),
        (0.0123456, "s", "latency", "12.35 ms"),
        (0.0000021, "s", "latency", "2.100 µs"),
        (3.0, "s", "runtime", "3.000 s"),
        (0.0, "s", "latency", "0 s"),
        (0.0, "1/s", "iops", "0 IOPS"),
        (None, "s", "latency", "\N{EN DASH}"),
        (1.25, "cores", "cpu_used", "1.250 cores"),
    ],
)
def test_units_that_people_read(value, unit, metric, text):
    assert units.scale_for([value], unit, metric).text(value).replace(NBSP, " ") == text


def test_one_scale_for_values_side_by_side():
    scale = units.scale_for([0.0004, None, 0.021], "s")
    assert [scale.number(value) for value in (0.0004, None, 0.021)] == ["0.4000", "\N{EN DASH}", "21.00"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(9999.6, "10,000"), (99.996, "100.0"), (0.00099996, "0.001000"), (-2.5, "-2.500"), (1e-9, "1.000e-09")],
)
def test_significant_digits_at_the_edges(value, text):
    assert units.significant(value) == text


def test_zero_is_not_a_dash_and_missing_is_not_zero():
    assert units.significant(0.0) == "0"
    assert units.percent(None) == units.times(None) == units.duration(None) == units.instant(None) == units.DASH


def test_times_and_durations():
    assert units.instant(1_796_000_000.0) == "2026-11-30 00:53:20 UTC"
    assert units.instant(1e30) == units.DASH
    assert units.duration(7383.0).replace(NBSP, " ") == "2 h 3 min"
    assert units.duration(245.2).replace(NBSP, " ") == "4 min 5 s"
    assert units.duration(6.123).replace(NBSP, " ") == "6.12 s"
