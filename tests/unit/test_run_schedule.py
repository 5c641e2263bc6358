"""Which cells are next, when to give up, how long the rest takes."""

from __future__ import annotations

import random

import pytest

from labctl.plan.models import Cell, Plan, PlannedArm, PlannedStorage
from labctl.record.ledger import LedgerView
from labctl.run.schedule import CircuitBreaker, Pace, by_host, failed_attempts, failure_kind, next_batch, pending_cells


def cell(name: str, *, block: int = 1, host: str = "h1", estimate_s: float = 10.0) -> Cell:
    return Cell(
        id=name,
        arm="a",
        host=host,
        target="host",
        workload="w",
        tool="fio",
        parameters={},
        point="p",
        repeat=block,
        block=block,
        data_dir="/d",
        steps=(),
        estimate_s=estimate_s,
        deadline_s=60.0,
        bytes_written=0,
    )


def plan_of(*cells: Cell) -> Plan:
    arms = tuple(
        PlannedArm(
            name="a",
            title="A",
            target="host",
            host=host,
            storage=PlannedStorage(kind="directory", path="/d"),
            disk_needed_bytes=0,
            disk_free_bytes=None,
            needs=(),
        )
        for host in dict.fromkeys(item.host for item in cells)
    )
    return Plan(
        study="s",
        title="",
        question="",
        baseline="a",
        lab="l",
        seed=1,
        repeats=3,
        workdir={arm.host: "/w" for arm in arms},
        tools=(),
        arms=arms,
        left_out=(),
        cells=cells,
        findings=(),
    )


def ledger_of(**states: tuple[str, int]) -> LedgerView:
    view = LedgerView()
    for name, (state, attempt) in states.items():
        view.apply({"t": 1.0, "kind": "cell", "cell": name, "state": state, "attempt": attempt})
    return view


def test_only_done_and_failed_cells_are_settled() -> None:
    plan = plan_of(*(cell(name) for name in "abcdef"))
    ledger = ledger_of(a=("planned", 0), b=("running", 1), c=("done", 1), d=("failed", 1), e=("interrupted", 2))
    assert [item.id for item in pending_cells(plan, ledger)] == ["a", "b", "e", "f"]
    retry = failed_attempts(plan, ledger)
    assert retry == {"d": 1}
    assert [item.id for item in pending_cells(plan, ledger, retry)] == ["a", "b", "d", "e", "f"]


def test_a_failed_cell_is_retried_once() -> None:
    plan, ledger = plan_of(cell("d")), ledger_of(d=("failed", 1))
    retry = failed_attempts(plan, ledger)
    ledger.apply({"t": 2.0, "kind": "cell", "cell": "d", "state": "interrupted", "attempt": 2})
    assert [item.id for item in pending_cells(plan, ledger, retry)] == ["d"]
    ledger.apply({"t": 3.0, "kind": "cell", "cell": "d", "state": "failed", "attempt": 3})
    assert pending_cells(plan, ledger, retry) == []


def batches(cells: list[Cell], *, min_s: float, max_s: float) -> list[list[Cell]]:
    found, rest = [], list(cells)
    while batch := next_batch(rest, min_s=min_s, max_s=max_s):
        found.append(batch)
        rest = rest[len(batch) :]
    return found


def test_batches_cover_every_cell_once_in_order_and_stay_below_the_limit() -> None:
    rng = random.Random(7)
    cells = [cell(f"c{n}", block=1 + n // 9, estimate_s=rng.choice([5, 400, 900, 4000])) for n in range(60)]
    made = batches(cells, min_s=60, max_s=1800)
    assert [item for batch in made for item in batch] == cells
    assert all(len(batch) == 1 or sum(item.estimate_s for item in batch) <= 1800 for batch in made)


def test_short_blocks_go_together_and_long_ones_alone() -> None:
    short = [cell(f"c{n}", block=1 + n // 2, estimate_s=10) for n in range(12)]
    assert [len(batch) for batch in batches(short, min_s=60, max_s=1800)] == [6, 6]
    long = [cell(f"c{n}", block=1 + n // 2, estimate_s=50) for n in range(6)]
    assert [len(batch) for batch in batches(long, min_s=60, max_s=1800)] == [2, 2, 2]


def test_a_batch_ends_between_blocks() -> None:
    cells = [cell(f"c{n}", block=1 + n // 7, estimate_s=20) for n in range(70)]
    for batch in batches(cells, min_s=60, max_s=1800)[:-1]:
        after = cells[cells.index(batch[-1]) + 1]
        assert after.block != batch[-1].block


def test_cells_are_grouped_by_host_in_order() -> None:
    groups = by_host([cell("a"), cell("b", host="h2"), cell("c")])
    assert {host: [item.id for item in group] for host, group in groups.items()} == {"h1": ["a", "c"], "h2": ["b"]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fio: /var/tmp/x/1.dat: No space left on device", "fio: /var/tmp/y/22.dat: No space left on device"),
        ("deadline of 30.5 s passed", "deadline of 61 s passed"),
    ],
)
def test_failures_that_differ_in_paths_and_numbers_are_of_one_kind(one: str, other: str) -> None:
    assert failure_kind(one) == failure_kind(other)


def test_different_words_are_different_kinds() -> None:
    assert failure_kind("No space left on device") != failure_kind("Input/output error")


def test_breaker_opens_after_equal_failures_in_a_row_and_gives_the_words() -> None:
    breaker = CircuitBreaker(3)
    for _ in range(2):
        breaker.saw("h1", failed=True, error="fio: /a/1: Input/output error")
    assert breaker.reason is None
    breaker.saw("h1", failed=True, error="fio: /b/2: Input/output error")
    assert breaker.reason == "3 cells in a row failed on h1 in the same way: fio: /b/2: Input/output error"


def test_a_success_another_kind_or_another_host_breaks_the_row() -> None:
    breaker = CircuitBreaker(2)
    breaker.saw("h1", failed=True, error="x")
    breaker.saw("h1", failed=False)
    breaker.saw("h1", failed=True, error="x")
    breaker.saw("h1", failed=True, error="y")
    breaker.saw("h2", failed=True, error="y")
    assert breaker.reason is None


def test_time_left_follows_how_long_cells_really_take() -> None:
    pace = Pace()
    cells = [cell("a"), cell("b", host="h2", estimate_s=30.0)]
    assert pace.left(cells, parallel_hosts=False) == pytest.approx(40.0)
    assert pace.left(cells, parallel_hosts=True) == pytest.approx(30.0)
    pace.finished(10.0, 15.0)
    assert pace.left(cells, parallel_hosts=False) == pytest.approx(60.0)
    assert pace.left([], parallel_hosts=False) == 0.0
