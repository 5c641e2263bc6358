"""pgbench of PostgreSQL 13 to 18 (and the wording of 9.x) → measurements.

Format: ``printResults`` and ``printProgressReport`` of ``src/bin/pgbench/pgbench.c``;
https://www.postgresql.org/docs/current/pgbench.html. 13 and older print two figures of tps, with and without the time
to connect, and no banner; 14 and newer print one, without the initial connection time; 15 adds failures and retries.

The transaction rate (component ``total``) is always the one *without* connection times; the other one is component
``with-connects``. With ``-C`` newer versions have only the latter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from labctl.parsers.base import Finding, Measurement, Metric, ParseResult, SeriesPoint, Severity, Status
from labctl.parsers.text import decode, number, whole_lines, words

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "pgbench"
VERSION = 1

#: Rule of the note on a standard error that was read without its standard output.
PROGRESS_ONLY = "pgbench.progress-only"

_SNIFF = re.compile(
    rb"^[^\w\n]*pgbench \(\d|^\s*transaction type: |^progress: \d+\.\d s, |^pgbench: |"
    rb"^done in \d+\.\d+ s \(.*\)\.|^\s*tps = \d",
    re.MULTILINE,
)
_BANNER = re.compile(r"^pgbench \((\d+(?:\.\d+)*(?:devel|(?:alpha|beta|rc)\d+)?)")
_HEADER = re.compile(r"^transaction type: (.+)$")
#: How whole lines of pgbench end; any other last line without a line end may be cut.
_ENDING = re.compile(r"(?:^(?:tps =|pgbench|number of) .*\)|;|failed|retries|skipped| ms|tps|\.\d{3})$")
_F = r"(-?\d+\.\d+|-?nan|NaN)"
_PARAMETERS = (
    ("scale", re.compile(r"^scaling factor: (\d+)$")),
    ("query_mode", re.compile(r"^query mode: (\S+)$")),
    ("partitions", re.compile(r"^partitions: (\d+)$")),
    ("clients", re.compile(r"^number of clients: (\d+)$")),
    ("threads", re.compile(r"^number of threads: (\d+)$")),
    ("max_tries", re.compile(r"^maximum number of tries: (\d+)$")),
    ("duration_s", re.compile(r"^duration: (\d+) s$")),
    ("transactions_per_client", re.compile(r"^number of transactions per client: (\d+)$")),
)
_PROCESSED = re.compile(r"^number of transactions actually processed: (\d+)(?:/(\d+))?$")
_COUNTS: tuple[tuple[Metric, str, re.Pattern[str]], ...] = (
    (Metric.ERRORS, "total", re.compile(r"^number of failed transactions: (\d+) \(")),
    (Metric.ERRORS, "serialization", re.compile(r"^number of serialization failures: (\d+) \(")),
    (Metric.ERRORS, "deadlock", re.compile(r"^number of deadlock failures: (\d+) \(")),
    (Metric.RETRIES, "transactions", re.compile(r"^number of transactions retried: (\d+) \(")),
    (Metric.RETRIES, "total", re.compile(r"^(?:total )?number of retries: (\d+)$")),
    (Metric.OPERATIONS, "skipped", re.compile(r"^number of transactions skipped: (\d+) \(")),
    (
        Metric.OPERATIONS,
        "above-latency-limit",
        re.compile(r"^number of transactions above the .* ms latency limit: (\d+)(?:/\d+)? \("),
    ),
)
_LATENCY = re.compile(rf"^latency (average|stddev)(?: =|:) {_F} ms(.*)$")
_LAG = re.compile(rf"^rate limit schedule lag: avg {_F} \(max {_F}\) ms$")
_CONNECT = re.compile(rf"^(initial|average) connection time = {_F} ms$")
_TPS = re.compile(rf"^tps = {_F} \((.+)\)$")
_SCRIPT = re.compile(r"^SQL script \d+: (.+)$")
_SCRIPT_RATE = re.compile(rf"^(\d+) transactions \(.* of total(?:, tps = {_F})?\)$")
_STATEMENTS = re.compile(r"^statement latencies in milliseconds(, failures and retries| and failures)?:$")
_STATEMENT = re.compile(rf"^\s*{_F}\s+(?:(\d+)\s+)?(?:(\d+)\s+)?(\S.*)$")
_PROGRESS = re.compile(
    r"^progress: (\d+\.\d+) s, (\d+\.\d+) tps, lat (\S+) ms stddev ([^\s,]+)"
    r"(?:, (\d+) failed)?(?:, lag (\S+) ms)?(?:, (\d+) skipped)?(?:, (\d+) retried, (\d+) retries)?$"
)
_INIT = re.compile(r"^done in (\d+\.\d\d) s \((.+)\)\.$")
_INIT_PART = re.compile(r"^(.+) (\d+\.\d\d) s$")
_COMPLAINT = re.compile(r"^pgbench: (?:error|fatal): |^(?:ERROR|FATAL|PANIC):  |^(?:client|Client) \d+ .*aborted")
_OLD_COMPLAINT = re.compile(
    r"^(?:connection to (?:server|database) .*failed|Run was aborted; the above results are incomplete\.)"
)
_WARNING = re.compile(r"^pgbench: warning: |^WARNING:  ")
_STATEMENT_LIMIT = 200
#: Progress times beyond this are the wall clock (``--progress-timestamp``).
_EPOCH = 1e8


def sniff(head: bytes) -> bool:
    """By the banner, the first lines of the result, progress lines, the line that ends ``-i``, or its complaints."""
    return _SNIFF.search(head) is not None


def parse(data: bytes) -> ParseResult:
    """Read every run of an output, from standard output, standard error or both; ``run_index`` numbers the runs."""
    lines, findings = whole_lines(decode(data), _ENDING)
    result = ParseResult(NAME, findings=findings)
    complaints = [line for line in lines if _COMPLAINT.match(line) or _OLD_COMPLAINT.match(line)]
    for line in dict.fromkeys(line.strip() for line in lines if _WARNING.match(line)):
        result.findings.append(Finding("pgbench.warning", Severity.WARNING, line[:300], {}))
    if complaints:
        result.failed = True
        result.words = words(complaints)
        message = f"pgbench reported an error: {complaints[0].strip()[:300]}"
        result.findings.append(Finding("pgbench.error", Severity.ERROR, message, {"lines": len(complaints)}))
    run_index = 0
    for block in _blocks(lines):
        run_index += _Run(block, run_index, result).read()
    if not result.measurements and not complaints:
        _nothing(result)
    if complaints:
        result.measurements = [
            r._replace(status=Status.PARTIAL) if r.status is Status.OK else r for r in result.measurements
        ]
    return result


def _nothing(result: ParseResult) -> None:
    """Standard error alone has only the progress; anything else without a result is a fault."""
    if result.series:
        message = "There are only progress lines; the result is on pgbench's standard output."
        result.findings.append(Finding(PROGRESS_ONLY, Severity.NOTE, message, {}))
    else:
        message = "There is no result of pgbench in the output."
        result.findings.append(Finding("pgbench.no-result", Severity.ERROR, message, {}))


def _blocks(lines: list[str]) -> list[list[str]]:
    """Cut the output into runs: a banner starts one, and so does anything of a next run after a result."""
    blocks: list[list[str]] = [[]]
    header = done = False
    for line in lines:
        banner = _BANNER.match(line) is not None
        again = _HEADER.match(line) is not None
        next_run = done and line.startswith(("starting vacuum", "progress: ", "dropping old tables"))
        if banner or (again and header) or next_run:
            blocks.append([])
            header = done = False
        header = header or again
        done = done or _TPS.match(line) is not None
        blocks[-1].append(line)
    return [block for block in blocks if any(line.strip() for line in block)]


class _Run:
    """One run of pgbench in an output; collects into ``result``."""

    def __init__(self, lines: list[str], run_index: int, result: ParseResult) -> None:
        self.lines = lines
        self.run_index = run_index
        self.result = result
        self.rows: list[Measurement] = []
        self.script = ""
        self.header = self.rate_seen = self.unfinished = False
        self.in_statements: str | None = None
        self.statements: dict[str, int] = {}
        self.progress_start: float | None = None

    def read(self) -> bool:
        """Whether there was anything of a run in the lines."""
        before = len(self.result.series)
        for line in self.lines:
            self._line(line)
        if self.header and not self.rate_seen:
            message = "The result has no transaction rate: the run was aborted or the output is cut."
            self._say("no-rate", Severity.ERROR, message)
            self.unfinished = True
            self._add(Metric.TRANSACTIONS_RATE, "mean", None)
        if self.rate_seen and not self.header:
            self._say("cut", Severity.WARNING, "The beginning of the result is missing.")
        if self.unfinished:
            self.rows = [r._replace(status=Status.PARTIAL) if r.status is Status.OK else r for r in self.rows]
        self.result.measurements += self.rows
        return bool(self.rows) or len(self.result.series) > before

    def _say(self, rule: str, severity: Severity, message: str, **evidence: str | float) -> None:
        self.result.findings.append(Finding(f"pgbench.{rule}", severity, message, dict(evidence)))

    def _add(
        self, metric: Metric, statistic: str, value: float | None, component: str = "total", operation: str = ""
    ) -> None:
        status = Status.MISSING if value is None else Status.OK
        self.rows.append(
            Measurement(metric, statistic, value, operation, component, self.script, self.run_index, status)
        )

    def _line(self, line: str) -> None:
        plain = line.strip().removeprefix("- ")
        if banner := _BANNER.match(line):
            self.result.tool_version = banner.group(1)
        elif match := _STATEMENTS.match(plain):
            self.in_statements = match.group(1) or ""
        elif match := _SCRIPT.match(line):
            self.script = match.group(1)
            self.in_statements = None
            self.statements = {}
        elif self.in_statements is not None and (match := _STATEMENT.match(line)):
            self._statement(match)
        elif line.startswith("progress: "):
            if match := _PROGRESS.match(line):
                self._progress(match)
        else:
            self._result_line(plain)

    def _result_line(self, plain: str) -> None:
        readers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (_HEADER, self._transaction_type),
            (_PROCESSED, self._processed),
            (_LATENCY, self._latency),
            (_TPS, self._tps),
            (_CONNECT, self._connect),
            (_LAG, self._lag),
            (_SCRIPT_RATE, self._script_rate),
            (_INIT, self._init),
        )
        for pattern, reader in readers:
            if match := pattern.match(plain):
                reader(match)
                return
        for metric, component, pattern in _COUNTS:
            if match := pattern.match(plain):
                self._add(metric, "total", float(match.group(1)), component)
                return
        for name, pattern in _PARAMETERS:
            if match := pattern.match(plain):
                self.result.parameters[name] = match.group(1)
                return

    def _transaction_type(self, match: re.Match[str]) -> None:
        self.header = True
        self.result.parameters["transaction_type"] = match.group(1)

    def _processed(self, match: re.Match[str]) -> None:
        done, planned = match.groups()
        self._add(Metric.OPERATIONS, "total", float(done))
        if planned is not None and int(done) < int(planned):
            self.unfinished = True
            message = f"Only {done} of {planned} transactions were processed."
            self._say("incomplete", Severity.ERROR, message, done=int(done), planned=int(planned))

    def _latency(self, match: re.Match[str]) -> None:
        name, text, rest = match.groups()
        value = number(text)
        self._add(Metric.LATENCY, {"average": "mean"}.get(name, name), None if value is None else value / 1000)
        if "including failures" in rest:
            self._say("latency-with-failures", Severity.NOTE, "The mean latency includes failed transactions.")

    def _tps(self, match: re.Match[str]) -> None:
        value = number(match.group(1))
        how = match.group(2)
        with_connects = how.startswith("including")
        self._add(Metric.TRANSACTIONS_RATE, "mean", value, "with-connects" if with_connects else "total")
        if how == "including reconnection times":
            self._say("reconnects", Severity.NOTE, "Every transaction made a new connection; its time is in the rate.")
        self.rate_seen = self.rate_seen or not with_connects or how == "including reconnection times"

    def _connect(self, match: re.Match[str]) -> None:
        value = number(match.group(2))
        seconds = None if value is None else value / 1000
        if match.group(1) == "initial":
            self._add(Metric.RUNTIME, "total", seconds, "connect")
        else:
            self._add(Metric.LATENCY, "mean", seconds, "connect")

    def _lag(self, match: re.Match[str]) -> None:
        for statistic, text in (("mean", match.group(1)), ("max", match.group(2))):
            value = number(text)
            self._add(Metric.LATENCY, statistic, None if value is None else value / 1000, "schedule-lag")

    def _script_rate(self, match: re.Match[str]) -> None:
        self._add(Metric.OPERATIONS, "total", float(match.group(1)))
        if match.group(2) is not None:
            self._add(Metric.TRANSACTIONS_RATE, "mean", number(match.group(2)))

    def _statement(self, match: re.Match[str]) -> None:
        latency, first, second, text = match.groups()
        # Without the columns of 15 and newer, a number before the text is part of the text.
        columns = {"": 0, " and failures": 1, ", failures and retries": 2}[self.in_statements or ""]
        texts = [part for part in (first, second)[columns:] if part is not None]
        name = " ".join([*texts, text.strip()])[:_STATEMENT_LIMIT]
        self.statements[name] = self.statements.get(name, 0) + 1
        if self.statements[name] > 1:
            name = f"{name} #{self.statements[name]}"
        # Meta commands take less than the microsecond that is printed: 0.000 is "below resolution", not 0.
        value = number(latency) or None
        self._add(Metric.LATENCY, "mean", None if value is None else value / 1000, name, "statement")
        for count, metric in ((first, Metric.ERRORS), (second, Metric.RETRIES))[:columns]:
            if count is not None:
                self._add(metric, "total", float(count), name, "statement")

    def _progress(self, match: re.Match[str]) -> None:
        time, tps, latency, stddev, failed, lag, skipped, retried, retries = match.groups()
        t = float(time)
        if self.progress_start is None:
            self.progress_start = t if t > _EPOCH else 0.0
        t -= self.progress_start
        self._point(t, Metric.TRANSACTIONS_RATE, float(tps))
        for statistic, component, text in (("mean", "total", latency), ("stddev", "total", stddev)):
            value = number(text)
            self._point(t, Metric.LATENCY, None if value is None else value / 1000, component, statistic)
        if lag is not None:
            value = number(lag)
            self._point(t, Metric.LATENCY, None if value is None else value / 1000, "schedule-lag")
        for metric, component, count in (
            (Metric.ERRORS, "total", failed),
            (Metric.OPERATIONS, "skipped", skipped),
            (Metric.RETRIES, "transactions", retried),
            (Metric.RETRIES, "total", retries),
        ):
            if count is not None:
                self._point(t, metric, float(count), component, "total")

    def _point(
        self, t: float, metric: Metric, value: float | None, component: str = "total", statistic: str = "mean"
    ) -> None:
        self.result.series.append(SeriesPoint(t, metric, value, "", component, statistic, "", self.run_index))

    def _init(self, match: re.Match[str]) -> None:
        self._add(Metric.RUNTIME, "total", float(match.group(1)), operation="initialise")
        for part in match.group(2).split(", "):
            if step := _INIT_PART.match(part):
                self._add(Metric.RUNTIME, "total", float(step.group(2)), step.group(1), "initialise")
