"""The ledger after bundles came home, in whatever order things were learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labctl.plan.models import Step
from labctl.record.layout import RecordLayout
from labctl.record.ledger import CellState, Ledger
from labctl.run.reconcile import reconcile
from tests.unit.test_run_schedule import cell, plan_of


def bundle(layout: RecordLayout, attempt: int, status: str) -> None:
    path = layout.raw / "c" / f"a{attempt}"
    path.mkdir(parents=True)
    result = {"schema": 1, "cell_id": "c", "attempt": attempt, "status": status, "boot_id": "b", "steps": []}
    (path / "result.json").write_text(json.dumps({**result, "started": 1.0, "finished": 2.0}))


@pytest.mark.parametrize(
    ("known", "home", "after"),
    [
        (None, (1, "done"), ("done", 1)),
        (("running", 1), (1, "failed"), ("failed", 1)),
        # Given up while it could not be reached; its agent went on and ended well.
        (("interrupted", 1), (1, "done"), ("done", 1)),
        (("interrupted", 1), (1, "interrupted"), ("interrupted", 1)),
        (("done", 1), (1, "interrupted"), ("done", 1)),
        (("running", 2), (1, "interrupted"), ("running", 2)),
    ],
)
def test_the_bundle_has_the_last_word_on_its_attempt(
    tmp_path: Path, known: tuple[CellState, int] | None, home: tuple[int, str], after: tuple[str, int]
) -> None:
    layout = RecordLayout(tmp_path)
    ledger = Ledger(layout.ledger)
    if known:
        ledger.cell("c", known[1], known[0])
    bundle(layout, *home)
    reconcile(layout, plan_of(cell("c")), ledger)
    entry = ledger.view.cells["c"]
    assert (entry.state, entry.attempt) == after
    assert reconcile(layout, plan_of(cell("c")), ledger) == []


FIO = {"fio version": "fio-3.33", "jobs": [{"jobname": "j", "error": 5, "read": {"iops": 10.0, "io_bytes": 4096}}]}


@pytest.mark.parametrize(("error", "state"), [(5, "failed"), (0, "done")])
def test_a_tool_that_ends_with_0_but_reports_an_error_inside_has_failed(tmp_path: Path, error: int, state: str) -> None:
    layout = RecordLayout(tmp_path)
    ledger = Ledger(layout.ledger)
    run = Step(name="run", phase="run", argv=("fio",), timeout_s=1.0, outputs=("fio.json",))
    planned = cell("c").model_copy(update={"steps": (run,)})
    bundle(layout, 1, "done")
    home = layout.bundle("c", 1)
    (home / "steps" / "01-run").mkdir(parents=True)
    FIO["jobs"][0]["error"] = error  # type: ignore[index]
    (home / "steps" / "01-run" / "fio.json").write_text("fio: a note before\n" + json.dumps(FIO))
    result = json.loads((home / "result.json").read_text())
    step = {"name": "run", "phase": "run", "directory": "steps/01-run", "argv": ["fio"], "status": "ok", "rc": 0}
    (home / "result.json").write_text(json.dumps({**result, "steps": [step]}))
    [news] = reconcile(layout, plan_of(planned), ledger)
    assert (news.status, ledger.view.cells["c"].state) == (state, state)
    if error:
        assert "ended with 0 but reports" in str(ledger.view.cells["c"].error)
    assert reconcile(layout, plan_of(planned), ledger) == []
