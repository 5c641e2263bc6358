"""Durable, private writes: a file is there whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from labctl.errors import LabctlError, Where


@contextlib.contextmanager
def explained(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError below into a message that names the file, the reason and the next step."""
    try:
        yield
    except OSError as error:
        raise LabctlError(
            f"cannot {doing}: {error.strerror or error}",
            where=Where(error.filename or path),
            hint="free some space or choose another directory with --records; what was written so far is kept",
        ) from error


def sync_directory(path: Path) -> None:
    """Make a rename or a new name in ``path`` survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace ``path`` by ``data`` through a synced temporary file in the same directory.

    Raises:
        LabctlError: The directory is full or not writable; the old content is still there.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with explained(path, f"write {path.name}"):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)


def write_json(path: Path, value: object, *, mode: int = 0o600) -> None:
    """Write a JSON document that people can read and tools can diff: sorted keys are kept in the given order."""
    write_atomic(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode(), mode=mode)


def make_directory(path: Path) -> None:
    """Make a private directory and its parents.

    Raises:
        LabctlError: It cannot be made.
    """
    with explained(path, f"make the directory {path}"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
