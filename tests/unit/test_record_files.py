"""Durable files, the manifest, locks, and opening records however damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labctl.cli.records import records as list_records
from labctl.errors import ExitCode, LabctlError
from labctl.plan.models import Plan
from labctl.record.files import write_atomic
from labctl.record.layout import RecordLayout
from labctl.record.locks import held, is_locked
from labctl.record.manifest import verify_manifest, write_manifest
from labctl.record.record import create_record, find_record, new_run_id, open_record


def a_plan() -> Plan:
    return Plan(
        study="demo",
        title="Demo",
        question="?",
        baseline="a",
        lab="here",
        seed=1,
        repeats=3,
        workdir={"localhost": "/var/lib/labctl-x"},
        tools=(),
        arms=(),
        left_out=(),
        cells=(),
        findings=(),
    )


@pytest.fixture
def layout(tmp_path: Path) -> RecordLayout:
    return create_record(
        tmp_path,
        run_id=new_run_id("demo"),
        plan=a_plan(),
        study_text=b"name: demo\n",
        lab={"name": "here"},
        inventory=tmp_path,
        command=["labctl", "run", "demo"],
    )


def test_atomic_write_leaves_old_content_and_no_litter_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    write_atomic(target, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(LabctlError, match="No space left"):
        write_atomic(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_run_ids_sort_by_time_and_are_safe_names() -> None:
    early, late = new_run_id("Ünsafe / name ../", 0), new_run_id("x", 10**9)
    assert early < late
    assert early.startswith("19700101-000000-nsafe-name-")
    assert "/" not in early
    assert ".." not in early


def test_a_run_id_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabctlError, match="not a run id"):
        create_record(tmp_path, run_id="../evil", plan=a_plan(), study_text=b"", lab={}, inventory=tmp_path, command=[])
    assert list(tmp_path.iterdir()) == []


def test_everything_in_a_record_is_private(layout: RecordLayout) -> None:
    for path in [layout.root, *layout.root.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_record_opens_as_it_was_made(layout: RecordLayout) -> None:
    record = open_record(layout.root)
    identity, plan = record.whole()
    assert record.missing == []
    assert plan == a_plan()
    assert identity.command == ("labctl", "run", "demo")
    assert record.ledger.run_state == "created"


@pytest.mark.parametrize("name", ["record.json", "plan.json", "ledger.jsonl"])
def test_every_truncation_of_every_document_opens_and_says_what_is_missing(layout: RecordLayout, name: str) -> None:
    path = layout.root / name
    data = path.read_bytes()
    for length in range(0, len(data) - 2, 3):
        path.write_bytes(data[:length])
        record = open_record(layout.root)
        if name == "ledger.jsonl":
            assert length == 0 or record.missing or data[:length].endswith(b"}")
        else:
            assert any(name in word for word in record.missing), length
            with pytest.raises(LabctlError, match="cannot be continued"):
                record.whole()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"null", b'{"run_id": 5}', b"{" * 5000])
def test_rubbish_documents_open(layout: RecordLayout, content: bytes) -> None:
    for path in (layout.identity, layout.plan):
        path.write_bytes(content)
    assert len(open_record(layout.root).missing) == 2


def test_what_is_no_record_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(LabctlError, match="no such directory") as caught:
        find_record(tmp_path / "absent")
    assert caught.value.code == ExitCode.USAGE
    (tmp_path / "other").mkdir()
    with pytest.raises(LabctlError, match="not a record"):
        find_record(tmp_path / "other")


def test_manifest_finds_what_was_changed_added_and_removed(layout: RecordLayout) -> None:
    bundle = layout.bundle("c", 1)
    bundle.mkdir(parents=True)
    for name in ("kept", "changed", "removed"):
        (bundle / name).write_bytes(b"x")
    write_manifest(layout)
    assert verify_manifest(layout) == []
    layout.tables.mkdir()
    (layout.tables / "derived.parquet").write_bytes(b"x")
    assert verify_manifest(layout) == []
    (bundle / "changed").write_bytes(b"y")
    (bundle / "removed").unlink()
    (bundle / "added").write_bytes(b"z")
    assert [(Path(item.path).name, item.kind) for item in verify_manifest(layout)] == [
        ("added", "extra"),
        ("changed", "changed"),
        ("removed", "missing"),
    ]


def test_manifest_that_is_damaged_is_an_error_with_a_way_out(layout: RecordLayout) -> None:
    layout.manifest.write_bytes(b'{"files": ')
    with pytest.raises(LabctlError, match="no readable manifest"):
        verify_manifest(layout)


_HOLD = """
import sys, time
from pathlib import Path
from labctl.record.locks import held
with held(Path(sys.argv[1]), what="lab demo", purpose="run of the other"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_second_holder_is_refused_and_told_who_and_death_frees_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "locks" / "demo.lock"
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(lock)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_locked(lock)
        with pytest.raises(LabctlError) as caught, held(lock, what="lab demo", purpose="mine"):
            pytest.fail("the lock was given twice")
        assert f"process {holder.pid}" in str(caught.value)
        assert "run of the other" in str(caught.value)
        assert caught.value.code == ExitCode.GUARD_REFUSED
        holder.kill()
    assert not is_locked(lock)
    with held(lock, what="lab demo", purpose="mine"):
        assert json.loads(lock.read_bytes())["purpose"] == "mine"


def _edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("record.json", {"schema": 99, "new": 1}, "made by a newer labctl"),
        ("plan.json", {"schema_version": 99, "new": 1}, "made by a newer labctl"),
        ("plan.json", {"new": 1}, "new: unknown key"),
        ("record.json", {"run_id": "../../../../etc"}, "is not a run id"),
        ("record.json", {"run_id": "20261201-101500-x-k7m2p\n"}, "is not a run id"),
        ("plan.json", {"cells": [{}]}, "cells.0.id: missing"),
    ],
)
def test_documents_that_cannot_be_trusted_are_told_and_not_used(
    layout: RecordLayout, name: str, values: dict[str, object], words: str
) -> None:
    _edit(layout.root / name, **values)
    record = open_record(layout.root)
    assert len(record.missing) == 1
    assert record.missing[0].startswith(f"{name}: ")
    assert words in record.missing[0]
    with pytest.raises(LabctlError, match="cannot be continued"):
        record.whole()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("id", "../../../../etc/passwd", "id"),
        ("id", ".hidden", "id"),
        ("id", "a/b", "id"),
        ("host", "../x", "host"),
        ("arm", "<script>alert(1)</script>", "arm"),
        ("arm", "other", "which the plan does not have"),
    ],
)
def test_a_plan_whose_names_lead_elsewhere_is_no_plan(field: str, value: str, words: str) -> None:
    arm = {
        "name": "a",
        "title": "",
        "target": "host",
        "host": "h",
        "storage": {"kind": "directory", "path": "/x"},
        "disk_needed_bytes": 0,
        "disk_free_bytes": None,
        "needs": [],
    }
    cell: dict[str, object] = {"id": "w.p.a.h.r1", "arm": "a", "host": "h", "target": "host"}
    cell |= {
        "workload": "w",
        "tool": "fio",
        "parameters": {},
        "point": "p",
        "repeat": 1,
        "block": 1,
        "data_dir": "/x",
        "steps": [],
        "estimate_s": 1,
    }
    cell |= {"deadline_s": 2, "bytes_written": 0}
    whole = {**a_plan().model_dump(mode="json"), "arms": [arm], "cells": [cell]}
    assert Plan.model_validate_json(json.dumps(whole)).cells[0].id == "w.p.a.h.r1"
    with pytest.raises(ValueError, match=words):
        Plan.model_validate_json(json.dumps({**whole, "cells": [{**cell, field: value}]}))
    with pytest.raises(ValueError, match="same id"):
        Plan.model_validate_json(json.dumps({**whole, "cells": [cell, cell]}))


@pytest.mark.parametrize("created", [1e300, -1e300, 1764560000.0, 0])
def test_any_time_of_creation_is_listed(
    layout: RecordLayout, capsys: pytest.CaptureFixture[str], created: float
) -> None:
    _edit(layout.identity, created=created)
    list_records(layout.root.parent)
    assert str(layout.root) in capsys.readouterr().out
