"""Showing a run while it goes on: a live bar on a terminal, plain lines elsewhere, JSON lines for machines."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import typer

from labctl.run.events import RunEvent

if TYPE_CHECKING:
    from rich.progress import Progress


def duration(seconds: float | None) -> str:
    """``1 h 02 min``, ``3 min 20 s``, ``12 s``; ``?`` where unknown."""
    if seconds is None:
        return "?"
    whole = max(0, round(seconds))
    if whole >= 3600:  # noqa: PLR2004 - seconds an hour
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    if whole >= 60:  # noqa: PLR2004 - seconds a minute
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole} s"


class Display(Protocol):
    """Something that shows events between ``__enter__`` and ``__exit__``."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def show(self, event: RunEvent) -> None:
        """Show one event; may be called from several threads."""

    def restore(self) -> None:
        """Put the terminal right before the process ends at once."""


class _Base(ABC):
    """A display whose reader may go away (``| head``, a lost terminal, a full disk): the run goes on without it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._silent = False

    def __enter__(self) -> Self:
        return self

    def show(self, event: RunEvent) -> None:
        """Show the event; may be called from several threads, never raises for want of a reader."""
        with self._lock:
            if self._silent:
                return
            try:
                self._show(event)
            except OSError:
                self._silent = True
                # What is still buffered must not complain at the end of the process.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    @abstractmethod
    def _show(self, event: RunEvent) -> None:
        """Show the event, one at a time."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()

    def restore(self) -> None:  # noqa: B027 - a hook: most displays have nothing to put right
        """Nothing to put right."""


class JsonDisplay(_Base):
    """One JSON object a line on standard output, flushed at once."""

    def _show(self, event: RunEvent) -> None:
        sys.stdout.write(json.dumps(event.to_json(), ensure_ascii=False) + "\n")
        sys.stdout.flush()


def line_for(event: RunEvent) -> str | None:
    """The event as one line for people; None for those that only a live display has room for."""
    writer = _LINES.get(event.kind)
    return writer(event.data) if writer else None


def _start_line(data: dict[str, Any]) -> str:
    work = f"{data['pending']} of {data['of']} cells to run, about {duration(data['left_s'])} of work"
    return f"record: {data['record']}\n{work}"


def _stage_line(data: dict[str, Any]) -> str:
    lines = [f"stage {data['stage']} {data['status']} in {duration(data['seconds'])}"]
    if data["status"] not in {"successful", "canceled"}:
        lines += [f"  {error['host']}: {error['task']}: {error['message']}" for error in data["errors"]]
        lines.append(f"  by hand: {data['command']}")
    return "\n".join(lines)


def _cell_line(data: dict[str, Any]) -> str:
    mark = {"done": "ok", "failed": "FAILED", "interrupted": "interrupted"}.get(data["status"], data["status"])
    line = f"[{data['finished']}/{data['of']}] {mark:<6} {data['cell']} {duration(data['seconds'])}"
    line += f", {duration(data['left_s'])} left" if data["left_s"] else ""
    return line + "".join(f"\n  {words}" for words in last_words(data["error"] or ""))


def last_words(error: str, lines: int = 3) -> list[str]:
    """The first and the last lines of what a tool said: what failed, and why; the whole is in the record."""
    said = [line.strip() for line in error.splitlines() if line.strip()]
    return said if len(said) <= lines + 1 else [said[0], "...", *said[-lines:]]


def _end_line(data: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in data["counts"].items())
    lines = [f"run {data['status']}: {counts}"]
    if data.get("reason"):
        lines.append(f"  {data['reason']}")
    lines += [f"{name}: {data[name]}" for name in ("record", "report") if data.get(name)]
    lines += [f"next: {step}" for step in data.get("next", [])]
    return "\n".join(lines)


_LINES: dict[str, Callable[[dict[str, Any]], str]] = {
    "run_started": _start_line,
    "stage_started": lambda data: f"stage {data['stage']} on {', '.join(data['hosts'])}",
    "stage_finished": _stage_line,
    "cell_finished": _cell_line,
    "notice": lambda data: f"note: {data['message']}",
    "run_finished": _end_line,
}


class PlainDisplay(_Base):
    """Plain lines, no colour, no cursor movement: for logs and pipes."""

    def _show(self, event: RunEvent) -> None:
        line = line_for(event)
        if line is not None:
            typer.echo(line)


class LiveDisplay(_Base):
    """A progress bar over the cells with the running cell and the time left; finished cells scroll by above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        super().__init__()
        self._console = Console(highlight=False)
        self._bar: Progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("preparing", total=None, left="")
        self._left: tuple[float, float] | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def restore(self) -> None:
        """Stop the bar and show the cursor again."""
        self._bar.stop()

    def _show(self, event: RunEvent) -> None:
        data = event.data
        line = line_for(event)
        if line is not None:
            self._console.print(line, markup=False, style="red" if data.get("status") == "failed" else None)
        if "of" in data:
            self._bar.update(self._task, total=data["of"], completed=data.get("finished", 0))
            self._left = (time.monotonic(), float(data.get("left_s") or 0.0))
        if event.kind == "cell_started":
            self._bar.update(self._task, description=data["cell"])
        elif event.kind == "step_started":
            self._bar.update(self._task, description=f"{data['cell']} · {data['phase']}")
        elif event.kind == "stage_started":
            self._bar.update(self._task, description=f"stage {data['stage']}")
        elif event.kind == "task":
            self._bar.update(self._task, description=f"stage {data['stage']} · {data['task']}")
        if self._left is not None:
            then, left = self._left
            self._bar.update(self._task, left=f"{duration(left - (time.monotonic() - then))} left")


def choose_display(*, as_json: bool) -> Display:
    """JSON when asked for, live on a terminal, plain everywhere else."""
    if as_json:
        return JsonDisplay()
    return LiveDisplay() if sys.stdout.isatty() else PlainDisplay()
