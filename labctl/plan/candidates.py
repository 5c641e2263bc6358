"""One arm on one host: can it be, what would it run, what does it need. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from labctl.paths import SAFE_PATH
from labctl.plan.models import PlanFinding
from labctl.plan.placing import (
    MAX_SOCKET_DIR,
    base_path,
    loop_capacity,
    place_storage,
    socket_dir,
    workdir_of,
)
from labctl.plan.tools import FILESYSTEM_TOOLS, need, tool_state
from labctl.study.expand import expand
from labctl.workloads.base import Estimate, Site, Surroundings, Tool
from labctl.workloads.registry import TOOLS
from labctl.workloads.units import format_size

if TYPE_CHECKING:
    from labctl.lab.facts import HostFacts, PathFacts
    from labctl.lab.models import Lab
    from labctl.plan.models import PlannedStorage, Step
    from labctl.study.expand import Point
    from labctl.study.models import Arm, Study

ARM_RULES = frozenset({"no-direct-io"})
"""Lint rules that speak of the arm and not of the study: an optional arm is left out for them."""


class Work(NamedTuple):
    """One point of one workload in one arm on one host; its steps are the same in every repeat."""

    workload: str
    label: str
    tool: str
    parameters: dict[str, str | int | float | bool]
    estimate: Estimate
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Candidate:
    """An arm on a host with everything that speaks against it (``problems``) or is worth saying (``findings``)."""

    name: str
    arm: Arm
    host: str
    storage: PlannedStorage
    path_facts: PathFacts | None
    work: list[Work] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    findings: list[tuple[PlanFinding, str]] = field(default_factory=list)
    needs: dict[str, None] = field(default_factory=dict)
    packages: dict[str, None] = field(default_factory=dict)
    to_install: dict[str, None] = field(default_factory=dict)
    left_out_workloads: dict[str, str] = field(default_factory=dict)
    postgresql: bool = False

    @property
    def filesystem(self) -> tuple[str, str]:
        """What arms share when they share free space: host and mount point."""
        facts = self.path_facts
        return self.host, (facts.mount_point or facts.device or facts.existing_parent) if facts else ""

    @property
    def data_bytes(self) -> int:
        """Most bytes that the arm's data take at any time."""
        kept: dict[str, int] = {}
        passing = 0
        for work in self.work:
            estimate = work.estimate
            kept[estimate.layout] = max(kept.get(estimate.layout, 0), estimate.kept_bytes)
            passing = max(passing, estimate.passing_bytes)
        return sum(kept.values()) + passing

    @property
    def disk_bytes(self) -> int:
        """Bytes that the arm takes from the file system below it; a loop file counts whole."""
        return self.storage.size_bytes or self.data_bytes


def make_candidate(
    study: Study, lab: Lab, name: str, host: str, facts: HostFacts, *, run_id: str, seed: int
) -> Candidate:
    """Place the arm, resolve and check its work, and render it."""
    arm = study.arms[name]
    workdir = workdir_of(lab, host, facts)
    storage = place_storage(arm, name, workdir, run_id)
    site = Site(storage.path, socket_dir(workdir, run_id, name), seed)
    candidate = Candidate(name, arm, host, storage, facts.paths.get(base_path(lab, host, arm)))
    _check_storage(candidate, facts, base_path(lab, host, arm))
    # Whether a loop file's file system takes direct I/O is known only once it is there; XFS and ext4 do.
    direct = candidate.path_facts.direct_io if candidate.path_facts and storage.kind == "directory" else None
    around = Surroundings(facts.memory.usable_bytes, direct, f"{base_path(lab, host, arm)} on {host}")
    for workload_name, workload in study.workloads.items():
        if workload.only_arms and name not in workload.only_arms:
            continue
        tool = TOOLS[workload.tool]
        reason = _check_tool(candidate, tool, facts)
        if reason and workload.optional:
            candidate.left_out_workloads[workload_name] = reason
            continue
        if reason:
            candidate.problems.append(("missing-tool", f"{workload_name}: {reason}"))
        for point in expand(workload):
            candidate.work.append(_make_work(candidate, workload_name, point, around=around, site=site))
        candidate.postgresql |= tool.postgresql
    _check_paths(candidate, site)
    return candidate


