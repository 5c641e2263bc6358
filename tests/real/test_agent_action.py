"""The action plugin and its playbooks, run with ansible-playbook: on this host and over SSH as an ordinary user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from labctl.lab.facts import HostFacts
from labctl.record.bundle import BundleResult
from tests.agent_support import ROOT, RUN_ID, Target, alive, batch, cell, kill, shell, step
from tests.real.agent_sshd import Sshd

pytestmark = pytest.mark.real(what="action labctl.lab.agent", where="localhost")
HOST = "node"


class Lab:
    """One host, and ansible-playbook for it."""

    def __init__(self, top: Path, host: dict[str, object], workdir: Path) -> None:
        self.top, self.workdir = top, workdir
        self.inbox, self.progress, self.batch = top / "inbox", top / "progress.jsonl", top / "batch.json"
        collection = top / "collections/ansible_collections/labctl/lab"
        collection.parent.mkdir(parents=True)
        collection.symlink_to(ROOT)
        (top / "hosts.json").write_text(json.dumps({"all": {"hosts": {HOST: host}}}))
        self.run_dir = workdir / "runs" / RUN_ID

    def give(self, *cells: dict[str, Any], run_id: str = RUN_ID) -> None:
        self.batch.write_text(json.dumps(batch(*cells, run_id=run_id)))

    def spawn(self, playbook: str, *arguments: str, **extra: object) -> subprocess.Popen[str]:
        variables = {
            "labctl_run_id": RUN_ID,
            "labctl_workdirs": {HOST: str(self.workdir)},
            "labctl_batches": {HOST: str(self.batch)},
            "labctl_progress": str(self.progress),
            "labctl_inbox": str(self.inbox),
            "labctl_poll_s": 0.2,
            "labctl_reconnect_s": 60,
            **extra,
        }
        program = Path(sys.executable).with_name("ansible-playbook")
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.top / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            "ANSIBLE_SHOW_CUSTOM_STATS": "1",
            "ANSIBLE_DEPRECATION_WARNINGS": "0",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.top / "cp"),
        }
        return subprocess.Popen(
            [program, f"labctl.lab.{playbook}", "-i", self.top / "hosts.json", "-e", json.dumps(variables), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
        out, err = process.communicate(timeout=120)
        document = json.loads(out[out.index("{") :])
        return process.returncode, document.get("custom_stats", {}).get(HOST, {}), out + err

    def play(self, playbook: str, *arguments: str, **extra: object) -> dict[str, Any]:
        code, stats, words = self.result(self.spawn(playbook, *arguments, **extra))
        assert code == 0, words
        return stats

    def events(self) -> list[dict[str, Any]]:
        if not self.progress.exists():
            return []
        return [json.loads(line) for line in self.progress.read_text().splitlines()]

    def await_event(self, name: str, process: subprocess.Popen[str]) -> None:
        while not any(event["event"] == name for event in self.events()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)

    def agent(self) -> int:
        return int(json.loads((self.run_dir / "status.json").read_text())["pid"])


@pytest.fixture
def local(tmp_path: Path):
    lab = Lab(
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
    lab = Lab(tmp_path, sshd.inventory(), sshd.home / "labctl")
    yield lab, sshd
    lab.spawn("stop").communicate(timeout=60)
    sshd.close()


def test_measure_then_collect(local: Lab):
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


def test_next_batch_of_the_same_run_and_repeat_of_the_last(local: Lab):
    local.give(cell("a", step("x", "true")))
    local.play("measure")
    inode = (local.run_dir / "agent.pyz").stat().st_ino
    local.give(cell("a", step("x", "true")), cell("b", step("x", "true")))
    assert [e["id"] for e in local.play("measure")["finished"]] == ["a", "b"]
    assert (local.run_dir / "agent.pyz").stat().st_ino == inode


def test_new_batch_waits_for_the_agent_of_a_vanished_controller(local: Lab):
    local.give(cell("old", step("x", "sleep", "2")))
    first = local.spawn("measure")
    local.await_event("cell_started", first)
    first.kill()
    first.communicate()
    local.give(cell("old", step("x", "true")), cell("new", step("x", "true")))
    assert [(e["id"], e["status"]) for e in local.play("measure")["finished"]] == [("old", "done"), ("new", "done")]


def test_stop_from_outside_ends_the_wait(local: Lab):
    local.give(cell("long", step("x", "sleep", "300", timeout_s=300), deadline_s=300))
    waiting = local.spawn("measure")
    local.await_event("step_started", waiting)
    assert local.play("stop")["state"] == "stopped"
    code, stats, words = local.result(waiting)
    assert code == 0, words
    assert (stats["state"], stats["finished"][0]["status"]) == ("stopped", "interrupted")


def test_killed_agent_is_lost_and_its_attempt_is_collected(local: Lab):
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


def test_busy_host_names_the_holder(local: Lab):
    holder = Target(local.workdir, "other-run")
    holder.start(cell("long", step("x", "sleep", "300", timeout_s=300), deadline_s=300))
    try:
        local.give(cell("a", step("x", "true")))
        code, _, words = local.result(local.spawn("measure"))
        assert code == 2
        assert "is held by run other-run of tests" in words
    finally:
        holder.end()


def test_damaged_bundle_is_refused_and_nothing_is_left(local: Lab):
    local.give(cell("a", step("x", "true")))
    local.play("measure")
    (local.run_dir / "cells/a/a1/steps/01-x/stdout").write_text("forged")
    code, _, words = local.result(local.spawn("collect"))
    assert code == 2
    assert "steps/01-x/stdout differs from its checksum" in words
    assert list(local.inbox.iterdir()) == []


def test_bundle_of_many_pieces(local: Lab):
    local.give(cell("big", shell("x", "head -c 40000000 /dev/urandom > data")), cell("small", step("x", "true")))
    local.play("measure")
    assert len(local.play("collect")["collected"]) == 2
    assert (local.inbox / "big/a1/steps/01-x/data").stat().st_size == 40_000_000


def test_check_mode_changes_nothing(local: Lab):
    local.give(cell("a", step("x", "true")))
    for playbook in ("measure", "collect", "stop"):
        local.play(playbook, "--check")
    assert not local.workdir.exists()
    assert not local.inbox.exists()


def test_deadline_of_the_wait(local: Lab):
    local.give(cell("long", step("x", "sleep", "300", timeout_s=300), deadline_s=300))
    code, _, words = local.result(local.spawn("measure", labctl_deadline_s=0.5))
    assert code == 2
    assert "the agent still works after" in words


def test_probe_by_host_and_by_list(local: Lab):
    for paths in (["/no-such/place"], {HOST: ["/no-such/place"]}):
        facts = HostFacts.model_validate(local.play("probe", "--check", labctl_probe_paths=paths)["facts"])
        assert facts.paths["/no-such/place"].existing_parent == "/"
        assert facts.cpu.threads == os.cpu_count()
        assert facts.user.uid == os.getuid()
    assert not Path("/no-such").exists()


@pytest.mark.needs("sshd")
@pytest.mark.real(what="action labctl.lab.agent", where="SSH, ordinary user")
def test_ordinary_user_over_ssh(remote: tuple[Lab, Sshd]):
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
def test_agent_survives_a_cut_connection_and_the_wait_goes_on(remote: tuple[Lab, Sshd]):
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
