"""The attempt of a cell that counts → chunks of all tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.normalise.bundles import Bundle, read_evidence
from labctl.normalise.chunks import Chunks, add_findings, add_measurements, add_result, add_series
from labctl.normalise.files import parse_output
from labctl.normalise.samples import read_samples, sample_series
from labctl.normalise.tables import Chunk, add
from labctl.parsers.base import Finding, Measurement, Metric, Severity, Status
from labctl.parsers.fio_log import log_kind
from labctl.parsers.pgbench import PROGRESS_ONLY
from labctl.plan.models import Cell
from labctl.record.bundle import StepResult

AGENT = "agent"
_AGENT_PARSER = "agent/1"
#: Phases whose duration is a figure of its own; the runtime of a run is the tool's to say.
_TIMED_PHASES = frozenset({"prefill", "load"})
#: Phases whose output must be read; elsewhere an unknown output is no loss.
_MEASURED_PHASES = frozenset({"run"})


@dataclass(frozen=True, slots=True)
class _Step:
    """A step as far as it is known: planned, and how it ended."""

    name: str
    phase: str
    directory: str
    outputs: tuple[str, ...]
    result: StepResult | None

    @property
    def ended_well(self) -> bool:
        return self.result is not None and self.result.status == "ok"


class CellReader:
    """Reads one bundle of the record at ``root`` into ``chunks``; ``context`` are the columns of the cell."""

    def __init__(
        self, root: Path, bundle: Bundle, context: Mapping[str, Any], cell: Cell | None, chunks: Chunks
    ) -> None:
        self._root = root
        self._bundle = bundle
        self._context = dict(context)
        self._cell = cell
        self._chunks = chunks
        self._measured = 0
        self._tool_version: str | None = None

    def read(self) -> None:
        """Everything that the bundle holds."""
        steps = list(self._steps())
        add_findings(self._chunks, self._bundle.findings, self._context)
        self._fingerprint()
        self._samples(steps)
        for step in steps:
            self._step_result(step)
            self._outputs(step)
        if self._bundle.status == "done" and not self._measured and any(s.phase == "run" for s in steps):
            message = "The cell is done, but no value could be read from its outputs."
            self._say("cell.no-measurement", Severity.ERROR, message)

    def _say(self, rule: str, severity: Severity, message: str, **context: str) -> None:
        add_findings(self._chunks, [Finding(rule, severity, message)], {**self._context, **context})

    def _steps(self) -> Iterator[_Step]:
        """Steps of the plan, else of the spec in the bundle, joined with their results by directory."""
        results = {r.directory: r for r in self._bundle.result.steps} if self._bundle.result is not None else {}
        if self._cell is not None:
            planned = [(s.name, str(s.phase), s.outputs) for s in self._cell.steps]
        else:
            planned = list(_spec_steps(self._bundle.spec))
        for index, (name, phase, outputs) in enumerate(planned, 1):
            directory = f"steps/{index:02d}-{name}"
            yield _Step(name, phase, directory, outputs, results.pop(directory, None))
        for directory, result in results.items():
            yield _Step(result.name, result.phase, directory, (), result)

    def _relative(self, *parts: str) -> str:
        return self._bundle.path.joinpath(*parts).relative_to(self._root).as_posix()

    def _fingerprint(self) -> None:
        fields = list(flatten(self._bundle.fingerprint))
        columns: dict[str, list[Any]] = {"field": [name for name, _ in fields], "value": [text for _, text in fields]}
        add(self._chunks, "fingerprints", [Chunk(len(fields), self._context, columns)])

    def _samples(self, steps: list[_Step]) -> None:
        try:
            data = read_evidence(self._bundle.path, "samples.jsonl")
        except OSError as error:
            message = f"samples.jsonl of the bundle cannot be read: {error.strerror or error}."
            self._say("bundle.damaged", Severity.WARNING, message)
            return
        raw_file = self._relative("samples.jsonl")
        by_step, findings = read_samples(data)
        add_findings(self._chunks, findings, {**self._context, "raw_file": raw_file})
        memory = self._bundle.fingerprint.get("memory")
        total = memory.get("total_bytes") if isinstance(memory, dict) else None
        for step in steps:
            samples = by_step.get(Path(step.directory).name, [])
            started = step.result.started if step.result is not None else None
            points = sample_series(samples, started, total if isinstance(total, int) else None)
            constants = {**self._context, "phase": step.phase, "tool": AGENT, "source": AGENT, "raw_file": raw_file}
            add_series(self._chunks, points, constants)

    def _step_result(self, step: _Step) -> None:
        result = step.result
        if result is None:
            return
        if result.status not in {"ok", "skipped"}:
            said = f": {result.words}" if result.words else ""
            message = f"Step {step.name} ended as {result.status}{said}"
            self._say("cell.step", Severity.ERROR, message[:2000], phase=step.phase)
        rows = list(step_measurements(result))
        constants = {
            **self._context,
            "phase": step.phase,
            "tool": AGENT,
            "raw_file": self._relative("result.json"),
            "parser": _AGENT_PARSER,
        }
        add_measurements(self._chunks, rows, constants, self._status(step))

    def _status(self, step: _Step) -> Status:
        """The best that a value of this step can be."""
        if self._bundle.status == "done" and step.ended_well:
            return Status.OK
        return Status.PARTIAL if step.ended_well or self._bundle.status == "interrupted" else Status.FAILED

    def _outputs(self, step: _Step) -> None:
        # Logs come last: their unit depends on the tool's version, which is in the other outputs.
        names = sorted(self._files(step), key=lambda name: log_kind(name) is not None)
        for name in names:
            self._output(step, name)

    def _files(self, step: _Step) -> list[str]:
        """The outputs that the plan names, and fio's logs beside them."""
        try:
            present = sorted(path.name for path in (self._bundle.path / step.directory).iterdir())
        except OSError:
            present = []
        logs = [name for name in present if log_kind(name) is not None and name not in step.outputs]
        return [*step.outputs, *(logs if step.outputs else [])]

    def _output(self, step: _Step, name: str) -> None:
        raw_file = self._relative(step.directory, name)
        where = {"phase": step.phase, "raw_file": raw_file}
        try:
            data = read_evidence(self._bundle.path, step.directory, name)
        except OSError as error:
            # A step that did not run has no output, and its own finding says why.
            if step.ended_well and step.phase in _MEASURED_PHASES:
                message = f"The output {name} of step {step.name} cannot be read: {error.strerror or error}."
                self._say("output.missing", Severity.ERROR, message, **where)
            return
        known = parse_output(data, name, self._tool_version)
        if known is None:
            self._unknown(step, name, data, where)
            return
        result, parser = known
        # The standard output is read too, so that the progress stands alone on this stream is as it should be.
        result.findings = [f for f in result.findings if f.rule != PROGRESS_ONLY or "stdout" not in step.outputs]
        self._tool_version = result.tool_version or self._tool_version
        if step.phase in _MEASURED_PHASES:
            self._measured += len(result.measurements)
        context = {**self._context, "phase": step.phase}
        add_result(self._chunks, result, context, raw_file=raw_file, parser=parser, status=self._status(step))

    def _unknown(self, step: _Step, name: str, data: bytes, where: dict[str, str]) -> None:
        """An empty standard error is as it should be; an output of the run that nobody reads is not."""
        if step.phase in _MEASURED_PHASES and step.ended_well and (data.strip() or name != "stderr"):
            what = "is empty" if not data.strip() else "is known to no parser"
            self._say("output.unknown", Severity.WARNING, f"The output {name} of step {step.name} {what}.", **where)


