"""RecordData → Report: puts the parts together. Pure."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from labctl.report.fingerprints import build_fingerprints, storage_fields
from labctl.report.model import ArmRow, CellRow, FindingRow, HostRow, Report, Workload
from labctl.report.panels import build_panels
from labctl.report.results import build_workloads, missing_values
from labctl.report.units import DASH, significant, size

if TYPE_CHECKING:
    from labctl.lab.facts import HostFacts
    from labctl.plan.models import Plan
    from labctl.report.load import RecordData

#: How many cells of the order of execution are shown: enough to see the interleaving.
_ORDER_SHOWN = 12
_SEVERITIES = {"error": 0, "warning": 1, "note": 2}
STATES = ("done", "failed", "interrupted", "running", "planned")


def build_report(record: RecordData) -> Report:
    """Everything that the writers need."""
    plan, tables = record.plan, record.tables
    cells = _cells(record)
    arm_names = tuple(dict.fromkeys(arm.name for arm in plan.arms))
    parameters = {(cell.workload, cell.point): cell.parameters for cell in plan.cells}
    panels = build_panels(cells, parameters, tables["series"], tables["histograms"])
    workloads = build_workloads(plan, cells, tables["measurements"], panels)
    found = Counter(cell.status for cell in cells)
    counts = {state: found.get(state, 0) for state in STATES}
    created = record.identity.get("created")
    starts = [cell.started for cell in cells if cell.started is not None]
    ends = [cell.finished for cell in cells if cell.finished is not None]
    return Report(
        title=plan.title or plan.study,
        question=plan.question,
        run_id=str(record.identity.get("run_id") or record.root.name),
        lab=plan.lab,
        study=plan.study,
        baseline=plan.baseline,
        labctl_version=str(record.identity.get("labctl") or DASH),
        started=float(created) if isinstance(created, int | float) else min(starts, default=None),
        finished=max(ends, default=None),
        run_state=record.ledger.run_state or "unknown",
        counts=counts,
        partial=counts["done"] < len(cells),
        samples_per_point=_sample_range(workloads),
        repeats=plan.repeats,
        seed=plan.seed,
        blocks=len({cell.block for cell in plan.cells}),
        order=tuple(cell.arm for cell in plan.cells[:_ORDER_SHOWN]),
        arms=_arms(plan, storage_fields(tables["fingerprints"])),
        arm_names=arm_names,
        hosts=tuple(_host(name, facts) for name, facts in record.facts.items()),
        left_out=tuple((item.arm, item.host, item.reason) for item in plan.left_out),
        commands=_commands(record),
        workloads=workloads,
        fingerprints=build_fingerprints(tables["fingerprints"], arm_names),
        findings=_findings(plan, tables["findings"], cells),
        cells=cells,
        missing=missing_values(workloads),
        problems=record.problems,
        record=str(record.root),
        manifest_files=record.manifest_files,
        identity=_identity(record.identity),
    )


def _cells(record: RecordData) -> tuple[CellRow, ...]:
    """One row a planned cell: the ledger says the state, the table ``cells`` the times."""
    table = record.tables["cells"]
    latest: dict[str, Any] = {}
    for row in table.itertuples(index=False):
        known = latest.get(str(row.cell))
        if known is None or _number(row.attempt) >= _number(known.attempt):
            latest[str(row.cell)] = row
    return tuple(_cell(record, cell, order, latest.get(cell.id)) for order, cell in enumerate(record.plan.cells, 1))


def _cell(record: RecordData, cell: Any, order: int, row: Any) -> CellRow:  # noqa: ANN401 - a row of a DataFrame
    entry = record.ledger.cells.get(cell.id)
    attempt = int(_number(row.attempt)) if row is not None else 0
    status, error = (str(row.status), row.error) if row is not None else ("planned", None)
    if entry is not None and entry.attempt >= attempt:
        attempt, status, error = entry.attempt, entry.state, entry.error or error
    bundle = f"raw/{cell.id}/a{attempt}"
    return CellRow(
        cell=cell.id,
        order=order,
        arm=cell.arm,
        host=cell.host,
        workload=cell.workload,
        tool=cell.tool,
        point=cell.point,
        repeat=cell.repeat,
        block=cell.block,
        attempt=attempt,
        status=status,
        started=_optional(row.started) if row is not None else None,
        finished=_optional(row.finished) if row is not None else None,
        error=error if isinstance(error, str) else "",
        raw=bundle if (record.root / bundle).is_dir() else "",
    )


def _number(value: object) -> float:
    return 0.0 if pd.isna(value) else float(value)  # type: ignore[call-overload,arg-type]


def _optional(value: object) -> float | None:
    return None if pd.isna(value) else float(value)  # type: ignore[call-overload,arg-type]


def _sample_range(workloads: Iterable[Workload]) -> tuple[int, int]:
    """Fewest and most good samples of a figure that has any."""
    numbers = [
        arm.summary.n
        for workload in workloads
        for point in workload.points
        for host in point.hosts
        for figure in host.figures
        for arm in figure.arms
        if arm.summary is not None
    ]
    return min(numbers, default=0), max(numbers, default=0)


def _arms(plan: Plan, measured: Mapping[tuple[str, str], Mapping[str, str]]) -> tuple[ArmRow, ...]:
    """Arms as planned, with the file system and device that were measured while cells ran there."""
    rows = []
    for arm in plan.arms:
        seen = measured.get((arm.name, arm.host), {})
        rotational = {"true": "rotational", "false": "non-rotational"}.get(seen.get("block_device.rotational", ""))
        parts = [seen.get("device"), seen.get("block_device.model"), rotational]
        image = f"loop file {arm.storage.image or ''}".strip()
        rows.append(
            ArmRow(
                name=arm.name,
                title=arm.title,
                host=arm.host,
                baseline=arm.name == plan.baseline,
                kind=image if arm.storage.kind == "loop" else "directory",
                path=arm.storage.path,
                filesystem=seen.get("fs_type") or arm.storage.filesystem or DASH,
                device=", ".join(part for part in parts if part) or DASH,
                needs=", ".join(arm.needs) or "nothing special",
            )
        )
    return tuple(rows)


def _host(name: str, facts: HostFacts) -> HostRow:
    cpu = facts.cpu
    threads = _many(cpu.threads, "thread")
    cores = threads if cpu.cores is None else f"{_many(cpu.cores, 'core')}, {threads}"
    governor = f", governor {cpu.governor}" if cpu.governor else ""
    speed = f", {significant(cpu.freq_max_hz / 1e9, 3)} GHz" if cpu.freq_max_hz else ""
    kind = [
        f"virtual machine ({facts.host.virtualization})" if _real(facts.host.virtualization) else "",
        f"container ({facts.host.container})" if _real(facts.host.container) else "",
    ]
    limit = facts.memory.cgroup_limit_bytes
    memory = size(facts.memory.total_bytes) if facts.memory.total_bytes else DASH
    return HostRow(
        name=name,
        system=facts.host.os.pretty or facts.host.os.id or DASH,
        kernel=facts.host.kernel or DASH,
        cpu=f"{cpu.model or DASH} ({cores}{speed}{governor})",
        memory=f"{memory} (limited to {size(limit)})" if limit else memory,
        machine=", ".join(part for part in kind if part) or "no virtualisation seen",
    )


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _real(kind: str | None) -> bool:
    return bool(kind) and kind != "none"


def _commands(record: RecordData) -> tuple[tuple[str, str], ...]:
    """(what, line) to do the same by hand."""
    lines = []
    command = record.identity.get("command")
    if isinstance(command, list) and command:
        lines.append(("labctl", shlex.join(str(part) for part in command)))
    lines += [(item.stage, item.line) for item in record.commands]
    return tuple(lines)


def _identity(identity: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The scalar fields of record.json that are not shown elsewhere."""
    shown = {"created", "command", "run_id"}
    return tuple(
        (key, str(value))
        for key, value in identity.items()
        if key not in shown and isinstance(value, str | int | float) and value != ""
    )


