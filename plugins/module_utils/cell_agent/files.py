"""Files that survive a crash: atomic replacement, fsync, checksums."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
from typing import Any, Iterator

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NAME = re.compile(r"[A-Za-z0-9_][\w.,:@=+%~-]{0,199}", re.ASCII)


def safe_name(name: str) -> bool:
    """Whether a run id or cell id can be one component of a path."""
    return _NAME.fullmatch(name) is not None


def boot_id() -> str:
    """The kernel's id of this boot; empty where /proc does not tell."""
    return read_text("/proc/sys/kernel/random/boot_id") or ""


def read_text(path: str) -> str | None:
    """The stripped text of a small file, None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return None


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a JSON file, None where there is no whole one."""
    try:
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def dump(value: object) -> bytes:
    """One line of JSON with a newline."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def fsync_dir(path: str) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace ``path`` (mode 0600) by ``data``; readers see the old or the new content, never a part.

    Raises:
        OSError: The old file is then still whole and no temporary file is left.
    """
    temporary = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        fsync_dir(os.path.dirname(path))


def regular_files(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Relative names of the regular files below ``top``, sorted; links, sockets and devices are no evidence."""
    found = []
    for directory, names, files in os.walk(top):
        names.sort()
        for name in files:
            path = os.path.join(directory, name)
            with contextlib.suppress(FileNotFoundError):
                info = os.lstat(path)
                if stat.S_ISREG(info.st_mode):
                    found.append((os.path.relpath(path, top), info))
    yield from sorted(found, key=lambda item: item[0])


def open_regular(path: str) -> int:
    """A descriptor for reading, without following a link that a tool may have left."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def settle(path: str) -> str:
    """Make a file's content durable; returns its SHA-256 in hexadecimal.

    Durable first: a checksum that survives a power cut while the content does not would condemn the whole bundle.
    """
    digest = hashlib.sha256()
    with os.fdopen(open_regular(path), "rb") as stream:
        os.fsync(stream.fileno())
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def tail(path: str, limit: int) -> bytes:
    """The last ``limit`` bytes of a file, empty where it cannot be read."""
    try:
        with os.fdopen(open_regular(path), "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - limit))
            return stream.read(limit)
    except OSError:
        return b""


def words(raw: bytes, limit: int = 2048) -> str:
    """Bytes of any encoding as valid text of at most ``limit`` bytes of UTF-8, the end being kept."""
    text = raw[-limit:].decode("utf-8", "replace").replace("\x00", "\ufffd").strip()
    encoded = text.encode("utf-8")
    return encoded[-limit:].decode("utf-8", "ignore") if len(encoded) > limit else text
