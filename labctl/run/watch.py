"""Follow a growing JSON-lines file, as ``tail -F`` does, from a thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Line = dict[str, Any]


class JsonLinesReader:
    """Reads the complete lines that were added since the last call; a torn last line waits for its rest."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._path = path
        self._offset = path.stat().st_size if from_end and path.exists() else 0
        self._rest = b""

    def read(self) -> list[Line]:
        """New lines; lines that are no JSON objects are passed over."""
        try:
            with self._path.open("rb") as handle:
                handle.seek(self._offset)
                data = handle.read()
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        lines: list[Line] = []
        for raw in whole:
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if isinstance(line, dict):
                lines.append(line)
        return lines


class Follower:
    """Context manager: calls ``on_line`` for each new line, from one background thread, and once more at the end.

    An exception of ``on_line`` ends the following and calls ``on_error``; it is raised again when the block ends.
    """

    def __init__(
        self,
        path: Path,
        on_line: Callable[[Line], None],
        *,
        on_error: Callable[[], None] = lambda: None,
        interval_s: float = 0.2,
    ) -> None:
        self._reader = JsonLinesReader(path, from_end=True)
        self._on_line = on_line
        self._on_error = on_error
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._loop, name="labctl-follow", daemon=True)

    def _drain(self) -> None:
        for line in self._reader.read():
            self._on_line(line)

    def _loop(self) -> None:
        try:
            while not self._stop.wait(self._interval_s):
                self._drain()
            self._drain()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self._error = error
            self._on_error()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None and value is None:
            raise self._error
