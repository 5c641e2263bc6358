"""``labctl doctor``: is this lab fit to measure?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from labctl.cli.lab_options import LabOption, LimitOption
from labctl.cli.options import JsonOption, RecordsOption
from labctl.cli.output import print_json
from labctl.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labctl.lab.doctor import Check

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


def doctor(
    inventory: LabOption,
    limit: LimitOption = None,
    records: RecordsOption = Path("records"),
    *,
    as_json: JsonOption = False,
) -> None:
    """Check this machine and the hosts of a lab, and say how to mend what is wrong. Changes nothing.

    Ends with 0 if nothing failed; warnings do not count. 1: this machine, 3: a host failed, 4: a host is unreachable.

    For example:

        labctl doctor

        labctl doctor -i inventories/rack4 -l storage --json
    """
    from dataclasses import asdict

    from labctl.lab.loader import load_lab
    from labctl.lab.survey import survey

    checks = survey(load_lab(inventory), records, limit=limit)
    counts = {status: sum(check.status == status for check in checks) for status in _STYLES}
    if as_json:
        for check in checks:
            print_json({"event": "check", **asdict(check)})
        print_json({"event": "summary", **counts})
    elif sys.stdout.isatty():
        _table(checks)
    else:
        _lines(checks)
    if not as_json:
        typer.echo(", ".join(f"{count} {status}" for status, count in counts.items()))
    code = exit_code(checks)
    if code != ExitCode.OK:
        raise typer.Exit(int(code))


def exit_code(checks: Sequence[Check]) -> ExitCode:
    """The gravest of what failed: a host out of reach, a host, this machine."""
    failed = [check for check in checks if check.status == "fail"]
    if any(check.host and check.id == "reachable" for check in failed):
        return ExitCode.HOSTS_UNREACHABLE
    if any(check.host for check in failed):
        return ExitCode.HOSTS_FAILED
    return ExitCode.ERROR if failed else ExitCode.OK


def _table(checks: Sequence[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for host in dict.fromkeys(check.host for check in checks):
        table = Table(title=host or "this machine", title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("", no_wrap=True)
        table.add_column("check", no_wrap=True)
        table.add_column("seen", ratio=2, overflow="fold")
        table.add_column("how to mend it", ratio=2, overflow="fold")
        for check in checks:
            if check.host == host:
                status = Text(check.status, style=_STYLES[check.status])
                table.add_row(status, Text(check.what), Text(check.evidence), Text(check.fix))
        console.print(table)
        console.print()


def _lines(checks: Sequence[Check]) -> None:
    for check in checks:
        typer.echo(f"{check.status:<4} {check.host or 'controller'}: {check.what}: {check.evidence}")
        if check.fix and check.status != "ok":
            typer.echo(f"     fix: {check.fix}")
