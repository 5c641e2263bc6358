"""Start a tool in its own session, wait for it with a deadline, and end everything that it left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from typing import Any, NamedTuple

PR_SET_CHILD_SUBREAPER = 36
TERM_GRACE_S = 5.0
KILL_GRACE_S = 10.0


class Identity(NamedTuple):
    """The user that a step runs as."""

    name: str
    uid: int
    gid: int
    groups: list[int]
    home: str


class Ended(NamedTuple):
    """How a process ended: ``why`` is ``exit``, ``timeout`` or ``interrupted``; times in epoch seconds."""

    why: str
    rc: int | None
    signal: int | None
    started: float
    finished: float
    cpu_user_s: float | None
    cpu_system_s: float | None
    max_rss_bytes: int | None


class Waker:
    """Wakes the main thread on SIGCHLD and on a request to stop, so that waiting needs no busy loop."""

    def __init__(self, stop_file: str) -> None:
        self._stop_file = stop_file
        self._told = False
        self._reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._tell)

    def _tell(self, *_: object) -> None:
        self._told = True

    @property
    def stopping(self) -> bool:
        """Whether somebody asked for the end, by signal or by the stop file."""
        self._told = self._told or os.path.exists(self._stop_file)
        return self._told

    def wait(self, timeout_s: float) -> None:
        """Sleep until a child changes, a signal comes, or the time is over."""
        ready, _, _ = select.select([self._reader], [], [], max(0.0, timeout_s))
        if ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._reader, 512):
                    pass


def become_subreaper() -> None:
    """Orphans of tools become our children, so that they can be seen and ended (Linux 3.4, prctl(2))."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> dict[int, int]:
    """Pid to parent pid of every process that is not a zombie."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as stream:
                    fields = stream.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    table[int(name)] = int(fields[1])
    return table


def descendants(root: int, table: dict[int, int], but: frozenset[int] = frozenset()) -> set[int]:
    """All processes below ``root``, without those in ``but`` and what is below them."""
    children: dict[int, list[int]] = {}
    for pid, parent in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    queue = [root]
    while queue:
        fresh = [pid for pid in children.get(queue.pop(), ()) if pid not in but and pid not in found]
        found.update(fresh)
        queue.extend(fresh)
    return found


def own_children() -> frozenset[int]:
    """Direct children of this process: between steps these are what earlier steps left running."""
    me = os.getpid()
    return frozenset(pid for pid, parent in parents().items() if parent == me)


def reap(main: int | None = None) -> tuple[int, Any] | None:
    """Collect every dead child; the wait status and resource usage of ``main`` if it was among them."""
    result = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == main:
                result = (status, usage)
    return result


def signal_all(pids: set[int], number: int) -> None:
    """Send a signal to processes, some of which may be gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end_all(keep: frozenset[int], waker: Waker, main: int | None = None) -> tuple[set[int], tuple[int, Any] | None]:
    """End all descendants but ``keep``: SIGTERM, then SIGKILL. Tools such as fio put their jobs in own sessions,
    so a process group is not enough.

    Returns:
        The pids that had to be ended, and how ``main`` ended if it did.
    """
    me, outcome = os.getpid(), None
    seen: set[int] = set()
    for number, grace in ((signal.SIGTERM, TERM_GRACE_S), (signal.SIGKILL, KILL_GRACE_S)):
        end = time.monotonic() + grace
        told: set[int] = set()
        while True:
            outcome = reap(main) or outcome
            alive = descendants(me, parents(), keep)
            if not alive:
                return seen, outcome
            fresh = alive - told
            signal_all(fresh, number)
            told |= fresh
            seen |= alive
            left = end - time.monotonic()
            if left <= 0:
                break
            waker.wait(min(left, 0.1))
    return seen, reap(main) or outcome


def run(
    argv: list[str],
    *,
    cwd: str,
    evidence: str,
    env: dict[str, str],
    timeout_s: float,
    waker: Waker,
    heed_stop: bool,
    identity: Identity | None,
) -> Ended:
    """Run one tool to its end in ``cwd``, with ``stdout`` and ``stderr`` as files in ``evidence``.

    Raises:
        OSError: The tool could not be started.
    """
    keep = own_children()
    started, begin = time.time(), time.monotonic()
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context(open(os.path.join(evidence, name), "wb")) for name in ("stdout", "stderr"))
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            user=identity.uid if identity else None,
            group=identity.gid if identity else None,
            extra_groups=identity.groups if identity else None,
        )
    why, ended = "exit", reap(process.pid)
    while ended is None:
        left = begin + timeout_s - time.monotonic()
        if left <= 0:
            why = "timeout"
        elif heed_stop and waker.stopping:
            why = "interrupted"
        if why != "exit":
            _, ended = end_all(keep, waker, process.pid)
            break
        waker.wait(min(left, 1.0))
        ended = reap(process.pid)
    process.returncode = 0  # reaped here with its resource usage: Popen must not wait for it again
    return _ended(why, ended, started, started + time.monotonic() - begin)


def _ended(why: str, ended: tuple[int, Any] | None, started: float, finished: float) -> Ended:
    if ended is None:  # in uninterruptible sleep: even SIGKILL has to wait
        return Ended(why, None, None, started, finished, None, None, None)
    status, usage = ended
    rc = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return Ended(why, rc, number, started, finished, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * 1024)


def marked(name: str, value: str) -> set[int]:
    """Processes whose environment holds ``name=value``: what a vanished agent left running."""
    wanted, me, found = f"{name}={value}".encode(), os.getpid(), set()
    for pid in parents():
        if pid != me:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as stream:
                if wanted in stream.read().split(b"\0"):
                    found.add(pid)
    return found


def kill_marked(name: str, value: str) -> int:
    """Kill what a vanished agent left running; returns how many there were."""
    total = 0
    end = time.monotonic() + KILL_GRACE_S
    pids = marked(name, value)
    while pids and time.monotonic() < end:
        total += len(pids)
        signal_all(pids, signal.SIGKILL)
        time.sleep(0.05)
        pids = marked(name, value)
    return total
