"""Runs that are interrupted, killed, or started twice: nothing is lost, nothing is measured twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.run_support import PILOT, Bench, final_states, is_event, make_bench, remove

pytestmark = [
    pytest.mark.needs("fio", "sysbench", "ansible"),
    pytest.mark.real(what="stage:host stage:measure stage:collect stage:stop stage:teardown", where="localhost"),
]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield make_bench(tmp_path, study=PILOT)
    remove(tmp_path)


def test_ctrl_c_stops_the_cell_collects_and_resume_ends_the_run(bench: Bench) -> None:
    with bench.running(*bench.run_arguments()) as running:
        running.until(is_event("cell_finished"))
        running.until(is_event("cell_started"))
        running.signal(signal.SIGINT)
        events = running.rest()
        assert running.process.returncode == 130
    assert events[-1]["event"] == "run_finished"
    assert events[-1]["status"] == "interrupted"
    record = bench.record()
    states = [state for state, _ in final_states(record).values()]
    assert states.count("running") == 0
    assert states.count("interrupted") <= 1
    assert states.count("done") >= 1
    assert (record / "report" / "report.html").exists()
    assert "partial" in (record / "report" / "report.md").read_text().lower()

    resumed = bench.labctl("resume", str(record), "--json")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    after = final_states(record)
    assert len(after) == 8
    assert {state for state, _ in after.values()} == {"done"}
    assert bench.left_on_host() == []


def test_second_signal_ends_at_once_and_resume_picks_up_the_agent(bench: Bench) -> None:
    with bench.running(*bench.run_arguments()) as running:
        running.until(is_event("cell_started"))
        running.signal(signal.SIGTERM)
        running.until(is_event("notice"))
        running.signal(signal.SIGTERM)
        running.process.wait(timeout=10)
        assert running.process.returncode == 130
    resumed = bench.labctl("resume", str(bench.record()), "--json")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert {state for state, _ in final_states(bench.record()).values()} == {"done"}


#: What is waited for, one after the other, before each kill.
MOMENTS: dict[str, list[Callable[[dict[str, Any]], bool]]] = {
    "before the host stage": [is_event("stage_started", stage="host")],
    "in the host stage": [is_event("task", stage="host")],
    "before measuring": [is_event("stage_started", stage="measure")],
    "at the start of a cell": [is_event("cell_started")],
    "in a cell": [is_event("step_started", phase="run")],
    "between cells": [is_event("cell_finished")],
    "while collecting": [is_event("stage_finished", stage="measure"), is_event("stage_started", stage="collect")],
    "after collecting": [is_event("stage_finished", stage="collect")],
    "in teardown": [is_event("stage_started", stage="teardown")],
}


def test_killed_in_every_phase_one_after_the_other_the_run_ends_as_if_undisturbed(tmp_path: Path) -> None:
    # A minute of cells: the agent is no child of labctl's and goes on while labctl is killed again and again.
    bench = make_bench(tmp_path, study=PILOT.replace("  two: {}\n", "").replace("repeats: 2", "repeats: 18"))
    planned = bench.labctl("plan", str(bench.study), "-i", str(bench.inventory), "--json")
    undisturbed = {cell["id"] for cell in json.loads(planned.stdout)["cells"]}
    arguments = bench.run_arguments()
    for moments in MOMENTS.values():
        with bench.running(*arguments) as running:
            for moment in moments:
                running.until(moment)
            running.kill()
        arguments = ["resume", str(bench.record()), "--json"]
    resumed = bench.labctl(*arguments)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    states = final_states(bench.record())
    assert set(states) == undisturbed
    assert set(states.values()) == {("done", 1)}, "no kill costs a cell, and none is measured twice"
    assert bench.left_on_host() == []


def test_two_labctl_on_one_lab_the_second_is_told_who(bench: Bench) -> None:
    with bench.running(*bench.run_arguments()) as running:
        running.until(is_event("cell_started"))
        second = bench.labctl("run", str(bench.study), "-i", str(bench.inventory))
        assert second.returncode == 6
        assert f"process {running.process.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        running.signal(signal.SIGINT)
        running.rest()


@pytest.mark.parametrize("form", [["--json"], []], ids=["json", "plain"])
def test_a_reader_that_goes_away_does_not_end_the_run(bench: Bench, form: list[str]) -> None:
    arguments = [word for word in bench.run_arguments() if word != "--json"] + form
    with bench.running(*arguments) as running:
        assert running.process.stdout is not None
        running.process.stdout.readline()
        running.process.stdout.close()
        running.process.wait()
        assert running.process.returncode == 0
    assert {state for state, _ in final_states(bench.record()).values()} == {"done"}
    assert bench.left_on_host() == []


def test_attach_follows_a_running_record(bench: Bench) -> None:
    with bench.running(*bench.run_arguments()) as running:
        running.until(is_event("cell_started"))
        with bench.running("attach", str(bench.record()), "--json") as spectator:
            spectator.until(is_event("cell_finished", status="done"))
            running.rest()
            assert spectator.rest()[-1]["status"] == "finished"
            assert spectator.process.returncode == 0
