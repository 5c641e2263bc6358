"""The action plugin and its playbooks, run with ansible-playbook: on this host and over SSH as an ordinary user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labctl.lab.facts import HostFacts
from labctl.record.bundle import BundleResult
from tests.agent_support import Target, alive, cell, kill, shell, step
from tests.real.agent_lab import HOST, AgentLab
from tests.real.agent_sshd import Sshd

pytestmark = pytest.mark.real(what="action labctl.lab.agent", where="localhost")


@pytest.fixture
def local(tmp_path: Path):
    lab = AgentLab(
        tmp_path, {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}, tmp_path / "work"
    )
    yield lab
    lab.spawn("stop").communicate(timeout=60)


@pytest.fixture
def remote(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path):
    top = tmp_path_factory.mktemp("sshd")
    for directory in (top, *top.parents):
        if directory.stat().st_uid == os.getuid() and not directory.stat().st_mode & 0o1001:
            directory.chmod(directory.stat().st_mode | 0o011)
    sshd = Sshd(top)
    lab = AgentLab(tmp_path, sshd.inventory(), sshd.home / "labctl")
    yield lab, sshd
    lab.spawn("stop").communicate(timeout=60)
    sshd.close()


def test_measure_then_collect(local: AgentLab):
    local.give(cell("a", step("x", "true")), cell("b", shell("x", "echo bad >&2; exit 1")))
    stats = local.play("measure")
    assert (stats["agent_lost"], stats["state"]) == (False, "finished")
    assert [(e["id"], e["status"]) for e in stats["finished"]] == [("a", "done"), ("b", "failed")]
    assert "bad" in stats["finished"][1]["error"]
    names = [event["event"] for event in local.events()]
    assert names[0] == "agent_started"
    assert names[-1] == "agent_finished"
    assert names.count("cell_started") == names.count("cell_finished") == 2
    assert [c["cell"] for c in local.play("collect")["collected"]] == ["a", "b"]
    for name, status in (("a", "done"), ("b", "failed")):
        bundle = local.inbox / name / "a1"
        assert BundleResult.model_validate_json((bundle / "result.json").read_bytes()).status == status
        HostFacts.model_validate_json((bundle / "fingerprint.json").read_bytes())
        done = subprocess.run(
            ["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=bundle, check=False, capture_output=True
        )
        assert done.returncode == 0, done.stdout
        assert {p.stat().st_mode & 0o777 for p in bundle.rglob("*") if p.is_file()} == {0o600}
    assert local.play("collect")["collected"] == []
    assert sorted(p.name for p in local.inbox.iterdir()) == ["a", "b"]


def test_next_batch_of_the_same_run_and_repeat_of_the_last(local: AgentLab):
    local.give(cell("a", step("x", "true")))
    local.play("measure")
    inode = (local.run_dir / "agent.pyz").stat().st_ino
    local.give(cell("a", step("x", "true")), cell("b", step("x", "true")))
    assert [e["id"] for e in local.play("measure")["finished"]] == ["a", "b"]
    assert (local.run_dir / "agent.pyz").stat().st_ino == inode


def test_new_batch_waits_for_the_agent_of_a_vanished_controller(local: AgentLab):
    local.give(cell("old", step("x", "sleep", "2")))
    first = local.spawn("measure")
    local.await_event("cell_started", first)
    first.kill()
    first.communicate()
    local.give(cell("old", step("x", "true")), cell("new", step("x", "true")))
    assert [(e["id"], e["status"]) for e in local.play("measure")["finished"]] == [("old", "done"), ("new", "done")]


def test_stop_from_outside_ends_the_wait(local: AgentLab):
    local.give(cell("long", step("x", "sleep", "300", timeout_s=300), deadline_s=300))
    waiting = local.spawn("measure")
    local.await_event("step_started", waiting)
    assert local.play("stop")["state"] == "stopped"
    code, stats, words = local.result(waiting)
    assert code == 0, words
    assert (stats["state"], stats["finished"][0]["status"]) == ("stopped", "interrupted")


def test_killed_agent_is_lost_and_its_attempt_is_collected(local: AgentLab):
    local.give(cell("long", step("x", "sleep", "300", timeout_s=300), deadline_s=300))
    waiting = local.spawn("measure")
    local.await_event("step_started", waiting)
    pid = local.agent()
    kill(pid)
    code, stats, words = local.result(waiting)
    assert code == 0, words
    assert stats["agent_lost"] is True
    assert str(pid) in stats["reason"]
    assert local.events()[-1]["event"] == "agent_lost"
    assert [(c["cell"], c["status"]) for c in local.play("collect")["collected"]] == [("long", "interrupted")]


def test_busy_host_names_the_holder(local: AgentLab):
    holder = Target(local.workdir, "other-run")
    holder.start(cell("long", step("x", "sleep", "300", timeout_s=300), deadline_s=300))
    try:
        local.give(cell("a", step("x", "true")))
        code, _, words = local.result(local.spawn("measure"))
        assert code == 2
        assert "is held by run other-run of tests" in words
    finally:
        holder.end()


def test_damaged_bundle_is_kept_aside(local: AgentLab):
    local.give(cell("a", step("x", "true")))
    local.play("measure")
    (local.run_dir / "cells/a/a1/steps/01-x/stdout").write_text("forged")
    published = local.play("collect")
    assert published["collected"] == []
    assert published["damaged"] == {"a/a1": "a/a1: steps/01-x/stdout differs from its checksum"}
    assert [path.name for path in (local.inbox / "a").iterdir()] == ["a1.damaged"]


def test_bundle_of_many_pieces(local: AgentLab):
    local.give(cell("big", shell("x", "head -c 40000000 /dev/urandom > data")), cell("small", step("x", "true")))
    local.play("measure")
    assert len(local.play("collect")["collected"]) == 2
    assert (local.inbox / "big/a1/steps/01-x/data").stat().st_size == 40_000_000


def test_check_mode_changes_nothing(local: AgentLab):
    local.give(cell("a", step("x", "true")))
    for playbook in ("measure", "collect", "stop"):
        local.play(playbook, "--check")
    assert not local.workdir.exists()
    assert not local.inbox.exists()


def test_deadline_of_the_wait(local: AgentLab):
    local.give(cell("long", step("x", "sleep", "300", timeout_s=300), deadline_s=300))
    code, _, words = local.result(local.spawn("measure", labctl_deadline_s=0.5))
    assert code == 2
    assert "the agent still works after" in words


def test_probe_by_host_and_by_list(local: AgentLab):
    for paths in (["/no-such/place"], {HOST: ["/no-such/place"]}):
        facts = HostFacts.model_validate(local.play("probe", "--check", labctl_probe_paths=paths)["facts"])
        assert facts.paths["/no-such/place"].existing_parent == "/"
        assert facts.cpu.threads == os.cpu_count()
        assert facts.user.uid == os.getuid()
    assert not Path("/no-such").exists()


@pytest.mark.needs("sshd")
@pytest.mark.real(what="action labctl.lab.agent", where="SSH, ordinary user")
def test_ordinary_user_over_ssh(remote: tuple[AgentLab, Sshd]):
    lab, sshd = remote
    lab.give(cell("a", step("x", "id", "-un")))
    assert lab.play("measure")["finished"][0]["status"] == "done"
    assert lab.workdir.stat().st_mode & 0o777 == 0o700
    lab.play("collect")
    assert (lab.inbox / "a/a1/steps/01-x/stdout").read_text().strip() == sshd.user
    facts = HostFacts.model_validate(lab.play("probe", labctl_probe_paths=["/"])["facts"])
    assert facts.user.name == sshd.user
    assert facts.paths["/"].writable is False


@pytest.mark.needs("sshd")
@pytest.mark.real(what="action labctl.lab.agent", where="SSH, cut in a cell")
def test_agent_survives_a_cut_connection_and_the_wait_goes_on(remote: tuple[AgentLab, Sshd]):
    lab, sshd = remote
    go = sshd.home / "go"
    lab.give(cell("long", shell("x", f"while [ ! -e {go} ]; do sleep 0.1; done")), cell("after", step("x", "true")))
    waiting = lab.spawn("measure")
    lab.await_event("step_started", waiting)
    pid = lab.agent()
    sshd.cut()
    lab.await_event("reconnecting", waiting)
    assert alive(pid)
    sshd.start()
    go.touch()
    code, stats, words = lab.result(waiting)
    assert code == 0, words
    assert stats["agent_lost"] is False
    assert [(e["id"], e["status"]) for e in stats["finished"]] == [("long", "done"), ("after", "done")]
