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
EXAMPLES = "Examples:\n\n"
