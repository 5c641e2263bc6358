"""A plan as text: tables on a terminal, plain columns elsewhere."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from labctl.cli.display import duration
from labctl.workloads.units import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from labctl.plan.models import Plan

Row = tuple[str, ...]


def show_plan(plan: Plan, *, commands: bool) -> None:
    """Print the plan to standard output."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
    for line in summary(plan):
        console.print(line)
    _table(console, ("arm", "host", "storage", "disk needed", "disk free", "needs"), arm_rows(plan))
    for left in plan.left_out:
        console.print(f"left out: {left.arm} on {left.host}: {left.reason}")
    _table(console, ("#", "block", "cell", "seconds", "bytes"), cell_rows(plan))
    if commands:
        for line in command_lines(plan):
            console.print(line)
    for finding in plan.findings:
        place = f" ({finding.where})" if finding.where else ""
        console.print(f"{finding.severity}: {finding.rule}: {finding.message}{place}")


def summary(plan: Plan) -> list[str]:
    """Title, counts, seed, time and bytes."""
    written = sum(cell.bytes_written for cell in plan.cells)
    hosts = "hosts in parallel" if plan.parallel_hosts else "one load at a time"
    return [
        f"{plan.study}: {plan.title}",
        f"lab {plan.lab}, baseline {plan.baseline}, {plan.repeats} repeats in blocks",
        f"order by seed {plan.seed}, {hosts}",
        f"{len(plan.cells)} cells, about {duration(plan.estimate_s)} of work, about {format_size(written)} written",
    ]


def arm_rows(plan: Plan) -> list[Row]:
    """One row an arm and host."""
    return [
        (
            arm.name,
            arm.host,
            f"{arm.storage.filesystem or arm.storage.kind} {arm.storage.path}",
            format_size(arm.disk_needed_bytes),
            "?" if arm.disk_free_bytes is None else format_size(arm.disk_free_bytes),
            ", ".join(arm.needs),
        )
        for arm in plan.arms
    ]


def cell_rows(plan: Plan) -> list[Row]:
    """One row a cell, in the order of execution."""
    return [
        (str(number), str(cell.block), cell.id, f"{cell.estimate_s:.1f}", format_size(cell.bytes_written))
        for number, cell in enumerate(plan.cells, 1)
    ]


def command_lines(plan: Plan) -> list[str]:
    """Every distinct cell's commands and files, once for all repeats."""
    lines: list[str] = []
    for cell in plan.cells:
        if cell.block != 1:
            continue
        lines.append(f"# {cell.id}")
        for step in cell.steps:
            notes = [step.phase, *(["as the database user"] if step.database_user else [])]
            notes += [f"unless {step.creates} exists"] if step.creates else []
            place = f"cd {shlex.quote(step.cwd)} && " if step.cwd else ""
            lines.append(f"{place}{shlex.join(step.argv)}   # {', '.join(notes)}")
            for name, text in step.files.items():
                lines += [f"    {name}: {line}" for line in text.splitlines()]
    return lines


def _table(console: Console, header: Row, rows: Sequence[Row]) -> None:
    if console.is_terminal:
        from rich.table import Table

        table = Table(*header)
        for row in rows:
            table.add_row(*row)
        console.print(table)
        return
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        console.print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
