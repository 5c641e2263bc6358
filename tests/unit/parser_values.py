"""What the tests of the parsers share: fixtures, and values by what they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from labctl.parsers.base import Measurement, ParseResult, SeriesPoint, Status

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "parsers"

Key = tuple[int, str, str, str, str, str]


def golden(tool: str, name: str) -> bytes:
    return (GOLDEN / tool / name).read_bytes()


def key(row: Measurement) -> Key:
    return (row.run_index, row.job, row.operation, row.metric.value, row.component, row.statistic)


def rows(result: ParseResult) -> dict[Key, Measurement]:
    """By key; two rows of one key would make one of them invisible, so that is a fault."""
    found = {key(row): row for row in result.measurements}
    assert len(found) == len(result.measurements)
    return found


def row(result, metric, statistic, operation="", component="total", job="", run=0):  # noqa: PLR0917 - a key
    return rows(result)[run, job, operation, metric, component, statistic]


def value(result, metric, statistic, operation="", component="total", job="", run=0):  # noqa: PLR0917 - a key
    """The value of a row that must be ok."""
    found = row(result, metric, statistic, operation, component, job, run)
    assert found.status is Status.OK, found
    return found.value


def metrics(result: ParseResult) -> set[str]:
    return {r.metric.value for r in result.measurements}


def rules(result: ParseResult) -> dict[str, str]:
    return {f.rule: f.severity.value for f in result.findings}


def series(points: Iterable[SeriesPoint], metric: str, operation="", component="total", statistic="mean"):
    def wanted(p: SeriesPoint) -> bool:
        return (p.metric.value, p.operation, p.component, p.statistic) == (metric, operation, component, statistic)

    return [(p.t, p.value) for p in points if wanted(p)]
