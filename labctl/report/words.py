"""Sentences that the page and the Markdown share, so that both say the same."""

from __future__ import annotations

from urllib.parse import quote

from labctl.report.model import ArmFigure, FindingRow, Report, Sample
from labctl.report.units import DASH, Scale, percent, significant

#: Headline warnings at most; all others are in their section.
_HEADLINE = 8
_ENOUGH = 3


def state_sentence(report: Report) -> str:
    """How much of the plan was done."""
    total = len(report.cells)
    done = report.counts["done"]
    rest = ", ".join(f"{number} {state}" for state, number in report.counts.items() if number and state != "done")
    return f"{done} of {total} cells done" + (f"; {rest}" if rest else "")


def partial_sentence(report: Report) -> str:
    """What a reader of a partial report must know first; empty for a whole one."""
    if not report.partial:
        return ""
    if not report.counts["done"]:
        return (
            "No cell of the plan was done, so there is no result. What failed, and what was there, is below."
            if report.counts["failed"] or report.counts["interrupted"]
            else "No cell of the plan was done yet, so there is no result."
        )
    return (
        f"This report is partial: {state_sentence(report)}. Medians and spreads below rest on fewer samples than "
        "planned, and some may be missing altogether."
    )


def verdict_sentence(report: Report) -> str:
    """Why no better and worse is said."""
    fewest, most = report.samples_per_point
    if not most:
        return "No statistical verdict is given: there are no samples."
    n = f"n = {fewest}" if fewest == most else f"n = {fewest} to {most}"
    return (
        f"No statistical verdict is given; {n}. Ratios are ratios of medians and only describe these samples: "
        "they do not say that arms differ."
    )


def headline_warnings(report: Report) -> list[str]:
    """The warnings that matter most, one sentence each."""
    warnings = []
    fewest, most = report.samples_per_point
    if most and fewest < _ENOUGH:
        few = "1 sample" if fewest == 1 else f"{fewest} samples"
        warnings.append(f"At least one figure rests on {few} only" + (": it has no spread." if fewest == 1 else "."))
    warnings += [
        f"Host {host.name} is a {host.machine}: neighbours that cannot be seen may have changed what was measured."
        for host in report.hosts
        if "virtual machine" in host.machine or "container" in host.machine
    ]
    grave = [row for row in report.findings if row.severity in {"error", "warning"}]
    said = list(dict.fromkeys(finding_sentence(row) for row in grave))
    warnings += said[:_HEADLINE]
    if len(said) > _HEADLINE:
        warnings.append(f"{len(said) - _HEADLINE} more errors and warnings are listed under Failures and warnings.")
    if report.problems:
        warnings.append(f"The record is damaged or incomplete: {'; '.join(report.problems)}.")
    return warnings


def finding_sentence(row: FindingRow) -> str:
    """A finding with what it is about: workloads or hosts of the plan, or a number of cells."""
    place = f"{row.where}: " if row.where not in {"", "plan"} else ""
    cells = f" ({len(row.cells)} cell{'s' if len(row.cells) != 1 else ''})" if row.cells else ""
    return f"{place}{row.message.rstrip()}{cells}"


def spread(arm: ArmFigure, scale: Scale) -> str:
    """``min to max``; empty for a single sample, which has no spread."""
    described = arm.summary
    if described is None or described.stddev is None:
        return ""
    return f"{scale.number(described.minimum)} to {scale.number(described.maximum)}"


def deviation(arm: ArmFigure, scale: Scale) -> str:
    """Sample standard deviation and coefficient of variation; empty for a single sample."""
    described = arm.summary
    if described is None or described.stddev is None:
        return ""
    return f"s {significant(described.stddev / scale.factor, 2)}, CV {percent(described.cv)}"


def sample_text(sample: Sample, scale: Scale) -> str:
    """The value of one sample; in brackets if it is not counted."""
    if sample.value is None:
        return DASH
    return scale.number(sample.value) if sample.counted else f"({scale.number(sample.value)})"


def interleaving(report: Report) -> str:
    """Order of the first cells."""
    runs: list[tuple[str, int]] = []
    for arm in report.order:
        if runs and runs[-1][0] == arm:
            runs[-1] = (arm, runs[-1][1] + 1)
        else:
            runs.append((arm, 1))
    more = " and so on" if len(report.cells) > len(report.order) else ""
    return ", ".join(arm if number == 1 else f"{arm} ({number} cells)" for arm, number in runs) + more


def order_sentence(report: Report) -> str:
    """In which order the cells ran."""
    return (
        f"{_many(len(report.cells), 'cell')}, {_many(report.repeats, 'repeat')} in {_many(report.blocks, 'block')}; "
        f"the order inside a block was shuffled with seed {report.seed}. It began with the arms {interleaving(report)}."
    )


def manifest_sentence(report: Report) -> str:
    """Whether the evidence is sealed."""
    if report.manifest_files is None:
        return "There is no manifest: the run has not ended, or the file is lost."
    return f"manifest.json has the sha256 of {_many(report.manifest_files, 'file')}."


def cells_text(row: FindingRow) -> str:
    """Cells that a finding is about: a few names, else their number."""
    if not row.cells:
        return row.where or DASH
    return ", ".join(row.cells) if len(row.cells) <= _ENOUGH else f"{len(row.cells)} cells, first {row.cells[0]}"


def raw_url(to_record: str, name: str) -> str:
    """Link to a file of the record."""
    return f"{to_record}/{quote(name)}"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
