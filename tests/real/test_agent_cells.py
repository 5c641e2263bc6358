"""The agent runs cells for real: what is in a bundle, and what every fault of a cell leaves behind."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from labctl.lab.facts import HostFacts
from labctl.record.bundle import BundleResult
from tests.agent_support import Target, alive, cell, shell, step

pytestmark = pytest.mark.real(what="cell agent", where="localhost")


@pytest.fixture
def target(tmp_path: Path):
    made = Target(tmp_path / "work")
    yield made
    made.end()


def check_sums(bundle: Path) -> None:
    lines = (bundle / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    present = {str(p.relative_to(bundle)) for p in bundle.rglob("*") if p.is_file()} - {"SHA256SUMS"}
    assert set(listed) == present
    for name, digest in listed.items():
        assert hashlib.sha256((bundle / name).read_bytes()).hexdigest() == digest


def test_bundle_is_whole_and_typed(target: Target):
    write = shell("write", 'cat input; echo "$LC_ALL" >&2; pwd > where', files={"input": "grüße\n"}, env={"X": "1"})
    status = target.run(cell("one", write, step("second", "true")))
    assert [entry["status"] for entry in status["finished"]] == ["done"]
    bundle = target.bundle("one")
    check_sums(bundle)
    result = BundleResult.model_validate(target.result("one"))
    assert (result.status, result.error) == ("done", None)
    assert [s.directory for s in result.steps] == ["steps/01-write", "steps/02-second"]
    first = result.steps[0]
    assert first.status == "ok"
    assert first.rc == 0
    assert first.started is not None
    assert first.finished is not None
    assert result.started <= first.started <= first.finished <= result.finished
    assert first.cpu_user_s is not None
    assert first.max_rss_bytes is not None
    assert first.max_rss_bytes > 100_000
    assert (bundle / "steps/01-write/stdout").read_text() == "grüße\n"
    assert (bundle / "steps/01-write/where").read_text().strip() == str(bundle / "steps/01-write")
    facts = HostFacts.model_validate_json((bundle / "fingerprint.json").read_bytes())
    assert set(facts.paths) == {"/"}
    assert set(facts.tools) == {"sh", "true"}
    assert json.loads((bundle / "spec.json").read_text())["id"] == "one"


def test_samples_hold_cumulative_counters(target: Target):
    target.run(cell("busy", shell("spin", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")))
    lines = [json.loads(line) for line in (target.bundle("busy") / "samples.jsonl").read_text().splitlines()]
    assert len(lines) >= 2
    assert {line["step"] for line in lines} == {"01-spin"}
    first, last = lines[0], lines[-1]
    assert last["t"] > first["t"]
    assert last["cpu"]["user"] >= first["cpu"]["user"] > 0
    assert first["cores"] == os.cpu_count()
    assert 0 < first["mem_available"] < 1 << 50
    for disk, counters in first["disks"].items():
        assert last["disks"][disk]["write_bytes"] >= counters["write_bytes"]


def test_failed_step_skips_the_rest_but_not_clean_up(target: Target):
    target.run(
        cell(
            "bad", shell("fail", "echo no good >&2; exit 3"), step("never", "true"), step("clean", "true", always=True)
        ),
        cell("good", step("fine", "false", ok_codes=[1])),
    )
    result = target.result("bad")
    assert [s["status"] for s in result["steps"]] == ["failed", "skipped", "ok"]
    assert result["steps"][0]["rc"] == 3
    assert result["error"] == "step fail: failed: no good"
    assert result["status"] == "failed"
    assert target.result("good")["status"] == "done"


def test_missing_tool_is_named(target: Target):
    target.run(cell("none", step("run", "no-such-benchmark", "--x")))
    (only,) = target.result("none")["steps"]
    assert only["status"] == "missing-tool"
    assert "no-such-benchmark" in only["words"]


def test_deadline_ends_children_that_ignore_sigterm_and_sit_in_own_sessions(target: Target):
    stubborn = "trap '' TERM; echo $$ > child; while :; do sleep 1; done"
    script = f"trap '' TERM; setsid sh -c '{stubborn.replace(chr(39), chr(34))}' & while :; do sleep 1; done"
    target.run(cell("hang", shell("hang", script, timeout_s=1.0), step("clean", "true", always=True)))
    result = target.result("hang")
    assert [s["status"] for s in result["steps"]] == ["timeout", "ok"]
    assert result["steps"][0]["signal"] == 9
    assert "not finished after 1 s (step)" in result["steps"][0]["words"]
    assert not alive(int((target.bundle("hang") / "steps/01-hang/child").read_text()))


def test_deadline_of_the_cell_counts_over_steps(target: Target):
    target.run(cell("slow", step("one", "sleep", "30"), deadline_s=0.7))
    (only,) = target.result("slow")["steps"]
    assert only["status"] == "timeout"
    assert "(cell)" in only["words"]


def test_daemon_lives_for_the_steps_of_its_cell_and_no_longer(target: Target):
    daemon = shell("daemon", "setsid sleep 300 & echo $! > pid")
    seen = shell("seen", "kill -0 $(cat ../01-daemon/pid)")
    target.run(cell("d", daemon, seen))
    assert target.result("d")["status"] == "done"
    assert not alive(int((target.bundle("d") / "steps/01-daemon/pid").read_text()))


def test_output_of_any_bytes_is_kept_and_words_are_valid(target: Target):
    target.run(cell("raw", shell("bytes", r"printf '\377\376\000bad \344' >&2; exit 1")))
    (only,) = target.result("raw")["steps"]
    assert (target.bundle("raw") / "steps/01-bytes/stderr").read_bytes() == b"\xff\xfe\x00bad \xe4"
    assert "bad" in only["words"]
    only["words"].encode("utf-8")


def test_words_are_bounded(target: Target):
    target.run(cell("long", shell("talk", "yes 'väry lång' | head -c 100000 >&2; echo the end >&2; exit 1")))
    (only,) = target.result("long")["steps"]
    assert only["words"].endswith("the end")
    assert 1500 < len(only["words"].encode()) <= 2048


def test_creates_makes_a_step_run_once(target: Target, tmp_path: Path):
    marker = str(tmp_path / "filled")
    fill = step("fill", "true", creates=marker)
    target.run(cell("a", step("bad", "false", creates=f"{marker}-bad")), cell("b", fill), cell("c", fill))
    assert not Path(f"{marker}-bad").exists()
    assert [target.result(c)["steps"][0]["status"] for c in "bc"] == ["ok", "skipped"]


def test_finished_attempt_is_not_repeated(target: Target, tmp_path: Path):
    count = shell("count", f"echo x >> {tmp_path}/count")
    target.run(cell("once", count))
    status = target.run(cell("once", count), cell("once", count, attempt=2))
    assert (tmp_path / "count").read_text() == "x\nx\n"
    assert [(e["id"], e["attempt"], e["status"]) for e in status["finished"]] == [
        ("once", 1, "done"),
        ("once", 2, "done"),
    ]


@pytest.mark.needs("root")
def test_full_disk_is_said_and_the_bundle_is_finished(tmp_path: Path):
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mount)], check=True)
    target = Target(mount / "work")
    try:
        fill = shell("fill", f"exec dd if=/dev/zero of={mount}/data bs=64k")
        quiet = shell("quiet", f"dd if=/dev/zero of={mount}/data bs=64k 2>/dev/null; exit 0")
        status = target.run(
            cell("full", fill, step("after", "true"), step("clean", "rm", "-f", f"{mount}/data", always=True)),
            cell("quiet", quiet, step("clean", "rm", "-f", f"{mount}/data", always=True)),
            cell("kept", fill),
            cell("next", step("fine", "true")),
        )
        for name in ("full", "quiet", "kept"):
            check_sums(target.bundle(name))
            result = BundleResult.model_validate(target.result(name))
            assert (result.status, result.steps[0].status) == ("failed", "no-space"), name
            assert "space" in (result.error or "")
        # Without room for its evidence a cell is not begun, and the last status says why.
        assert [e["id"] for e in status["finished"]] == ["full", "quiet", "kept"]
        assert status["state"] == "stopped"
        assert "no space left" in status["error"]
    finally:
        target.end()
        subprocess.run(["umount", "-l", str(mount)], check=True)


@pytest.mark.needs("root")
@pytest.mark.needs("postgresql")
def test_database_steps_of_root_run_as_postgres(target: Target, tmp_path: Path):
    for directory in (
        *reversed(list(tmp_path.parents)[:-1]),
        tmp_path,
        target.workdir,
        target.run_dir.parent,
        target.run_dir,
    ):
        if directory.stat().st_uid == os.getuid() and not directory.stat().st_mode & 0o1000:
            directory.chmod(directory.stat().st_mode | 0o011)
    who = shell("who", "id -un; id -G; cat input; touch made", database_user=True, files={"input": "in\n"})
    initdb = step("initdb", "initdb", "-D", "data", "--no-sync", database_user=True)
    target.run(cell("db", who, initdb))
    result = target.result("db")
    assert result["status"] == "done", result["error"]
    lines = (target.bundle("db") / "steps/01-who/stdout").read_text().splitlines()
    assert lines[0] == "postgres"
    assert "0" not in lines[1].split()
    assert result["steps"][1]["resolved"].startswith("/usr/")


@pytest.mark.needs("root")
@pytest.mark.needs("postgresql")
def test_directory_that_postgres_cannot_pass_is_named(target: Target):
    target.workdir.chmod(0o700)
    target.run(cell("shut", step("who", "id", database_user=True)))
    (only,) = target.result("shut")["steps"]
    assert only["status"] == "failed"
    assert "user postgres cannot pass through /" in only["words"]
