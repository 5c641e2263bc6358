"""Output for machines."""

from __future__ import annotations

import typer


def print_json(value: object, *, indent: int | None = None) -> None:
    """One JSON document on standard output, on one line unless indented."""
    import json

    typer.echo(json.dumps(value, ensure_ascii=False, indent=indent))
