"""Collecting findings: the same words about many places become one finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from labctl.plan.models import PlanFinding

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_PLACES = 4
_RANK = {"error": 0, "warning": 1, "note": 2}


class FindingList:
    """Findings with their places; ``merged`` gives them worst first, else in the order of arrival."""

    def __init__(self) -> None:
        self._places: dict[PlanFinding, dict[str, None]] = {}

    def add(self, rule: str, severity: Literal["error", "warning", "note"], message: str, where: str = "") -> None:
        """Add one."""
        finding = PlanFinding(rule=rule, severity=severity, message=message)
        self._places.setdefault(finding, {})[where] = None

    def take(self, findings: Iterable[tuple[PlanFinding, str]]) -> None:
        """Add several with their places."""
        for finding, where in findings:
            self._places.setdefault(finding, {})[where] = None

    def merged(self) -> tuple[PlanFinding, ...]:
        """One finding for each rule and message; long lists of places are cut and counted."""
        result = []
        for finding, places in self._places.items():
            names = [place for place in places if place]
            more = f" and {len(names) - _SHOWN_PLACES} more" if len(names) > _SHOWN_PLACES else ""
            where = ", ".join(names[:_SHOWN_PLACES]) + more
            result.append(finding.model_copy(update={"where": where}))
        return tuple(sorted(result, key=lambda finding: _RANK[finding.severity]))
