"""Two-step stop: the first SIGINT or SIGTERM asks, the second ends at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from labctl.errors import ExitCode

# Not SIGHUP: a lost terminal should not stop a measurement. It ends labctl, the agents go on, `resume` picks them up.
_STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def two_step_stop(on_first: Callable[[str], None], before_exit: Callable[[], None]) -> Iterator[threading.Event]:
    """Install the handlers; yields the event that the first signal sets.

    Args:
        on_first: Called once with the signal's name; must be quick.
        before_exit: Called at the second signal, to put the terminal right; the process then ends with 130 and leaves
            everything else to ``resume``. The kernel ends Ansible with its parent.
    """
    stop = threading.Event()

    def handler(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            with contextlib.suppress(Exception):
                before_exit()
            os._exit(ExitCode.INTERRUPTED)
        stop.set()
        on_first(signal.Signals(number).name)

    before = {number: signal.signal(number, handler) for number in _STOPPING}
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)
