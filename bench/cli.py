"""Start of the command line against importing the libraries that any such command line needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.timing import Line, alternate, milliseconds, ratios, run_quietly

LABCTL = str(Path(sys.executable).parent / "labctl")
ROUNDS = 15


def measure(_scratch: Path) -> Iterator[Line]:
    """``labctl --version`` and ``--help`` over ``import typer, rich``."""
    bare = partial(run_quietly, sys.executable, "-c", "import typer, rich")
    for option in ("--version", "--help"):
        pairs = alternate(partial(run_quietly, LABCTL, option), bare, ROUNDS)
        note = milliseconds(pairs, ("labctl", "imports"))
        yield Line(f"labctl {option} / import typer, rich", ratios(pairs), "x", 1.5, note)
