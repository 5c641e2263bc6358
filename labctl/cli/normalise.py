"""``labctl normalise``: derive the tables of a record anew, or read outputs that labctl did not make."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from labctl.normalise.files import FileResult


class OutputFormat(StrEnum):
    """Forms of output; ``auto``: a table on a terminal, JSON lines elsewhere."""

    AUTO = "auto"
    TABLE = "table"
    JSONL = "jsonl"


def normalise(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="A record, or output files, directories of them, `-` for standard input.",
            metavar="RECORD|PATH...",
            show_default=False,
        ),
    ],
    form: Annotated[OutputFormat, typer.Option("--format", help="How to print what files say.")] = OutputFormat.AUTO,
) -> None:
    """Turn what tools printed into measurements in canonical units.

    A record gets its tables/*.parquet made anew from the raw files. Any other path is read by its content; measurements
    and findings are printed. Ends with 1 if a file could not be read or the tool in it reports failure.

    Examples:
        labctl normalise records/20261201-101500-quickstart-k7m2p

        labctl normalise old-results/ --format jsonl > measurements.jsonl

        fio job.fio --output-format=json | labctl normalise -
    """
    from labctl.errors import ExitCode
    from labctl.normalise.files import normalise_files, to_jsonl

    if len(paths) == 1 and _is_record(paths[0]):
        _record(paths[0])
        return
    failed = False

    def seen(results: Iterable[FileResult]) -> Iterable[FileResult]:
        nonlocal failed
        for one in results:
            failed = failed or one.result.failed or any(f.severity == "error" for f in one.result.findings)
            yield one

    results = seen(normalise_files(paths))
    if form is OutputFormat.TABLE or (form is OutputFormat.AUTO and sys.stdout.isatty()):
        _table(results)
    else:
        for line in to_jsonl(results):
            typer.echo(line)
    if failed:
        raise typer.Exit(int(ExitCode.ERROR))


def _is_record(path: Path) -> bool:
    from labctl.record.layout import RecordLayout

    layout = RecordLayout(path)
    return layout.ledger.is_file() or layout.plan.is_file() or layout.identity.is_file()


def _record(path: Path) -> None:
    from labctl.normalise.record import normalise_record
    from labctl.normalise.tables import write_tables
    from labctl.record.layout import RecordLayout

    tables = normalise_record(path)
    layout = RecordLayout(path)
    write_tables(tables, layout.tables)
    for name, table in tables.items():
        typer.echo(f"{layout.tables / name}.parquet: {table.num_rows} rows")


def _table(results: Iterable[FileResult]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for one in results:
        title = " ".join(filter(None, (one.source, one.result.tool, one.result.tool_version)))
        table = Table("job", "operation", "metric", "component", "statistic", "value", "unit", "status", title=title)
        for row in one.result.measurements:
            value = "-" if row.value is None else f"{row.value:.6g}"
            where = (row.job, row.operation, row.metric.value, row.component, row.statistic)
            table.add_row(*where, value, row.unit.value, row.status.value)
        console.print(table)
        for finding in one.result.findings:
            console.print(f"{finding.severity}: {finding.rule}: {finding.message}", markup=False)
