"""A whole run on this machine: from a study to a report, as an ordinary command line does it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from labctl.record.layout import RecordLayout
from labctl.record.manifest import verify_manifest
from tests.real.run_support import Bench, final_states, make_bench, remove, secret_hits

pytestmark = [
    pytest.mark.needs("fio", "sysbench", "ansible"),
    pytest.mark.real(what="stage:host stage:measure stage:collect stage:teardown workload:fio", where="localhost"),
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One undisturbed run that the tests of this module look at."""
    root = tmp_path_factory.mktemp("whole")
    bench = make_bench(root)
    yield bench
    remove(root)


@pytest.fixture(scope="module")
def ran(bench: Bench) -> list[dict[str, object]]:
    result = bench.labctl(*bench.run_arguments())
    assert result.returncode == 0, result.stdout + result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_cell_is_done_once(bench: Bench, ran: list[dict[str, object]]) -> None:
    states = final_states(bench.record())
    assert len(states) == 2 * 3 * 3
    assert set(states.values()) == {("done", 1)}


def test_events_tell_the_run_from_start_to_end(ran: list[dict[str, object]]) -> None:
    kinds = [event["event"] for event in ran]
    assert kinds[:2] == ["notice", "run_started"]
    assert kinds[-1] == "run_finished"
    assert kinds.count("cell_finished") == 18
    assert [event["stage"] for event in ran if event["event"] == "stage_started"] == [
        "host",
        "measure",
        "collect",
        "teardown",
    ]
    finished = [event["finished"] for event in ran if event["event"] == "cell_finished"]
    assert finished == list(range(1, 19))


def test_nothing_is_left_on_the_host(bench: Bench, ran: list[dict[str, object]]) -> None:
    assert bench.left_on_host() == []


def test_record_is_private_whole_and_as_its_manifest_says(bench: Bench, ran: list[dict[str, object]]) -> None:
    record = bench.record()
    assert verify_manifest(RecordLayout(record)) == []
    for path in record.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_measurements_equal_what_fio_wrote(bench: Bench, ran: list[dict[str, object]]) -> None:
    record = bench.record()
    table = pd.read_parquet(record / "tables" / "measurements.parquet")
    rows = table[(table.metric == "iops") & (table.statistic == "mean") & (table.operation == "read")]
    assert len(rows) == 2 * 3
    for row in rows.itertuples():
        raw = json.loads((record / str(row.raw_file)).read_bytes())
        assert row.value == pytest.approx(raw["jobs"][0]["read"]["iops"], rel=1e-9)
        assert row.status == "ok"


def test_normalising_again_gives_the_same_bytes(bench: Bench, ran: list[dict[str, object]]) -> None:
    tables = sorted((bench.record() / "tables").glob("*.parquet"))
    assert len(tables) == 6
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tables}
    result = bench.labctl("normalise", str(bench.record()))
    assert result.returncode == 0, result.stderr
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tables} == before


def test_report_is_there_in_all_forms(bench: Bench, ran: list[dict[str, object]]) -> None:
    report = bench.record() / "report"
    assert (report / "report.html").stat().st_size < 3_000_000
    assert "A tiny study" in (report / "report.md").read_text()
    assert list(report.glob("*.csv"))


def test_records_lists_it(bench: Bench, ran: list[dict[str, object]]) -> None:
    result = bench.labctl("records", "--json")
    assert json.loads(result.stdout) | {"created": 0, "record": ""} == {
        "record": "",
        "study": "tiny",
        "lab": "lab",
        "created": 0,
        "state": "finished",
        "cells": {"done": 18},
        "missing": [],
    }


def test_attach_to_a_finished_run_says_so(bench: Bench, ran: list[dict[str, object]]) -> None:
    result = bench.labctl("attach", str(bench.record()), "--json")
    assert result.returncode == 0
    last = json.loads(result.stdout.splitlines()[-1])
    assert (last["event"], last["status"], last["counts"]) == ("run_finished", "finished", {"done": 18})


def test_resume_of_a_finished_run_repeats_nothing(bench: Bench, ran: list[dict[str, object]]) -> None:
    result = bench.labctl("resume", str(bench.record()), "--json")
    assert result.returncode == 0, result.stderr
    assert set(final_states(bench.record()).values()) == {("done", 1)}
    assert bench.left_on_host() == []


def test_same_seed_gives_the_same_order_in_the_plan(bench: Bench, ran: list[dict[str, object]]) -> None:
    planned = bench.labctl("plan", str(bench.study), "-i", str(bench.inventory), "--json")
    assert planned.returncode == 0, planned.stderr
    frozen = json.loads((bench.record() / "plan.json").read_bytes())
    cells = [cell["id"] for cell in json.loads(planned.stdout)["cells"]]
    assert cells == [cell["id"] for cell in frozen["cells"]]


def test_secrets_of_the_inventory_are_nowhere_in_the_record(tmp_path: Path) -> None:
    secret = "Tr0ub4dor-and-3"
    bench = make_bench(tmp_path)
    hosts = bench.inventory / "hosts.yml"
    hosts.write_text(
        hosts.read_text()
        + f'      ansible_become_password: "{secret}"\n      db_password: "{secret}"\n'
        + f'      notes: "the password is {secret}"\n'
    )
    result = bench.labctl(*bench.run_arguments("--repeats", "3", "--set", "workloads.*.parameters.runtime=1s"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert secret not in result.stdout + result.stderr
    assert secret_hits(bench.record(), secret) == []
