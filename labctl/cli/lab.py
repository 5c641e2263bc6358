"""``labctl lab``: what an inventory means to labctl."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from labctl.cli.lab_options import LabOption
from labctl.cli.options import JsonOption

if TYPE_CHECKING:
    from labctl.lab.models import Host, Lab

app = typer.Typer(help="Look at labs.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _root() -> None:
    """Look at labs."""


@app.command()
def show(inventory: LabOption, *, as_json: JsonOption = False) -> None:
    """Check an inventory and show its hosts, groups, disks and interfaces. Contacts no host.

    For example:

        labctl lab show

        labctl lab show -i inventories/rack4 --json
    """
    from labctl.lab.loader import load_lab

    lab = load_lab(inventory)
    if as_json:
        typer.echo(lab.model_dump_json())
    elif sys.stdout.isatty():
        _table(lab)
    else:
        _lines(lab)


def _row(host: Host) -> tuple[str, str, str, str, str]:
    disks = "\n".join(
        disk.id.rpartition("/")[2] + (f" ({disk.purpose})" if disk.purpose else "") for disk in host.disks
    )
    nics = "\n".join(
        nic.name + (f" ({nic.speed_gbps:g} Gbit/s)" if nic.speed_gbps is not None else "") for nic in host.nics
    )
    reach = host.address or ("here" if host.connection == "local" else host.name)
    return host.name, reach, " ".join(host.groups), disks, nics


def _lines(lab: Lab) -> None:
    typer.echo(f"lab {lab.name}: {lab.description}" if lab.description else f"lab {lab.name}")
    for host in lab.hosts.values():
        name, reach, groups, disks, nics = _row(host)
        typer.echo(f"host {name}: {reach}" + (f", groups {groups}" if groups else ""))
        for kind, told in (("disk", disks), ("nic", nics)):
            for line in told.splitlines():
                typer.echo(f"  {kind} {line}")
        if host.workdir:
            typer.echo(f"  workdir {host.workdir}")


def _table(lab: Lab) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    title = f"{lab.name}: {lab.description}" if lab.description else lab.name
    table = Table(title=Text(title, style="bold"), title_justify="left")
    for column in ("host", "address", "groups", "disks", "interfaces"):
        table.add_column(column, overflow="fold")
    for host in lab.hosts.values():
        table.add_row(*(Text(cell) for cell in _row(host)))
    Console().print(table)
