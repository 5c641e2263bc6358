"""Taking times in turn, and what is said about them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table: samples of a ratio or of a time, and the bound that the project sets itself."""

    name: str
    samples: tuple[float, ...]
    unit: str
    """``x`` for a ratio to the bare tool, ``s`` for seconds."""
    bound: float | None
    note: str = ""

    @property
    def median(self) -> float:
        """The middle of the samples."""
        return median(self.samples)

    @property
    def within(self) -> bool | None:
        """Whether the median keeps the bound; None where there is no bound."""
        return None if self.bound is None else self.median <= self.bound


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run_quietly(*argv: str) -> None:
    """Runs a program without showing its output.

    Raises:
        RuntimeError: it failed; with its last words.
    """
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def alternate(first: Callable[[], object], second: Callable[[], object], rounds: int) -> list[tuple[float, float]]:
    """Times of both in turn, A B A B, after one unmeasured round that fills caches.

    Taking turns lets a slow drift of the machine meet both alike.
    """
    first()
    second()
    return [(seconds(first), seconds(second)) for _ in range(rounds)]


def ratios(pairs: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """First over second, round by round."""
    return tuple(first / second for first, second in pairs)


def milliseconds(pairs: Sequence[tuple[float, float]], names: tuple[str, str]) -> str:
    """The medians of both, for the note beside a ratio."""
    return ", ".join(
        f"{name} {median(values) * 1e3:.0f} ms" for name, values in zip(names, zip(*pairs, strict=True), strict=True)
    )
