"""``labctl records``: which runs there are and how they ended; and opening one for the other verbs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from labctl.cli.options import JsonOption, RecordsOption
from labctl.cli.output import print_json

if TYPE_CHECKING:
    from labctl.run.events import Listener
    from labctl.run.session import Session


def session_of(path: Path, emit: Listener) -> Session:
    """The record at ``path``, ready to be worked on in the lab that it was made in.

    Raises:
        LabctlError: There is no such record, it lacks its plan, or its inventory is gone or no longer valid.
    """
    from labctl.errors import LabctlError, Where
    from labctl.lab.loader import load_lab
    from labctl.record.record import open_record
    from labctl.run.session import Session

    record = open_record(path)
    identity, plan = record.whole()
    inventory = Path(identity.inventory)
    if not inventory.exists():
        raise LabctlError(
            "the inventory that this record was made with is gone",
            where=Where(inventory),
            hint="bring it back to the same place; the record names its hosts, not how to reach them",
        )
    return Session(record.layout, identity.run_id, plan, load_lab(inventory), emit)


def describe(path: Path) -> dict[str, Any]:
    """One record as JSON values; a damaged one says what is missing."""
    from labctl.record.locks import is_locked
    from labctl.record.record import open_record

    record = open_record(path)
    counts: dict[str, int] = {}
    for entry in record.ledger.cells.values():
        counts[entry.state] = counts.get(entry.state, 0) + 1
    running = is_locked(record.layout.lock)
    return {
        "record": str(path),
        "study": record.identity.study if record.identity else None,
        "lab": record.identity.lab if record.identity else None,
        "created": record.identity.created if record.identity else record.ledger.started,
        "state": "running" if running else _state_at_rest(record.ledger.run_state),
        "cells": counts,
        "missing": record.missing,
    }


def _state_at_rest(state: str | None) -> str:
    # Nobody holds the lock: a run that its ledger still calls going was killed.
    return "killed" if state in {"created", "resumed"} else state or "unknown"


def _local_time(moment: float | None) -> str:
    if not moment:
        return "?"
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return "?"  # a damaged record may say anything


def records(where: RecordsOption = Path("records"), as_json: JsonOption = False) -> None:
    """List the records of a directory, newest last, with their state.

    Examples:
        labctl records

        labctl records --records /srv/lab/records --json
    """
    found = sorted(path.parent for path in where.glob("*/ledger.jsonl"))
    if not found and not as_json:
        typer.echo(f"no records in {where}")
        return
    for path in found:
        data = describe(path)
        if as_json:
            print_json(data)
            continue
        created = _local_time(data["created"])
        cells = ", ".join(f"{count} {state}" for state, count in data["cells"].items()) or "no cells"
        damage = f"  damaged: {len(data['missing'])}" if data["missing"] else ""
        typer.echo(f"{created}  {data['state']:<11}  {path}  {cells}{damage}")
