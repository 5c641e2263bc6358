"""Start, watch, stop and remove an agent from outside its process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from . import EXIT_BUSY, bundle, facts, files, processes, queue
from .lock import HostLock

_START_WITHIN_S = 20.0


class Refused(Exception):
    """The request makes no sense or is not safe; the text says why."""


class Run:
    """The directory of one run on this host: ``<workdir>/runs/<run id>``."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.abspath(directory)
        runs, self.run_id = os.path.split(self.path)
        self.workdir = os.path.dirname(runs)
        if os.path.basename(runs) != "runs" or not files.safe_name(self.run_id):
            raise Refused(f"{self.path} is not <workdir>/runs/<run id>")
        for path in (runs, self.path):
            if os.path.islink(path):
                raise Refused(f"{path} is a symbolic link")
        self.lock = HostLock(self.workdir)
        self.stop_file = os.path.join(self.path, "stop")

    def status(self) -> dict[str, Any]:
        """The last status.json, with ``alive`` by the lock, which cannot be stale."""
        value = files.read_json(os.path.join(self.path, "status.json")) or {"run_id": self.run_id, "state": None}
        holder = self.lock.holder()
        return {**value, "alive": holder is not None and holder.get("run") == self.run_id, "holder": holder}


def start(run: Run, batch: bytes | None) -> tuple[int, dict[str, Any]]:
    """Launch a detached agent; returns the exit code and what to print.

    An agent of the same run that is alive stays, and its batch too: the status then names another ``batch``.
    """
    holder = run.lock.holder()
    if holder is not None:
        return _held(run, holder)
    who = {"run": run.run_id, "owner": "start", "pid": os.getpid(), "since": time.time(), "boot_id": files.boot_id()}
    if not run.lock.acquire(who):
        return _held(run, run.lock.holder() or {})
    try:
        if batch is not None:
            queue.parse_batch(batch, run.run_id)
            files.write_atomic(os.path.join(run.path, "batch.json"), batch)
        clean_up(run)
        for name in ("stop", "status.json"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(run.path, name))
    finally:
        run.lock.release()
    how = _launch(run)
    end = time.monotonic() + _START_WITHIN_S
    while time.monotonic() < end:
        status = files.read_json(os.path.join(run.path, "status.json"))
        if status is not None:
            return 0, {"started": True, "how": how, **status}
        holder = run.lock.holder()
        if holder is not None and holder.get("run") not in (run.run_id, None):
            return EXIT_BUSY, holder
        time.sleep(0.02)
    log = files.words(files.tail(os.path.join(run.path, "agent.log"), 2048))
    raise Refused(f"the agent did not start ({how}): {log}")


def _held(run: Run, holder: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    if holder.get("run") != run.run_id:
        return EXIT_BUSY, holder
    return 0, {"started": False, **run.status()}


def clean_up(run: Run) -> list[str]:
    """After a vanished agent: kill what it left running, finish its attempts. Only for the lock's holder."""
    killed = processes.kill_marked("LABCTL_WORKDIR", run.workdir)
    recovered = bundle.recover_all(run.path)
    if killed or recovered:
        queue.say(f"recovered {recovered}, killed {killed} processes of a vanished agent")
    return recovered


def _launch(run: Run) -> str:
    command = [sys.executable, os.path.abspath(sys.argv[0]), "run", "--dir", run.path]
    systemd = facts.systemd()
    if systemd["running"] and (os.geteuid() == 0 or systemd["user_linger"]):
        unit = "labctl-" + re.sub(r"[^A-Za-z0-9:_.-]", "_", run.run_id)
        call = ["systemd-run", f"--unit={unit}", "--collect", "--quiet", f"--setenv=PATH={os.environ.get('PATH', '')}"]
        env = dict(os.environ)
        if os.geteuid() != 0:
            call.insert(1, "--user")
            env.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                call + command, check=True, timeout=30, env=env, stdin=subprocess.DEVNULL, capture_output=True
            )
            return "systemd-run"
    with open(os.path.join(run.path, "agent.log"), "ab") as log:
        subprocess.Popen(  # it outlives us on purpose
            command, cwd=run.path, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    return "own session"


def serve(run: Run) -> int:
    """The agent itself, in the foreground: what :func:`start` launches."""
    with open(os.path.join(run.path, "agent.log"), "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.umask(0o077)
    processes.become_subreaper()
    waker = processes.Waker(run.stop_file)
    with open(os.path.join(run.path, "batch.json"), "rb") as stream:
        raw = stream.read()
    batch = queue.parse_batch(raw, run.run_id)
    who = {"run": run.run_id, "owner": batch.get("owner"), "pid": os.getpid(), "since": time.time()}
    if not run.lock.acquire({**who, "boot_id": files.boot_id()}):
        queue.say(f"the host is held by {run.lock.holder()}")
        return EXIT_BUSY
    clean_up(run)
    queue.say(f"agent {os.getpid()}: {len(batch['cells'])} cells of run {run.run_id}")
    state = queue.Agent(run.path, batch, hashlib.sha256(raw).hexdigest(), waker).run()
    queue.say(f"agent {os.getpid()}: {state}")
    run.lock.release()
    return 0


def stop(run: Run, grace_s: float) -> dict[str, Any]:
    """Ask the agent to end, wait, kill it if it does not, and finish what it left."""
    holder = run.lock.holder()
    ours, killed = holder is not None and holder.get("run") == run.run_id, False
    if holder is not None and ours:
        with contextlib.suppress(OSError):  # on a full disk the signal must do
            files.write_atomic(run.stop_file, b"")
        _signal(holder, signal.SIGTERM)
        if not _wait_free(run, grace_s):
            killed = True
            _signal(holder, signal.SIGKILL)
            if not _wait_free(run, 10.0):
                raise Refused(f"agent {holder.get('pid')} does not end, even by SIGKILL")
    recovered = recover(run)
    return {**run.status(), "stopped": ours, "killed": killed, "recovered": recovered}


def recover(run: Run) -> list[str]:
    """Finish the attempts of a vanished agent, if no agent holds the host."""
    if not os.path.isdir(run.path):
        return []
    who = {"run": run.run_id, "owner": "recover", "pid": os.getpid(), "since": time.time(), "boot_id": files.boot_id()}
    if run.lock.holder() is not None or not run.lock.acquire(who):
        return []
    try:
        return clean_up(run)
    finally:
        run.lock.release()


def remove(run: Run, grace_s: float) -> dict[str, Any]:
    """Stop the agent and delete the run's directory, and nothing but it."""
    stop(run, grace_s)
    existed = os.path.isdir(run.path)
    if existed:
        shutil.rmtree(run.path)
    return {"removed": existed}


def _signal(holder: dict[str, Any], number: int) -> None:
    pid = holder.get("pid")
    if isinstance(pid, int) and pid > 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_free(run: Run, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        holder = run.lock.holder()
        if holder is None or holder.get("run") != run.run_id:
            return True
        time.sleep(0.05)
    return False
