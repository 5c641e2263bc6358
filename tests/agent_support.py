"""The agent for tests: its modules importable as ``cell_agent``, its zipapp, and batches for it."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def plugin_module(name: str) -> Any:
    """A module of plugins/module_utils or plugins/plugin_utils, which are no part of the labctl package."""
    for part in ("plugins/module_utils", "plugins/plugin_utils"):
        if str(ROOT / part) not in sys.path:
            sys.path.insert(0, str(ROOT / part))
    return importlib.import_module(name)


agent_package = plugin_module("agent_package")
RUN_ID = "20260101-000000-test"


def step(name: str, *argv: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "phase": "run", "argv": list(argv), "timeout_s": 30, **fields}


def shell(name: str, script: str, **fields: Any) -> dict[str, Any]:
    return step(name, "sh", "-c", script, **fields)


def cell(cell_id: str, *steps: dict[str, Any], attempt: int = 1, **fields: Any) -> dict[str, Any]:
    return {"id": cell_id, "attempt": attempt, "data_dir": "/", "deadline_s": 60, "steps": list(steps), **fields}


def batch(*cells: dict[str, Any], run_id: str = RUN_ID, interval: float = 0.2) -> dict[str, Any]:
    return {"schema": 1, "run_id": run_id, "owner": "tests", "sample_interval_s": interval, "cells": list(cells)}


class Target:
    """A working directory with the agent in it, driven as the action plugin drives it."""

    def __init__(self, workdir: Path, run_id: str = RUN_ID) -> None:
        self.workdir = workdir
        self.run_dir = workdir / "runs" / run_id
        self.run_dir.mkdir(parents=True)
        self.run_dir.joinpath("agent.pyz").write_bytes(agent_package.build())

    def call(self, command: str, *arguments: str, data: bytes = b"") -> tuple[int, Any, str]:
        done = subprocess.run(
            [sys.executable, str(self.run_dir / "agent.pyz"), command, "--dir", str(self.run_dir), *arguments],
            input=data,
            capture_output=True,
            check=False,
            timeout=120,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr.decode()

    def start(self, *cells: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(batch(*cells, run_id=self.run_dir.name)).encode()
        code, answer, words = self.call("start", "--batch", "-", data=data)
        assert code == 0, words
        assert isinstance(answer, dict)
        return answer

    def status(self) -> dict[str, Any]:
        value = json.loads((self.run_dir / "status.json").read_bytes())
        assert isinstance(value, dict)
        return value

    def wait(self, predicate: Any = lambda status: status["state"] != "running") -> dict[str, Any]:
        for _ in range(1200):
            status = self.status()
            if predicate(status):
                return status
            time.sleep(0.05)
        raise AssertionError(self.status())

    def run(self, *cells: dict[str, Any]) -> dict[str, Any]:
        self.start(*cells)
        return self.wait()

    def bundle(self, cell_id: str, attempt: int = 1) -> Path:
        return self.run_dir / "cells" / cell_id / f"a{attempt}"

    def result(self, cell_id: str, attempt: int = 1) -> dict[str, Any]:
        value = json.loads((self.bundle(cell_id, attempt) / "result.json").read_bytes())
        assert isinstance(value, dict)
        return value

    def end(self) -> None:
        self.call("stop", "--grace", "10")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    while alive(pid):
        time.sleep(0.02)
