"""The agent on a small server with systemd: as root by sudo, as an ordinary user, and over a power cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.lab.facts import HostFacts
from tests.agent_support import RUN_ID, cell, shell, step
from tests.real.agent_lab import AgentLab
from tests.real.nodes import Node, container_node  # noqa: F401

pytestmark = [
    pytest.mark.real(what="cell agent under systemd", where="container node"),
    pytest.mark.needs("podman", "mmdebstrap", "root"),
]
WORKDIR = Path("/var/tmp/labctl-agent-test")


def make_lab(node: Node, top: Path, **more: object) -> AgentLab:
    return AgentLab(top, {**node.variables(), **more}, WORKDIR)


@pytest.fixture
def node(container_node: Node):  # noqa: F811
    yield container_node
    container_node.exec("sh", "-c", f"systemctl stop 'labctl-*'; pkill -f '[a]gent.pyz'; rm -rf {WORKDIR}", check=False)


def waiting_cell(name: str, go: str):
    return cell(name, shell("x", f"while [ ! -e {go} ]; do sleep 0.1; done", timeout_s=120), deadline_s=120)


def unit_of(node: Node, lab: AgentLab) -> str:
    pid = node.exec("sh", "-c", f"grep -o '\"pid\":[0-9]*' {lab.run_dir}/status.json | cut -d: -f2").stdout.strip()
    return node.exec("cat", f"/proc/{pid}/cgroup").stdout


def test_root_by_sudo_gets_a_unit_and_postgres_steps(node: Node, tmp_path: Path):
    lab = make_lab(node, tmp_path, ansible_become=True)
    who = step("who", "id", "-un", database_user=True)
    initdb = step("initdb", "initdb", "-D", "data", "--no-sync", database_user=True)
    start = step("start", "pg_ctl", "-D", "data", "-w", "-l", "log", "-o", "-k /tmp -h ''", "start", database_user=True)
    start["argv"][2] = "../02-initdb/data"
    ready = step("ready", "pg_isready", "-h", "/tmp", database_user=True)
    stop = step("stop", "pg_ctl", "-D", "../02-initdb/data", "-m", "fast", "stop", database_user=True, always=True)
    lab.give(cell("pg", who, initdb, start, ready, stop), waiting_cell("wait", f"{WORKDIR}/go"))
    waiting = lab.spawn("measure")
    lab.await_event("cell_finished", waiting)
    assert f"labctl-{RUN_ID}.service" in unit_of(node, lab)
    node.exec("touch", f"{WORKDIR}/go")
    code, stats, words = lab.result(waiting)
    assert code == 0, words
    assert [(e["status"], e["error"]) for e in stats["finished"]] == [("done", None)] * 2
    assert len(lab.play("collect")["collected"]) == 2
    assert (lab.inbox / "pg/a1/steps/01-who/stdout").read_text() == "postgres\n"
    facts = HostFacts.model_validate_json((lab.inbox / "pg/a1/fingerprint.json").read_bytes())
    assert facts.systemd.running
    assert facts.host.container
    units = node.exec("systemctl", "list-units", "--all", "--plain", "--no-legend", "labctl-*").stdout
    assert units.strip() == ""


def test_ordinary_user_without_linger_gets_an_own_session(node: Node, tmp_path: Path):
    lab = make_lab(node, tmp_path)
    lab.give(waiting_cell("wait", f"{WORKDIR}/go"))
    waiting = lab.spawn("measure")
    lab.await_event("step_started", waiting)
    assert "labctl-" not in unit_of(node, lab)
    waiting.kill()
    waiting.communicate()
    node.exec("sh", "-c", "pkill -KILL -u lab sshd")
    node.exec("touch", f"{WORKDIR}/go")
    assert [e["status"] for e in lab.play("measure")["finished"]] == ["done"]


def test_ordinary_user_with_linger_gets_a_unit_of_the_user(node: Node, tmp_path: Path):
    lab = make_lab(node, tmp_path)
    node.exec("loginctl", "enable-linger", "lab")
    try:
        node.exec(
            "sh", "-c", "timeout 20 sh -c 'until [ -S /run/user/$(id -u lab)/systemd/private ]; do sleep 0.1; done'"
        )
        lab.give(waiting_cell("wait", f"{WORKDIR}/go"))
        waiting = lab.spawn("measure")
        lab.await_event("step_started", waiting)
        group = unit_of(node, lab)
        assert "user@" in group
        assert f"labctl-{RUN_ID}.service" in group
        node.exec("touch", f"{WORKDIR}/go")
        assert lab.result(waiting)[1]["finished"][0]["status"] == "done"
    finally:
        node.exec("loginctl", "disable-linger", "lab")


def test_power_cut_of_the_target_is_a_lost_agent_with_evidence(node: Node, tmp_path: Path):
    lab = make_lab(node, tmp_path)
    lab.give(waiting_cell("long", f"{WORKDIR}/never"))
    waiting = lab.spawn("measure", labctl_reconnect_s=120)
    lab.await_event("step_started", waiting)
    node.power_cut()
    lab.await_event("reconnecting", waiting)
    node.start()
    code, stats, words = lab.result(waiting)
    assert code == 0, words
    assert stats["agent_lost"] is True
    assert "gone" in stats["reason"] or "rebooted" in stats["reason"]
    assert [(c["cell"], c["status"]) for c in lab.play("collect")["collected"]] == [("long", "interrupted")]
    lab.give(cell("long", step("x", "true"), attempt=2))
    assert [(e["attempt"], e["status"]) for e in lab.play("measure")["finished"]] == [(2, "done")]
