"""The finished bundle that the agent leaves for every attempt at a cell: the typed form of ``result.json``.

Layout of a bundle, on the target and in the record alike::

    <cell id>/a<attempt>/
        spec.json          the cell as it was given to the agent
        result.json        written last, atomically; without it the attempt is not finished
        fingerprint.json   labctl.lab.facts.HostFacts of the moment, with the data directory under "paths"
        samples.jsonl      one JSON object a second: CPU, memory, disk and NIC counters
        steps/NN-<name>/   stdout, stderr and the files of each step
        SHA256SUMS         sha256 of every other file, ``sha256sum -c`` format
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CellStatus = Literal["done", "failed", "interrupted"]
StepStatus = Literal["ok", "failed", "timeout", "interrupted", "skipped", "missing-tool", "no-space"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class StepResult(_Model):
    """How one step ended; times are seconds since the epoch by the target's clock."""

    name: str
    phase: str
    directory: str
    argv: list[str]
    status: StepStatus
    rc: int | None = None
    signal: int | None = None
    started: float | None = None
    finished: float | None = None
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    max_rss_bytes: int | None = None
    words: str = ""
    """The tool's own last words when it failed (tail of stderr, else stdout), at most 2 KiB, valid UTF-8."""


class BundleResult(_Model):
    """``result.json`` of one attempt."""

    schema_version: int = Field(1, alias="schema")
    cell_id: str
    attempt: int
    status: CellStatus
    started: float
    finished: float
    boot_id: str
    error: str | None = None
    steps: list[StepResult]
