"""A record gives the same tables each time, whatever state it was left in, and never a value that is not evidence."""

from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labctl.errors import LabctlError
from labctl.normalise.record import normalise_record
from labctl.normalise.tables import write_tables
from labctl.plan.models import Cell, Plan, PlanFinding, PlannedArm, PlannedStorage, Step
from tests.unit.parser_values import golden

FIO = golden("fio", "v3.33-libaio-group.json")


RUN_ID = "20261201-101500-s-k7m2p"


def arm(name):
    storage = PlannedStorage(kind="directory", path="/d")
    needs = {"disk_needed_bytes": 0, "disk_free_bytes": None, "needs": ()}
    return PlannedArm(name=name, title=name, target="host", host="h1", storage=storage, **needs)


def step(name, phase, outputs=()):
    return Step(name=name, phase=phase, argv=("true",), timeout_s=1, outputs=outputs)


def cell(number, tool="fio", steps=None):
    return Cell(
        id=f"c{number:04d}",
        arm="plain" if number % 2 else "loop",
        host="h1",
        target="host",
        workload="w",
        tool=tool,
        parameters={"bs": "4k", "iodepth": 8},
        point="bs=4k",
        repeat=(number + 1) // 2,
        block=1,
        data_dir="/d",
        steps=steps or (step("prefill", "prefill"), step("run", "run", ("fio.json",))),
        estimate_s=1,
        deadline_s=10,
        bytes_written=0,
    )


class Made:
    """A record in a directory, made by hand."""

    def __init__(self, root, cells):
        self.root = root
        self.cells = cells
        plan = Plan(
            study="s",
            title="t",
            question="q",
            baseline="plain",
            lab="lab1",
            seed=1,
            repeats=1,
            workdir={"h1": "/w"},
            tools=("fio",),
            arms=(arm("plain"), arm("loop")),
            left_out=(),
            cells=tuple(cells),
            findings=(PlanFinding(rule="plan.small", severity="warning", message="small", where="x"),),
        )
        self.write("plan.json", plan.model_dump_json())
        identity = {"schema": 1, "run_id": RUN_ID, "lab": "lab1", "study": "s", "inventory": "/i", "created": 1.0}
        self.write("record.json", json.dumps(identity))
        self.write("ledger.jsonl", "")
        for c in cells:
            self.say(c.id, 0, "planned")

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def say(self, cell_id, attempt, state):
        line = {"t": 1.0, "kind": "cell", "cell": cell_id, "attempt": attempt, "state": state}
        with (self.root / "ledger.jsonl").open("a") as ledger:
            ledger.write(json.dumps(line) + "\n")

    def bundle(self, c, attempt=1, status="done", outputs=None, step_status="ok"):
        at = f"raw/{c.id}/a{attempt}"
        results = []
        for index, s in enumerate(c.steps, 1):
            directory = f"steps/{index:02d}-{s.name}"
            last = index == len(c.steps)
            results.append(
                {
                    "name": s.name,
                    "phase": s.phase,
                    "directory": directory,
                    "argv": ["true"],
                    "status": step_status if last else "ok",
                    "rc": 0,
                    "started": 100.0 * index,
                    "finished": 100.0 * index + 4,
                    "cpu_user_s": 3.0,
                    "cpu_system_s": 1.0,
                    "max_rss_bytes": 4096,
                    "words": "" if step_status == "ok" else "the tool's words",
                }
            )
            self.write(f"{at}/{directory}/stdout", b"")
            self.write(f"{at}/{directory}/stderr", b"")
        for name, data in (outputs or {"02-run/fio.json": FIO}).items():
            self.write(f"{at}/steps/{name}", data)
        self.write(f"{at}/spec.json", json.dumps({"steps": [s.model_dump(mode="json") for s in c.steps]}))
        self.write(f"{at}/fingerprint.json", json.dumps({"memory": {"total_bytes": 1000}, "cpu": {"model": None}}))
        samples = [
            {"t": 200.0 + t, "step": "02-run", "cpu": {"user": t, "system": 0.0}, "mem_available": 400, "mem_cached": 1}
            for t in range(3)
        ]
        self.write(f"{at}/samples.jsonl", "".join(json.dumps(s) + "\n" for s in samples))
        result = {
            "schema": 1,
            "cell_id": c.id,
            "attempt": attempt,
            "status": status,
            "started": 100.0,
            "finished": 204.0,
            "boot_id": "b",
            "error": None if status == "done" else "the run failed",
            "steps": results,
        }
        self.write(f"{at}/result.json", json.dumps(result))
        self.say(c.id, attempt, status)


