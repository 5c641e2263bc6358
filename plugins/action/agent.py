"""Action plugin ``labctl.lab.agent``: drive the cell agent of a host. Documented in plugins/modules/agent.py."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, TypeVar

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.labctl.lab.plugins.plugin_utils import agent_inbox as inbox_of
from ansible_collections.labctl.lab.plugins.plugin_utils.agent_client import EXIT_BUSY, Answer, Client, RebootedError
from ansible_collections.labctl.lab.plugins.plugin_utils.agent_progress import Progress, events

_T = TypeVar("_T")
STATES = ("measured", "started", "waited", "stopped", "collected", "removed")
_STALE_S = 30.0
_REBOOTED = "the target was rebooted since it was prepared"
_TAR_BYTES = 64 << 20
_SPEC = {
    "state": {"type": "str", "choices": list(STATES), "default": "measured"},
    "workdir": {"type": "path", "required": True},
    "run_id": {"type": "str", "required": True},
    "batch": {"type": "path"},
    "boot_id": {"type": "str"},
    "progress": {"type": "path"},
    "inbox": {"type": "path"},
    "poll_s": {"type": "float", "default": 1.0},
    "reconnect_s": {"type": "float", "default": 300.0},
    "deadline_s": {"type": "float", "default": 0.0},
    "grace_s": {"type": "float", "default": 60.0},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """See the module's documentation."""

    # Files are the exception here (:meth:`_execute`); a directory for them beforehand would be two round trips, made
    # without patience.
    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Do what ``state`` asks for."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._vars = task_vars or {}
        _, self._args = self.validate_argument_spec(
            argument_spec=_SPEC,
            required_if=[
                ("state", "measured", ["batch"]),
                ("state", "started", ["batch"]),
                ("state", "collected", ["inbox"]),
            ],
        )
        state = self._args["state"]
        if self._play_context.check_mode:
            return {**result, "changed": state != "waited", "msg": self._would(state)}
        self._host = self._vars.get("inventory_hostname", "")
        self._progress = Progress(self._args["progress"], self._host)
        self._client = Client(self._execute, self._args["workdir"], self._args["run_id"], self._interpreter())
        return {**result, **getattr(self, f"_{state}")()}

    def _would(self, state: str) -> str:
        verbs = {"measured": "start the agent and wait for", "started": "start", "waited": "wait for"}
        verb = verbs.get(
            state, {"stopped": "stop", "collected": "fetch the bundles of", "removed": "remove"}.get(state)
        )
        return f"would {verb} run {self._args['run_id']} in {self._args['workdir']}"

    def _interpreter(self) -> str | None:
        named = self._templar.template(self._vars.get("ansible_python_interpreter"))
        if isinstance(named, str) and named.startswith("/"):
            return named
        found = self._vars.get("ansible_facts", {}).get("discovered_interpreter_python")
        return found if isinstance(found, str) else None

    def _execute(self, script: str, data: bytes | None) -> Answer:
        """One round trip. Connections that cannot feed standard input get the data as a file."""
        cleanup = None
        if data is not None and not getattr(self._connection, "has_pipelining", False):
            cleanup = self._make_tmp_path()
            path = self._transfer_data(f"{cleanup.rstrip('/')}/stdin", data)
            self._fixup_perms2((cleanup, path), execute=False)
            script, data = f"{{ {script}; }} < {path}", None
        try:
            done = self._low_level_execute_command(script, in_data=data, executable="/bin/sh")
        finally:
            if cleanup is not None:
                self._remove_tmp_path(cleanup)
        return Answer(done["rc"], done.get("stdout", ""), done.get("stderr", ""))

    def _read_batch(self) -> bytes:
        try:
            return Path(self._args["batch"]).read_bytes()
        except OSError as error:
            raise AnsibleActionFail(f"batch: {error}") from error

    def _started(self) -> dict[str, Any]:
        try:
            return self._start()
        except RebootedError as error:
            raise AnsibleActionFail(_REBOOTED) from error

    def _start(self) -> dict[str, Any]:
        batch = self._read_batch()
        # Asking twice starts nothing twice: a live agent stays, and what a dead one finished is not done again.
        code, answer = self._patiently(
            lambda: self._client.call("start --batch -", batch, boot_id=self._args["boot_id"])
        )
        if code == EXIT_BUSY:
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(float(answer.get("since", 0))))
            holder = f"run {answer.get('run')} of {answer.get('owner')} (pid {answer.get('pid')}, since {since})"
            raise AnsibleActionFail(
                f"{self._host} is held by {holder}; wait for it, or stop it with labctl.lab.stop",
                result={"busy": True, "holder": answer},
            )
        return {"changed": bool(answer["started"]), "agent": answer}

    def _measured(self) -> dict[str, Any]:
        """Start and wait; an agent of the same run with an older batch is let finish first."""
        digest = hashlib.sha256(self._read_batch()).hexdigest()
        while True:
            try:
                started = self._start()
            except RebootedError:
                return _Watch(self._is_alive, self._progress, self._args).outcome(None, _REBOOTED)
            waited = self._wait(started["agent"])
            if waited["agent_lost"] or started["agent"].get("batch") == digest:
                return {**waited, "changed": True}

    def _waited(self) -> dict[str, Any]:
        return self._wait(None)

    def _wait(self, status: dict[str, Any] | None) -> dict[str, Any]:
        """Follow the agent until it ends or is lost."""
        watch = _Watch(self._is_alive, self._progress, self._args)
        if status is None:
            status, _, _ = self._patiently(lambda: self._client.poll(0))
        while True:
            reason = watch.look(status)
            if reason is not None or status is None or status["state"] != "running":
                return watch.outcome(status, reason)
            time.sleep(self._args["poll_s"])
            pid = status["pid"]
            status, alive, boot = self._patiently(lambda: self._client.poll(pid))  # noqa: B023 - called at once
            if not alive and status is not None and status["state"] == "running" and status["pid"] == pid:
                status, alive, boot = self._patiently(lambda: self._client.poll(pid))  # noqa: B023 - it may just have ended
            watch.note(alive=alive, boot=boot)

    def _is_alive(self) -> bool:
        """What the host's lock says, which is slower to ask for than the status file."""
        _, answer = self._patiently(lambda: self._client.call("status"))
        return bool(answer.get("alive"))

    def _patiently(self, ask: Callable[[], _T]) -> _T:
        """Ask over a connection that may be cut: connect anew until ``reconnect_s`` are over."""
        end = None
        while True:
            try:
                return ask()
            except AnsibleConnectionFailure as error:
                now = time.monotonic()
                end = now + self._args["reconnect_s"] if end is None else end
                if now >= end:
                    raise
                self._progress.emit({"event": "reconnecting", "error": str(error)[:500]})
                with contextlib.suppress(AnsibleError):
                    self._connection.reset()
                time.sleep(min(max(self._args["poll_s"], 1.0), max(0.0, end - now)))

    def _stopped(self) -> dict[str, Any]:
        command = f"stop --grace {self._args['grace_s']}"
        _, answer = self._patiently(lambda: self._client.call(command, make=False))
        changed = bool(answer.get("stopped") or answer.get("recovered"))
        return {"changed": changed, "state": answer.get("state"), "killed": bool(answer.get("killed"))}

    def _removed(self) -> dict[str, Any]:
        command = f"remove --grace {self._args['grace_s']}"
        _, answer = self._patiently(lambda: self._client.call(command, make=False))
        return {"changed": bool(answer.get("removed"))}

    def _collected(self) -> dict[str, Any]:
        """Fetch every finished attempt that the inbox does not have."""
        inbox = Path(self._args["inbox"])
        _, answer = self._patiently(lambda: self._client.call("list --recover", make=False))
        missing = [
            entry for entry in answer.get("attempts", []) if not inbox_of.is_here(inbox, entry["id"], entry["attempt"])
        ]
        collected: list[dict[str, Any]] = []
        damaged: dict[str, str] = {}
        try:
            inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
            for group in inbox_of.groups(missing, _TAR_BYTES):
                damaged.update(self._collect(inbox, [f"{entry['id']}/a{entry['attempt']}" for entry in group]))
                for entry in group:
                    if f"{entry['id']}/a{entry['attempt']}" in damaged:
                        continue
                    found = {"cell": entry["id"], "attempt": entry["attempt"], "status": entry["status"]}
                    collected.append({**found, "error": entry["error"]})
                    self._progress.emit({"event": "collected", **found})
        except (inbox_of.InboxError, OSError) as error:
            raise AnsibleActionFail(f"collect into {inbox}: {error}", result={"collected": collected}) from error
        return {
            "changed": bool(collected),
            "collected": collected,
            "damaged": damaged,
            "recovered": answer.get("recovered", []),
            # Whether an agent is still at work: then a new labctl waits for it instead of starting its own.
            "alive": bool(answer.get("status", {}).get("alive")),
        }

    def _collect(self, inbox: Path, names: list[str]) -> dict[str, str]:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=inbox) as scratch:
            archive = Path(scratch) / "bundles.tar"
            self._patiently(lambda: self._client.fetch(names, archive))
            return inbox_of.take(archive, inbox, set(names))


