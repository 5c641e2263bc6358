"""The ledger: every line survives, damage is told, an older attempt never undoes a newer one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.errors import LabctlError
from labctl.record.ledger import Ledger, parse_ledger, read_ledger


def _ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append({"kind": "run", "state": "created"}, {"kind": "cell", "cell": "a", "attempt": 0, "state": "planned"})
    ledger.stage("host", "started", "01-host")
    ledger.cell("a", 1, "running")
    ledger.cell("a", 1, "failed", "fio: no space left")
    ledger.run("finished")
    return ledger


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    _ledger(tmp_path)
    view = read_ledger(tmp_path / "ledger.jsonl")
    assert view.damaged == []
    assert view.run_state == "finished"
    assert [stage["artifacts"] for stage in view.stages] == ["01-host"]
    assert (view.cells["a"].state, view.cells["a"].attempt, view.cells["a"].error) == (
        "failed",
        1,
        "fio: no space left",
    )
    assert view.next_attempt("a") == 2
    assert view.next_attempt("never seen") == 1


def test_file_is_private(tmp_path: Path) -> None:
    _ledger(tmp_path)
    assert (tmp_path / "ledger.jsonl").stat().st_mode & 0o777 == 0o600


def test_every_truncation_keeps_the_whole_lines(tmp_path: Path) -> None:
    _ledger(tmp_path)
    data = (tmp_path / "ledger.jsonl").read_bytes()
    whole = [json.loads(line) for line in data.splitlines()]
    for length in range(len(data) + 1):
        cut = data[:length]
        complete = cut.count(b"\n")
        view = parse_ledger(cut)
        # The last line may be whole without its newline: then it counts.
        ends_whole = length < len(data) and data[length : length + 1] == b"\n"
        assert len(view.damaged) == (0 if cut.endswith(b"\n") or not cut or ends_whole else 1)
        expected = [line for line in whole[: complete + ends_whole] if line["kind"] == "cell"]
        assert (view.cells["a"].state if "a" in view.cells else None) == (expected[-1]["state"] if expected else None)


def test_append_after_a_torn_line_starts_a_new_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    _ledger(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])
    Ledger(path).cell("a", 2, "done")
    view = read_ledger(path)
    assert len(view.damaged) == 1
    assert view.cells["a"].state == "done"
    assert view.cells["a"].attempt == 2


def test_a_late_word_on_an_older_attempt_changes_nothing(tmp_path: Path) -> None:
    ledger = _ledger(tmp_path)
    ledger.cell("a", 2, "done")
    ledger.cell("a", 1, "interrupted", "found afterwards")
    assert ledger.view.cells["a"].state == "done"
    assert read_ledger(tmp_path / "ledger.jsonl").cells["a"].state == "done"


@given(st.binary(max_size=300))
def test_rubbish_never_raises(data: bytes) -> None:
    parse_ledger(data)


@pytest.mark.parametrize(
    "line", ["[1]", '"x"', "null", "{", "\xff", '{"kind":"cell","cell":"a","attempt":"x","state":"done"}']
)
def test_lines_that_cannot_be_used_are_reported_with_their_number(line: str) -> None:
    view = parse_ledger(b'{"kind":"run","state":"created","t":1}\n' + line.encode("latin-1") + b"\n")
    assert [number for number, _ in view.damaged] == [2]
    assert view.run_state == "created"


def test_a_ledger_that_cannot_be_written_says_which_file_and_why(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").mkdir()
    with pytest.raises(LabctlError) as caught:
        Ledger(tmp_path / "ledger.jsonl").run("finished")
    assert "ledger.jsonl" in str(caught.value)
    assert "directory" in str(caught.value)
