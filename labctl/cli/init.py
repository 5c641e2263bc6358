"""``labctl init``: the first inventory."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from labctl.errors import ExitCode, LabctlError


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory to make; it must be new or empty.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="[NAME=][USER@]ADDRESS", help="A host of the lab; repeatable. Unset: this machine."
        ),
    ] = None,
) -> None:
    """Make the inventory of a lab, with comments that explain each key.

    For example:

        labctl init inventories/here

        labctl init inventories/rack4 --host root@10.0.0.11 --host node2=bench@10.0.0.12
    """
    from labctl.lab.scaffold import parse_host, scaffold

    parsed = [parse_host(text) for text in hosts or []]
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        what = "exists already and is not an empty directory"
        hint = "choose another name; labctl init never overwrites"
        raise LabctlError(what, where=str(directory), hint=hint, code=ExitCode.USAGE)
    for path, text in scaffold(directory.absolute().name, parsed).items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as stream:
            stream.write(text)
        typer.echo(f"made {target}")
    typer.echo(f"next: labctl doctor -i {shlex.quote(str(directory))}")
