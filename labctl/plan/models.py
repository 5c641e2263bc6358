"""The frozen plan: what a study means in one lab. Written into the record before anything runs.

``Cell.steps`` are exactly what the agent on the target executes: literal argument vectors, no shell.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

SCHEMA = 1

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+=-]{0,254}$")]
"""A text that is a name of a file as it is: it cannot lead out of its directory."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Phase = Literal["setup", "prefill", "load", "run", "cleanup"]


class Step(_Frozen):
    """One command of a cell.

    The working directory is the step's own directory in the bundle, so relative output names land in the evidence.
    ``files`` are written there before the start. ``user`` None means: the user that runs the agent. ``database_user``
    True means: an ordinary user even where the agent is root (PostgreSQL refuses root). ``creates``: skip the step if
    this path exists; it is created after success. ``always``: runs even after a failed or stopped step (clean-up).
    ``cwd``: an absolute directory to work in instead of the step's own, for a tool that writes its data into its
    working directory (sysbench fileio); standard output, standard error, ``files`` and ``outputs`` stay in the step's
    directory.
    """

    name: str
    phase: Phase
    argv: tuple[str, ...]
    timeout_s: float
    env: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    ok_codes: tuple[int, ...] = (0,)
    creates: str | None = None
    cwd: str | None = None
    always: bool = False
    database_user: bool = False
    outputs: tuple[str, ...] = ("stdout",)
    """Files of the step's directory that the normaliser hands to a parser."""


class Cell(_Frozen):
    """Arm x host x point x repeat: the unit of scheduling, resume and evidence."""

    id: FileName
    arm: FileName
    host: FileName
    target: Literal["host"]
    workload: str
    tool: str
    parameters: dict[str, str | int | float | bool]
    point: str
    repeat: int
    block: int
    data_dir: str
    steps: tuple[Step, ...]
    estimate_s: float
    deadline_s: float
    bytes_written: int


class PlannedStorage(_Frozen):
    """Where an arm's data lies on one host, and what the host stage must make."""

    kind: Literal["directory", "loop"]
    path: str
    """The arm's own directory, made by the ``bench_storage`` role and removed by teardown."""
    filesystem: str | None = None
    size_bytes: int | None = None
    image: str | None = None
    """Loop file that backs the file system, for kind ``loop``."""


class PlannedArm(_Frozen):
    """One arm on one host."""

    name: FileName
    title: str
    target: Literal["host"]
    host: FileName
    storage: PlannedStorage
    disk_needed_bytes: int
    disk_free_bytes: int | None
    needs: tuple[str, ...]
    """In words: what the arm needs of the lab (``root``, ``loop devices``, ``fio 3.x`` …)."""
    postgresql: bool = False
    """The arm runs a PostgreSQL on its storage."""
    noise: bool = False
    """The baseline once more: its difference from the baseline is the noise."""


class LeftOut(_Frozen):
    """An optional arm that this lab cannot have, and why."""

    arm: str
    host: str
    reason: str


class PlanFinding(_Frozen):
    """What the planner has to say: ``error`` refuses the plan, ``warning`` and ``note`` go into the report."""

    rule: str
    severity: Literal["error", "warning", "note"]
    message: str
    where: str = ""


class Plan(_Frozen):
    """Everything that will run, in order."""

    schema_version: int = SCHEMA
    study: str
    title: str
    question: str
    baseline: str
    lab: str
    seed: int
    repeats: int
    workdir: dict[str, str]
    """Host name → directory that belongs to labctl on that host."""
    tools: tuple[str, ...]
    arms: tuple[PlannedArm, ...]
    left_out: tuple[LeftOut, ...]
    cells: tuple[Cell, ...]
    """In the order of execution."""
    findings: tuple[PlanFinding, ...]
    parallel_hosts: bool = False
    max_equal_failures: int = 3
    figures: tuple[dict[str, str], ...] = ()

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        """Cells belong to arms of the plan and are told apart by their names: all that follows relies on it."""
        arms = {(arm.name, arm.host) for arm in self.arms}
        for cell in self.cells:
            if (cell.arm, cell.host) not in arms:
                raise ValueError(f"cell {cell.id} is of arm {cell.arm} on {cell.host}, which the plan does not have")
        if len({cell.id for cell in self.cells}) != len(self.cells):
            raise ValueError("two cells have the same id")
        return self

    @property
    def estimate_s(self) -> float:
        """Seconds of pure work, hosts one after another unless they run in parallel."""
        per_host: dict[str, float] = {}
        for cell in self.cells:
            per_host[cell.host] = per_host.get(cell.host, 0.0) + cell.estimate_s
        times = per_host.values()
        return (max(times) if self.parallel_hosts else sum(times)) if per_host else 0.0
