"""``labctl report``: write the report of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    record: Annotated[Path, typer.Argument(help="The record directory that `labctl run` printed.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where to write; without it, report/ in the record."),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", "-f", metavar="LIST", help="Any of html, md, csv, with commas between.")
    ] = "html,md,csv",
) -> None:
    """Write what a record says as one self-contained HTML page, as Markdown and as CSV.

    A record without tables (collected by hand, or cut short) is normalised first.

    Examples:
        labctl report records/20261201-101500-quickstart-k7m2p

        labctl report records/20261201-101500-quickstart-k7m2p --format md -o /tmp/report
    """
    from labctl.record.record import find_record
    from labctl.report.write import write_report

    layout = find_record(record)
    if not layout.tables.is_dir():
        from labctl.normalise.record import normalise_record
        from labctl.normalise.tables import write_tables

        write_tables(normalise_record(layout.root), layout.tables)
    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    for path in write_report(record, out, chosen):
        typer.echo(path)
