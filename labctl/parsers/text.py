"""Bytes of a tool's output → text, whatever the shell, the terminal or the editor did to them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from labctl.parsers.base import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BOM = "\ufeff"

#: How many characters of the tool's own words are kept.
WORDS_LIMIT = 2000


def decode(data: bytes) -> str:
    r"""Decode tolerantly: UTF-8 or UTF-16 by its mark, marks dropped, bad bytes as U+FFFD, lines end in ``\n``.

    Windows shells redirect as UTF-16, and concatenated files carry a mark in the middle.
    """
    if data[:2] in _UTF16_MARKS:
        text = data.decode("utf-16", errors="replace")
    else:
        text = data.decode("utf-8", errors="replace")
    if _BOM in text:
        text = text.replace(_BOM, "")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def whole_lines(text: str, ending: re.Pattern[str]) -> tuple[list[str], list[Finding]]:
    """Split into lines; a last line without a line end counts only if ``ending`` shows that it cannot be cut.

    A number cut in the middle is still a number, so a half line must never be read as a value.
    """
    lines = text.split("\n")
    last = lines.pop()
    if not last.strip():
        return lines, []
    if ending.search(last):
        lines.append(last)
        return lines, []
    cut = Finding(
        "output.cut-line", Severity.WARNING, "The last line has no end and was not read.", {"line": last.strip()[:200]}
    )
    return lines, [cut]


def number(text: str) -> float | None:
    """Read a float; ``nan``, ``-nan``, ``inf`` and anything else that is no finite number is None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def words(lines: Sequence[str], fallback: str = "") -> str:
    """Join the tool's own words, each once, in order, at most :data:`WORDS_LIMIT` characters."""
    joined = "\n".join(dict.fromkeys(line.strip() for line in lines if line.strip()))
    return joined[:WORDS_LIMIT] or fallback
