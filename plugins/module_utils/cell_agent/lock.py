"""One agent a host: an flock that the kernel frees whatever ends the agent."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Any

from . import files


class HostLock:
    """``<workdir>/agent.lock``; its JSON says who holds it, the flock says whether that is still true."""

    def __init__(self, workdir: str) -> None:
        self._path = os.path.join(workdir, "agent.lock")
        self._fd: int | None = None

    def acquire(self, who: dict[str, Any], patience_s: float = 2.0) -> bool:
        """Take the lock for the life of this process; False when another holds it.

        The patience covers the instant in which somebody else only asks for the holder.
        """
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        end = time.monotonic() + patience_s
        while not _try(fd):
            if time.monotonic() >= end:
                os.close(fd)
                return False
            time.sleep(0.02)
        self._fd = fd
        with contextlib.suppress(OSError):  # the text is for people; on a full disk the lock must do
            os.ftruncate(fd, 0)
            os.pwrite(fd, files.dump(who), 0)
        return True

    def release(self) -> None:
        """Let others in; the file stays, since removing a lock file is a race."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def holder(self) -> dict[str, Any] | None:
        """Who holds the host now; None when it is free. Unknown holders are an empty object."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            if _try(fd):
                return None
        finally:
            os.close(fd)
        return files.read_json(self._path) or {}


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
