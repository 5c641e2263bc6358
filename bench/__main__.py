"""Runs the benchmarks and writes build/bench.md and build/bench.json."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import cells, cli, normalising, planning, playbook
from bench.timing import Line
from tools.markdown import table

BUILD = Path("build")
BENCHMARKS: dict[str, Callable[[Path], Iterator[Line]]] = {
    "cli": cli.measure,
    "playbook": playbook.measure,
    "cells": cells.measure,
    "planning": planning.measure,
    "normalising": normalising.measure,
}


def _row(line: Line) -> list[str]:
    bound = "" if line.bound is None else f"≤ {line.bound:g} {line.unit} {'kept' if line.within else 'BROKEN'}"
    spread = f"{min(line.samples):.2f}-{max(line.samples):.2f}"
    return [line.name, f"{line.median:.2f} {line.unit}", spread, str(len(line.samples)), bound, line.note]


def main(names: list[str]) -> int:
    """Measures what is named, or everything; 1 when a bound is broken, 2 for an unknown name."""
    # As after an installation: modules are compiled once, ours like those of the libraries.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if unknown := set(names) - set(BENCHMARKS):
        sys.stderr.write(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(BENCHMARKS)}\n")
        return 2
    lines: list[Line] = []
    for name in names or BENCHMARKS:
        sys.stderr.write(f"{name} ...\n")
        # Not in /tmp, which may be memory: a cell's data belongs on a disk.
        with tempfile.TemporaryDirectory(prefix="labctl-bench-", dir="/var/tmp") as scratch:
            lines += BENCHMARKS[name](Path(scratch))
    header = ["What", "Median", "Min-max", "n", "Bound", "Times"]
    machine = f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {platform.system()} {platform.release()}"
    text = f"# Overhead of labctl\n\n{machine}. Ratios are to the bare tool, taken in turn in the same run.\n\n"
    text += table(header, map(_row, lines))
    BUILD.mkdir(exist_ok=True)
    (BUILD / "bench.md").write_text(text)
    rows = [
        {"name": line.name, "unit": line.unit, "median": line.median, "samples": line.samples, "bound": line.bound}
        for line in lines
    ]
    (BUILD / "bench.json").write_text(json.dumps({"machine": machine, "lines": rows}, indent=2) + "\n")
    sys.stdout.write(text)
    return int(any(line.within is False for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
