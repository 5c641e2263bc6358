"""Small labs and studies, and labctl as a user starts it: shared by the tests of whole runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labctl.record.ledger import read_ledger

LABCTL = [sys.executable, "-c", "from labctl.cli.app import main; main()"]

#: Three points of about a second each, two arms, three repeats: 18 cells that go through every layer.
STUDY = """\
name: tiny
title: A tiny study
question: Do all layers work together?
baseline: one
repeats: 3
seed: 7
arms:
  one: {}
  two: {}
workloads:
  fio:
    tool: fio
    parameters: {size: 4MiB, runtime: 1s, ramp: 0s, bs: 4KiB, ioengine: psync}
    sweep: {rw: [randread, write]}
  cpu:
    tool: sysbench-cpu
    parameters: {time: 1s, threads: 1}
"""

#: Eight cells, for the tests that interrupt runs.
PILOT = STUDY.replace("repeats: 3", "repeats: 2\npilot: true").replace("{rw: [randread, write]}", "{rw: [randread]}")


@dataclass
class Bench:
    """A lab of one local host, a study, and a place for records, all below one directory."""

    root: Path
    study: Path
    inventory: Path
    records: Path
    workdir: Path
    env: dict[str, str] = field(default_factory=dict)

    def argv(self, *arguments: str) -> list[str]:
        return [*LABCTL, *arguments]

    def labctl(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run labctl to its end."""
        return subprocess.run(
            self.argv(*arguments),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
        )

    def environment(self) -> dict[str, str]:
        state = {"XDG_STATE_HOME": str(self.root / "state"), "LABCTL_RECORDS": str(self.records)}
        return {**os.environ, **state, **self.env}

    def run_arguments(self, *more: str) -> list[str]:
        return ["run", str(self.study), "-i", str(self.inventory), "--json", *more]

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Running]:
        """Start labctl and give its events as they come; it is killed at the end of the block."""
        with subprocess.Popen(
            self.argv(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                yield Running(process)
            finally:
                if process.poll() is None:
                    process.kill()

    def record(self) -> Path:
        """The only record there is."""
        found = [path for path in self.records.iterdir() if path.is_dir()]
        assert len(found) == 1, found
        return found[0]

    def left_on_host(self) -> list[str]:
        """What a run left in the working directory."""
        if not self.workdir.exists():
            return []
        return sorted(str(path.relative_to(self.workdir)) for path in self.workdir.rglob("*") if path.is_file())


@dataclass
class Running:
    """A labctl with ``--json`` that goes on while the test looks."""

    process: subprocess.Popen[str]
    events: list[dict[str, Any]] = field(default_factory=list)

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read events until one fits."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            self.events.append(event)
            if wanted(event):
                return event
        assert self.process.stderr is not None
        raise AssertionError(f"labctl ended without it: {self.events[-5:]} {self.process.stderr.read()}")

    def rest(self) -> list[dict[str, Any]]:
        """Read all that comes until labctl ends."""
        assert self.process.stdout is not None
        self.events += [json.loads(line) for line in self.process.stdout]
        self.process.wait()
        return self.events

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """As the kernel's out-of-memory killer does."""
        self.process.kill()
        self.process.wait()


def is_event(kind: str, **fields: object) -> Callable[[dict[str, Any]], bool]:
    """Fits events of a kind whose fields have these values."""
    return lambda event: event["event"] == kind and all(event.get(key) == value for key, value in fields.items())


def make_bench(root: Path, *, study: str = STUDY, hosts: str | None = None) -> Bench:
    """Write a lab of one local host and a study below ``root``."""
    inventory = root / "lab"
    inventory.mkdir(parents=True)
    workdir = root / "work"
    text = hosts or (
        "all:\n  hosts:\n    here:\n      ansible_connection: local\n"
        f"      ansible_python_interpreter: {sys.executable}\n      lab_workdir: {workdir}\n"
    )
    (inventory / "hosts.yml").write_text(text)
    path = root / "tiny.yml"
    path.write_text(study)
    return Bench(root, path, inventory, root / "records", workdir)


def final_states(record: Path) -> dict[str, tuple[str, int]]:
    """Cell → (state, attempts) as the ledger says last."""
    return {cell: (entry.state, entry.attempt) for cell, entry in read_ledger(record / "ledger.jsonl").cells.items()}


def secret_hits(root: Path, secret: str) -> list[str]:
    """Files below ``root`` that hold the secret, in their name or content."""
    needle = secret.encode()
    return [
        str(path) for path in root.rglob("*") if secret in path.name or (path.is_file() and needle in path.read_bytes())
    ]


def remove(path: Path) -> None:
    """Remove a tree that a test made."""
    shutil.rmtree(path, ignore_errors=True)
