"""The one entry point: a record in, report files out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from labctl.errors import ExitCode, LabctlError, Where
from labctl.record.files import write_atomic
from labctl.record.layout import RecordLayout
from labctl.report.build import build_report
from labctl.report.load import load_record
from labctl.report.model import Report

FORMATS = ("html", "md", "csv")


def write_report(record_root: Path, out: Path | None = None, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Write the report of a record, whatever state the record is in.

    Args:
        record_root: the record directory.
        out: where to write; None means ``report/`` in the record.
        formats: any of ``html``, ``md``, ``csv``.

    Returns:
        The files written, in the order of ``formats``.

    Raises:
        LabctlError: unknown format, no record, damaged plan, or the output cannot be written.
    """
    chosen = tuple(dict.fromkeys(formats))
    if not chosen or (unknown := [name for name in chosen if name not in FORMATS]):
        what = f"unknown report format {unknown[0]!r}" if chosen else "no report format given"
        raise LabctlError(what, hint=f"known formats: {', '.join(FORMATS)}", code=ExitCode.USAGE)
    report = build_report(load_record(record_root))
    directory = out if out is not None else RecordLayout(record_root).report
    to_record = quote(os.path.relpath(record_root.resolve(), directory.resolve()), safe="/.")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise LabctlError(f"cannot make the report's directory: {exc.strerror}", where=Where(directory)) from exc
    written: list[Path] = []
    for name in chosen:
        for file_name, text in _WRITERS[name](report, to_record).items():
            path = directory / file_name
            write_atomic(path, text.encode("utf-8", "replace"))
            written.append(path)
    return written


def _html(report: Report, to_record: str) -> dict[str, str]:
    from labctl.report.page import render_page  # noqa: PLC0415 - plots are slow to import

    return {"report.html": render_page(report, to_record)}


def _markdown(report: Report, to_record: str) -> dict[str, str]:
    from labctl.report.markdown import render_markdown  # noqa: PLC0415 - only what was asked for

    return {"report.md": render_markdown(report, to_record)}


def _csv(report: Report, to_record: str) -> dict[str, str]:  # noqa: ARG001 - one signature for all writers
    from labctl.report.csv_tables import render_csv  # noqa: PLC0415 - only what was asked for

    return render_csv(report)


_WRITERS: dict[str, Callable[[Report, str], dict[str, str]]] = {"html": _html, "md": _markdown, "csv": _csv}