class _Watch:
    """What one wait knows of the agent: the last status, when its heart beat last, and when to give up."""

    def __init__(self, is_alive: Callable[[], bool], progress: Progress, args: dict[str, Any]) -> None:
        self._is_alive, self._progress = is_alive, progress
        self._before: dict[str, Any] | None = None
        self._beat_at = time.monotonic()
        self._deadline_s = args["deadline_s"]
        self._end = self._beat_at + self._deadline_s if self._deadline_s > 0 else None
        self._alive, self._boot = True, ""

    def note(self, *, alive: bool, boot: str) -> None:
        """What the poll saw beside the status."""
        self._alive, self._boot = alive, boot

    def look(self, status: dict[str, Any] | None) -> str | None:
        """Tell what happened since the last look; the reason if the agent is lost.

        Raises:
            AnsibleActionFail: The deadline of the wait is over.
        """
        if status is None:
            return "the target has no status of this run"
        for event in events(self._before, status):
            self._progress.emit(event)
        now = time.monotonic()
        if self._before is None or self._before["heartbeat"] != status["heartbeat"]:
            self._beat_at = now
        self._before = status
        reason = self._lost(status, now)
        if reason is None and status["state"] == "running" and self._end is not None and now > self._end:
            raise AnsibleActionFail(f"the agent still works after {self._deadline_s:.0f} s", result={"timed_out": True})
        return reason

    def _lost(self, status: dict[str, Any], now: float) -> str | None:
        if status["state"] == "stopped" and not status.get("error"):
            return "the agent was stopped on the target, as a shutdown does"
        if status["state"] != "running":
            return None
        if self._boot and self._boot != status["boot_id"]:
            return "the target was rebooted"
        if not self._alive:
            return f"the agent's process {status['pid']} is gone"
        if now - self._beat_at > _STALE_S:
            if not self._is_alive():
                return f"no heartbeat for {now - self._beat_at:.0f} s and the host's lock is free"
            self._beat_at = now  # a saturated disk delays the file, not the agent
        return None

    def outcome(self, status: dict[str, Any] | None, reason: str | None) -> dict[str, Any]:
        """The result of the task."""
        if reason is not None:
            self._progress.emit({"event": "agent_lost", "error": reason})
        known = status or {}
        return {
            "changed": False,
            "agent_lost": reason is not None,
            "reason": reason or known.get("error"),
            "state": known.get("state"),
            "finished": known.get("finished", []),
        }
