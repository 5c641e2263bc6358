import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.report.stats import ratio, summarise

NUMBERS = st.lists(st.floats(1e-9, 1e12), min_size=2, max_size=30)


def test_hand_computed_summary():
    summary = summarise([4.0, 1.0, 7.0, 8.0])
    assert summary is not None
    assert (summary.n, summary.median, summary.minimum, summary.maximum) == (4, 5.5, 1.0, 8.0)
    # Deviations from 5 are -1, -4, 2, 3: 30 / 3 = 10.
    assert summary.stddev == pytest.approx(math.sqrt(10))
    assert summary.cv == pytest.approx(math.sqrt(10) / 5)


def test_one_sample_has_no_spread():
    summary = summarise([3.0])
    assert summary is not None
    assert (summary.median, summary.stddev, summary.cv) == (3.0, None, None)


def test_no_sample_is_no_summary():
    assert summarise([]) is None


def test_mean_of_zero_has_no_coefficient_of_variation():
    summary = summarise([-1.0, 1.0])
    assert summary is not None
    assert summary.cv is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        summarise([1.0, bad])


def test_ratio_of_medians():
    assert ratio(summarise([2.0, 4.0, 30.0]), summarise([8.0])) == 0.5
    assert ratio(summarise([2.0]), summarise([0.0])) is None
    assert ratio(None, summarise([1.0])) is None
    assert ratio(summarise([1.0]), None) is None


@given(NUMBERS)
def test_median_lies_between_the_extremes_and_order_does_not_matter(values):
    summary = summarise(values)
    assert summary is not None
    assert summary.minimum <= summary.median <= summary.maximum
    ordered = summarise(sorted(values))
    assert ordered is not None
    assert ordered.median == summary.median


@given(NUMBERS, st.floats(0.001, 1000))
def test_scaling_scales_everything_but_the_coefficient_of_variation(values, factor):
    one, other = summarise(values), summarise([value * factor for value in values])
    assert one is not None
    assert other is not None
    assert other.median == pytest.approx(one.median * factor)
    assert other.stddev == pytest.approx(one.stddev * factor, rel=1e-6, abs=max(values) * factor * 1e-12)
