"""Runs the cells of a batch in order. Everything that can go wrong in a cell ends in its bundle."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from . import bundle, facts, files, processes, tools
from .sampler import Sampler
from .status import Status
from .steps import StepRunner

_WATCH_S = 0.2
"""How long the fingerprint of a cell looks for busy processes."""
_CLEAN = ("ok", "skipped")
_CELL_BALLAST = 1 << 20
"""Bytes that a cell needs at least for its evidence; without them it is not begun."""
_STATUS_BALLAST = 256 << 10
"""Bytes for the last status, which says why the agent ended."""


class BatchError(Exception):
    """The batch file is not what docs/architecture.md describes."""


def parse_batch(raw: bytes, run_id: str) -> dict[str, Any]:
    """The batch in a file's bytes.

    Raises:
        BatchError: Not JSON, of another schema or run, or with names that could leave the run's directory.
    """
    try:
        batch: dict[str, Any] = json.loads(raw)
        check_batch(batch, run_id)
    except (ValueError, KeyError, TypeError) as error:
        raise BatchError(f"batch.json: {type(error).__name__}: {error}") from error
    return batch


def check_batch(batch: dict[str, Any], run_id: str) -> None:
    """Refuse what the agent must not run.

    Raises:
        ValueError: With the reason.
        KeyError: A field is missing.
    """
    if batch["schema"] != 1:
        raise ValueError(f"schema {batch['schema']} is unknown to this agent")
    if batch["run_id"] != run_id:
        raise ValueError(f"the batch is of run {batch['run_id']}, the directory of run {run_id}")
    for cell in batch["cells"]:
        if not files.safe_name(cell["id"]) or int(cell["attempt"]) < 1:
            raise ValueError(f"cell id or attempt refused: {cell['id']!r} {cell['attempt']!r}")
        for step in cell["steps"]:
            if not files.safe_name(step["name"]) or not step["argv"]:
                raise ValueError(f"step refused: {step['name']!r} of {cell['id']}")
            float(step["timeout_s"])


class Agent:
    """One agent process with one batch."""

    def __init__(self, run_dir: str, batch: dict[str, Any], digest: str, waker: processes.Waker) -> None:
        workdir = os.path.dirname(os.path.dirname(run_dir))
        self._run_dir, self._batch, self._waker = run_dir, batch, waker
        self._status = Status(run_dir, batch["run_id"], digest)
        self._sampler = Sampler(float(batch["sample_interval_s"]), self._status.beat)
        self._runner = StepRunner(workdir, batch["run_id"], waker)
        self._ballast = bundle.Ballast(run_dir, ".ballast", _CELL_BALLAST)
        self._last_words = bundle.Ballast(run_dir, ".reserve", _STATUS_BALLAST)
        self._fixed = facts.fixed(())
        self._tools: dict[str, dict[str, Any] | None] = {}

    def run(self) -> str:
        """Run all cells; returns the last state, ``finished`` or ``stopped``."""
        self._last_words.load()
        self._status.update()
        self._sampler.start()
        error = None
        try:
            for cell in self._batch["cells"]:
                attempt = bundle.Attempt(self._run_dir, cell["id"], int(cell["attempt"]))
                known = attempt.result()
                if known is None and self._waker.stopping:
                    break
                if known is None and not self._ballast.load():
                    error = f"no space left in {self._run_dir} for the evidence of cell {attempt.cell_id}"
                    break
                self._status.cell_finished(attempt.cell_id, attempt.number, known or self._cell(cell, attempt))
        finally:
            self._sampler.stop()
            self._ballast.drop()
            self._last_words.drop()
        state = "stopped" if self._waker.stopping or error else "finished"
        self._status.update(state=state, error=error)
        return state

    def _cell(self, cell: dict[str, Any], attempt: bundle.Attempt) -> dict[str, Any]:
        started = time.time()
        self._status.update(cell=cell["id"], attempt=attempt.number, cell_started=started)
        try:
            attempt.create(cell, 0o711 if os.geteuid() == 0 else 0o700)
            self._fingerprint(cell, attempt)
            self._sampler.open(attempt.file("samples.jsonl"))
            steps, error = self._steps(cell, attempt)
        except OSError as fault:
            steps, error = [], f"the agent could not begin the cell: {fault}"
        finally:
            self._sampler.close()
            self._ballast.drop()
        return self._finish(attempt, started, error, steps)

    def _finish(
        self, attempt: bundle.Attempt, started: float, error: str | None, steps: list[dict[str, Any]]
    ) -> dict[str, Any]:
        interrupted = any(step["status"] == "interrupted" for step in steps)
        status = "interrupted" if interrupted else "failed" if error else "done"
        try:
            return attempt.finish(status, started, error, steps)
        except OSError as fault:
            words = f"{error or 'all steps ended well'}; the bundle could not be finished: {fault}"
            say(f"{attempt.cell_id}/a{attempt.number}: {words}")
            return {"status": "failed", "started": started, "finished": time.time(), "error": words}

    def _steps(self, cell: dict[str, Any], attempt: bundle.Attempt) -> tuple[list[dict[str, Any]], str | None]:
        before = processes.own_children()
        end = time.monotonic() + float(cell["deadline_s"])
        results: list[dict[str, Any]] = []
        error = None
        for index, step in enumerate(cell["steps"], 1):
            directory = bundle.step_directory(index, step["name"])
            stopping = self._waker.stopping and error is None
            if stopping:
                error = "stopped on request"
            if error is not None and not step.get("always"):
                results.append(_not_run(step, directory, "interrupted" if stopping else "skipped", error))
                continue
            name = os.path.basename(directory)
            self._status.update(step=name, phase=step["phase"], step_started=time.time())
            self._sampler.step(name)
            result = self._runner.run(step, attempt.path, directory, end - time.monotonic())
            if result["status"] not in _CLEAN and error is None:
                error = f"step {step['name']}: {result['status']}: {result['words']}"
            if result["status"] == "no-space":
                self._ballast.drop()
            results.append(result)
            attempt.journal(result)
        ended, _ = processes.end_all(before, self._waker)
        if ended:
            say(f"{attempt.cell_id}/a{attempt.number}: ended {len(ended)} processes that its steps left running")
        return results, error

    def _fingerprint(self, cell: dict[str, Any], attempt: bundle.Attempt) -> None:
        names = sorted({str(step["argv"][0]) for step in cell["steps"]})
        for name in names:
            if name not in self._tools:
                self._tools[name] = tools.describe(name)
        value = {**self._fixed, **facts.moving((cell["data_dir"],), _WATCH_S)}
        value["tools"] = {os.path.basename(name): self._tools[name] for name in names}
        data = json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        files.write_atomic(attempt.file("fingerprint.json"), data, durable=False)


def _not_run(step: dict[str, Any], directory: str, status: str, error: str) -> dict[str, Any]:
    return {
        "name": step["name"],
        "phase": step["phase"],
        "directory": directory,
        "argv": [str(word) for word in step["argv"]],
        "status": status,
        "words": files.words(f"not run: {error}".encode()),
    }


def say(line: str) -> None:
    """One line for agent.log; a full disk must not end the agent."""
    try:
        sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {line}\n")
        sys.stderr.flush()
    except OSError:
        return
