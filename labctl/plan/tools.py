"""Whether a host has the tools, and what must be installed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labctl.workloads.registry import TOOLS

if TYPE_CHECKING:
    from labctl.lab.facts import HostFacts
    from labctl.study.models import Study
    from labctl.workloads.base import Tool

FILESYSTEM_TOOLS = {"xfs": ("mkfs.xfs", "xfsprogs"), "ext4": ("mkfs.ext4", "e2fsprogs")}
"""File system → (binary, what ``bench_tools`` calls its package)."""


@dataclass(frozen=True, slots=True)
class ToolState:
    """``missing`` binaries; ``outdated``: what is too old, in words."""

    missing: tuple[str, ...]
    outdated: str | None


def tools_to_probe(study: Study) -> tuple[str, ...]:
    """Binaries that a plan of this study asks the facts for."""
    names = {binary for workload in study.workloads.values() for binary in TOOLS[workload.tool].binaries}
    names |= {FILESYSTEM_TOOLS[arm.storage.filesystem][0] for arm in study.arms.values() if arm.storage.filesystem}
    return tuple(sorted(names))


def tool_state(tool: Tool[Any], facts: HostFacts) -> ToolState:
    """Compare what the probe found with what the tool needs; an unreadable version passes."""
    missing = tuple(binary for binary in tool.binaries if facts.tools.get(binary) is None)
    found = facts.tools.get(tool.binaries[0])
    version = _version(found.version) if found is not None else None
    outdated = None
    if version is not None and version < tool.min_version:
        outdated = f"{tool.binaries[0]} {'.'.join(map(str, version))} is older than {need(tool)}"
    return ToolState(missing, outdated)


def need(tool: Tool[Any]) -> str:
    """``fio 3.0 or later``."""
    return f"{tool.package} {'.'.join(map(str, tool.min_version))} or later"


def _version(text: str | None) -> tuple[int, ...] | None:
    match = re.search(r"\d+(?:\.\d+)*", text or "")
    return tuple(int(part) for part in match[0].split(".")) if match else None
