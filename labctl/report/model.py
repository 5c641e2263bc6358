"""What a report says, as plain data: the shape that the writers (HTML, Markdown, CSV) share."""

from __future__ import annotations

from dataclasses import dataclass, field

from labctl.report.stats import Summary


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one cell, or why there is none. ``value`` in the canonical unit."""

    number: int
    value: float | None
    cell: str
    order: int
    """Position of the cell in the order of execution, from 1."""
    counted: bool = True
    """False: shown, but kept out of median and spread; ``note`` says why."""
    note: str = ""
    raw_file: str = ""


@dataclass(frozen=True, slots=True)
class ArmFigure:
    """All samples of one figure in one arm on one host, described."""

    arm: str
    samples: tuple[Sample, ...]
    summary: Summary | None
    ratio: float | None
    """Median / median of the baseline arm on the same host; None for the baseline itself."""

    @property
    def missing(self) -> tuple[Sample, ...]:
        """Samples without a usable value."""
        return tuple(sample for sample in self.samples if sample.value is None or not sample.counted)

    @property
    def reason(self) -> str:
        """Why there is no summary."""
        notes = dict.fromkeys(sample.note for sample in self.samples if sample.note)
        return "; ".join(notes) or "not planned"


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of a table of results: one metric, statistic, operation and component; ``arms`` in plan order."""

    key: str
    title: str
    metric: str
    statistic: str
    operation: str
    component: str
    phase: str
    unit: str
    plotted: bool
    higher_is_better: bool
    arms: tuple[ArmFigure, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A time series of one sample: ``t`` in seconds, ``y`` in the canonical unit, NaN where missing."""

    arm: str
    sample: int
    t: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SeriesPanel:
    """All lines of one counter at one point on one host."""

    title: str
    source: str
    metric: str
    unit: str
    lines: tuple[Line, ...]
    ramp_s: float | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """Latencies of one arm: ascending bins in seconds with counts, of one sample or merged over all (sample 0)."""

    arm: str
    sample: int
    bins: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DistributionPanel:
    """Distributions of one operation at one point on one host."""

    title: str
    operation: str
    component: str
    merged: tuple[Distribution, ...]
    single: tuple[Distribution, ...]


@dataclass(frozen=True, slots=True)
class StepCommand:
    """What exactly ran: one step of a cell, and the files that it was given."""

    phase: str
    name: str
    line: str
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HostResults:
    """One point on one host."""

    host: str
    arms: tuple[str, ...]
    done: dict[str, int]
    planned: dict[str, int]
    figures: tuple[Figure, ...]
    series: tuple[SeriesPanel, ...]
    distributions: tuple[DistributionPanel, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of parameters of a workload."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    commands: tuple[StepCommand, ...]
    hosts: tuple[HostResults, ...]


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """The main figure of one point on one host."""

    point: str
    host: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything of one workload."""

    name: str
    tool: str
    versions: tuple[str, ...]
    points: tuple[Point, ...]
    overview: tuple[OverviewRow, ...]


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A fingerprint field that is the same wherever it was read."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A fingerprint field that differs: column label (arm, host) → value(s)."""

    field: str
    values: dict[str, str]


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What was measured of the machines, over all cells."""

    columns: tuple[str, ...]
    same: tuple[FieldValue, ...]
    different: tuple[FieldDifference, ...]
    moving: tuple[FieldDifference, ...]
    """Readings that move by nature (load, free memory, clock): a range for each column."""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """Equal findings of any number of cells, as one row."""

    severity: str
    rule: str
    message: str
    cells: tuple[str, ...]
    raw_files: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True, slots=True)
class CellRow:
    """State of one planned cell."""

    cell: str
    order: int
    arm: str
    host: str
    workload: str
    tool: str
    point: str
    repeat: int
    block: int
    attempt: int
    status: str
    started: float | None
    finished: float | None
    error: str
    raw: str
    """Directory of the bundle relative to the record; empty if nothing was collected."""


@dataclass(frozen=True, slots=True)
class MissingValue:
    """A value that the report cannot show, and why."""

    workload: str
    point: str
    arm: str
    host: str
    sample: int
    figure: str
    reason: str
    cell: str


@dataclass(frozen=True, slots=True)
class ArmRow:
    """Where one arm ran on one host."""

    name: str
    title: str
    host: str
    baseline: bool
    kind: str
    path: str
    filesystem: str
    device: str
    needs: str


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host in words; what could not be read is a dash."""

    name: str
    system: str
    kernel: str
    cpu: str
    memory: str
    machine: str


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report."""

    title: str
    question: str
    run_id: str
    lab: str
    study: str
    baseline: str
    labctl_version: str
    started: float | None
    finished: float | None
    run_state: str
    counts: dict[str, int]
    """State → cells: done, failed, interrupted, running, planned."""
    partial: bool
    samples_per_point: tuple[int, int]
    """Fewest and most good samples of any arm at any point."""
    repeats: int
    seed: int
    blocks: int
    order: tuple[str, ...]
    """First cells in the order of execution, as `arm` names: shows the interleaving."""
    arms: tuple[ArmRow, ...]
    arm_names: tuple[str, ...]
    hosts: tuple[HostRow, ...]
    left_out: tuple[tuple[str, str, str], ...]
    commands: tuple[tuple[str, str], ...]
    workloads: tuple[Workload, ...]
    fingerprints: Fingerprints
    findings: tuple[FindingRow, ...]
    cells: tuple[CellRow, ...]
    missing: tuple[MissingValue, ...]
    problems: tuple[str, ...]
    record: str
    manifest_files: int | None = None
    identity: tuple[tuple[str, str], ...] = field(default_factory=tuple)
