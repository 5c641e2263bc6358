"""Outputs that labctl did not make → measurements and findings, one JSON object a line."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import ExitCode, LabctlError, Where
from labctl.normalise.values import capped, finite, printable
from labctl.parsers.base import Finding, ParseResult, Severity
from labctl.parsers.fio_log import log_kind, parse_log
from labctl.parsers.registry import detect

STDIN = "-"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one file said; ``parser`` is ``name/version``, empty where no parser knows the file."""

    source: str
    result: ParseResult
    parser: str = ""


MAX_BYTES = 2 << 30
"""A file is parsed in memory."""


def parse_output(data: bytes, name: str, tool_version: str | None = None) -> tuple[ParseResult, str] | None:
    """Read one output by its content; fio's logs, which have no header, by their name.

    Args:
        data: the whole output.
        name: file name, only looked at for fio's logs.
        tool_version: version of the tool where known from elsewhere.

    Returns:
        The result and ``parser/version``, or None if no parser knows the content.
    """
    parser = detect(data)
    if parser is not None:
        return parser.parse(data), f"{parser.NAME}/{parser.VERSION}"
    kind = log_kind(name)
    if kind is not None:
        return parse_log(data, kind, tool_version), "fio-log/1"
    return None


def normalise_files(paths: Iterable[Path | str]) -> Iterator[FileResult]:
    """Read files, directories (all files below, sorted) and ``-`` (standard input), one at a time.

    Unknown, empty and unreadable files come as a result with a finding of severity error.

    Raises:
        LabctlError: a path does not exist.
    """
    for path in list(paths):
        if str(path) == STDIN:
            yield _standard_input()
            continue
        top = Path(path)
        if not top.exists():
            raise LabctlError("there is no such file or directory", where=Where(top), code=ExitCode.USAGE)
        if top.is_dir():
            yield from (_read(file, pipes=False) for file in sorted(_files(top)))
        else:
            # A pipe that was named is meant: `labctl normalise <(fio …)`.
            yield _read(top, pipes=True)


def _standard_input() -> FileResult:
    if sys.stdin is None:  # closed by whoever started labctl
        return FileResult(STDIN, _faulty("file.unreadable", "Standard input is closed."))
    return parse_source(STDIN, sys.stdin.buffer.read())


def _files(top: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(top):
        yield from (Path(directory, name) for name in names)


def _read(file: Path, *, pipes: bool) -> FileResult:
    try:
        status = file.stat()
        if not (stat.S_ISREG(status.st_mode) or (pipes and stat.S_ISFIFO(status.st_mode))):
            return FileResult(str(file), _faulty("file.unreadable", "This is not a regular file."))
        if status.st_size > MAX_BYTES:
            message = f"The file is larger than {MAX_BYTES >> 30} GiB: no tool that is read prints so much."
            return FileResult(str(file), _faulty("file.unreadable", message))
        data = file.read_bytes()
    except OSError as error:
        message = f"The file cannot be read: {error.strerror or error}."
        return FileResult(str(file), _faulty("file.unreadable", message))
    return parse_source(str(file), data)


def parse_source(source: str, data: bytes) -> FileResult:
    """Read one output; what no parser knows becomes a finding of severity error."""
    known = parse_output(data, source)
    if known is not None:
        return FileResult(source, *known)
    if not data.strip():
        return FileResult(source, _faulty("file.empty", "The file is empty."))
    message = "No parser knows this output; tools that are read: fio, sysbench (fileio, cpu), pgbench."
    return FileResult(source, _faulty("file.unknown", message))


def _faulty(rule: str, message: str) -> ParseResult:
    return ParseResult(UNKNOWN, findings=[Finding(rule, Severity.ERROR, message)])


def to_jsonl(results: Iterable[FileResult]) -> Iterator[str]:
    """One line a measurement (``"kind": "measurement"``) and a finding (``"kind": "finding"``), without line ends."""
    for one in results:
        yield from _measurement_lines(one)
        yield from _finding_lines(one, one.result.findings)


def _measurement_lines(one: FileResult) -> Iterator[str]:
    result = one.result
    for row in result.measurements:
        value = finite(row.value)
        yield _line(
            {
                "kind": "measurement",
                "source": one.source,
                "tool": result.tool,
                "tool_version": result.tool_version,
                "run_index": row.run_index,
                "job": row.job,
                "operation": row.operation,
                "component": row.component,
                "metric": row.metric.value,
                "statistic": row.statistic,
                "value": value,
                "unit": row.unit.value,
                "status": capped(row.status, value).value,
            }
        )


def _finding_lines(one: FileResult, findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield _line(
            {
                "kind": "finding",
                "source": one.source,
                "tool": one.result.tool,
                "rule": finding.rule,
                "severity": finding.severity.value,
                "message": finding.message,
                "evidence": finding.evidence,
            }
        )


def _line(document: dict[str, object]) -> str:
    return printable(json.dumps(document, ensure_ascii=False, allow_nan=False))
