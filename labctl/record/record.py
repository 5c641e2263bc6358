"""Making a record, and opening one in whatever state it was left."""

from __future__ import annotations

import json
import re
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labctl import __version__
from labctl.errors import ExitCode, LabctlError, Where
from labctl.plan.models import SCHEMA as PLAN_SCHEMA
from labctl.plan.models import Plan
from labctl.record.files import explained, make_directory, write_atomic, write_json
from labctl.record.layout import RecordLayout
from labctl.record.ledger import Ledger, LedgerView, read_ledger
from labctl.record.locks import owner
from labctl.words import plain

SCHEMA = 1
_RUN_ID = re.compile(r"^[0-9]{8}-[0-9]{6}-[a-z0-9-]{1,40}-[a-z0-9]{5}$")
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def new_run_id(study: str, now: float | None = None) -> str:
    """``20261201-101500-quickstart-k7m2p``: sorts by time (UTC), says what, is unique, is safe as a file name."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    slug = re.sub(r"[^a-z0-9]+", "-", study.lower()).strip("-")[:40] or "study"
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(5))
    return f"{moment}-{slug}-{suffix}"


@dataclass(frozen=True, slots=True)
class Identity:
    """``record.json``."""

    run_id: str
    lab: str
    study: str
    inventory: str
    created: float
    owner: str = ""
    labctl: str = ""
    command: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The document as written."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "lab": self.lab,
            "study": self.study,
            "inventory": self.inventory,
            "created": self.created,
            "owner": self.owner,
            "labctl": self.labctl,
            "command": list(self.command),
        }


@dataclass(slots=True)
class Record:
    """An opened record. ``missing`` says in words what is absent or damaged."""

    layout: RecordLayout
    identity: Identity | None
    plan: Plan | None
    ledger: LedgerView
    missing: list[str] = field(default_factory=list)

    def whole(self) -> tuple[Identity, Plan]:
        """Identity and plan of a record that can be worked on.

        Raises:
            LabctlError: One of them is gone, so that nothing more can be run from this record.
        """
        if self.identity is None or self.plan is None:
            raise LabctlError(
                f"the record cannot be continued: {'; '.join(self.missing)}",
                where=Where(self.layout.root),
                hint="its raw files can still be read: `labctl normalise` works on what is there",
            )
        return self.identity, self.plan


def create_record(
    records: Path,
    *,
    run_id: str,
    plan: Plan,
    study_text: bytes,
    lab: dict[str, Any],
    inventory: Path,
    command: list[str],
) -> RecordLayout:
    """Write everything that must be known before the first action, the ledger last.

    Args:
        records: Directory of records.
        run_id: From :func:`new_run_id`; the record's directory name.
        plan: The frozen plan.
        study_text: The study file, byte for byte.
        lab: The typed lab as JSON, without secrets.
        inventory: The lab's inventory; kept for ``resume``.
        command: The command line, for "how to reproduce".

    Raises:
        LabctlError: The directory cannot be written.
    """
    if not _RUN_ID.match(run_id):
        raise LabctlError(f"{run_id!r} is not a run id", code=ExitCode.USAGE)
    layout = RecordLayout(records.absolute() / run_id)
    make_directory(records)
    with explained(layout.root, "make the record"):
        layout.root.mkdir(mode=0o700)
    for directory in (layout.automation, layout.batches, layout.raw, layout.hosts):
        make_directory(directory)
    write_atomic(layout.study, study_text)
    write_json(layout.lab, lab)
    write_atomic(layout.plan, (plan.model_dump_json(indent=1) + "\n").encode())
    identity = Identity(
        run_id, plan.lab, plan.study, str(inventory.resolve()), time.time(), owner(), __version__, tuple(command)
    )
    write_json(layout.identity, identity.to_json())
    ledger = Ledger(layout.ledger)
    ledger.append(
        {"kind": "run", "state": "created"},
        *({"kind": "cell", "cell": cell.id, "attempt": 0, "state": "planned"} for cell in plan.cells),
    )
    return layout


def find_record(path: Path) -> RecordLayout:
    """The layout of the record at ``path``.

    Raises:
        LabctlError: There is no record there.
    """
    layout = RecordLayout(path.absolute())
    if not any(part.exists() for part in (layout.identity, layout.plan, layout.ledger, layout.raw)):
        what = "there is no such directory" if not path.exists() else "this is not a record"
        raise LabctlError(
            what,
            where=Where(path),
            hint="give the directory of one run, such as records/20261201-101500-quickstart-k7m2p",
            code=ExitCode.USAGE,
        )
    return layout


def open_record(path: Path) -> Record:
    """Open a record however damaged; what is wrong is in ``missing``.

    Raises:
        LabctlError: There is no record at ``path`` at all.
    """
    layout = find_record(path)
    missing: list[str] = []
    ledger = read_ledger(layout.ledger)
    missing += [f"ledger.jsonl line {number}: {reason}" for number, reason in ledger.damaged]
    return Record(layout, _read_identity(layout, missing), _read_plan(layout, missing), ledger, missing)


def _read_identity(layout: RecordLayout, missing: list[str]) -> Identity | None:
    try:
        data = json.loads(layout.identity.read_bytes())
        if not isinstance(data, dict):
            raise TypeError("not a JSON object")  # noqa: TRY301 - one place words every kind of damage
        _refuse_newer(data.get("schema", SCHEMA), SCHEMA)
        if not _RUN_ID.fullmatch(str(data["run_id"])):
            # Directories on the hosts are named by it.
            raise ValueError(f"{data['run_id']!r} is not a run id")  # noqa: TRY301
        return Identity(
            run_id=str(data["run_id"]),
            lab=str(data["lab"]),
            study=str(data["study"]),
            inventory=str(data["inventory"]),
            created=float(data["created"]),
            owner=str(data.get("owner", "")),
            labctl=str(data.get("labctl", "")),
            command=tuple(str(word) for word in data.get("command", [])),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        missing.append(f"record.json: {_reason(error)}")
        return None


def _read_plan(layout: RecordLayout, missing: list[str]) -> Plan | None:
    try:
        return read_plan(layout.plan)
    except LabctlError as error:
        missing.append(f"plan.json: {error.what}")
        return None


def read_plan(path: Path) -> Plan:
    """The plan of a record.

    Raises:
        LabctlError: It cannot be read, is damaged, or is of a newer labctl.
    """
    try:
        raw = path.read_bytes()
        document = json.loads(raw)
        if isinstance(document, dict):
            _refuse_newer(document.get("schema_version", PLAN_SCHEMA), PLAN_SCHEMA)
        return Plan.model_validate_json(raw)
    except (OSError, ValueError, RecursionError) as error:
        raise LabctlError(_reason(error), where=Where(path)) from error


def _refuse_newer(found: object, known: int) -> None:
    if isinstance(found, int) and found > known:
        raise ValueError(f"of schema {found}, made by a newer labctl; labctl {__version__} reads up to {known}")


def _reason(error: Exception) -> str:
    """Why a file cannot be used, in words for people."""
    match error:
        case OSError():
            return error.strerror or str(error)
        case ValidationError():
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
            return (f"{place}: " if place else "") + plain(first["msg"]) + more
        case json.JSONDecodeError():
            return f"not whole or not JSON: {error}"
        case KeyError():
            return f"{error.args[0]!r} is missing"
        case _:
            return str(error)
