"""Options that several verbs share, defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RecordArgument = Annotated[Path, typer.Argument(help="Directory of one run.", metavar="RECORD")]
RecordsOption = Annotated[
    Path,
    typer.Option("--records", envvar="LABCTL_RECORDS", help="Directory that holds the records of all runs."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines, one object a line.")]
KeepOption = Annotated[
    bool, typer.Option("--keep", help="Leave data and storage on the hosts (remove them with `labctl teardown`).")
]
ReconnectOption = Annotated[
    float, typer.Option(min=1, help="Seconds to wait for a host that is gone (reboot, cut network).")
]
StudyArgument = Annotated[str, typer.Argument(help="Built-in name, or path of a study file.", metavar="STUDY")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value: workloads.*.parameters.runtime=2s. Repeatable."),
]
RepeatsOption = Annotated[int | None, typer.Option(min=1, max=1000, help="Repeats instead of the study's.")]
SeedOption = Annotated[
    int | None, typer.Option(min=1, max=2**31 - 1, help="Seed of order and random data; default: the study's, or new.")
]
ArmsOption = Annotated[str | None, typer.Option(metavar="A,B", help="Only these arms (the baseline among them).")]


def split_arms(arms: str | None) -> list[str] | None:
    """``a,b`` to a list; None stays None (all arms)."""
    return None if arms is None else [name.strip() for name in arms.split(",") if name.strip()]
