"""Finds fio's JSON documents in an output that may hold anything else before, between, within and after them.

fio writes warnings of other processes and of its own to the same stream (axboe/fio#731, #1304, #1685), prints one
document per ``--status-interval``, and prints ``nan``, which is not JSON. A document that was cut is read as far as
whole jobs go.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from labctl.parsers.base import Finding, Severity

_START = re.compile(r"^[ \t]*\{", re.MULTILINE)
_FIO_KEY = '"fio version"'
#: fio prints each member and each bracket on a line of its own, so a line that starts otherwise is not fio's.
_JSON_LINE = re.compile(r'^\s*(?:["{}\[\]]|$)')
_NOT_A_NUMBER = re.compile(r"(:\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}\n])", re.IGNORECASE)
_DOCUMENT = re.compile(r'^[ \t]*\{\s*"fio version"', re.MULTILINE)
_NEXT_JOB = re.compile(r"\s*,?\s*(?=\{)")
_JOBS = re.compile(r'"(?:jobs|client_stats)"\s*:\s*\[')
_OPTIONS = re.compile(r' options"\s*:\s*\{([^{}]*)\}')
_KEY = re.compile(r'^\s*"((?:[^"\\]|\\.)*)"\s*:', re.MULTILINE)
_HEAD_VALUE = re.compile(r'^\s*"(fio version|timestamp_ms|timestamp)"\s*:\s*("?)([^",\n]+)\2,\s*$', re.MULTILINE)

_decoder = json.JSONDecoder()


@dataclass(slots=True)
class Documents:
    """``whole`` and ``cut`` documents in the order of the output; ``outside``: the lines that belong to none."""

    found: list[tuple[dict[str, Any], bool]] = field(default_factory=list)
    """Pairs of document and whether it was cut (only whole jobs of it were read)."""
    outside: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def find_documents(text: str) -> Documents:
    """Read every fio JSON document of ``text``; never raises."""
    result = Documents()
    # Where fio's key and the next document stand is looked up once and not for each bracket of foreign text.
    position, key_at, following = 0, -1, -1
    while (start := _START.search(text, position)) is not None:
        opening = start.end() - 1
        result.outside += text[position:opening].splitlines()
        try:
            document, end = _decoder.raw_decode(text, opening)
        except (ValueError, RecursionError):
            if key_at < opening and (key_at := text.find(_FIO_KEY, opening)) < 0:
                position = opening
                break
            if following <= opening:
                following = _next_document(text, opening)
            if key_at < following:
                _repair(text[opening:following], result)
                position = following
            else:
                result.outside.append("{")
                position = opening + 1
            continue
        if _is_fio(document):
            result.found.append((document, False))
            _note_duplicates(text[opening:end], result.findings)
        else:
            result.outside += text[opening:end].splitlines()
        position = end
    result.outside += text[position:].splitlines()
    return result


def _is_fio(document: object) -> bool:
    return isinstance(document, dict) and "fio version" in document


def _next_document(text: str, opening: int) -> int:
    """Where the document after the broken one starts: fio's first key comes right after the bracket."""
    following = _DOCUMENT.search(text, opening + 1)
    return following.start() if following else len(text)


def _repair(piece: str, result: Documents) -> None:
    """A document that is not JSON: drop foreign lines and ``nan``; if that is not enough, keep its whole jobs."""
    lines = piece.split("\n")
    foreign = [line for line in lines if not _JSON_LINE.match(line)]
    cleaned = _NOT_A_NUMBER.sub(r"\1null", "\n".join(line for line in lines if _JSON_LINE.match(line)))
    if foreign:
        result.outside += foreign
    try:
        document, _ = _decoder.raw_decode(cleaned)
    except (ValueError, RecursionError):
        _salvage(cleaned, result)
        return
    if not _is_fio(document):
        return
    result.found.append((document, False))
    # Lines after the closing bracket are outside, not within: only say "within" where they really were.
    if foreign:
        result.findings.append(
            Finding(
                "fio.foreign-lines",
                Severity.WARNING,
                f"{len(foreign)} lines that are not fio's stand in or after the JSON document; they were left out.",
                {"lines": len(foreign), "first": foreign[0].strip()[:200]},
            )
        )


def _salvage(cleaned: str, result: Documents) -> None:
    """Read the whole jobs of a document that was cut or damaged."""
    jobs: list[Any] = []
    listing = _JOBS.search(cleaned)
    position = listing.end() if listing else len(cleaned)
    while (bracket := _NEXT_JOB.match(cleaned, position)) is not None:
        try:
            job, position = _decoder.raw_decode(cleaned, bracket.end())
        except (ValueError, RecursionError):
            break
        jobs.append(job)
    # Only the head is searched: the first values of these keys are the document's own.
    head: dict[str, Any] = {key: value for key, _, value in _HEAD_VALUE.findall(cleaned[:2000])}
    for key in ("timestamp", "timestamp_ms"):
        if key in head:
            head[key] = int(head[key]) if head[key].strip().isdigit() else None
    result.found.append(({**head, "jobs": jobs}, True))
    result.findings.append(
        Finding(
            "fio.cut",
            Severity.ERROR,
            f"The JSON document is cut or damaged; {len(jobs)} whole jobs of it could be read.",
            {"jobs": len(jobs)},
        )
    )


def _note_duplicates(source: str, findings: list[Finding]) -> None:
    """Fio repeats a key where an option was given twice; JSON readers keep the last, so say which."""
    repeated: set[str] = set()
    for options in _OPTIONS.findall(source):
        keys = _KEY.findall(options)
        if len(keys) != len(set(keys)):
            repeated.update(key for key in keys if keys.count(key) > 1)
    if repeated:
        names = ", ".join(sorted(repeated))
        findings.append(
            Finding(
                "fio.repeated-option",
                Severity.NOTE,
                f"Options given more than once, the last one is kept: {names}.",
                {"options": names},
            )
        )
