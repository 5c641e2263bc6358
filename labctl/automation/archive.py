"""What is kept of one playbook run: files of mode 0600 in one directory of mode 0700, all redacted."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from labctl.automation.models import PlaybookResult
from labctl.automation.redact import Redactor
from labctl.errors import ExitCode, LabctlError


def open_private(path: Path) -> IO[str]:
    """A new text file that only its owner can read.

    Raises:
        OSError: it exists, or cannot be made.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape")


class Archive:
    """Writes ``command.txt``, ``extravars.json``, ``events.jsonl``, ``stdout.txt`` and, at the end, ``result.json``."""

    def __init__(self, directory: Path, redact: Redactor) -> None:
        """Makes the directory.

        Raises:
            LabctlError: it exists already (evidence is never overwritten), or cannot be made.
        """
        self.directory = directory
        self._redact = redact
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
        except FileExistsError as error:
            raise LabctlError(
                "this directory exists already, and labctl does not overwrite the evidence of an earlier run",
                where=str(directory),
                code=ExitCode.USAGE,
            ) from error
        except OSError as error:
            raise LabctlError(f"cannot make the directory: {error.strerror}", where=str(directory)) from error
        self._events = open_private(directory / "events.jsonl")
        self._stdout = open_private(directory / "stdout.txt")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for stream in (self._events, self._stdout):
            # After a failed write, closing fails once more with the same words.
            with suppress(OSError) if value is not None else nullcontext():
                stream.close()

    @property
    def extravars(self) -> Path:
        """The redacted copy of the variables that the playbook got."""
        return self.directory / "extravars.json"

    def inputs(self, command_line: str, extravars: Mapping[str, object]) -> None:
        """Writes what the playbook is started with."""
        with open_private(self.directory / "command.txt") as stream:
            stream.write(self._redact.text(command_line) + "\n")
        with open_private(self.extravars) as stream:
            json.dump(self._redact.value(extravars), stream, indent=2, sort_keys=True, default=str)
            stream.write("\n")

    def event(self, raw: Mapping[str, Any]) -> None:
        """Appends one redacted event, and its text to the transcript."""
        text = str(raw.get("stdout") or "")
        # The transcript has the text once; a second copy in the events would only double the record.
        self._events.write(json.dumps({key: item for key, item in raw.items() if key != "stdout"}) + "\n")
        if text:
            self._stdout.write(text.replace("\r\n", "\n") + "\n")
        if str(raw.get("event")).startswith("playbook_on"):
            # Once a task is enough for somebody who follows the files.
            self._events.flush()
            self._stdout.flush()

    def result(self, result: PlaybookResult) -> None:
        """Writes the typed result; its presence says that the run came to an end under labctl's eyes."""
        document = self._redact.value({**dataclasses.asdict(result), "artifacts": str(result.artifacts)})
        with open_private(self.directory / "result.json") as stream:
            json.dump(document, stream, indent=2, sort_keys=True, default=str)
            stream.write("\n")
