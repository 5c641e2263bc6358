"""What one cell costs beyond the tool itself: a run of short fio cells against the same commands run bare."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.cli import LABCTL
from bench.timing import Line, run_quietly, seconds
from labctl.plan.models import Cell, Plan, Step

ROUNDS = 3

#: Blocks of eight cells, as studies have them; and blocks of one cell, which are handed over together.
SWEEPS = {
    "blocks of 8 cells": ("{rw: [read, write, randread, randwrite], bs: [4KiB, 16KiB]}", 3, 1.5),
    "blocks of 1 cell": ("{rw: [randread]}", 12, 1.5),
}

STUDY = """\
name: short
title: Short cells
question: What does a cell cost beyond its tool?
baseline: one
repeats: {repeats}
arms:
  one: {{}}
workloads:
  fio:
    tool: fio
    parameters: {{size: 4MiB, ioengine: psync, runtime: 1s, ramp: 0s}}
    sweep: {sweep}
"""


def _stage_seconds(ledger: Path, stages: set[str]) -> float:
    """Wall-clock seconds that a run spent in these stages, by the times of its ledger."""
    total, started = 0.0, 0.0
    for line in map(json.loads, ledger.read_text().splitlines()):
        if line["kind"] != "stage" or line["stage"] not in stages:
            continue
        if line["state"] == "started":
            started = line["t"]
        else:
            total += line["t"] - started
    return total


def _run_step(step: Step, scratch: Path) -> None:
    if step.creates is not None and Path(step.creates).exists():
        return
    for name, text in step.files.items():
        (scratch / name).write_text(text)
    with (scratch / "stdout").open("wb") as stdout:
        subprocess.run(step.argv, cwd=step.cwd or scratch, stdout=stdout, stderr=subprocess.DEVNULL, check=True)


def _run_bare(cells: tuple[Cell, ...], scratch: Path) -> None:
    for cell in cells:
        for step in cell.steps:
            _run_step(step, scratch)


def _inventory(scratch: Path) -> Path:
    inventory = scratch / "lab"
    inventory.mkdir()
    variables = (
        f"ansible_connection: local, ansible_python_interpreter: {sys.executable}, lab_workdir: {scratch / 'work'}"
    )
    (inventory / "hosts.yml").write_text(f"all:\n  hosts:\n    local: {{{variables}}}\n")
    return inventory


def measure(scratch: Path) -> Iterator[Line]:
    """Seconds a cell in the stages measure and collect beyond the bare commands, and in the run as a whole."""
    inventory, study, bare_dir = _inventory(scratch), scratch / "short.yml", scratch / "bare"
    bare_dir.mkdir()
    for name, (sweep, repeats, bound) in SWEEPS.items():
        study.write_text(STUDY.format(sweep=sweep, repeats=repeats))
        in_stages, in_all = [], []
        for number in range(ROUNDS):
            home = scratch / "records" / name.replace(" ", "-") / str(number)
            argv = [LABCTL, "run", str(study), "-i", str(inventory), "--records", str(home), "--keep"]
            whole = seconds(partial(run_quietly, *argv))
            record = next(path.parent for path in home.glob("*/plan.json"))
            plan = Plan.model_validate_json((record / "plan.json").read_bytes())
            bare = seconds(partial(_run_bare, plan.cells, bare_dir))
            run_quietly(LABCTL, "teardown", str(record))
            stages = _stage_seconds(record / "ledger.jsonl", {"measure", "collect"})
            in_stages.append((stages - bare) / len(plan.cells))
            in_all.append((whole - bare) / len(plan.cells))
        note = f"{len(plan.cells)} fio cells of 1 s on the local host"
        yield Line(f"a cell beyond its tool, measure and collect, {name}", tuple(in_stages), "s", bound, note)
        yield Line(f"a cell beyond its tool, probe to report, {name}", tuple(in_all), "s", None, note)
