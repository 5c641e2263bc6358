"""The bundle of one attempt: its layout, how it is finished, and how one that nobody finished is recovered."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from typing import Any, Iterator

from . import SCHEMA, files

RESULT, SUMS, SPEC = "result.json", "SHA256SUMS", "spec.json"
_JOURNAL = ".steps.jsonl"


class Ballast:
    """Space kept back so that a full disk still has room for a result."""

    def __init__(self, run_dir: str, name: str, size: int) -> None:
        self._path = os.path.join(run_dir, name)
        self._size = size

    def load(self) -> bool:
        """Take the space; False where there is none."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.posix_fallocate(fd, 0, self._size)
            except OSError:
                os.unlink(self._path)
                raise
            finally:
                os.close(fd)
        except OSError:
            return False
        return True

    def drop(self) -> None:
        """Give the space back."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)


class Attempt:
    """One attempt directory below ``<run>/cells``."""

    def __init__(self, run_dir: str, cell_id: str, number: int) -> None:
        self.cell_id, self.number = cell_id, number
        self.path = os.path.join(run_dir, "cells", cell_id, f"a{number}")

    def file(self, name: str) -> str:
        """The path of a file of the bundle."""
        return os.path.join(self.path, name)

    def result(self) -> dict[str, Any] | None:
        """The result, None while the attempt is not finished."""
        return files.read_json(self.file(RESULT))

    def create(self, spec: dict[str, Any], mode: int) -> None:
        """Make the directories and write the specification.

        Raises:
            OSError: No space, or something else is in the way.
        """
        cell = os.path.dirname(self.path)
        for directory in (os.path.dirname(cell), cell, self.path, self.file("steps")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory)
            os.chmod(directory, mode)
        data = json.dumps(spec, indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        files.write_atomic(self.file(SPEC), data, durable=False)

    def journal(self, step: dict[str, Any]) -> None:
        """Note a finished step, for :meth:`recover`; on a full disk it is only in memory."""
        with contextlib.suppress(OSError), open(self.file(_JOURNAL), "ab") as stream:
            stream.write(files.dump(step))

    def finish(self, status: str, started: float, error: str | None, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Write the checksums, then the result: from then on the attempt is finished.

        Raises:
            OSError: There was no room even for that.
        """
        result = {
            "schema": SCHEMA,
            "cell_id": self.cell_id,
            "attempt": self.number,
            "status": status,
            "started": started,
            "finished": time.time(),
            "boot_id": files.boot_id(),
            "error": error,
            "steps": steps,
        }
        data = json.dumps(result, indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.file(_JOURNAL))
        plain = self.file(RESULT)
        files.write_atomic(plain + ".part", data, durable=False)
        lines = []
        for name, _ in files.regular_files(self.path):
            if name != SUMS:
                shown = RESULT if name == f"{RESULT}.part" else name
                lines.append(f"{files.settle(self.file(name))}  {shown}\n")
        for directory, _, _ in os.walk(self.path):
            files.fsync_dir(directory)
        files.write_atomic(self.file(SUMS), "".join(lines).encode("utf-8", "surrogateescape"))
        os.rename(plain + ".part", plain)
        fd = files.open_regular(plain)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        files.fsync_dir(self.path)
        return result

    def recover(self) -> dict[str, Any]:
        """Finish what a vanished agent left, as interrupted, with everything that is known."""
        steps = []
        with contextlib.suppress(OSError, ValueError), open(self.file(_JOURNAL), encoding="utf-8") as stream:
            for line in stream:
                steps.append(json.loads(line))  # noqa: PERF401 - a cut last line must not cost the ones before it
        spec = files.read_json(self.file(SPEC)) or {}
        steps += [_cut(self.path, step, name) for name, step in _begun(self.path, spec, len(steps))]
        started = os.stat(self.path).st_mtime
        with contextlib.suppress(OSError):
            started = os.stat(self.file(SPEC)).st_mtime
        return self.finish("interrupted", started, "agent vanished before the cell ended", steps)


def step_directory(index: int, name: str) -> str:
    """Name of a step's directory: its place in the cell (from 1) and its name."""
    return f"steps/{index:02d}-{name}"


def _begun(path: str, spec: dict[str, Any], done: int) -> Iterator[tuple[str, dict[str, Any]]]:
    planned = spec.get("steps") or []
    for index, step in list(enumerate(planned, 1))[done:]:
        directory = step_directory(index, step["name"])
        if os.path.isdir(os.path.join(path, directory)):
            yield directory, step


def _cut(path: str, step: dict[str, Any], directory: str) -> dict[str, Any]:
    said = files.tail(os.path.join(path, directory, "stderr"), 2048)
    return {
        "name": step["name"],
        "phase": step["phase"],
        "directory": directory,
        "argv": step["argv"],
        "status": "interrupted",
        "started": os.stat(os.path.join(path, directory)).st_mtime,
        "words": files.words(said),
    }


def attempts(run_dir: str) -> Iterator[Attempt]:
    """Every attempt of a run, finished or not, sorted."""
    top = os.path.join(run_dir, "cells")
    for cell_id in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        if files.safe_name(cell_id) and os.path.isdir(os.path.join(top, cell_id)):
            numbers = [name[1:] for name in os.listdir(os.path.join(top, cell_id)) if name[:1] == "a"]
            for number in sorted(int(n) for n in numbers if n.isdigit()):
                yield Attempt(run_dir, cell_id, number)


def recover_all(run_dir: str) -> list[str]:
    """Finish all attempts that no agent will finish; only for the holder of the host's lock."""
    recovered = []
    for attempt in attempts(run_dir):
        if attempt.result() is None:
            if not os.path.exists(attempt.file(SPEC)):  # nothing ran: a directory is no evidence
                shutil.rmtree(attempt.path, ignore_errors=True)
                continue
            # On a full disk it stays as it is, and is no hindrance to those that are finished.
            with contextlib.suppress(OSError):
                attempt.recover()
                recovered.append(f"{attempt.cell_id}/a{attempt.number}")
    return recovered