def read(root, table, **wanted):
    rows = normalise_record(root)[table].to_pylist()
    return [r for r in rows if all(r[k] == v for k, v in wanted.items())]


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / RUN_ID, [cell(1), cell(2)])


def test_values_with_everything_that_says_where_they_are_from(made):
    made.bundle(made.cells[0])
    (iops,) = read(made.root, "measurements", metric="iops")
    assert iops["value"] == 19598.086124
    expected = {
        "run": RUN_ID,
        "lab": "lab1",
        "study": "s",
        "arm": "plain",
        "cell": "c0001",
        "block": 1,
        "sample": 1,
        "attempt": 1,
        "target": "host",
        "host": "h1",
        "workload": "w",
        "point": "bs=4k",
        "phase": "run",
        "tool": "fio",
        "tool_version": "3.33",
        "parameters": '{"bs": "4k", "iodepth": 8}',
        "raw_file": "raw/c0001/a1/steps/02-run/fio.json",
        "parser": "fio/1",
        "status": "ok",
    }
    assert {k: iops[k] for k in expected} == expected


def test_what_the_agent_measured(made):
    made.bundle(made.cells[0])
    rows = read(made.root, "measurements", tool="agent")
    assert {(r["phase"], r["metric"], r["statistic"], r["value"], r["unit"]) for r in rows} == {
        ("prefill", "runtime", "total", 4.0, "s"),
        ("prefill", "cpu_used", "mean", 1.0, "cores"),
        ("prefill", "memory_used", "max", 4096.0, "bytes"),
        ("run", "cpu_used", "mean", 1.0, "cores"),
        ("run", "memory_used", "max", 4096.0, "bytes"),
    }
    series = read(made.root, "series", source="agent", metric="cpu_used", component="total")
    assert [(r["phase"], r["t"], r["value"]) for r in series] == [("run", 1.0, 1.0), ("run", 2.0, 1.0)]
    memory = read(made.root, "series", metric="memory_used", component="total")
    assert {r["value"] for r in memory} == {600.0}
    prints = read(made.root, "fingerprints")
    assert [(r["field"], r["value"]) for r in prints] == [("cpu.model", None), ("memory.total_bytes", "1000")]


def test_cells_planned_done_and_failed(made):
    made.bundle(made.cells[0], 1, "failed", step_status="failed")
    made.bundle(made.cells[0], 2)
    cells = read(made.root, "cells")
    assert [(r["cell"], r["attempt"], r["status"], r["error"]) for r in cells] == [
        ("c0001", 1, "failed", "the run failed"),
        ("c0001", 2, "done", None),
        ("c0002", 0, "planned", None),
    ]


def test_only_the_attempt_that_counts_gives_values(made):
    made.bundle(made.cells[0], 1, "interrupted", step_status="interrupted")
    made.bundle(made.cells[0], 2)
    assert {(r["attempt"], r["status"]) for r in read(made.root, "measurements")} == {(2, "ok")}
    made.bundle(made.cells[0], 3, "interrupted", step_status="interrupted")
    assert {r["attempt"] for r in read(made.root, "measurements")} == {2}
    assert {r["attempt"] for r in read(made.root, "series")} == {2}


@pytest.mark.parametrize(
    ("status", "step_status", "expected"),
    [("failed", "failed", "failed"), ("failed", "timeout", "failed"), ("interrupted", "interrupted", "partial")],
)
def test_values_of_a_cell_that_did_not_end_well_are_never_ok(made, status, step_status, expected):
    made.bundle(made.cells[0], 1, status, step_status=step_status)
    rows = read(made.root, "measurements")
    assert {r["status"] for r in rows if r["phase"] == "run"} == {expected}
    assert {r["status"] for r in rows if r["phase"] == "prefill"} == {"partial"}
    (said,) = read(made.root, "findings", rule="cell.step")
    assert said["severity"] == "error"
    assert "the tool's words" in said["message"]


def test_a_bundle_without_a_result_is_interrupted(made):
    made.bundle(made.cells[0])
    (made.root / "raw/c0001/a1/result.json").unlink()
    assert {r["status"] for r in read(made.root, "measurements")} == {"partial"}
    assert [r["status"] for r in read(made.root, "cells", cell="c0001")] == ["interrupted"]
    assert read(made.root, "findings", rule="bundle.damaged")


def test_done_without_a_bundle_is_said(made):
    made.say("c0001", 1, "done")
    assert [r["status"] for r in read(made.root, "cells", cell="c0001")] == ["done"]
    assert [r["cell"] for r in read(made.root, "findings", rule="record.no-bundle")] == ["c0001"]


