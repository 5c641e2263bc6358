"""What every workload module gives: a parameter model, lint, rendering and an estimate. No I/O.

A workload is rendered once per point; nothing but the paths of :class:`Site` differs between arms.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from labctl.parsers.base import Metric
from labctl.plan.models import PlanFinding, Step
from labctl.workloads.units import format_size

Scalar = str | int | float | bool

PREFILL_RATE = 100 * 1024**2
"""Bytes/s that a plan assumes for writing prepared data."""

WRITE_RATE = 500 * 1000**2
"""Bytes/s that a plan assumes for a time-based write without a rate limit (a SATA SSD; a guess, shown as such)."""

SLOWEST_RATE = 5 * 1024**2
"""Bytes/s below which a prepare step counts as hung."""

MARGIN_S = 60.0
"""Seconds that any step may take on top of its work before it counts as hung."""


class Parameters(BaseModel):
    """Base of the parameter models: strict, frozen, unknown names are errors, every parameter has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def flat(self) -> dict[str, Scalar]:
        """Scalars only, for the plan and the tables: lists joined by ``:``, mappings as ``name.key``, no None."""
        result: dict[str, Scalar] = {}
        for name, value in self:
            if isinstance(value, Mapping):
                result |= {f"{name}.{key}": item for key, item in value.items()}
            elif isinstance(value, tuple):
                result[name] = ":".join(str(item) for item in value)
            elif value is not None:
                result[name] = value
        return result


@dataclass(frozen=True, slots=True)
class Site:
    """Where a cell works: absolute paths on the target, and the seed of the tools' random numbers (1 or more)."""

    data_dir: str
    socket_dir: str
    seed: int

    @property
    def postgresql_dir(self) -> str:
        """The cluster that the ``bench_postgresql`` role made on the arm's storage."""
        return f"{self.data_dir}/pg"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What lint must know of the host and the arm; ``direct_io`` None means not known."""

    ram_bytes: int
    direct_io: bool | None
    storage: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one cell costs.

    ``layout`` names data that stays in the arm (``kept_bytes``, counted once for all cells that share it);
    ``passing_bytes`` are gone when the cell is. ``prepare_once``: only the first cell of a layout prepares.
    """

    run_s: float
    prepare_s: float = 0.0
    run_bytes: int = 0
    prepare_bytes: int = 0
    layout: str = ""
    kept_bytes: int = 0
    passing_bytes: int = 0
    prepare_once: bool = False


Given = dict[tuple[Metric, str], frozenset[str]]
"""(Metric, operation) → statistics, of component ``total``."""

MEAN = frozenset({"mean"})

P = TypeVar("P", bound=Parameters)


class Tool(ABC, Generic[P]):
    """One benchmark tool. ``binaries`` are probed on the host; ``package`` is what ``bench_tools`` installs."""

    name: str
    parameters: type[P]
    package: str
    binaries: tuple[str, ...]
    min_version: tuple[int, ...]
    postgresql = False
    uses_storage = True

    @abstractmethod
    def gives(self, params: P) -> Given:
        """What the tool reports for these parameters, in the words of its parser."""

    def resolve(self, params: P, around: Surroundings) -> P:  # noqa: ARG002  most tools have nothing automatic
        """Replace ``auto`` values by numbers."""
        return params

    @abstractmethod
    def lint(self, params: P, around: Surroundings) -> list[PlanFinding]:
        """What is wrong or doubtful; ``error`` refuses the plan."""

    @abstractmethod
    def estimate(self, params: P) -> Estimate:
        """Time, bytes and disk of one cell."""

    @abstractmethod
    def render(self, params: P, site: Site) -> tuple[Step, ...]:
        """The steps of one cell, complete and literal."""


def finding(rule: str, severity: Literal["error", "warning", "note"], message: str) -> PlanFinding:
    """A finding without a place; the planner adds workload, arm and host."""
    return PlanFinding(rule=rule, severity=severity, message=message)


def page_cache(data_bytes: int, ram_bytes: int, remedy: str) -> PlanFinding:
    """The finding for data that the page cache would hold: below twice the RAM."""
    what = f"{format_size(data_bytes)} of data without direct I/O on a host with {format_size(ram_bytes)} RAM"
    return finding("size-below-ram", "error", f"{what} measures the page cache: {remedy}")
