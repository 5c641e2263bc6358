"""Sizes and durations as people write them; bytes and seconds inside.

Sizes follow fio: ``k``, ``m``, ``g``, ``t`` and ``KiB``, ``MiB``, ``GiB``, ``TiB`` are powers of 1024. ``kB``, ``MB``,
``GB`` are refused: tools disagree whether they mean 1000 or 1024, and a study must not.
"""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from labctl.words import shown

# ASCII: the digits of other scripts look like text to the tools that get them.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_SIZE_FACTOR = {
    "": 1, "b": 1,
    "k": 1024, "ki": 1024, "kib": 1024,
    "m": 1024**2, "mi": 1024**2, "mib": 1024**2,
    "g": 1024**3, "gi": 1024**3, "gib": 1024**3,
    "t": 1024**4, "ti": 1024**4, "tib": 1024**4,
}  # fmt: skip
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?", re.ASCII)
_DURATION_FACTOR = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_size(value: object) -> int:
    """Bytes from ``4096``, ``"4k"``, ``"256MiB"``; raises ValueError with what was expected."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected a size such as 4k, 256MiB or 1073741824, got {shown(value)}")
    factor = _SIZE_FACTOR.get(match[2].lower())
    if factor is None:
        raise ValueError(f"unknown size unit {shown(match[2])}: expected k, m, g, KiB, MiB or GiB (powers of 1024)")
    size = float(match[1]) * factor
    if size != int(size):
        raise ValueError(f"{shown(value)} is not a whole number of bytes")
    return int(size)


def parse_duration(value: object) -> float:
    """Seconds from ``4``, ``"4s"``, ``"500ms"``, ``"2m"``; raises ValueError with what was expected."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"expected a duration such as 4s, 500ms, 2m or 1h, got {shown(value)}")
    return float(match[1]) * _DURATION_FACTOR[match[2]]


def format_size(size: float) -> str:
    """The shortest exact text with a binary unit, else one decimal: ``4KiB``, ``1.5GiB``."""
    for unit, factor in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= factor:
            number = size / factor
            return f"{number:.0f}{unit}" if number == int(number) else f"{number:.1f}{unit}"
    return f"{size:.0f}B"


_SIZE_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*([bB]|[kKmMgGtT](i|iB)?)?$"},
    ]
}
_DURATION_SCHEMA = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*(ms|s|m|min|h)?$"}]
}

MAX_SIZE = 2**60
"""1 EiB: above any file, and far below what the tools' own 64-bit numbers hold."""

Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0, le=MAX_SIZE), WithJsonSchema(_SIZE_SCHEMA)]
"""A number of bytes, above 0 and at most :data:`MAX_SIZE`."""

Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0), WithJsonSchema(_DURATION_SCHEMA)]
"""A number of seconds, 0 allowed."""
