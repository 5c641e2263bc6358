"""What agents say becomes ledger lines, events and an open circuit breaker, once each."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from labctl.cli.display import duration, last_words, line_for
from labctl.record.ledger import Ledger
from labctl.run.events import RunEvent
from labctl.run.progress import Progress
from labctl.run.reconcile import HomeBundle
from labctl.run.schedule import CircuitBreaker
from tests.unit.test_run_schedule import cell, plan_of


class Seen:
    def __init__(self, tmp_path: Path, limit: int = 3) -> None:
        self.events: list[RunEvent] = []
        self.ledger = Ledger(tmp_path / "ledger.jsonl")
        self.cancel = threading.Event()
        self.breaker = CircuitBreaker(limit)
        plan = plan_of(*(cell(name) for name in "abcd"))
        self.progress = Progress(plan, self.ledger, self.events.append, self.breaker, self.cancel)

    def say(self, event: str, name: str, t: float = 0.0, **more: Any) -> None:
        self.progress.saw({"event": event, "cell": name, "attempt": 1, "t": t, "host": "h1", **more})

    def kinds(self) -> list[tuple[str, Any]]:
        return [(event.kind, event.data.get("finished")) for event in self.events]


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    return Seen(tmp_path)


def test_cells_are_running_when_they_start_and_never_done_before_their_bundle_is_home(seen: Seen) -> None:
    seen.say("cell_started", "a", 1.0)
    seen.say("cell_finished", "a", 11.0, status="done")
    assert seen.kinds() == [("cell_started", 0), ("cell_finished", 1)]
    assert seen.events[-1].data["seconds"] == pytest.approx(10.0)
    assert seen.ledger.view.cells["a"].state == "running"


def test_what_is_said_twice_counts_once(seen: Seen) -> None:
    for _ in range(2):
        seen.say("cell_started", "a", 1.0)
        seen.say("cell_finished", "a", 11.0, status="done")
    assert seen.kinds() == [("cell_started", 0), ("cell_finished", 1)]


def test_an_interrupted_cell_is_not_counted_as_finished(seen: Seen) -> None:
    seen.say("cell_started", "a", 1.0)
    seen.say("cell_finished", "a", 2.0, status="interrupted", error="stopped")
    assert seen.kinds()[-1] == ("cell_finished", 0)


def test_equal_failures_cancel_the_stage(seen: Seen) -> None:
    for name in "abc":
        seen.say("cell_finished", name, 1.0, status="failed", error=f"fio: /x/{name}: No space left on device")
    assert seen.cancel.is_set()
    assert "No space left on device" in str(seen.breaker.reason)


def test_a_failure_that_only_the_bundle_shows_is_told_and_counted(seen: Seen) -> None:
    for name in "abc":
        seen.say("cell_finished", name, 1.0, status="done")
        seen.progress.home(HomeBundle(name, 1, "failed", "fio ended with 0 but reports: error 5", 2.0))
        seen.progress.home(HomeBundle(name, 1, "failed", "fio ended with 0 but reports: error 5", 2.0))
    ends = [event.data["status"] for event in seen.events if event.kind == "cell_finished"]
    assert ends == ["done", "failed"] * 3
    seen.progress.home(HomeBundle("d", 1, "done", None, 2.0))
    assert seen.breaker.reason is None, "a success lies between the failures"


def test_lines_of_unknown_cells_and_odd_lines_are_passed_over(seen: Seen) -> None:
    for line in ({}, {"event": "cell_started"}, {"event": "cell_started", "cell": "z", "attempt": 1}, {"cell": 5}):
        seen.progress.saw(line)
    assert seen.events == []
    assert seen.ledger.view.cells == {}


def test_a_lost_connection_is_told(seen: Seen) -> None:
    seen.progress.saw({"event": "reconnecting", "host": "h1", "error": "Connection refused"})
    assert seen.events[0].data["message"] == "h1: reconnecting: Connection refused"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (-3, "0 s"), (12.4, "12 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (3720, "1 h 02 min")],
)
def test_durations_read_well(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_long_words_of_a_tool_are_shown_by_their_first_and_last_lines() -> None:
    assert last_words("step run: failed: sysbench 1.0\n\na\nb\nc\nFATAL: no file\nWARNING: prepare") == [
        "step run: failed: sysbench 1.0",
        "...",
        "c",
        "FATAL: no file",
        "WARNING: prepare",
    ]
    assert last_words("one\ntwo") == ["one", "two"]
    assert last_words("") == []


def test_a_failed_stage_shows_errors_and_the_line_by_hand_a_canceled_one_does_not() -> None:
    data = {
        "stage": "host",
        "seconds": 3,
        "command": "ansible-playbook x",
        "errors": [{"host": "h1", "task": "Tools", "path": "", "message": "no fio"}],
    }
    assert line_for(RunEvent("stage_finished", {**data, "status": "failed"})) == (
        "stage host failed in 3 s\n  h1: Tools: no fio\n  by hand: ansible-playbook x"
    )
    assert line_for(RunEvent("stage_finished", {**data, "status": "canceled"})) == "stage host canceled in 3 s"
