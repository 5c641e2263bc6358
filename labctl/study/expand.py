"""A workload's points: ``parameters``, each listed point on top, then the full product of ``sweep``."""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labctl.workloads.registry import TOOLS
from labctl.workloads.units import format_size

if TYPE_CHECKING:
    from labctl.study.models import Workload
    from labctl.workloads.base import Parameters, Tool

MAX_POINTS = 10_000
MAX_LABEL = 48
_SIZES = frozenset({"bs", "size", "total_size", "block_size", "rate"})


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of parameters; ``label`` names what varies, ``default`` where nothing does."""

    label: str
    tool: Tool[Any]
    parameters: Parameters


def expand(workload: Workload) -> list[Point]:
    """Every point in file order (the last swept parameter varies fastest), with unique labels.

    Raises:
        ValueError: more than ``MAX_POINTS`` points, or two equal ones.
    """
    axes = {name: values for name, values in workload.sweep if values is not None}
    listed = [{name: getattr(point, name) for name in point.model_fields_set} for point in workload.points] or [{}]
    total = len(listed)
    for values in axes.values():
        total *= len(values)
    if total > MAX_POINTS:
        raise ValueError(f"{total} points: at most {MAX_POINTS}")
    points: list[Point] = []
    seen: dict[str, str] = {}
    for base, combination in itertools.product(listed, itertools.product(*axes.values())):
        varied = base | dict(zip(axes, combination, strict=True))
        parameters = workload.parameters.model_copy(update=varied)
        content = parameters.model_dump_json()
        if content in seen:
            raise ValueError(f"two points are equal: {seen[content]}")
        label = _label(varied)
        if label in seen.values():
            # Two values that look alike once made safe for file names.
            label = _bounded(f"{label}_{_digest(content)}")
        seen[content] = label
        points.append(Point(label, TOOLS[workload.tool], parameters))
    return points


def _label(varied: dict[str, object]) -> str:
    if not varied:
        return "default"
    parts = (f"{name}-{_text(name, value)}" for name, value in varied.items())
    return _bounded("_".join(re.sub(r"[^A-Za-z0-9+-]+", "-", part).strip("-") for part in parts))


def _text(name: str, value: object) -> str:
    if name in _SIZES and isinstance(value, int):
        return format_size(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _bounded(label: str) -> str:
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 9]}_{_digest(label)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
