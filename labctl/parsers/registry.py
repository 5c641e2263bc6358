"""Which parser reads an output: decided by its content, never by its name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from labctl.parsers.base import Parser

#: Modules that follow :class:`labctl.parsers.base.Parser`, in the order in which they are asked.
NAMES = ("fio", "sysbench", "pgbench")

#: How much of a file is looked at to tell the tool.
HEAD_BYTES = 64 * 1024


def parser(name: str) -> Parser:
    """The parser of a tool. Raises KeyError for a tool that there is no parser for."""
    if name not in NAMES:
        raise KeyError(name)
    return cast("Parser", import_module(f"labctl.parsers.{name}"))


def detect(data: bytes) -> Parser | None:
    """The parser whose tool wrote ``data``, or None: unknown output stays unknown.

    Looks at the first 64 KiB, and where they say nothing (long warnings before a result) at everything.
    """
    windows = [data[:HEAD_BYTES]]
    if len(data) > HEAD_BYTES:
        windows.append(data)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        windows = [data.decode("utf-16", errors="replace").encode()]
    for window in windows:
        for name in NAMES:
            candidate = parser(name)
            if candidate.sniff(window):
                return candidate
    return None
