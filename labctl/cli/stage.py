"""``labctl stage``: run one playbook of the collection."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labctl.cli.lab_options import LabOption, LimitOption
from labctl.errors import ExitCode, LabctlError

if TYPE_CHECKING:
    import threading
    from contextlib import AbstractContextManager

    from rich.status import Status

    from labctl.automation.models import PlaybookResult, TaskEvent

_STAGE = re.compile(r"[a-z][a-z0-9_]*\Z")
_CODES = {
    "successful": ExitCode.OK,
    "failed": ExitCode.HOSTS_FAILED,
    "unreachable": ExitCode.HOSTS_UNREACHABLE,
    "timeout": ExitCode.TIMEOUT,
    "canceled": ExitCode.INTERRUPTED,
    "spec-error": ExitCode.USAGE,
}
_MARKS = {
    "runner_on_ok": "ok",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "FAILED",
    "runner_on_unreachable": "UNREACHABLE",
}


def stage(
    name: Annotated[str, typer.Argument(help="Playbook of labctl.lab: probe, host, teardown, …", metavar="NAME")],
    inventory: LabOption,
    limit: LimitOption = None,
    extra_vars: Annotated[
        list[str] | None,
        typer.Option("--extra-vars", "-e", metavar="KEY=VALUE", help="Variable; repeatable. Or @FILE."),
    ] = None,
    vault_password_file: Annotated[Path | None, typer.Option(help="File with the password of Ansible Vault.")] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Predict changes, make none.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show differences of changed files.")] = False,
) -> None:
    """Run one stage on a lab, and print the line that does the same without labctl.

    For example:

        labctl stage probe

        labctl stage host -i inventories/rack4 --check --diff -l node1
    """
    import tempfile

    from labctl.automation.redact import Redactor
    from labctl.automation.runner import line_without_files, run_playbook
    from labctl.lab.loader import load_lab

    if not _STAGE.match(name):
        hint = "letters, digits and underscores, such as: labctl stage probe"
        raise LabctlError(f"{name!r} cannot be the name of a stage", hint=hint, code=ExitCode.USAGE)
    lab = load_lab(inventory)
    variables = parse_variables(extra_vars or [])
    redact = Redactor(lab.secrets)
    with (
        tempfile.TemporaryDirectory(prefix="labctl-stage-") as scratch,
        _status(name) as status,
        _stop(status) as cancel,
    ):
        result = run_playbook(
            f"labctl.lab.{name}",
            inventory=inventory,
            artifacts=Path(scratch) / name,
            extravars=variables,
            limit=limit,
            check=check,
            diff=diff,
            on_event=_Printer(status),
            cancel=cancel,
            redact=redact,
            vault_password_file=vault_password_file,
        )
        if diff:
            typer.echo((result.artifacts / "stdout.txt").read_text("utf-8"))
    _recap(result, line_without_files(result, variables, redact))
    if not result.ok:
        raise typer.Exit(int(_CODES[result.status]))


def parse_variables(given: list[str]) -> dict[str, object]:
    """``key=value``, a JSON object, or ``@file`` (YAML or JSON) to variables; the later wins, as in Ansible.

    Values of ``key=value`` are YAML scalars: ``5`` is a number, ``"5"`` a text.

    Raises:
        LabctlError: anything else.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    variables: dict[str, object] = {}
    for text in given:
        key, found, value = text.partition("=")
        try:
            if text.startswith("@"):
                loaded = yaml.load(Path(text[1:]).expanduser().read_text("utf-8"))
            elif text.startswith("{"):
                loaded = yaml.load(text)
            elif found and key.isidentifier():
                loaded = {key: yaml.load(value) if value else ""}
            else:
                raise LabctlError(f"-e {text}: expected KEY=VALUE, a JSON object or @FILE", code=ExitCode.USAGE)
        except (YAMLError, UnicodeDecodeError, OSError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
            raise LabctlError(f"-e {text.partition('=')[0]}: {words}", code=ExitCode.USAGE) from error
        if not isinstance(loaded, dict):
            raise LabctlError(f"-e {text}: expected variables with names", code=ExitCode.USAGE)
        variables.update({str(name): item for name, item in loaded.items()})
    return variables


class _Printer:
    """Task progress: the running task on a terminal's last line, one line a result above it."""

    def __init__(self, status: Status | None) -> None:
        self._status = status
        self._task = ""

    def __call__(self, event: TaskEvent) -> None:
        if event.kind == "playbook_on_task_start":
            self._task = event.task
            if self._status is None:
                typer.echo(f"task: {event.task}")
            else:
                self._status.update(_plain(event.task))
        elif event.kind in _MARKS:
            mark = "changed" if event.kind == "runner_on_ok" and event.changed else _MARKS[event.kind]
            seconds = f" ({event.duration_s:.1f} s)" if event.duration_s is not None else ""
            task = f": {self._task}" if self._status is not None else ""
            typer.echo(f"  {mark} {event.host}{task}{seconds}")
        elif event.kind == "verbose" and event.message.startswith(("[WARNING]", "[ERROR]")):
            typer.echo(event.message, err=True)


def _plain(text: str) -> str:
    """Text of a task as rich shall show it: its brackets are no markup."""
    return text.replace("[", r"\[")


def _status(name: str) -> AbstractContextManager[Status | None]:
    if not sys.stdout.isatty():
        return nullcontext()
    from rich.console import Console

    return Console().status(f"stage {name}")


def _stop(status: Status | None) -> AbstractContextManager[threading.Event]:
    """The first Ctrl-C stops the playbook, the second ends labctl at once."""
    from labctl.run.signals import two_step_stop

    def on_first(signal_name: str) -> None:
        typer.echo(f"{signal_name}: stopping the playbook; once more ends at once", err=True)

    def before_exit() -> None:
        if status is not None:
            status.stop()

    return two_step_stop(on_first, before_exit)


def _recap(result: PlaybookResult, line: str) -> None:
    from dataclasses import asdict

    for host, stats in result.hosts.items():
        told = (f"{count} {word}" for word, count in asdict(stats).items() if count)
        typer.echo(f"{host}: {', '.join(told)}")
    for error in result.errors:
        place = f" ({error.path})" if error.path else ""
        source = f"{error.host}: {error.task}{place}: " if error.host else ""
        typer.echo(f"error: {source}{error.message}", err=True)
    typer.echo(f"{result.status} in {result.duration_s:.1f} s")
    typer.echo(f"by hand: {line}")
