"""What a parser gives back: measurements, time series and findings, in canonical units only.

A parser is a pure function of bytes. It never guesses: what the tool did not measure is a row with ``value=None`` and
``status=MISSING``, or no row at all where the tool has no such figure; it never is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol


class Unit(StrEnum):
    """Canonical units; a parser converts on reading, nothing converts afterwards."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes/s"
    SECONDS = "s"
    PER_SECOND = "1/s"
    PER_MINUTE = "1/min"
    RATIO = "ratio"
    COUNT = "count"
    CORES = "cores"


class Metric(StrEnum):
    """Every metric name that labctl writes, defined once."""

    IOPS = "iops"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"
    TRANSACTIONS_RATE = "transactions_rate"
    QUERIES_RATE = "queries_rate"
    EVENTS_RATE = "events_rate"
    RUNTIME = "runtime"
    OPERATIONS = "operations"
    BYTES = "bytes"
    ERRORS = "errors"
    RETRIES = "retries"
    CPU_USED = "cpu_used"
    MEMORY_USED = "memory_used"
    QUEUE_DEPTH = "queue_depth"


UNIT_OF: dict[Metric, Unit] = {
    Metric.IOPS: Unit.PER_SECOND,
    Metric.BANDWIDTH: Unit.BYTES_PER_SECOND,
    Metric.LATENCY: Unit.SECONDS,
    Metric.TRANSACTIONS_RATE: Unit.PER_SECOND,
    Metric.QUERIES_RATE: Unit.PER_SECOND,
    Metric.EVENTS_RATE: Unit.PER_SECOND,
    Metric.RUNTIME: Unit.SECONDS,
    Metric.OPERATIONS: Unit.COUNT,
    Metric.BYTES: Unit.BYTES,
    Metric.ERRORS: Unit.COUNT,
    Metric.RETRIES: Unit.COUNT,
    Metric.CPU_USED: Unit.CORES,
    Metric.MEMORY_USED: Unit.BYTES,
    Metric.QUEUE_DEPTH: Unit.RATIO,
}


class Status(StrEnum):
    """How much a value can be trusted as a reading of the tool's output."""

    OK = "ok"
    PARTIAL = "partial"
    FAILED = "failed"
    MISSING = "missing"


class Measurement(NamedTuple):
    """One value of one tool output, without the context (arm, cell, host …) that only the record knows.

    ``component`` splits a metric (``total``, ``submission``, ``completion``, ``sync``, ``connect``, a statement or
    transaction name); ``statistic`` is ``mean``, ``min``, ``max``, ``stddev``, ``p50`` … ``p99.99``, ``total``,
    or ``share`` (of a queue depth class, named by the component, in all I/Os).
    """

    metric: Metric
    statistic: str
    value: float | None
    operation: str = ""
    component: str = "total"
    job: str = ""
    run_index: int = 0
    status: Status = Status.OK

    @property
    def unit(self) -> Unit:
        """The unit follows from the metric."""
        return UNIT_OF[self.metric]


class SeriesPoint(NamedTuple):
    """One point of a time series inside a run; ``t`` is seconds since the start of the tool's run."""

    t: float
    metric: Metric
    value: float | None
    operation: str = ""
    component: str = "total"
    statistic: str = "mean"
    job: str = ""
    run_index: int = 0


class Histogram(NamedTuple):
    """A latency distribution as the tool gave it: upper or nominal bin values in seconds, and counts per bin."""

    metric: Metric
    operation: str
    component: str
    job: str
    run_index: int
    bins: tuple[float, ...]
    counts: tuple[int, ...]


class Severity(StrEnum):
    """``ERROR``: the values cannot be used. ``WARNING``: can be used with care. ``NOTE``: good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a parser or a guard has to say: a stable rule id, a severity, one sentence, the evidence in numbers."""

    rule: str
    severity: Severity
    message: str
    evidence: dict[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(slots=True)
class ParseResult:
    """Everything that one file said. ``failed``: the tool itself reported failure; ``words`` are its own."""

    tool: str
    tool_version: str | None = None
    measurements: list[Measurement] = field(default_factory=list)
    series: list[SeriesPoint] = field(default_factory=list)
    histograms: list[Histogram] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    words: str | None = None


class Parser(Protocol):
    """A module in ``labctl.parsers`` with these names is a parser; the registry lists them."""

    NAME: str
    VERSION: int

    def sniff(self, head: bytes) -> bool:
        """Whether the first 64 KiB of a file look like this tool's output, by content only."""

    def parse(self, data: bytes) -> ParseResult:
        """Read a whole output; never raises on any input."""
