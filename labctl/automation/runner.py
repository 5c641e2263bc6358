"""The one adapter to ansible-runner: one playbook in, typed events and one typed result out.

The run lives in a process of its own (``worker.py``); this side redacts, archives, tells the caller, and stops the run
when asked. Every run has a fresh private directory (mode 0700) that is gone when the run is.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from labctl.automation import collection, environment
from labctl.automation.archive import Archive, open_private
from labctl.automation.events import Recap, status_of, task_event
from labctl.automation.models import PlaybookResult, TaskError, TaskEvent
from labctl.automation.redact import Redactor, secret_values
from labctl.errors import ExitCode, LabctlError

_log = logging.getLogger(__name__)

GRACE_S = 10.0
"""Time for Ansible to end its workers after SIGTERM, before everything that is left gets SIGKILL."""
_POLL_S = 0.1
_WORKER_EXIT_S = 5.0


@dataclass(frozen=True, slots=True)
class _Ending:
    """What the worker said last; the defaults are those of a worker that vanished."""

    rc: int | None = None
    stopped: str | None = None
    error: str = "the process that runs Ansible ended without a word"


def run_playbook(
    playbook: str,
    *,
    inventory: Path,
    artifacts: Path,
    extravars: Mapping[str, object] | None = None,
    limit: str | None = None,
    check: bool = False,
    diff: bool = False,
    forks: int | None = None,
    on_event: Callable[[TaskEvent], None] | None = None,
    cancel: threading.Event | None = None,
    timeout_s: float | None = None,
    redact: Redactor | None = None,
    vault_password_file: Path | None = None,
) -> PlaybookResult:
    """Runs one playbook and waits for its end.

    Args:
        playbook: fully qualified name such as ``labctl.lab.host``, or a path.
        inventory: the user's inventory directory or file, read in place by Ansible.
        artifacts: a directory that does not exist yet; made with mode 0700.
        extravars: variables; they reach Ansible in a private file, never on a command line.
        limit: host pattern.
        check: predict instead of change.
        diff: show differences of files.
        forks: hosts at the same time; None = Ansible's configuration.
        on_event: called in this thread with every event, redacted; what it raises is logged and does not end the run.
        cancel: when set, the run is stopped: SIGTERM, ten seconds of grace, then SIGKILL to all that Ansible started
            here. Work on remote hosts is not reached by that; stop it with a playbook.
        timeout_s: stop the run in the same way after this many seconds.
        redact: knows the lab's secrets; values under secret-looking keys of ``extravars`` are added to it.
        vault_password_file: handed to Ansible.

    Returns:
        The result, whatever happened to hosts.

    Raises:
        LabctlError: the run could not be started, or its archive could not be written (the run is stopped then).
    """
    if not inventory.exists():
        raise LabctlError("there is no such inventory", where=str(inventory), code=ExitCode.USAGE)
    cwd = Path.cwd()
    ours = collection.ensure(os.environ)
    env = environment.scrubbed(os.environ, collection.collections_path(os.environ, cwd, ours), cwd=cwd)
    variables = dict(extravars or {})
    redactor = (redact or Redactor()).extended((*secret_values(variables), *environment.secrets_of(env)))
    options = _options(limit=limit, check=check, diff=diff, forks=forks, vault_password_file=vault_password_file)
    line = _command_line(playbook, inventory, artifacts / "extravars.json" if variables else None, options)
    if ours.checkout:
        line = f"ANSIBLE_COLLECTIONS_PATH={shlex.quote(env['ANSIBLE_COLLECTIONS_PATH'])} {line}"

    started = time.monotonic()
    recap = Recap()
    with _disk_faults_told(artifacts), Archive(artifacts, redactor) as archive, _private_directory() as private:
        archive.inputs(line, variables)
        with open_private(private / "extravars.json") as stream:
            json.dump(variables, stream, default=str)
        arguments = ["-i", str(inventory.absolute()), *options]
        if variables:
            arguments += ["-e", f"@{private / 'extravars.json'}"]
        job = {
            "private_dir": str(private),
            "cwd": str(cwd),
            "playbook": playbook,
            "arguments": [*arguments, playbook],
            "timeout_s": timeout_s,
            "grace_s": GRACE_S,
        }
        with _Worker(job, env, private) as worker:
            for raw in worker.events(cancel or threading.Event()):
                _take(raw, recap, archive, redactor, on_event)
        result = _result(
            playbook,
            redactor.text(line),
            artifacts,
            recap=recap,
            ending=worker.ending,
            duration_s=time.monotonic() - started,
        )
        archive.result(result)
    return result


def _options(
    *, limit: str | None, check: bool, diff: bool, forks: int | None, vault_password_file: Path | None
) -> list[str]:
    options: list[str] = []
    if limit is not None:
        options += ["--limit", limit]
    if check:
        options.append("--check")
    if diff:
        options.append("--diff")
    if forks is not None:
        options += ["--forks", str(forks)]
    if vault_password_file is not None:
        options += ["--vault-password-file", str(vault_password_file.absolute())]
    return options


def _command_line(playbook: str, inventory: Path, extravars: Path | None, options: list[str]) -> str:
    """The line for people; paths below the working directory are shortened as people would type them."""
    words = ["ansible-playbook", "-i", _short(inventory), playbook, *options]
    return shlex.join(words) + (f" {_file_option(extravars)}" if extravars is not None else "")


def _file_option(extravars: Path) -> str:
    return shlex.join(["-e", f"@{_short(extravars)}"])


def line_without_files(result: PlaybookResult, extravars: Mapping[str, object], redact: Redactor) -> str:
    """The command line by hand for callers that do not keep ``artifacts``: it carries the variables itself."""
    inline = shlex.join(["-e", json.dumps(redact.value(dict(extravars)))])
    return result.command_line.replace(_file_option(result.artifacts / "extravars.json"), inline)


def _short(path: Path) -> str:
    full = path.absolute()
    return str(full.relative_to(Path.cwd())) if full.is_relative_to(Path.cwd()) else str(full)


def _take(
    raw: dict[str, Any],
    recap: Recap,
    archive: Archive,
    redactor: Redactor,
    on_event: Callable[[TaskEvent], None] | None,
) -> None:
    """One event: redact first, then everything else but what labctl itself has to work on."""
    if "counter" not in raw:
        return  # ansible-runner's own end mark
    clean = redactor.value(raw)
    if not isinstance(clean, dict):
        return
    event = task_event(clean)
    recap.add(clean, event)
    recap.publish(raw)
    archive.event(clean)
    if on_event is None:
        return
    try:
        on_event(event)
    except Exception:  # noqa: BLE001 - logged with its traceback
        # A fault in a progress display must not end hours of work on a lab.
        _log.exception("the handler of Ansible's events failed; the playbook goes on")


def _result(
    playbook: str, line: str, artifacts: Path, *, recap: Recap, ending: _Ending, duration_s: float
) -> PlaybookResult:
    status = status_of(ending.stopped, ending.rc, recap)
    errors = recap.errors
    if not errors and status in ("failed", "unreachable", "spec-error"):
        errors = (TaskError(host="", task="", path="", message=_explain(recap, ending)),)
    return PlaybookResult(
        playbook=playbook,
        status=status,
        rc=ending.rc,
        command_line=line,
        artifacts=artifacts,
        hosts=recap.hosts,
        errors=errors,
        results=recap.results,
        lost_events=recap.lost_events or (ending.rc == 0 and not recap.complete),
        duration_s=duration_s,
    )


def _explain(recap: Recap, ending: _Ending) -> str:
    """Why a run failed without a failed task."""
    if ending.error:
        return "\n".join(part for part in (ending.error, recap.output_tail) if part)
    if ending.rc == 0 and recap.complete and not recap.hosts:
        return "no host of the inventory matched, so nothing was done"
    if ending.rc == 0:
        return "Ansible reports success, but events were lost: what happened is not known for sure"
    return recap.output_tail or f"ansible-playbook ended with exit code {ending.rc}"


@contextmanager
def _disk_faults_told(artifacts: Path) -> Iterator[None]:
    """A full or read-only disk of the controller is a message, not a traceback."""
    try:
        yield
    except OSError as error:
        raise LabctlError(
            f"the playbook was stopped, because its output cannot be kept: {error.strerror or error}",
            where=str(error.filename or artifacts),
            hint="make room, then go on with `labctl resume`",
        ) from error


@contextmanager
def _private_directory() -> Iterator[Path]:
    """A directory of mode 0700 for inputs that may hold secrets; removed whatever happens."""
    path = Path(tempfile.mkdtemp(prefix="labctl-ansible-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class _Worker:
    """The worker process, from start to certain end."""

    def __init__(self, job: dict[str, Any], env: dict[str, str], private: Path) -> None:
        self.ending = _Ending()
        self._stderr = private / "worker.stderr"
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stopping = False
        script = Path(__file__).with_name("worker.py")
        with self._stderr.open("wb") as stderr:
            # A session of its own: a Ctrl-C in the terminal is for labctl to interpret.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                start_new_session=True,
            )
        self._send(json.dumps(job).encode() + b"\n")
        self._reader = threading.Thread(target=self._read, name="ansible-events", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing its input is the order to stop, if it still runs: that is how an exception here ends the playbook.
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(GRACE_S + _WORKER_EXIT_S)
        except subprocess.TimeoutExpired:
            # Its death sends SIGTERM to Ansible (leash.py).
            self._process.kill()
            self._process.wait()
        self._reader.join(_WORKER_EXIT_S)

    def events(self, cancel: threading.Event) -> Iterator[dict[str, Any]]:
        """Raw events until the run is over; passes a request to cancel on, once."""
        while True:
            if cancel.is_set() and not self._stopping:
                self._stopping = True
                self._send(b"cancel\n")
            try:
                line = self._lines.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if line is None:
                if self.ending == _Ending():
                    self._process.wait()
                    self.ending = _Ending(error=self._last_words())
                return
            message = json.loads(line)
            if message["type"] == "event":
                yield message["event"]
            else:
                self.ending = _Ending(message["rc"], message["stopped"], message["error"])

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is not None:
            with stream:
                for line in stream:
                    self._lines.put(line)
        self._lines.put(None)

    def _send(self, data: bytes) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(data)
                self._process.stdin.flush()

    def _last_words(self) -> str:
        words = self._stderr.read_text("utf-8", "replace").strip() if self._stderr.exists() else ""
        how = f"the process that runs Ansible ended with {self._process.returncode}"
        return f"{how}: {words.splitlines()[-1]}" if words else how
