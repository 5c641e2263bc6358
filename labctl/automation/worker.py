"""The process that owns one ansible-runner run. Started by path from ``runner.py`` with a scrubbed environment.

It stands between labctl and Ansible because ansible-runner copies its whole environment, may end its process, and ties
the run to the thread that reads events. Standard input carries the job (one JSON line), then ``cancel``; end of input
means that labctl has gone. Standard output carries JSON lines: events, then one ``end``.

It imports nothing of labctl, so that its start costs only ansible-runner.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

_LOOK_S = 0.05
_SETTINGS = {"pexpect_timeout": 1, "suppress_output_file": True, "suppress_ansible_output": True}


class Outlet:
    """Writes lines from a queue in its own thread: a slow reader never stops Ansible."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        # What a library prints must not mix with the messages.
        self._stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._thread = threading.Thread(target=self._write, name="outlet")
        self._thread.start()

    def put(self, message: dict[str, Any]) -> None:
        """Returns at once."""
        self._queue.put(message)

    def close(self) -> None:
        """Waits until everything is written."""
        self._queue.put(None)
        self._thread.join()

    def _write(self) -> None:
        broken = False
        while (message := self._queue.get()) is not None:
            if broken:
                continue
            try:
                self._stream.write(json.dumps(message, default=str) + "\n")
                if self._queue.empty():
                    self._stream.flush()
            except OSError:
                broken = True  # labctl has gone; the end of standard input stops the run.
        with contextlib.suppress(OSError):
            self._stream.close()


class Stopper(threading.Thread):
    """Waits for a reason to stop, then really stops: SIGTERM, grace, then SIGKILL to all that Ansible started.

    Processes that had left Ansible's tree before the stop (the cell agent on a local target, an SSH master) are not
    touched: leaving was their purpose, and they have their own end.
    """

    def __init__(self, timeout_s: float | None, grace_s: float) -> None:
        super().__init__(name="stopper", daemon=True)
        self.reason: str | None = None
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._orders: queue.Queue[str] = queue.Queue()
        self._over = threading.Event()
        self._done = threading.Event()

    def listen(self) -> None:
        """Reads orders from standard input, in a thread of its own."""
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def finish(self) -> None:
        """The run has ended: waits for a stop that is under way, and ends the thread."""
        self._over.set()
        self._orders.put("over")
        self._done.wait()

    def run(self) -> None:
        """Waits for the first order or the timeout."""
        try:
            order = self._orders.get(timeout=self._timeout_s)
        except queue.Empty:
            order = "timeout"
        if order != "over":
            self.reason = order
            self._stop_ansible()
        self._done.set()

    def _read(self) -> None:
        self._orders.put("canceled" if _read_line() == b"cancel" else "orphaned")

    def _stop_ansible(self) -> None:
        import psutil  # noqa: PLC0415 - most runs are never stopped

        me = psutil.Process()
        while not (children := me.children()):
            if self._over.wait(_LOOK_S):
                return
        root = children[0]
        tree = {root}
        with contextlib.suppress(psutil.Error):
            tree.update(root.children(recursive=True))
            root.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s
        while _alive(root) and time.monotonic() < deadline:
            with contextlib.suppress(psutil.Error):
                tree.update(root.children(recursive=True))
            time.sleep(_LOOK_S)
        # Workers first lose their parent, then keep forking: look below every one of them once more.
        for process in tuple(tree):
            with contextlib.suppress(psutil.Error):
                tree.update(process.children(recursive=True))
        for process in tree:
            with contextlib.suppress(psutil.Error):
                process.kill()


def _read_line() -> bytes:
    """A line of standard input, unbuffered: a thread that waits here must hold no lock when the interpreter ends."""
    with open(0, "rb", buffering=0, closefd=False) as stream:
        return stream.readline().strip()


def _alive(process: psutil.Process) -> bool:
    import psutil  # noqa: PLC0415 - as above

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _run(job: dict[str, Any], outlet: Outlet) -> dict[str, Any]:
    """One run of ansible-runner; the message ``end``."""
    # Started here, so that an order to stop is heard while ansible-runner is being imported.
    stopper = Stopper(job["timeout_s"], job["grace_s"])
    stopper.start()
    stopper.listen()

    from ansible_runner.config.runner import RunnerConfig  # noqa: PLC0415 - see above
    from ansible_runner.runner import Runner  # noqa: PLC0415

    def handler(event: dict[str, Any]) -> bool:
        outlet.put({"type": "event", "event": dict(event)})
        return False  # Nothing is kept here: labctl writes the redacted archive.

    # Settings count only from the file: without one, ansible-runner drops those given as an argument.
    settings = Path(job["private_dir"]) / "env" / "settings"
    settings.parent.mkdir(mode=0o700)
    settings.write_text(json.dumps(_SETTINGS), encoding="utf-8")
    config = RunnerConfig(
        private_data_dir=job["private_dir"],
        project_dir=job["cwd"],
        playbook=job["playbook"],
        ident="run",
        fact_cache_type="memory",
        suppress_ansible_output=True,
        suppress_env_files=True,
    )
    config.prepare()
    leash = Path(__file__).with_name("leash.py")
    config.command = [sys.executable, "-P", str(leash), str(os.getpid()), *job["arguments"]]
    # A cancel callback must be given: without one ansible-runner installs signal handlers and keeps them.
    runner = Runner(config, cancel_callback=lambda: False, event_handler=handler)
    error = ""
    try:
        runner.run()
    except Exception as caught:  # noqa: BLE001 - whatever ansible-runner raises becomes the result
        error = f"{type(caught).__name__}: {str(caught).splitlines()[0] if str(caught) else ''}"
    finally:
        stopper.finish()
    return {"type": "end", "status": runner.status, "rc": runner.rc, "stopped": stopper.reason, "error": error}


def main() -> None:
    """Reads the job, runs it, reports, and leaves nothing in the private directory."""
    # Labctl decides what a Ctrl-C means; it reaches us as an order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    job = json.loads(_read_line())
    outlet = Outlet()
    try:
        outlet.put(_run(job, outlet))
    finally:
        outlet.close()
        shutil.rmtree(job["private_dir"], ignore_errors=True)


if __name__ == "__main__":
    main()
