"""Time of planning 10,000 cells from a study file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.timing import Line, seconds
from labctl.lab.facts import HostFacts
from labctl.lab.models import Host, Lab
from labctl.plan.placing import paths_to_probe
from labctl.plan.planner import make_plan
from labctl.plan.tools import tools_to_probe
from labctl.study.load import load_study

ROUNDS = 7
CELLS = 10_000

# 2 arms x 5 x 5 x 4 points x 50 repeats.
STUDY = """\
name: wide
title: A wide study
question: How long does planning take?
baseline: one
repeats: 50
arms:
  one: {}
  two: {}
workloads:
  fio:
    tool: fio
    parameters: {size: 64MiB, runtime: 10s}
    sweep:
      rw: [read, write, randread, randwrite, randrw]
      bs: [4KiB, 16KiB, 64KiB, 256KiB, 1MiB]
      iodepth: [1, 4, 16, 64]
"""


def _facts(paths: tuple[str, ...], tools: tuple[str, ...]) -> HostFacts:
    """A host with 64 cores, 256 GiB and a disk of 4 TiB; planning reads nothing else of the world."""
    disk = {"mount_point": "/", "fs_type": "xfs", "free_bytes": 4 << 40, "size_bytes": 4 << 40}
    seen = {"existing_parent": "/", "writable": True, "direct_io": True, **disk}
    return HostFacts.model_validate(
        {
            "schema": 1,
            "host": {"hostname": "bench"},
            "cpu": {"threads": 64},
            "memory": {"total_bytes": 256 << 30, "available_bytes": 200 << 30},
            "load": {},
            "time": {"epoch_s": 0.0},
            "user": {"name": "bench", "uid": 1000, "home": "/home/bench"},
            "tools": {tool: {"path": f"/usr/bin/{tool}", "version": "3.36"} for tool in tools},
            "paths": {path: {"requested": path, **seen} for path in paths},
        }
    )


def measure(scratch: Path) -> Iterator[Line]:
    """From the study file to the frozen plan, and from the plan to the JSON of a record."""
    file = scratch / "wide.yml"
    file.write_text(STUDY)
    lab = Lab(name="bench", inventory=scratch, hosts={"bench": Host(name="bench")}, groups={"all": ("bench",)})
    study = load_study(file).study
    facts = {"bench": _facts(paths_to_probe(study, lab), tools_to_probe(study))}

    def plan() -> None:
        made = make_plan(load_study(file).study, lab, facts, run_id="bench", seed=1)
        if len(made.cells) != CELLS:
            raise RuntimeError(f"{len(made.cells)} cells instead of {CELLS}")

    plan()
    samples = tuple(seconds(plan) for _ in range(ROUNDS))
    made = make_plan(study, lab, facts, run_id="bench", seed=1)
    frozen = tuple(seconds(made.model_dump_json) for _ in range(ROUNDS))
    yield Line(f"load and plan {CELLS:,} cells", samples, "s", 2.0)
    yield Line(f"write a plan of {CELLS:,} cells as JSON", frozen, "s", None)
