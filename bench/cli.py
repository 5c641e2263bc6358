"""Start of the command line against importing the libraries that any such command line needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.timing import Line, alternate, milliseconds, ratios

LABCTL = str(Path(sys.executable).parent / "labctl")
ROUNDS = 15


def _process(*argv: str) -> Callable[[], object]:
    return lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def measure(_scratch: Path) -> Iterator[Line]:
    """``labctl --version`` and ``--help`` over ``import typer, rich``."""
    bare = _process(sys.executable, "-c", "import typer, rich")
    for option in ("--version", "--help"):
        pairs = alternate(_process(LABCTL, option), bare, ROUNDS)
        note = milliseconds(pairs, ("labctl", "imports"))
        yield Line(f"labctl {option} / import typer, rich", ratios(pairs), "x", 1.5, note)