def step_measurements(result: StepResult) -> Iterator[Measurement]:
    """What the agent measured of a step: its duration, cores used and largest resident memory."""
    if result.started is None or result.finished is None or result.status == "skipped":
        return
    wall = result.finished - result.started
    if result.phase in _TIMED_PHASES and wall > 0:
        yield Measurement(Metric.RUNTIME, "total", wall, job=result.name)
    if result.cpu_user_s is not None and result.cpu_system_s is not None and wall > 0:
        cores = (result.cpu_user_s + result.cpu_system_s) / wall
        yield Measurement(Metric.CPU_USED, "mean", cores, job=result.name)
    if result.max_rss_bytes is not None and result.max_rss_bytes > 0:
        yield Measurement(Metric.MEMORY_USED, "max", float(result.max_rss_bytes), job=result.name)


def flatten(document: object, path: str = "") -> Iterator[tuple[str, str | None]]:
    """Dotted paths and JSON scalars, sorted by key; None where the value is null. Empty containers say so."""
    if isinstance(document, dict) and document:
        for key in sorted(document, key=str):
            yield from flatten(document[key], f"{path}.{key}" if path else str(key))
    elif isinstance(document, list) and document:
        for index, value in enumerate(document):
            yield from flatten(value, f"{path}.{index}")
    elif path:
        yield path, None if document is None else json.dumps(document, ensure_ascii=False)


def _spec_steps(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    steps = spec.get("steps")
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, dict):
            outputs = step.get("outputs", ["stdout"])
            names = tuple(str(name) for name in outputs) if isinstance(outputs, list) else ()
            yield str(step.get("name", "")), str(step.get("phase", "")), names
