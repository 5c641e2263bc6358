"""The option that names a lab, with its default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.lab.default import default_inventory

LabOption = Annotated[
    Path,
    typer.Option(
        "--inventory",
        "-i",
        envvar="LABCTL_INVENTORY",
        help="Inventory directory or file of the lab. Unset: inventories/localhost, or this machine.",
        default_factory=default_inventory,
        show_default=False,
    ),
]
LimitOption = Annotated[
    str | None, typer.Option("--limit", "-l", metavar="PATTERN", help="Only these hosts or groups (Ansible's pattern).")
]
