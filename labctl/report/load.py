"""A record directory → :class:`RecordData`: the only module of the report that reads files.

A damaged or half-written record opens: what could not be read becomes an entry in ``problems`` and an empty table,
never a wrong number. Only the plan is indispensable, because without it nobody knows what the record was to hold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from labctl.errors import ExitCode, LabctlError, Where
from labctl.lab.facts import HostFacts
from labctl.normalise.schema import TABLES
from labctl.plan.models import Plan
from labctl.record.layout import RecordLayout
from labctl.record.ledger import LedgerView, read_ledger
from labctl.record.record import read_plan

if TYPE_CHECKING:
    from pathlib import Path

#: Columns of the two big tables that the report uses; the rest stays on disk.
_BIG = {
    "series": (
        *("arm", "cell", "sample", "attempt", "host", "workload", "point", "phase"),
        *("t", "source", "operation", "metric", "component", "statistic", "value", "unit", "raw_file"),
    ),
    "histograms": (
        *("arm", "cell", "sample", "attempt", "host", "workload", "point", "phase"),
        *("operation", "metric", "component", "bin", "count"),
    ),
}


@dataclass(frozen=True, slots=True)
class Command:
    """A line that a user can run by hand, and the stage directory that it belongs to."""

    stage: str
    line: str


@dataclass(frozen=True, slots=True)
class RecordData:
    """What a record says, as read: ``tables`` has every table of the schema, empty where there is none."""

    root: Path
    plan: Plan
    identity: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    ledger: LedgerView = field(default_factory=LedgerView)
    facts: dict[str, HostFacts] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    manifest_files: int | None = None
    problems: tuple[str, ...] = ()


def load_record(root: Path) -> RecordData:
    """Read a record.

    Raises:
        LabctlError: there is no record at ``root``, or its plan cannot be read.
    """
    layout = RecordLayout(root)
    if not root.is_dir():
        raise LabctlError("no such record directory", where=str(root), code=ExitCode.USAGE)
    problems: list[str] = []
    plan = _plan(layout.plan)
    identity = _json_object(layout.identity, problems)
    tables = {name: _table(layout.tables / f"{name}.parquet", name, problems) for name in TABLES}
    ledger = read_ledger(layout.ledger)
    problems += [f"ledger.jsonl, line {number}: {reason}" for number, reason in ledger.damaged]
    manifest = _json_object(layout.manifest, problems) if layout.manifest.exists() else {}
    files = manifest.get("files", manifest)
    return RecordData(
        root=root,
        plan=plan,
        identity=identity,
        tables=tables,
        ledger=ledger,
        facts=_facts(layout.hosts, problems),
        commands=_commands(layout.automation),
        manifest_files=len(files) if manifest and isinstance(files, dict | list) else None,
        problems=tuple(problems),
    )


def _plan(path: Path) -> Plan:
    if not path.exists():
        hint = "give the directory that labctl run printed; it holds plan.json and record.json"
        raise LabctlError("not a record: it has no plan.json", where=str(path.parent), hint=hint, code=ExitCode.USAGE)
    try:
        return read_plan(path)
    except LabctlError as exc:
        hint = "without its plan nobody knows what a record was to hold; `labctl normalise` reads its raw files"
        raise LabctlError(f"the plan is damaged: {exc.what}", where=Where(path), hint=hint) from exc


def _json_object(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        problems.append(f"{path.name} is missing")
        return {}
    except (OSError, ValueError) as exc:
        problems.append(f"{path.name} cannot be read: {exc}")
        return {}
    if not isinstance(value, dict):
        problems.append(f"{path.name} does not hold a JSON object")
        return {}
    return value


def _table(path: Path, name: str, problems: list[str]) -> pd.DataFrame:
    """One table, strings plain and integers nullable; empty with the schema's columns where it cannot be read."""
    schema = TABLES[name]
    columns = list(_BIG.get(name, schema.names))
    try:
        table = pq.read_table(path, columns=columns)
    except FileNotFoundError:
        problems.append(f"tables/{path.name} is missing: labctl normalise makes it")
        table = None
    except (OSError, pa.ArrowException) as exc:
        problems.append(f"tables/{path.name} cannot be read ({exc}): labctl normalise makes it anew")
        table = None
    if table is not None and (gone := [column for column in columns if column not in table.column_names]):
        problems.append(f"tables/{path.name} lacks {', '.join(gone)}: labctl normalise makes it anew")
        table = None
    if table is None:
        table = schema.empty_table().select(columns)
    frame = table.to_pandas()
    for column in columns:
        if isinstance(frame[column].dtype, pd.CategoricalDtype):
            labels = frame[column].astype(object)
            frame[column] = labels.where(labels.notna(), "")
    return frame


def _facts(directory: Path, problems: list[str]) -> dict[str, HostFacts]:
    facts: dict[str, HostFacts] = {}
    for path in sorted(directory.glob("*.json")):
        try:
            facts[path.stem] = HostFacts.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as exc:
            problems.append(f"hosts/{path.name} cannot be read: {str(exc).splitlines()[0]}")
    return facts


def _commands(directory: Path) -> tuple[Command, ...]:
    """The playbook lines, in the order in which they ran (directories are numbered)."""
    found = []
    for path in sorted(directory.glob("*/command.txt")):
        line = path.read_text(encoding="utf-8", errors="replace").strip()
        if line:
            found.append(Command(path.parent.name, line))
    return tuple(found)