def _make_work(candidate: Candidate, workload: str, point: Point, *, around: Surroundings, site: Site) -> Work:
    tool = point.tool
    resolved = tool.resolve(point.parameters, around)
    given = point.parameters.flat()
    for name, value in resolved.flat().items():
        if value != given.get(name):
            message = f"{name} {given.get(name)} is {value} on {candidate.host}"
            note = PlanFinding(rule="resolved", severity="note", message=message)
            candidate.findings.append((note, f"{workload}/{point.label}"))
    for found in tool.lint(resolved, around):
        if found.rule in ARM_RULES:
            if (found.rule, found.message) not in candidate.problems:
                candidate.problems.append((found.rule, found.message))
        else:
            candidate.findings.append((found, f"{workload}/{point.label}"))
    return Work(
        workload,
        point.label,
        tool.name,
        resolved.flat(),
        tool.estimate(resolved),
        tool.render(resolved, site),
    )


def _check_storage(candidate: Candidate, facts: HostFacts, base: str) -> None:
    path, storage = candidate.path_facts, candidate.storage
    problems = candidate.problems
    if path is None:
        problems.append(("no-facts", f"nothing is known of {base}"))
    elif not path.writable and storage.kind == "directory":
        problems.append(("not-writable", f"{path.existing_parent} is not writable for {facts.user.name}"))
    if storage.kind != "loop":
        return
    candidate.needs |= {"root": None, "loop devices": None}
    if not facts.user.can_be_root:
        problems.append(("no-root", f"a loop file system needs root, and {facts.user.name} cannot become root"))
    if not facts.loop.available:
        problems.append(("no-loop", f"no loop devices: {facts.loop.reason or 'unknown reason'}"))
    binary, package = FILESYSTEM_TOOLS[storage.filesystem or "ext4"]
    candidate.needs[package] = candidate.packages[package] = None
    if facts.tools.get(binary) is None and facts.user.can_be_root:
        candidate.to_install[package] = None


def _check_tool(candidate: Candidate, tool: Tool[Any], facts: HostFacts) -> str | None:
    """Why the tool cannot be used, or None; notes what must be installed."""
    candidate.needs[need(tool)] = candidate.packages[tool.package] = None
    state = tool_state(tool, facts)
    if state.outdated:
        return state.outdated
    if not state.missing:
        return None
    if facts.user.can_be_root:
        candidate.to_install[tool.package] = None
        return None
    return f"{', '.join(state.missing)} missing, and {facts.user.name} cannot install {tool.package} without root"


def _check_paths(candidate: Candidate, site: Site) -> None:
    storage = candidate.storage
    if not re.fullmatch(SAFE_PATH, storage.path):
        message = (
            f"{storage.path} has characters that fio or PostgreSQL would misread: letters, digits and ._@+=-/ only"
        )
        candidate.problems.append(("path-characters", message))
    if candidate.postgresql and len(site.socket_dir) > MAX_SOCKET_DIR:
        message = (
            f"the socket directory {site.socket_dir} is longer than {MAX_SOCKET_DIR} bytes: set a shorter lab_workdir"
        )
        candidate.problems.append(("socket-path", message))
    if storage.size_bytes is not None:
        capacity = loop_capacity(storage.filesystem, storage.size_bytes)
        if candidate.data_bytes > capacity:
            message = f"{format_size(candidate.data_bytes)} of data do not fit into the loop file of"
            message = (
                f"{message} {format_size(storage.size_bytes)} with {storage.filesystem} (about {format_size(capacity)})"
            )
            candidate.problems.append(("loop-too-small", message))
