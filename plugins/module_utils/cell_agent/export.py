"""Bundles on their way to the controller: the list of them, and a tar stream that can be had in pieces."""

from __future__ import annotations

import base64
import gzip
import os
import tarfile
from typing import Any, BinaryIO, Iterable, cast

from . import bundle, files


class Window:
    """A file object that keeps only bytes ``offset`` to ``offset + limit`` of what is written to it."""

    def __init__(self, offset: int, limit: int) -> None:
        self._skip, self._limit = offset, limit
        self._pieces: list[bytes] = []
        self._size = 0
        self.more = False

    def write(self, data: bytes) -> int:
        """Take what falls into the window; ``more`` tells that something came after it."""
        kept = data[self._skip :] if self._skip < len(data) else b""
        self._skip = max(0, self._skip - len(data))
        room = self._limit - self._size
        self.more = self.more or len(kept) > room
        if kept[:room]:
            self._pieces.append(bytes(kept[:room]))
            self._size += len(kept[:room])
        return len(data)

    def content(self) -> bytes:
        """The window's bytes."""
        return b"".join(self._pieces)


def finished(run_dir: str) -> list[dict[str, Any]]:
    """All finished attempts of a run with their status and size in bytes."""
    found = []
    for attempt in bundle.attempts(run_dir):
        result = attempt.result()
        if result is not None:
            size = sum(info.st_size for _, info in files.regular_files(attempt.path))
            keys = ("status", "started", "finished", "error")
            found.append(
                {"id": attempt.cell_id, "attempt": attempt.number, **{k: result.get(k) for k in keys}, "bytes": size}
            )
    return found


def parse_name(name: str) -> tuple[str, int]:
    """``<cell id>/a<attempt>`` to its parts.

    Raises:
        ValueError: It is something else.
    """
    cell_id, _, number = name.partition("/")
    if not files.safe_name(cell_id) or number[:1] != "a" or not number[1:].isdigit():
        raise ValueError(f"not <cell id>/a<attempt>: {name!r}")
    return cell_id, int(number[1:])


def write_tar(run_dir: str, names: Iterable[str], out: BinaryIO | Window) -> None:
    """Regular files of finished attempts as an uncompressed tar, the same bytes each time.

    Raises:
        ValueError: No such finished attempt.
    """
    with tarfile.open(fileobj=cast("BinaryIO", out), mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            attempt = bundle.Attempt(run_dir, *parse_name(name))
            if attempt.result() is None:
                raise ValueError(f"not a finished attempt: {name}")
            for relative, info in files.regular_files(attempt.path):
                member = tarfile.TarInfo(f"{name}/{relative}")
                member.size, member.mtime, member.mode = info.st_size, int(info.st_mtime), 0o600
                with os.fdopen(files.open_regular(attempt.file(relative)), "rb") as stream:
                    archive.addfile(member, stream)


def piece(run_dir: str, names: Iterable[str], offset: int, limit: int) -> dict[str, Any]:
    """One piece of the tar as text: any connection, with any way of becoming root, can carry that."""
    window = Window(offset, limit)
    write_tar(run_dir, names, window)
    data = window.content()
    packed = base64.b64encode(gzip.compress(data, compresslevel=1)).decode("ascii")
    return {"offset": offset, "bytes": len(data), "more": window.more, "data": packed}
