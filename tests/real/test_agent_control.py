"""Starting, stopping, losing and recovering an agent."""

from __future__ import annotations

import base64
import gzip
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from labctl.record.bundle import BundleResult
from tests.agent_support import Target, alive, batch, cell, kill, shell, step

pytestmark = pytest.mark.real(what="cell agent", where="localhost")


@pytest.fixture
def target(tmp_path: Path):
    made = Target(tmp_path / "work")
    yield made
    made.end()


def long_cell(name: str = "long", **fields):
    return cell(
        name,
        step("before", "true"),
        shell("wait", "echo started; echo $$ > pid; exec sleep 300", timeout_s=300),
        shell("clean", "echo cleaned", always=True),
        deadline_s=300,
        **fields,
    )


def pid_of_tool(target: Target) -> int:
    target.wait(lambda status: status["step"] == "02-wait")
    path = target.bundle("long") / "steps/02-wait/pid"
    target.wait(lambda _: path.exists() and path.read_text().strip())
    return int(path.read_text())


def test_start_is_idempotent_and_names_the_batch_that_runs(target: Target):
    first = target.start(long_cell())
    again = target.start(long_cell(), cell("more", step("x", "true")))
    assert first["started"] is True
    assert again["started"] is False
    assert (again["pid"], again["batch"]) == (first["pid"], first["batch"])
    assert target.call("status")[1]["alive"] is True


def test_agent_is_in_its_own_session_without_our_streams(target: Target):
    pid = target.start(long_cell())["pid"]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert int(fields[3]) == pid
    assert Path(f"/proc/{pid}/fd/0").resolve() == Path("/dev/null")


def test_stop_in_a_step_finishes_the_bundle_and_cleans_up(target: Target):
    target.start(long_cell(), cell("never", step("x", "true")))
    tool = pid_of_tool(target)
    code, answer, words = target.call("stop")
    assert code == 0, words
    assert (answer["state"], answer["alive"], answer["killed"]) == ("stopped", False, False)
    assert not alive(tool)
    result = BundleResult.model_validate(target.result("long"))
    assert result.status == "interrupted"
    assert [s.status for s in result.steps] == ["ok", "interrupted", "ok"]
    assert (target.bundle("long") / "steps/03-clean/stdout").read_text() == "cleaned\n"
    assert not target.bundle("never").exists()


def test_stop_file_alone_is_heeded(target: Target):
    target.start(long_cell())
    pid_of_tool(target)
    (target.run_dir / "stop").touch()
    assert target.wait()["state"] == "stopped"
    assert target.result("long")["status"] == "interrupted"


def test_stop_without_an_agent_is_no_fault(target: Target):
    code, answer, _ = target.call("stop")
    assert (code, answer["stopped"]) == (0, False)


def test_killed_agent_is_recovered_as_evidence_and_its_tools_are_ended(target: Target):
    pid = target.start(long_cell())["pid"]
    tool = pid_of_tool(target)
    kill(pid)
    assert alive(tool)
    assert not (target.bundle("long") / "result.json").exists()
    status = target.run(cell("long", step("quick", "true"), attempt=2))
    assert [(e["attempt"], e["status"]) for e in status["finished"]] == [(2, "done")]
    assert not alive(tool)
    lost = BundleResult.model_validate(target.result("long", 1))
    assert (lost.status, lost.error) == ("interrupted", "agent vanished before the cell ended")
    assert [(s.name, s.status) for s in lost.steps] == [("before", "ok"), ("wait", "interrupted")]
    assert (target.bundle("long") / "steps/02-wait/stdout").read_text() == "started\n"
    listed = {line.split("  ")[1] for line in (target.bundle("long") / "SHA256SUMS").read_text().splitlines()}
    assert {"result.json", "spec.json", "steps/02-wait/stdout"} <= listed


def test_list_recovers_without_starting_anything(target: Target):
    kill(target.start(long_cell())["pid"])
    _, answer, _ = target.call("list", "--recover")
    assert answer["recovered"] == ["long/a1"]
    assert [(a["id"], a["status"]) for a in answer["attempts"]] == [("long", "interrupted")]


