"""Normalising 1,000 fio files against bare ``json.loads`` of the same files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.cli import LABCTL
from bench.timing import Line, alternate, milliseconds, ratios
from labctl.parsers import fio

FILES = 1000
ROUNDS = 5
JOB = "--name=bench --rw=randrw --size=4m --bs=4k --ioengine=psync --time_based --runtime=1 --output-format=json+"
BARE = "import json, pathlib, sys; [json.loads(p.read_bytes()) for p in pathlib.Path(sys.argv[1]).glob('*.json')]"


def _outputs(directory: Path) -> int:
    """Fills the directory with copies of a real JSON+ output, and gives the bytes of one."""
    directory.mkdir()
    argv = ["fio", *JOB.split(), f"--filename={directory.parent / 'fio.data'}"]
    output = subprocess.run(argv, check=True, capture_output=True).stdout
    for number in range(FILES):
        (directory / f"{number:04}.json").write_bytes(output)
    return len(output)


def measure(scratch: Path) -> Iterator[Line]:
    """The parser alone, and the whole command from files to lines."""
    directory = scratch / "outputs"
    size = _outputs(directory)
    contents = [path.read_bytes() for path in sorted(directory.iterdir())]

    pairs = alternate(
        lambda: [fio.parse(content) for content in contents],
        lambda: [json.loads(content) for content in contents],
        ROUNDS,
    )
    note = f"{milliseconds(pairs, ('parser', 'json.loads'))}; {FILES} files of {size / 1024:.0f} KiB"
    yield Line("parse fio JSON+ / json.loads", ratios(pairs), "x", None, note)

    def normalise() -> None:
        argv = [LABCTL, "normalise", str(directory), "--format", "jsonl"]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)

    def bare() -> None:
        subprocess.run([sys.executable, "-c", BARE, str(directory)], check=True)

    pairs = alternate(normalise, bare, ROUNDS)
    note = milliseconds(pairs, ("labctl normalise", "json.loads in a bare Python"))
    yield Line(f"labctl normalise, {FILES} fio files / json.loads", ratios(pairs), "x", None, note)