def test_an_error_inside_a_done_cell_is_partial(made):
    data = FIO.replace(b'"error" : 0', b'"error" : 5')
    made.bundle(made.cells[0], outputs={"02-run/fio.json": data})
    assert {r["status"] for r in read(made.root, "measurements", tool="fio")} == {"partial"}
    (said,) = read(made.root, "findings", rule="fio.job-error")
    assert said["raw_file"].endswith("fio.json")


@pytest.mark.parametrize("data", [b"", b"something else\n"])
def test_an_output_that_nobody_reads_is_said(made, data):
    made.bundle(made.cells[0], outputs={"02-run/fio.json": data})
    rules = {(r["rule"], r["severity"]) for r in read(made.root, "findings", cell="c0001")}
    assert rules == {("output.unknown", "warning"), ("cell.no-measurement", "error")}


def test_a_missing_output_is_said(made):
    made.bundle(made.cells[0])
    (made.root / "raw/c0001/a1/steps/02-run/fio.json").unlink()
    rules = {r["rule"] for r in read(made.root, "findings", cell="c0001")}
    assert rules == {"output.missing", "cell.no-measurement"}


def test_logs_of_fio_are_series(made):
    outputs = {"02-run/fio.json": FIO, "02-run/x_bw.1.log": golden("fio", "v3.33_bw.1.log")}
    made.bundle(made.cells[0], outputs=outputs)
    rows = read(made.root, "series", source="fio", metric="bandwidth", operation="read")
    assert rows[0]["value"] == 55655 * 1024
    assert rows[0]["t"] == 0.499


def test_standard_error_of_pgbench_is_progress(tmp_path):
    steps = (step("load", "load", ("stderr",)), step("run", "run", ("stdout", "stderr")))
    made = Made(tmp_path / "r", [cell(1, "pgbench", steps)])
    outputs = {
        "01-load/stderr": golden("pgbench", "v15-init.stderr.txt"),
        "02-run/stdout": golden("pgbench", "v15-tpcb-r.stdout.txt"),
        "02-run/stderr": golden("pgbench", "v15-tpcb.stderr.txt"),
    }
    made.bundle(made.cells[0], outputs=outputs)
    assert [r["value"] for r in read(made.root, "measurements", metric="transactions_rate")] == [1828.990245]
    assert len(read(made.root, "series", metric="transactions_rate")) == 3
    assert {r["value"] for r in read(made.root, "measurements", operation="initialise", component="total")} == {0.28}
    assert read(made.root, "findings", cell="c0001") == []


def test_findings_of_the_plan(made):
    (said,) = read(made.root, "findings", rule="plan.small")
    assert (said["severity"], said["evidence"], said["cell"]) == ("warning", '{"where": "x"}', None)


def test_same_raw_data_same_bytes(made, tmp_path):
    made.bundle(made.cells[0])
    made.bundle(made.cells[1])
    copy = tmp_path / "elsewhere"
    shutil.copytree(made.root, copy)
    for root in (made.root, copy):
        write_tables(normalise_record(root), root / "tables")
    first = {p.name: p.read_bytes() for p in (made.root / "tables").iterdir()}
    assert first == {p.name: p.read_bytes() for p in (copy / "tables").iterdir()}
    write_tables(normalise_record(made.root), made.root / "tables")
    assert first == {p.name: p.read_bytes() for p in (made.root / "tables").iterdir()}


@pytest.mark.parametrize("name", ["plan.json", "record.json", "ledger.jsonl"])
def test_without_one_of_its_files_a_record_opens_and_says_so(made, name):
    made.bundle(made.cells[0])
    (made.root / name).unlink()
    (iops,) = read(made.root, "measurements", metric="iops")
    assert iops["value"] == 19598.086124
    assert [r for r in read(made.root, "findings", rule="record.damaged") if name in r["message"]]


FILES = ["plan.json", "record.json", "ledger.jsonl"] + [
    f"raw/c0001/a1/{name}"
    for name in ("result.json", "spec.json", "fingerprint.json", "samples.jsonl", "steps/02-run/fio.json")
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), share=st.floats(0, 1))
def test_cut_at_any_byte_it_opens_and_no_value_is_wrong(tmp_path_factory, name, share):
    made = Made(tmp_path_factory.mktemp("cut") / RUN_ID, [cell(1)])
    made.bundle(made.cells[0])

    def values():
        rows = normalise_record(made.root)["measurements"].to_pylist()
        keys = ("phase", "tool", "job", "operation", "metric", "component", "statistic")
        return {tuple(r[k] for k in keys): r["value"] for r in rows if r["value"] is not None}

    whole = values()
    path = made.root / name
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert values().items() <= whole.items()


def test_no_record_is_a_users_fault(tmp_path):
    with pytest.raises(LabctlError):
        normalise_record(tmp_path / "nothing")
