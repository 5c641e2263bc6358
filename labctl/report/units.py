"""Canonical values → the units that people read. Only the page and the Markdown use it; CSV stays canonical."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

#: What stands for a value that is not there. Never 0.
DASH = "\N{EN DASH}"

_KIB = 1024.0
_PLAIN_UNTIL = 1e5
#: Powers of ten between which no exponent is needed.
_SMALLEST, _LARGEST = -6, 12
_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "bytes/s": ((1.0, "B/s"), (_KIB, "KiB/s"), (_KIB**2, "MiB/s"), (_KIB**3, "GiB/s")),
    "bytes": ((1.0, "B"), (_KIB, "KiB"), (_KIB**2, "MiB"), (_KIB**3, "GiB"), (_KIB**4, "TiB")),
    "s": ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")),
}
_RATE_NAMES = {
    "iops": "IOPS",
    "transactions_rate": "tps",
    "queries_rate": "queries/s",
    "events_rate": "events/s",
}


@dataclass(frozen=True, slots=True)
class Scale:
    """How a row of values is shown: value / ``factor``, followed by ``label``."""

    factor: float
    label: str

    def number(self, value: float | None) -> str:
        """The number alone, four significant digits."""
        return DASH if value is None else significant(value / self.factor)

    def text(self, value: float | None) -> str:
        """Number and unit with a no-break space between them."""
        return DASH if value is None else f"{self.number(value)}\u00a0{self.label}".rstrip()


def scale_for(values: Iterable[float | None], unit: str, metric: str = "") -> Scale:
    """One scale for values that are read side by side, chosen by the largest."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if unit in _SCALES:
        steps = _SCALES[unit]
        fitting = [step for step in steps if step[0] <= largest]
        factor, label = fitting[-1] if fitting else (steps[-1] if unit == "s" and not largest else steps[0])
        return Scale(factor, label)
    label = _RATE_NAMES.get(metric, {"1/s": "/s", "1/min": "/min", "cores": "cores"}.get(unit, ""))
    if largest >= _PLAIN_UNTIL * 1e3:
        return Scale(1e6, f"M {label}".strip())
    return (
        Scale(1e3, f"k{label}" if label == "IOPS" else f"thousand {label}".strip())
        if (largest >= _PLAIN_UNTIL)
        else Scale(1.0, label)
    )


def significant(value: float, digits: int = 4) -> str:
    """Rounded to ``digits`` significant digits, no exponent for usual sizes, thousands separated by commas.

    >>> significant(48213.7), significant(0.0123456), significant(3.0)
    ('48,210', '0.01235', '3.000')
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return DASH
    magnitude = math.floor(math.log10(abs(value)))
    if not _SMALLEST <= magnitude <= _LARGEST:
        return f"{value:.{digits - 1}e}"
    rounded = round(value, digits - 1 - magnitude)
    return f"{rounded:,.{max(0, digits - 1 - math.floor(math.log10(abs(rounded))))}f}"


def percent(value: float | None) -> str:
    """A ratio as per cent, two significant digits at most below 10."""
    if value is None:
        return DASH
    return f"{value * 100:.1f}\u00a0%"


def times(value: float | None) -> str:
    """A ratio to the baseline, such as a multiplication sign and 1.24."""
    return DASH if value is None else f"\N{MULTIPLICATION SIGN}\u00a0{significant(value, 3)}"


def duration(seconds: float | None) -> str:
    """``2 h 3 min``, ``4 min 5 s``, ``6.1 s``."""
    if seconds is None:
        return DASH
    if seconds < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{significant(seconds, 3)}\u00a0s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}\u00a0h {minutes}\u00a0min" if hours else f"{minutes}\u00a0min {rest}\u00a0s"


def instant(epoch: float | None) -> str:
    """Seconds since the epoch as a UTC time of day."""
    if epoch is None:
        return DASH
    try:
        return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return DASH


def size(value: float | None) -> str:
    """Bytes for people."""
    return scale_for([value], "bytes").text(value)
