"""The controller's side of the agent's commands, over the connection of the task."""

from __future__ import annotations

import base64
import gzip
import json
import shlex
from pathlib import Path
from typing import Any, Callable, NamedTuple

from ansible.errors import AnsibleActionFail
from ansible_collections.labctl.lab.plugins.plugin_utils import agent_package as package

EXIT_BUSY = 75
_STALE, _NO_PYTHON, _NO_RUN, _REBOOTED = 81, 82, 83, 84
_PIECE = 16 << 20
"""Bytes of a tar per round trip: bounded memory on both sides, whatever the size of a bundle."""
_PYTHONS = "python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10 python3.9 /usr/libexec/platform-python"


class RebootedError(Exception):
    """The target is not in the boot that the caller knows."""


class Answer(NamedTuple):
    """What a command on the target gave."""

    rc: int
    out: str
    err: str


Execute = Callable[[str, "bytes | None"], Answer]


class Client:
    """Commands for the agent of one run on one host. Pushes the agent only when the target has another one."""

    def __init__(self, execute: Execute, workdir: str, run_id: str, python: str | None) -> None:
        self._execute = execute
        self.run_dir = f"{workdir.rstrip('/')}/runs/{run_id}"
        self._workdir = workdir
        self._pythons = shlex.quote(python) if python else _PYTHONS

    def _script(self, command: str, boot_id: str | None = None) -> str:
        where = shlex.quote(self.run_dir)
        boot = "$(cat /proc/sys/kernel/random/boot_id)"
        same_boot = f'[ "{boot}" = {shlex.quote(boot_id)} ] || exit {_REBOOTED}; ' if boot_id else ""
        return same_boot + (
            f"cd {where} 2>/dev/null || exit {_NO_RUN}; "
            f'have=$(sha256sum agent.pyz 2>/dev/null); [ "${{have%% *}}" = {package.digest()} ] || exit {_STALE}; '
            f"for p in {self._pythons}; do "
            '"$p" -c "import sys; sys.exit(sys.version_info < (3, 9))" </dev/null >/dev/null 2>&1 && '
            f'exec "$p" {where}/agent.pyz {command}; done; exit {_NO_PYTHON}'
        )

    def _push(self) -> None:
        root, where = shlex.quote(self._workdir), shlex.quote(self.run_dir)
        script = (
            '[ "$(id -u)" -eq 0 ] && mode=711 || mode=700; '  # as root, PostgreSQL must pass as another user
            f"[ -d {root} ] || {{ (umask 022; mkdir -p {root}) && chmod $mode {root}; }} || exit; "
            f"umask 077; mkdir -p {where} && cd {where} && chmod $mode .. . || exit; "
            "cat > agent.pyz.new && mv -f agent.pyz.new agent.pyz"
        )
        answer = self._execute(script, package.build())
        if answer.rc != 0:
            raise AnsibleActionFail(f"cannot put the agent into {self.run_dir}: {answer.err.strip() or answer.out}")

    def call(
        self, command: str, data: bytes | None = None, *, make: bool = True, boot_id: str | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Run one command; the exit code (0 or busy) and the JSON that it printed.

        Without ``make`` a run that the target does not know gives an empty answer. With ``boot_id`` nothing is run in
        another boot.

        Raises:
            RebootedError: The target's boot id is another.
            AnsibleActionFail: No Python, or the agent refused; with its words.
        """
        full = f"{command} --dir {shlex.quote(self.run_dir)}"
        script = self._script(full, boot_id)
        answer = self._execute(script, data)
        if answer.rc == _NO_RUN and not make:
            return 0, {}
        if answer.rc in (_NO_RUN, _STALE):
            self._push()
            answer = self._execute(script, data)
        if answer.rc == _REBOOTED:
            raise RebootedError
        if answer.rc == _NO_PYTHON:
            raise AnsibleActionFail("the target has no Python 3.9 or newer, which the agent needs")
        value = last_object(answer.out)
        if answer.rc not in (0, EXIT_BUSY) or value is None:
            words = answer.err.strip() or answer.out.strip() or f"exit code {answer.rc}"
            name = command.partition(" ")[0]
            raise AnsibleActionFail(f"agent {name}: {words[-2000:]}")
        return answer.rc, value

    def poll(self, pid: int) -> tuple[dict[str, Any] | None, bool, str]:
        """The status, whether the process is there, and the boot id; no Python is started on the target."""
        script = (
            f"cat {shlex.quote(self.run_dir)}/status.json; cat /proc/sys/kernel/random/boot_id; "
            f"[ -d /proc/{int(pid)} ] && echo alive || echo gone"
        )
        answer = self._execute(script, None)
        lines = answer.out.strip().splitlines()
        boot = lines[-2].strip() if len(lines) > 1 else ""
        return last_object(answer.out), lines[-1:] == ["alive"], boot

    def fetch(self, names: list[str], archive: Path) -> None:
        """Write the tar of some bundles to ``archive``, piece by piece."""
        cells = " ".join(f"--cell {shlex.quote(name)}" for name in names)
        offset, more = 0, True
        with archive.open("wb") as stream:
            while more:
                _, piece = self.call(f"export {cells} --offset {offset} --limit {_PIECE}")
                data = gzip.decompress(base64.b64decode(piece["data"]))
                stream.write(data)
                offset, more = offset + len(data), piece["more"]


def last_object(text: str) -> dict[str, Any] | None:
    """The last line that is a JSON object; login banners and the like are passed over."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            return value if isinstance(value, dict) else None
    return None