def test_recovery_of_a_half_written_attempt(target: Target):
    target.run(cell("ok", step("x", "true")))
    odd = target.bundle("cut")
    (odd / "steps").mkdir(parents=True)
    (odd / "spec.json").write_text('{"id": "cut", "steps": [{"na')
    (odd / ".steps.jsonl").write_text(
        '{"name":"a","phase":"run","directory":"steps/01-a","argv":["a"],"status":"ok"}\n{"na'
    )
    target.bundle("empty").mkdir(parents=True)
    _, answer, words = target.call("list", "--recover")
    assert answer["recovered"] == ["cut/a1"], words
    assert [s.name for s in BundleResult.model_validate(target.result("cut")).steps] == ["a"]
    assert not target.bundle("empty").exists()


def test_other_run_finds_the_host_busy(target: Target):
    pid = target.start(long_cell())["pid"]
    other = Target(target.workdir, "other")
    data = json.dumps(batch(cell("x", step("x", "true")), run_id="other")).encode()
    code, holder, _ = other.call("start", "--batch", "-", data=data)
    assert code == 75
    assert (holder["run"], holder["owner"], holder["pid"]) == (target.run_dir.name, "tests", pid)
    assert not (other.run_dir / "batch.json").exists()
    assert other.call("stop")[1]["stopped"] is False
    assert alive(pid)


def test_lock_of_a_dead_agent_is_free(target: Target):
    kill(target.start(long_cell())["pid"])
    assert json.loads((target.workdir / "agent.lock").read_text())["run"] == target.run_dir.name
    assert target.call("status")[1]["alive"] is False


@pytest.mark.parametrize("bad", ["../up", "a/b", ".hidden", "", "x" * 300])
def test_names_that_leave_the_run_are_refused(target: Target, bad: str):
    data = json.dumps(batch(cell(bad, step("x", "true")))).encode()
    code, answer, words = target.call("start", "--batch", "-", data=data)
    assert (code, answer) == (2, None)
    assert "refused" in words


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"schema": 2}', b'{"schema": 1, "run_id": "zzz", "cells": []}'])
def test_batch_that_is_none_is_refused_in_one_line(target: Target, raw: bytes):
    code, _, words = target.call("start", "--batch", "-", data=raw)
    assert code == 2
    assert words.startswith("batch.json: ")
    assert words.count("\n") == 1


def test_remove_deletes_the_run_and_nothing_else(target: Target, tmp_path: Path):
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").touch()
    target.run(cell("x", step("link", "ln", "-s", str(outside), "link")))
    pid = target.start(long_cell())["pid"]
    assert target.call("remove")[1] == {"removed": True}
    assert not alive(pid)
    assert not target.run_dir.exists()
    assert target.run_dir.parent.is_dir()
    assert (outside / "file").exists()


def test_remove_refuses_links_and_other_directories(target: Target, tmp_path: Path):
    pyz = target.run_dir / "agent.pyz"
    link = target.run_dir.parent / "link"
    link.symlink_to(tmp_path)
    for directory in (link, tmp_path, target.workdir):
        before = set(tmp_path.rglob("*"))
        assert _remove(pyz, directory) == 2
        assert set(tmp_path.rglob("*")) == before


def _remove(pyz: Path, directory: Path) -> int:
    return subprocess.run(
        [sys.executable, pyz, "remove", "--dir", directory], capture_output=True, check=False
    ).returncode


def test_export_leaves_out_links_and_is_the_same_in_pieces(target: Target):
    target.run(cell("x", shell("make", "ln -s /etc/passwd link; mkfifo pipe; head -c 300000 /dev/urandom > data")))
    command = [sys.executable, f"{target.run_dir}/agent.pyz", "export", f"--dir={target.run_dir}", "--cell=x/a1"]
    whole = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        names = archive.getnames()
    assert "x/a1/steps/01-make/data" in names
    assert not {"x/a1/steps/01-make/link", "x/a1/steps/01-make/pipe"} & set(names)
    got, more = b"", True
    while more:
        _, piece, _ = target.call("export", "--cell", "x/a1", "--offset", str(len(got)), "--limit", "100000")
        got, more = got + gzip.decompress(base64.b64decode(piece["data"])), piece["more"]
    assert got == whole
