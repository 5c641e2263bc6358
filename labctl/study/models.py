"""The study file: a question as arms x workloads x repeats, with a baseline and the figures that matter."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from labctl.parsers.base import Metric
from labctl.paths import SAFE_PATH
from labctl.workloads.base import Parameters
from labctl.workloads.registry import TOOLS
from labctl.workloads.units import Size

MIN_REPEATS = 3
"""Fewer samples have no spread worth the name; only a pilot may have them."""

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
PATH_PATTERN = f"^{SAFE_PATH}$"
STATISTIC_PATTERN = r"^(mean|min|max|stddev|total|p\d{1,2}(\.\d{1,4})?|p100)$"

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""Lower-case letters, digits and inner hyphens, 40 at most: safe in file names."""

AbsolutePath = Annotated[str, StringConstraints(pattern=PATH_PATTERN)]
"""An absolute path without ``..``, spaces or characters that mean something to fio or a shell."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Storage(_Model):
    """Where an arm's data lies: a directory, or a file system in a loop file (root)."""

    kind: Literal["directory", "loop"] = "directory"
    path: AbsolutePath | None = Field(None, description="Base directory; default: the host's working directory.")
    filesystem: Literal["xfs", "ext4"] | None = Field(None, description="For kind loop.")
    size: Size | None = Field(None, description="Of the loop file, for kind loop.")


class Arm(_Model):
    """One treatment."""

    title: str = ""
    target: Literal["host"] = "host"
    hosts: str = Field("all", min_length=1, description="Host, group or shell pattern; several by commas; !x: not x.")
    storage: Storage = Field(default_factory=lambda: Storage.model_validate({}))
    optional: bool = Field(default=False, description="Left out with a reason where the lab cannot have it.")
    noise: bool = Field(default=False, description="The baseline again: shows what the noise alone does.")


class Workload(_Model):
    """What every workload has; the subclasses of :data:`WORKLOAD_MODELS` fix the tool and its parameters."""

    tool: str
    title: str = ""
    parameters: Parameters
    sweep: BaseModel
    points: tuple[Parameters, ...] = Field((), description="Listed combinations, each on top of parameters.")
    only_arms: tuple[Name, ...] = Field((), description="Arms that run it; default: all.")
    optional: bool = Field(default=False, description="Left out where its tool is missing and cannot be installed.")


def _several(item: Any, most: int = 1000) -> Any:  # noqa: ANN401  an annotation is any object
    return Annotated[tuple[item, ...], Field(min_length=1, max_length=most)]


def _workload_model(name: str) -> type[Workload]:
    parameters: Any = TOOLS[name].parameters
    stem = parameters.__name__.removesuffix("Parameters")
    lists: dict[str, Any] = {
        # min_length: an empty list would silently remove the whole workload.
        field: (_several(info.rebuild_annotation()) | None, None)
        for field, info in parameters.model_fields.items()
    }
    sweep = create_model(f"{stem}Sweep", __base__=_Model, __doc__="Values of parameters; full product.", **lists)
    fields: dict[str, Any] = {
        "tool": (Literal[name], ...),
        "parameters": (parameters, parameters()),
        "sweep": (sweep, sweep()),
        "points": (_several(parameters), ()),
    }
    return create_model(f"{stem}Workload", __base__=Workload, __doc__=f"A workload of {name}.", **fields)


WORKLOAD_MODELS: dict[str, type[Workload]] = {name: _workload_model(name) for name in TOOLS}

if TYPE_CHECKING:
    AnyWorkload = Workload
else:
    AnyWorkload = Annotated[Union[tuple(WORKLOAD_MODELS.values())], Field(discriminator="tool")]  # noqa: UP007


class Figure(_Model):
    """A figure that answers the question: shown first, compared with the baseline."""

    workload: Name
    metric: Metric = Field(strict=False)
    statistic: str = Field("mean", pattern=STATISTIC_PATTERN)
    operation: str = Field("", description="read, write, … where the tool reports them apart.")
    higher_is_better: bool


class Order(_Model):
    """How cells follow each other beyond the shuffled blocks."""

    across_hosts: Literal["serial", "parallel"] = "serial"


class Study(_Model):
    """A study file."""

    name: Name
    title: str = Field(min_length=1)
    question: str = Field(min_length=1)
    baseline: Name
    repeats: int = Field(5, ge=1, le=1000)
    pilot: bool = Field(default=False, description=f"Allows fewer than {MIN_REPEATS} repeats.")
    seed: int | None = Field(None, ge=1, lt=2**31)
    arms: dict[Name, Arm] = Field(min_length=1, max_length=200)
    workloads: dict[Name, AnyWorkload] = Field(min_length=1, max_length=200)
    figures: tuple[Figure, ...] = ()
    order: Order = Order()
    max_equal_failures: int = Field(3, ge=1, le=1000, description="Equal failures in a row that stop the run.")