def _findings(plan: Plan, frame: pd.DataFrame, cells: Sequence[CellRow]) -> tuple[FindingRow, ...]:
    """Findings of parsers, of the planner and of the run itself, equal ones together, the gravest first."""
    grouped: dict[tuple[str, str, str, str], tuple[dict[str, None], dict[str, None]]] = defaultdict(lambda: ({}, {}))
    for item in plan.findings:
        grouped[item.severity, item.rule, item.message, item.where or "plan"]
    planned = {(item.severity, item.rule, item.message) for item in plan.findings}
    for row in frame.itertuples(index=False):
        if not row.cell and (str(row.severity), str(row.rule), str(row.message)) in planned:
            # The normaliser repeats the planner's findings, without the place that they are about.
            continue
        place = grouped[str(row.severity), str(row.rule), str(row.message), ""]
        if row.cell:
            place[0][str(row.cell)] = None
        if row.raw_file:
            place[1][str(row.raw_file)] = None
    explained = {row.cell for row in frame.itertuples(index=False) if str(row.severity) == "error"}
    for cell in cells:
        if cell.status in {"failed", "interrupted"} and cell.cell not in explained:
            severity = "error" if cell.status == "failed" else "warning"
            message = cell.error or f"the cell was {cell.status}; the tool left no words"
            place = grouped[severity, f"cell.{cell.status}", message, ""]
            place[0][cell.cell] = None
            if cell.raw:
                place[1][f"{cell.raw}/result.json"] = None
    rows = [
        FindingRow(severity, rule, message, tuple(names), tuple(files), where)
        for (severity, rule, message, where), (names, files) in grouped.items()
    ]
    return tuple(sorted(rows, key=lambda row: (_SEVERITIES.get(row.severity, 0), row.rule, row.message)))
