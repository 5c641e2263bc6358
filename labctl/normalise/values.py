"""What makes a value fit for a table or a line. Light: needs neither Arrow nor NumPy."""

from __future__ import annotations

import math

from labctl.parsers.base import Status


def finite(value: float | None) -> float | None:
    """None for what is no number: a table has null there, never NaN."""
    return value if value is not None and math.isfinite(value) else None


def capped(status: Status, value: float | None, best: Status = Status.OK) -> Status:
    """The status of a value where values can at best be ``best``; no value is never ``ok``."""
    if value is None:
        return Status.MISSING
    return best if status is Status.OK else status


def printable(text: str) -> str:
    """Text that UTF-8 can hold: lone surrogates are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
