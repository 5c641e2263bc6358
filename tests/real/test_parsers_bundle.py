"""What the real agent leaves on a target is what the normaliser reads."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from labctl.normalise.record import normalise_record
from tests.conftest import REPO, find_program

pytestmark = [pytest.mark.real(what=["cell agent", "fio"], where="localhost"), pytest.mark.needs("fio")]


def step(name, phase, argv):
    return {
        "name": name,
        "phase": phase,
        "argv": argv,
        "timeout_s": 60,
        "env": {},
        "files": {},
        "ok_codes": [0],
        "creates": None,
        "cwd": None,
        "always": False,
        "database_user": False,
        "outputs": ["fio.json"],
    }


def record_of(tmp_path, steps):
    """Run one cell with the agent in the foreground and put its bundle into a record without anything else."""
    run = tmp_path / "work" / "runs" / "r1"
    run.mkdir(parents=True)
    cell = {"id": "c1", "attempt": 1, "data_dir": str(tmp_path), "deadline_s": 120, "steps": steps}
    batch = {"schema": 1, "run_id": "r1", "owner": "test", "sample_interval_s": 0.5, "cells": [cell]}
    (run / "batch.json").write_text(json.dumps(batch))
    subprocess.run(
        [sys.executable, "-m", "cell_agent", "run", "--dir", str(run)],
        cwd=REPO / "plugins" / "module_utils",
        check=True,
        capture_output=True,
        timeout=180,
    )
    root = tmp_path / "record"
    shutil.copytree(run / "cells" / "c1", root / "raw" / "c1")
    return {name: table.to_pylist() for name, table in normalise_record(root).items()}


def fio(where, *options):
    job = ("--name=j", "--bs=4k", "--size=4m", "--ioengine=psync", where)
    return [str(find_program("fio")), *job, *options, "--output-format=json+", "--output=fio.json"]


def test_a_cell_that_ends_well(tmp_path):
    steps = [
        step("fio-prefill", "prefill", fio(f"--directory={tmp_path}", "--rw=write")),
        step("fio-run", "run", fio(f"--directory={tmp_path}", "--rw=randread", "--time_based", "--runtime=2")),
    ]
    tables = record_of(tmp_path, steps)
    rows = [r for r in tables["measurements"] if r["phase"] == "run" and r["tool"] == "fio"]
    assert {r["status"] for r in rows} == {"ok"}
    said = json.loads((tmp_path / "record" / "raw/c1/a1/steps/02-fio-run/fio.json").read_text())
    (iops,) = [r for r in rows if r["metric"] == "iops"]
    assert iops["value"] == said["jobs"][0]["read"]["iops"]
    assert [r["phase"] for r in tables["measurements"] if r["metric"] == "runtime" and r["tool"] == "agent"] == [
        "prefill"
    ]
    used = [r["value"] for r in tables["series"] if r["metric"] == "cpu_used" and r["component"] == "total"]
    assert max(used) > 0
    memory = [r["value"] for r in tables["series"] if r["metric"] == "memory_used" and r["component"] == "total"]
    assert min(memory) > 0
    assert "cpu.model" in {r["field"] for r in tables["fingerprints"]}
    assert [(r["attempt"], r["status"]) for r in tables["cells"]] == [(1, "done")]
    assert {r["rule"] for r in tables["findings"]} == {"record.damaged"}


def test_a_cell_whose_tool_fails(tmp_path):
    tables = record_of(tmp_path, [step("fio-run", "run", fio("--filename=/dev/full", "--rw=write"))])
    assert not any(r["status"] == "ok" for r in tables["measurements"])
    assert [r["status"] for r in tables["cells"]] == ["failed"]
    assert {"cell.step", "fio.job-error"} <= {r["rule"] for r in tables["findings"]}
    assert any("No space left on device" in (r["message"] + (r["evidence"] or "")) for r in tables["findings"])
