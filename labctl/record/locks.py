"""Locks that say who holds them: one writer a record, one run a lab.

Both are ``flock`` locks, so the kernel drops them when labctl dies, however it dies. The text is only for people.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from labctl.errors import ExitCode, LabctlError, Where
from labctl.record.files import explained, make_directory


def state_directory() -> Path:
    """``$XDG_STATE_HOME/labctl`` or ``~/.local/state/labctl``."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "labctl"


def owner() -> str:
    """``user@controller``, as shown to whoever finds a lock taken."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def lab_lock_path(lab_name: str, inventory: Path) -> Path:
    """One lock file a lab: the same inventory directory is the same lab, whatever the way to it."""
    digest = hashlib.sha256(str(inventory.resolve()).encode()).hexdigest()[:12]
    return state_directory() / "locks" / f"{lab_name}-{digest}.lock"


def describe_holder(path: Path) -> str:
    """Who holds the lock, in words; survives rubbish in the file."""
    try:
        who = json.loads(path.read_bytes())
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(who["since"])))
        return f"{who['owner']} (process {who['pid']}) since {since}: {who['purpose']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another labctl"


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _taken(path: Path, what: str) -> LabctlError:
    return LabctlError(
        f"{what} is in use by {describe_holder(path)}",
        where=Where(path),
        hint="wait until it ends, or follow it with `labctl attach RECORD`",
        code=ExitCode.GUARD_REFUSED,
    )


def check_free(path: Path, *, what: str) -> None:
    """Refuse early if somebody holds the lock.

    Raises:
        LabctlError: Who holds it (exit code 6).
    """
    if is_locked(path):
        raise _taken(path, what)


@contextlib.contextmanager
def held(path: Path, *, what: str, purpose: str) -> Iterator[None]:
    """Hold the lock at ``path``.

    Args:
        path: The lock file; it and its directory are made as needed.
        what: What is locked, for the message (``lab demo``, ``record …``).
        purpose: What for, for the next one who finds it taken.

    Raises:
        LabctlError: Somebody else holds it (exit code 6), or the file cannot be written.
    """
    make_directory(path.parent)
    with explained(path, f"lock {what}"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _taken(path, what) from None
        who = {"owner": owner(), "pid": os.getpid(), "since": time.time(), "purpose": purpose}
        with explained(path, f"lock {what}"):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, (json.dumps(who) + "\n").encode(), 0)
        yield
    finally:
        os.close(descriptor)
