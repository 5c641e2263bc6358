"""Descriptive statistics of a handful of samples: the only statistics of a report. Verdicts are not made here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_TWO = 2


@dataclass(frozen=True, slots=True)
class Summary:
    """``n`` samples in the unit of the samples; what one sample cannot have (a spread) is None."""

    n: int
    median: float
    minimum: float
    maximum: float
    stddev: float | None
    """Sample standard deviation (divisor n - 1)."""
    cv: float | None
    """Coefficient of variation, stddev / mean; None also where the mean is 0."""


def summarise(values: Sequence[float]) -> Summary | None:
    """Describe samples.

    Args:
        values: finite numbers, one a sample.

    Returns:
        None without samples: there is nothing to describe.

    Raises:
        ValueError: a value is not finite.
    """
    if not values:
        return None
    if not all(math.isfinite(value) for value in values):
        raise ValueError("samples must be finite numbers")
    stddev = statistics.stdev(values) if len(values) >= _TWO else None
    mean = statistics.fmean(values)
    return Summary(
        n=len(values),
        median=statistics.median(values),
        minimum=min(values),
        maximum=max(values),
        stddev=stddev,
        cv=stddev / abs(mean) if stddev is not None and mean else None,
    )


def ratio(value: Summary | None, baseline: Summary | None) -> float | None:
    """Ratio of the medians; None where either is missing or the baseline's is 0."""
    if value is None or baseline is None or baseline.median == 0:
        return None
    return value.median / baseline.median
