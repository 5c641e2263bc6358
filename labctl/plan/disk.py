"""Free space: arms that share a file system share what is free on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labctl.workloads.units import format_size

if TYPE_CHECKING:
    from labctl.plan.candidates import Candidate

RESERVE = 0.05
"""Share of the free space that a plan leaves alone."""

EVIDENCE_BYTES = 512 * 1024
"""What a cell's bundle may take; counted with its arm, which is on the safe side for arms elsewhere."""


def fit_disks(candidates: list[Candidate], repeats: int) -> None:
    """Add a ``disk-space`` problem to each arm that finds no room.

    Required arms come first and are judged together; optional arms then take what is left, in the study's order.
    Arms that have a problem already take no room, unless they are required.
    """
    by_filesystem: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in candidates:
        if candidate.path_facts is not None and candidate.path_facts.free_bytes is not None:
            by_filesystem.setdefault(candidate.filesystem, []).append(candidate)
    for (_, mount), sharing in by_filesystem.items():
        free = min(c.path_facts.free_bytes or 0 for c in sharing if c.path_facts is not None)
        usable = int(free * (1 - RESERVE))
        required = [candidate for candidate in sharing if not candidate.arm.optional]
        taken = sum(_needed(candidate, repeats) for candidate in required)
        if taken > usable:
            names = ", ".join(candidate.name for candidate in required)
            for candidate in required:
                candidate.problems.append(("disk-space", _message(taken, free, mount, names)))
        for candidate in sharing:
            if not candidate.arm.optional or candidate.problems:
                continue
            needed = _needed(candidate, repeats)
            if taken + needed > usable:
                candidate.problems.append(
                    ("disk-space", _message(taken + needed, free, mount, f"up to {candidate.name}"))
                )
            else:
                taken += needed


def _needed(candidate: Candidate, repeats: int) -> int:
    return candidate.disk_bytes + EVIDENCE_BYTES * repeats * len(candidate.work)


def _message(needed: int, free: int, mount: str, arms: str) -> str:
    what = f"{format_size(needed)} needed on {mount} ({arms}) and {format_size(free)} free"
    return f"{what}, of which {RESERVE:.0%} are left alone"
