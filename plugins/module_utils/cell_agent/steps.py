"""One step of a cell: its directory, its user, its process, and how it ended in words."""

from __future__ import annotations

import contextlib
import errno
import locale
import os
import pwd
import stat
from typing import Any

from . import files, processes, tools

_NO_SPACE_WORDS = (b"no space left on device", b"disk quota exceeded", b"errno 28", b"enospc", b"could not extend file")
_LOOK_BACK = 64 * 1024
_FULL_BELOW = 64 * 1024
"""With less room than this, output may have been cut although the tool said nothing."""


def utf8_locale() -> str:
    """``C.UTF-8`` where the C library has it, else ``C``."""
    try:
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
    except locale.Error:
        return "C"
    return "C.UTF-8"


def database_identity() -> processes.Identity | None:
    """The user ``postgres`` for an agent that is root; None where the agent is an ordinary user already.

    Raises:
        LookupError: Root, and there is no such user.
    """
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        raise LookupError("the agent is root, PostgreSQL refuses root, and there is no user postgres") from None
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return processes.Identity(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)


def closed_directory(path: str, who: processes.Identity) -> str | None:
    """The first directory on the way to ``path`` that ``who`` may not pass, by its mode bits."""
    parts = path.strip("/").split("/")
    for count in range(len(parts) + 1):
        current = "/" + "/".join(parts[:count])
        info = os.stat(current)
        bit = stat.S_IXUSR if info.st_uid == who.uid else stat.S_IXGRP if info.st_gid in who.groups else stat.S_IXOTH
        if not info.st_mode & bit:
            return current
    return None


class StepRunner:
    """Runs the steps of all cells of one agent."""

    def __init__(self, workdir: str, run_id: str, waker: processes.Waker) -> None:
        self._waker = waker
        self._path = tools.search_path()
        self._env = {
            "PATH": self._path,
            "LC_ALL": utf8_locale(),
            "LABCTL_WORKDIR": workdir,
            "LABCTL_RUN": run_id,
        }

    def run(self, step: dict[str, Any], attempt_dir: str, directory: str, cell_left_s: float) -> dict[str, Any]:
        """Run one step; the result has the fields of labctl.record.bundle.StepResult."""
        argv = [str(word) for word in step["argv"]]
        result = {
            "name": step["name"],
            "phase": step["phase"],
            "directory": directory,
            "argv": argv,
            "status": "failed",
            "words": "",
        }
        creates = step.get("creates")
        if creates and os.path.lexists(creates):
            return {**result, "status": "skipped", "words": f"already there: {creates}"}
        resolved = tools.find(argv[0], self._path)
        if resolved is None:
            return {**result, "status": "missing-tool", "words": f"{argv[0]}: not found in {self._path}"}
        result["resolved"] = resolved
        try:
            ended = self._process(step, [resolved, *argv[1:]], os.path.join(attempt_dir, directory), cell_left_s)
            result.update(self._judge(step, os.path.join(attempt_dir, directory), ended, cell_left_s))
            if creates and result["status"] == "ok":
                _mark(creates)
        except OSError as error:
            full = error.errno in files.NO_SPACE
            result.update(status="no-space" if full else "failed", words=str(error))
        except LookupError as error:
            result.update(words=str(error.args[0]))
        return result

    def _process(self, step: dict[str, Any], argv: list[str], evidence: str, cell_left_s: float) -> processes.Ended:
        who = database_identity() if step.get("database_user") else None
        os.mkdir(evidence, 0o700)
        for name, text in (step.get("files") or {}).items():
            _write_input(evidence, name, text, who)
        account = who or _own_account()
        if who is not None:
            os.chown(evidence, who.uid, who.gid)
            closed = closed_directory(evidence, who)
            if closed is not None:
                raise PermissionError(errno.EACCES, f"user {who.name} cannot pass through {closed}")
        cwd = step.get("cwd") or evidence
        env = {**self._env, "HOME": account.home, "USER": account.name, "LOGNAME": account.name, "PWD": cwd}
        env.update({key: str(value) for key, value in (step.get("env") or {}).items()})
        return processes.run(
            argv,
            cwd=cwd,
            evidence=evidence,
            env=env,
            timeout_s=_limit(step, cell_left_s),
            waker=self._waker,
            heed_stop=not step.get("always"),
            identity=who,
        )

    def _judge(self, step: dict[str, Any], cwd: str, ended: processes.Ended, cell_left_s: float) -> dict[str, Any]:
        facts = ended._asdict()
        why = facts.pop("why")
        tail = files.tail(os.path.join(cwd, "stderr"), 2048).strip() or files.tail(os.path.join(cwd, "stdout"), 2048)
        said = files.words(tail)
        if why == "timeout":
            limit = _limit(step, cell_left_s)
            whose = "step" if limit >= float(step["timeout_s"]) else "cell"
            return {**facts, "status": "timeout", "words": _join(f"not finished after {limit:.0f} s ({whose})", said)}
        if why == "interrupted":
            return {**facts, "status": "interrupted", "words": _join("stopped on request", said)}
        how = f"killed by signal {ended.signal}" if ended.signal else f"exit code {ended.rc}"
        if _room(cwd) < _FULL_BELOW:
            full = f"{how}, and the file system of {cwd} has no space left: output may be cut"
            return {**facts, "status": "no-space", "words": _join(full, said)}
        if ended.rc in (step.get("ok_codes") or (0,)):
            return {**facts, "status": "ok"}
        status = "no-space" if _says_no_space(cwd, step.get("outputs") or ()) else "failed"
        return {**facts, "status": status, "words": said or f"{how}, without a word"}


def _limit(step: dict[str, Any], cell_left_s: float) -> float:
    own = float(step["timeout_s"])
    return own if step.get("always") else max(0.0, min(own, cell_left_s))


def _own_account() -> processes.Identity:
    uid, gid = os.geteuid(), os.getegid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return processes.Identity(str(uid), uid, gid, [gid], os.environ.get("HOME", "/"))
    return processes.Identity(entry.pw_name, uid, gid, [gid], entry.pw_dir)


def _write_input(cwd: str, name: str, text: str, who: processes.Identity | None) -> None:
    if not files.safe_name(name):
        raise PermissionError(errno.EPERM, f"refused as the name of an input file: {name!r}")
    with open(os.path.join(cwd, name), "x", encoding="utf-8") as stream:
        stream.write(text)
        if who is not None:
            os.fchown(stream.fileno(), who.uid, who.gid)


def _mark(path: str) -> None:
    if not os.path.lexists(path):
        with contextlib.suppress(FileExistsError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.fsync(fd)
            os.close(fd)


def _room(path: str) -> int:
    space = os.statvfs(path)
    return (space.f_bfree if os.geteuid() == 0 else space.f_bavail) * space.f_frsize


def _says_no_space(cwd: str, outputs: Any) -> bool:  # noqa: ANN401 - from JSON
    names = dict.fromkeys(("stderr", "stdout", *outputs))
    said = [files.tail(os.path.join(cwd, os.path.basename(name)), _LOOK_BACK).lower() for name in names]
    return any(word in text for word in _NO_SPACE_WORDS for text in said)


def _join(first: str, second: str) -> str:
    return f"{first}: {files.words(second.encode(), 2048 - len(first.encode()) - 2)}" if second else first
