"""Records made of plain numbers, for tests of the report: the same files and schemas as a run leaves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labctl.normalise.schema import TABLES
from labctl.plan.models import Cell, LeftOut, Plan, PlanFinding, PlannedArm, PlannedStorage, Step
from labctl.record.layout import RecordLayout
from labctl.record.ledger import CellState, Ledger

START = 1_796_000_000.0


@dataclass
class Lab:
    """What the record is to hold; every number of it can be foretold from the fields."""

    arms: tuple[str, ...] = ("disk", "tmpfs", "xfs-loop")
    hosts: tuple[str, ...] = ("node1",)
    repeats: int = 3
    block_sizes: tuple[str, ...] = ("4k", "1m")
    tools: tuple[str, ...] = ("fio", "sysbench", "pgbench")
    title: str = "Which storage of this machine is fastest?"
    question: str = "How much do the storage arms of one machine differ in IOPS, bandwidth and latency?"
    status: Callable[[Cell], CellState] = lambda _cell: "done"
    error: str = "fio: io_u error on file data: No space left on device"
    series_points: int = 20
    left_out: bool = True
    arm_title: str = "on the machine"
    numbers: dict[str, list[float]] = field(default_factory=dict)
    """Arm → IOPS of its samples at 4 KiB, to check medians by hand."""


def build_record(root: Path, lab: Lab | None = None) -> Path:
    """Write the record and return its directory."""
    lab = lab or Lab()
    layout = RecordLayout(root)
    root.mkdir(parents=True)
    plan = _plan(lab)
    layout.plan.write_text(plan.model_dump_json())
    layout.identity.write_text(
        json.dumps(
            {
                "schema": 1,
                "run_id": "20261130-101500-quickstart-k7m2p",
                "lab": "localhost",
                "study": "quickstart",
                "inventory": "inventories/localhost",
                "created": START,
                "labctl": "0.1.0",
                "command": ["labctl", "run", "quickstart", "-i", "inventories/localhost"],
            }
        )
    )
    ledger = Ledger(layout.ledger)
    ledger.run("created")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for order, cell in enumerate(plan.cells):
        status = lab.status(cell)
        if status == "planned":
            ledger.cell(cell.id, 0, "planned")
            continue
        error = lab.error if status == "failed" else None
        ledger.cell(cell.id, 1, status, error)
        bundle = layout.bundle(cell.id, 1)
        bundle.mkdir(parents=True)
        (bundle / "result.json").write_text("{}")
        started = START + 40.0 * order
        context = _context(cell)
        rows["cells"].append(
            {**context, "status": status, "started": started, "finished": started + 31.5, "error": error}
        )
        _fingerprint(rows, context, cell)
        if status == "done":
            _TOOLS[cell.tool](rows, context, cell, lab)
            _agent_series(rows, context, lab, order)
    states = {lab.status(cell) for cell in plan.cells}
    ledger.run("finished" if states == {"done"} else "interrupted")
    layout.tables.mkdir()
    for name, schema in TABLES.items():
        columns = {column: [row.get(column) for row in rows[name]] for column in schema.names}
        pq.write_table(pa.table(columns, schema=schema), layout.tables / f"{name}.parquet")
    layout.hosts.mkdir()
    for host in lab.hosts:
        (layout.hosts / f"{host}.json").write_text(json.dumps(_facts(lab, host)))
    stage = layout.automation / "01-host"
    stage.mkdir(parents=True)
    (stage / "command.txt").write_text("ansible-playbook -i inventories/localhost labctl.lab.host\n")
    layout.manifest.write_text(json.dumps({"schema": 1, "files": {"plan.json": {}}}))
    return root


def _plan(lab: Lab) -> Plan:
    cells = []
    points = [("fio-random", "fio", {"bs": bs, "rw": "randrw", "ramp_s": 2}) for bs in lab.block_sizes]
    points += [("cpu", "sysbench", {"threads": 2})] if "sysbench" in lab.tools else []
    points += [("tpcb", "pgbench", {"clients": 4, "scale": 10})] if "pgbench" in lab.tools else []
    points = [point for point in points if point[1] in lab.tools]
    for repeat in range(1, lab.repeats + 1):
        for host in lab.hosts:
            for workload, tool, parameters in points:
                rotated = lab.arms[repeat % len(lab.arms) :] + lab.arms[: repeat % len(lab.arms)]
                point = ",".join(f"{key}={value}" for key, value in parameters.items())
                for arm in rotated:
                    cells.append(_cell(len(cells) + 1, arm, host, workload, tool, parameters, point, repeat))
    arms = tuple(
        PlannedArm(
            name=arm,
            title=f"{arm} {lab.arm_title}",
            target="host",
            host=host,
            storage=PlannedStorage(kind="loop" if "loop" in arm else "directory", path=f"/srv/labctl/{arm}"),
            disk_needed_bytes=2**30,
            disk_free_bytes=2**34,
            needs=("root", "loop devices") if "loop" in arm else (),
        )
        for arm in lab.arms
        for host in lab.hosts
    )
    return Plan(
        study="quickstart",
        title=lab.title,
        question=lab.question,
        baseline=lab.arms[0],
        lab="localhost",
        seed=20261130,
        repeats=lab.repeats,
        workdir=dict.fromkeys(lab.hosts, "/srv/labctl"),
        tools=lab.tools,
        arms=arms,
        left_out=(LeftOut(arm="zfs", host=lab.hosts[0], reason="no zfs on this host"),) if lab.left_out else (),
        cells=tuple(cells),
        findings=(
            PlanFinding(rule="plan.short", severity="warning", message="Cells of 10 s are too short for steady state"),
        ),
    )


def _cell(  # noqa: PLR0917 - a row of plain values
    number, arm, host, workload, tool, parameters, point, repeat
) -> Cell:
    command = {
        "fio": ("fio", "--output-format=json+", f"--directory=/srv/labctl/{arm}", "job.fio"),
        "sysbench": ("sysbench", "cpu", "--threads=2", "run"),
        "pgbench": ("pgbench", "-c", "4", "-T", "10", "-P", "1"),
    }[tool]
    return Cell(
        id=f"{number:05d}-{workload}-{arm}-r{repeat}",
        arm=arm,
        host=host,
        target="host",
        workload=workload,
        tool=tool,
        parameters=parameters,
        point=point,
        repeat=repeat,
        block=repeat,
        data_dir=f"/srv/labctl/{arm}/data",
        steps=(Step(name="run", phase="run", argv=command, timeout_s=60),),
        estimate_s=30,
        deadline_s=90,
        bytes_written=2**20,
    )


def _context(cell: Cell) -> dict[str, Any]:
    return {
        "run": "20261130-101500-quickstart-k7m2p",
        "lab": "localhost",
        "study": "quickstart",
        "arm": cell.arm,
        "cell": cell.id,
        "block": cell.block,
        "sample": cell.repeat,
        "attempt": 1,
        "instance": 0,
        "target": "host",
        "host": cell.host,
        "workload": cell.workload,
        "point": cell.point,
        "phase": "run",
        "tool": cell.tool,
        "tool_version": {"fio": "3.33", "sysbench": "1.0.20", "pgbench": "15.8"}[cell.tool],
        "parameters": json.dumps(cell.parameters, sort_keys=True),
    }


def _factor(cell: Cell, lab: Lab) -> float:
    """Faster arms have higher factors; samples differ by a few per cent."""
    wobble = (0.0, 0.03, -0.021, 0.012, -0.008)[(cell.repeat * 2 + len(cell.arm)) % 5]
    return (1 + 0.62 * lab.arms.index(cell.arm)) * (1 + wobble)


_UNITS = {
    "iops": "1/s",
    "bandwidth": "bytes/s",
    "latency": "s",
    "runtime": "s",
    "transactions_rate": "1/s",
    "events_rate": "1/s",
    "cpu_used": "cores",
}


def _measure(  # noqa: PLR0917 - a row of plain values
    rows, context, metric, statistic, value, operation="", component="total", phase="run"
):
    rows["measurements"].append(
        {
            **context,
            "phase": phase,
            "run_index": 0,
            "job": "",
            "operation": operation,
            "metric": metric,
            "component": component,
            "statistic": statistic,
            "value": value,
            "unit": _UNITS[metric],
            "status": "ok" if value is not None else "missing",
            "raw_file": f"raw/{context['cell']}/a1/steps/01-run/stdout",
            "parser": f"{context['tool']}/1",
        }
    )


def _fio(rows, context, cell: Cell, lab: Lab) -> None:
    size = {"4k": 4096, "1m": 2**20}.get(str(cell.parameters["bs"]), 16384)
    for operation, share in (("read", 0.7), ("write", 0.3)):
        iops = 52_000 * share * _factor(cell, lab) * (4096 / size) ** 0.8
        if size == 4096 and operation == "read":
            iops = lab.numbers.get(cell.arm, [iops] * 99)[cell.repeat - 1]
        latency = 1 / iops
        _measure(rows, context, "iops", "mean", iops, operation)
        _measure(rows, context, "bandwidth", "mean", iops * size, operation)
        _measure(rows, context, "latency", "mean", latency, operation)
        for statistic, times in (("p50", 0.8), ("p99", 6.0)):
            _measure(rows, context, "latency", statistic, latency * times, operation, "completion")
        bins = [latency * 10 ** (step / 20) for step in range(-20, 40)]
        for step, value in enumerate(bins):
            count = int(2e5 * math.exp(-((step - 18) ** 2) / 90) + 2e4 * math.exp(-step / 7))
            rows["histograms"].append(
                {
                    **context,
                    "job": "",
                    "operation": operation,
                    "metric": "latency",
                    "component": "completion",
                    "bin": value,
                    "count": count,
                    "raw_file": "x",
                }
            )
        _series(rows, context, lab, ("fio", "iops", operation, iops))


def _sysbench(rows, context, cell: Cell, lab: Lab) -> None:
    rate = 2150.0 * (1 + 0.004 * (cell.repeat % 3))
    _measure(rows, context, "events_rate", "mean", rate)
    _measure(rows, context, "latency", "mean", 2 / rate)
    _measure(rows, context, "latency", "p95", 2.4 / rate)


def _pgbench(rows, context, cell: Cell, lab: Lab) -> None:
    rate = 812.0 * _factor(cell, lab)
    _measure(rows, context, "transactions_rate", "mean", rate)
    _measure(rows, context, "latency", "mean", 4 / rate)
    _measure(rows, context, "runtime", "total", 3.1 + cell.repeat / 10, phase="load")
    _series(rows, context, lab, ("pgbench", "transactions_rate", "", rate))


_TOOLS = {"fio": _fio, "sysbench": _sysbench, "pgbench": _pgbench}


def _series(rows, context, lab: Lab, what) -> None:
    source, metric, operation, level = what
    generator = np.random.default_rng(len(rows["series"]))
    for step, noise in enumerate(generator.normal(1, 0.05, lab.series_points)):
        rows["series"].append(
            {
                **context,
                "t": step + 1.0,
                "source": source,
                "operation": operation,
                "metric": metric,
                "component": "total",
                "statistic": "mean",
                "value": level * noise,
                "unit": _UNITS[metric],
                "raw_file": "x",
            }
        )


def _agent_series(rows, context, lab: Lab, order: int) -> None:
    _series(rows, context, lab, ("agent", "cpu_used", "", 0.8 + order % 3 / 10))


def _fingerprint(rows, context, cell: Cell) -> None:
    device = {"disk": ("ext4", "/dev/vda1"), "tmpfs": ("tmpfs", "tmpfs")}.get(cell.arm, ("xfs", "/dev/loop0"))
    place = f"paths.{cell.data_dir}"
    fields = {
        "host.kernel": "6.1.0-28-amd64",
        "host.virtualization": "kvm",
        "cpu.model": "AMD EPYC 7B13",
        "cpu.governor": None,
        "memory.total_bytes": 25_282_985_984,
        "memory.available_bytes": 20_000_000_000 + 1_000_000 * cell.repeat,
        "load.load1": 0.2 + cell.repeat / 10,
        "tools.fio.version": "3.33",
        f"{place}.fs_type": device[0],
        f"{place}.device": device[1],
        f"{place}.mount_options": "rw,relatime",
    }
    for name, value in fields.items():
        encoded = None if value is None else json.dumps(value)
        rows["fingerprints"].append({**context, "field": name, "value": encoded})


def _facts(lab: Lab, host: str) -> dict[str, Any]:
    paths = {
        f"/srv/labctl/{arm}": {
            "requested": f"/srv/labctl/{arm}",
            "existing_parent": "/srv",
            "fs_type": "ext4",
            "device": "/dev/vda1",
            "block_device": {"name": "vda", "model": "QEMU DISK", "rotational": False},
        }
        for arm in lab.arms
    }
    return {
        "schema": 1,
        "host": {
            "hostname": host,
            "kernel": "6.1.0-28-amd64",
            "arch": "x86_64",
            "virtualization": "kvm",
            "os": {"id": "debian", "version": "12", "pretty": "Debian GNU/Linux 12 (bookworm)"},
        },
        "cpu": {"model": "AMD EPYC 7B13", "cores": 1, "threads": 2, "freq_max_hz": 2.45e9},
        "memory": {"total_bytes": 25_282_985_984},
        "load": {"load1": 0.2},
        "time": {"epoch_s": START},
        "user": {"name": "root", "uid": 0},
        "paths": paths,
    }
