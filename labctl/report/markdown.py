"""Report → Markdown: the same content as the page but for the charts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from labctl.report import units, words
from labctl.report.model import ArmFigure, Figure, HostResults, Point, Report, Workload
from labctl.report.results import figure_title, scale_of

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$])")
#: Rows of a list of findings or missing values; the CSV files have all.
_LONGEST = 200


def render_markdown(report: Report, to_record: str) -> str:
    """The text.

    Args:
        report: what to say.
        to_record: URL of the record relative to the text, quoted.
    """
    sections: list[Iterator[str]] = [_head(report), _what(report)]
    sections += [_workload(report, workload) for workload in report.workloads]
    sections += [_fingerprints(report), _findings(report, to_record), _data(report, to_record)]
    return "\n\n".join(block for section in sections for block in section) + "\n"


def escape(text: str) -> str:
    """Foreign words in one line, without any effect on the Markdown around them."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("&", "&amp;")


def code(text: str) -> str:
    """Inline code, whatever the text holds."""
    line = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _code_cell(text: str) -> str:
    """Inline code in a table, where even there a bar would end the cell."""
    return code(text).replace("|", "\\|")


def block(text: str) -> str:
    """A code block, whatever the text holds."""
    fence = "`" * max(3, max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    return f"{fence}\n{text}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int = 1) -> str:
    """A table of cells that are escaped already; columns from ``numbers_from`` on are right-aligned."""
    rule = ["---" if index < numbers_from else "---:" for index in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def _head(report: Report) -> Iterator[str]:
    yield f"# {escape(report.title)}"
    if report.question:
        yield escape(report.question)
    if sentence := words.partial_sentence(report):
        yield f"**{escape(sentence)}**"
    where = "; ".join(f"{host.name}: {host.system}" for host in report.hosts) or report.lab
    yield "\n".join(
        (
            f"- Study {escape(report.study)} in lab {escape(report.lab)}",
            f"- Where: {escape(where)}",
            f"- When: {units.instant(report.started)} to {units.instant(report.finished)}",
            f"- Cells: {words.state_sentence(report)}",
            f"- Run: {escape(report.run_id)} ({escape(report.run_state)})",
        )
    )
    yield escape(words.verdict_sentence(report))
    if warnings := words.headline_warnings(report):
        yield "**Read with care**"
        yield "\n".join(f"- {escape(warning)}" for warning in warnings)


def _what(report: Report) -> Iterator[str]:
    yield "## What ran where"
    yield table(
        ("Arm", "Host", "Storage", "File system", "Device", "Needs"),
        (
            (
                escape(f"{arm.name}{' (baseline)' if arm.baseline else ''}{': ' if arm.title else ''}{arm.title}"),
                *(escape(text) for text in (arm.host, f"{arm.kind} {arm.path}", arm.filesystem, arm.device, arm.needs)),
            )
            for arm in report.arms
        ),
        numbers_from=6,
    )
    if report.left_out:
        yield "Arms that this lab cannot have:"
        yield "\n".join(f"- {escape(arm)} on {escape(host)}: {escape(reason)}" for arm, host, reason in report.left_out)
    if report.hosts:
        yield table(
            ("Host", "System", "Kernel", "CPU", "Memory", "Kind of machine"),
            (
                tuple(
                    escape(text) for text in (host.name, host.system, host.kernel, host.cpu, host.memory, host.machine)
                )
                for host in report.hosts
            ),
            numbers_from=6,
        )
    yield escape(words.order_sentence(report))
    if report.commands:
        yield "Do it again:"
        yield block("\n".join(line for _, line in report.commands))


def _workload(report: Report, workload: Workload) -> Iterator[str]:
    yield f"## {escape(workload.name)}"
    yield escape(f"Measured by {workload.tool} {', '.join(workload.versions)}".strip()) + "."
    if workload.overview:
        yield f"Overview: medians of the main figure, and their ratio to the baseline {escape(report.baseline)}."
        many = len(report.hosts) > 1
        yield table(
            ("Point", "Figure", *(escape(arm) for arm in report.arm_names)),
            (
                (
                    escape(f"{row.point}, {row.host}" if many else row.point),
                    escape(figure_title(row.figure)),
                    *(_overview(row.figure, arm) for arm in report.arm_names),
                )
                for row in workload.overview
            ),
            numbers_from=2,
        )
    else:
        yield "No cell of this workload gave a value."
    for point in workload.points:
        for host in point.hosts:
            yield from _results(point, host)
        yield "What exactly ran (first cell; other arms differ in paths only):"
        yield block("\n".join(step.line for step in point.commands))
        for name, content in dict.fromkeys(file for step in point.commands for file in step.files):
            yield f"With the file {code(name)}:"
            yield block(content.rstrip("\n"))


def _overview(figure: Figure, name: str) -> str:
    arm = next((arm for arm in figure.arms if arm.arm == name), None)
    if arm is None or arm.summary is None:
        return f"{units.DASH} ({escape(arm.reason if arm else 'not planned')})"
    ratio = f" ({units.times(arm.ratio)})" if arm.ratio is not None else ""
    return f"{scale_of(figure).text(arm.summary.median)}{ratio}"


def _results(point: Point, host: HostResults) -> Iterator[str]:
    yield f"### {escape(point.name)}{f' on {escape(host.host)}' if len(point.hosts) > 1 else ''}"
    if not host.figures:
        done = ", ".join(f"{escape(arm)} {host.done[arm]} of {host.planned[arm]} cells done" for arm in host.arms)
        yield f"No value: {done}."
        return
    yield table(
        ("Figure", "Unit", "Arm", "n", "Median", "Min to max", "Spread", "Ratio", "Samples"),
        (_figure_row(figure, arm) for figure in host.figures for arm in figure.arms),
        numbers_from=3,
    )


def _figure_row(figure: Figure, arm: ArmFigure) -> tuple[str, ...]:
    scale = scale_of(figure)
    described = arm.summary
    first = (escape(figure_title(figure)), escape(scale.label), escape(arm.arm))
    if described is None:
        return (*first, "0", units.DASH, units.DASH, units.DASH, units.DASH, escape(arm.reason))
    samples = ", ".join(words.sample_text(sample, scale) for sample in arm.samples)
    missing = f" ({escape(arm.reason)})" if arm.missing else ""
    return (
        *first,
        str(described.n),
        scale.number(described.median),
        words.spread(arm, scale),
        words.deviation(arm, scale),
        units.times(arm.ratio) if arm.ratio is not None else "",
        samples + missing,
    )


def _fingerprints(report: Report) -> Iterator[str]:
    yield "## Fingerprints: what was really there"
    prints = report.fingerprints
    if not prints.columns:
        yield "The record holds no fingerprint."
        return
    header = ("Field", *(escape(column) for column in prints.columns))
    for title, group in (("Differences", prints.different), ("Readings that move by nature", prints.moving)):
        yield f"### {title}"
        yield (
            table(
                header,
                (
                    (_code_cell(item.field), *(escape(item.values[column]) for column in prints.columns))
                    for item in group
                ),
                numbers_from=len(header),
            )
            if group
            else "None."
        )
    if prints.same:
        yield "### The same for all cells"
        yield table(("Field", "Value"), ((_code_cell(item.field), escape(item.value)) for item in prints.same), 2)


def _findings(report: Report, to_record: str) -> Iterator[str]:
    yield "## Failures and warnings"
    if not report.findings:
        yield "None."
    else:
        yield table(
            ("Severity", "Rule", "What", "Where", "Evidence"),
            (
                (
                    escape(row.severity),
                    _code_cell(row.rule),
                    escape(row.message),
                    escape(words.cells_text(row)),
                    ", ".join(f"[{escape(name)}]({words.raw_url(to_record, name)})" for name in row.raw_files[:3])
                    or units.DASH,
                )
                for row in report.findings
            ),
            numbers_from=5,
        )
    if report.missing:
        yield "### Missing values"
        yield "\n".join(
            f"- {escape(item.cell)}: {escape(item.figure)}: {escape(item.reason)}" for item in report.missing[:_LONGEST]
        )
        if len(report.missing) > _LONGEST:
            yield f"{len(report.missing) - _LONGEST} more are in samples.csv."


def _data(report: Report, to_record: str) -> Iterator[str]:
    yield "## Raw data"
    links = (
        ("raw output in", "raw"),
        ("tables in", "tables"),
        ("plan in", "plan.json"),
        ("history in", "ledger.jsonl"),
    )
    places = ", ".join(f"{what} [{name}]({to_record}/{name})" for what, name in links)
    yield f"Record {code(report.record)}: {places}. {escape(words.manifest_sentence(report))}"
    yield "\n".join(f"- {escape(key)}: {escape(value)}" for key, value in report.identity) or "No identity."
    if report.problems:
        yield "What could not be read:"
        yield "\n".join(f"- {escape(problem)}" for problem in report.problems)
