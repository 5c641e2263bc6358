"""Whole runs over SSH on small servers: users, file systems, reboots, cut cables, several hosts and controllers."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real.nodes import Node, container_node, running_node  # noqa: F401
from tests.real.run_support import Bench, Running, final_states, is_event, make_bench

pytestmark = [
    pytest.mark.needs("podman", "mmdebstrap", "ssh", "ansible"),
    pytest.mark.real(
        what="target:host stage:probe stage:host stage:measure stage:collect stage:teardown",
        where="container node over SSH",
    ),
]

HEAD = """\
name: nodes
title: A study over SSH
question: Does it survive?
baseline: one
repeats: 2
pilot: true
seed: 7
"""
FIO = """\
  fio:
    tool: fio
    parameters: {size: 4MiB, runtime: 1s, ramp: 0s, bs: 4KiB, ioengine: psync, rw: randrw}
"""
PGBENCH = """\
  pg:
    tool: pgbench
    parameters: {scale: 1, time: 1s, clients: 1, settings: {max_wal_size: 64MB, shared_buffers: 16MB}}
"""
FILEIO = """\
  fileio:
    tool: sysbench-fileio
    parameters: {total_size: 8MiB, num: 2, time: 1s}
"""
SLOW = """\
  cpu:
    tool: sysbench-cpu
    parameters: {time: 4s, threads: 1}
"""
TWO_ARMS = "arms:\n  one: {}\n  two: {}\nworkloads:\n"
LOOP_ARM = "arms:\n  one: {}\n  xfs:\n    storage: {kind: loop, filesystem: xfs, size: 512MiB}\nworkloads:\n"
SLOW_FIO = FIO.replace("runtime: 1s", "runtime: 4s")
ONCE = HEAD.replace("repeats: 2", "repeats: 1")
#: Two cells, long enough to be caught at work (see :func:`held`).
SLOW_STUDY = ONCE + TWO_ARMS + SLOW
#: The user's own limit for silence, shorter than labctl's; tests that do not look at labctl's take it to save time.
IMPATIENT = {
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=1",
    "ANSIBLE_SSH_CONTROL_PATH_DIR": "~/.ansible/cp/impatient",
    "ANSIBLE_TIMEOUT": "3",
}
HANG_S = 180.0
"""After that long labctl is killed and the test fails: far more than a cut may go unnoticed."""


def bench_on(root: Path, *nodes: Node, study: str, user: str = "lab", **more: object) -> Bench:
    """A lab of these nodes, with labctl's own default for its directory there."""
    hosts = {node.name: {**node.variables(user), **more} for node in nodes}
    return make_bench(root, study=study, hosts=json.dumps({"all": {"hosts": hosts}}))


def traces(node: Node) -> set[str]:
    """All that a run could leave on a node: files, mounts, loop devices on its disk, units, processes."""
    script = r"""
    find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /var/log \) -prune -o -print
    find /tmp /dev/shm -mindepth 1
    awk '$1 ~ "^/dev/loop" || $2 ~ "labctl" {print "mount", $0}' /proc/mounts
    losetup --noheadings --output BACK-MAJ:MIN,BACK-FILE | sed -n "s/^ *$(mountpoint --fs-devno /) */loop /p"
    systemctl list-units --all --plain --no-legend 'labctl*' 'run-r[0-9a-f]*'
    ps -e -o user=,args= | grep -E 'fio|sysbench|postgres|pgbench|agent\.pyz' | grep -v grep
    true
    """
    return set(node.exec("sh", "-c", script).stdout.splitlines())


def without_usual_traces(lines: set[str]) -> set[str]:
    """Without what any login, playbook and boot leaves: Ansible's own directory, what systemd makes for services."""
    return {line for line in lines if "/.ansible" not in line and "/systemd-private-" not in line}


@contextmanager
def bounded(running: Running) -> Iterator[None]:
    """A labctl that waits for ever fails the test instead of hanging it."""
    timer = threading.Timer(HANG_S, running.process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@pytest.fixture
def node(container_node: Node) -> Iterator[Node]:  # noqa: F811
    """The node of this module; each test must leave it as it was."""
    before = traces(container_node)
    yield container_node
    assert without_usual_traces(traces(container_node) - before) == set()


@contextmanager
def held(node: Node, tool: str) -> Iterator[None]:
    """Freeze a measurement: its cell ends only after the block, however slow this machine is."""
    node.exec("sh", "-c", f"until pkill -STOP -x {tool}; do sleep 0.1; done")
    try:
        yield
    finally:
        node.exec("pkill", "-CONT", "-x", tool, check=False)


def done_once(bench: Bench, cells: int) -> None:
    """Every cell is done, by its first attempt."""
    states = final_states(bench.record())
    assert len(states) == cells
    assert set(states.values()) == {("done", 1)}


def resumed(bench: Bench) -> list[dict[str, Any]]:
    result = bench.labctl("resume", str(bench.record()), "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def agents(node: Node) -> list[str]:
    """Process ids of the agents that work on the node."""
    return node.exec("pgrep", "-f", "[a]gent.pyz run", check=False).stdout.split()


def ended(running: Running, code: int) -> list[dict[str, Any]]:
    events = running.rest()
    assert running.process.stderr is not None
    assert running.process.returncode == code, (events[-6:], running.process.stderr.read())
    return events


@pytest.mark.real(
    what="workload:fio workload:pgbench workload:sysbench-fileio", where="container node over SSH, user without sudo"
)
def test_ordinary_user_runs_a_whole_study_and_leaves_nothing(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=HEAD + TWO_ARMS + FIO + PGBENCH + FILEIO, user="plain")
    result = bench.labctl(*bench.run_arguments())
    assert result.returncode == 0, result.stdout + result.stderr
    done_once(bench, 2 * 3 * 2)


@pytest.mark.real(what="workload:fio workload:pgbench", where="container node over SSH, root by sudo, XFS in a loop")
def test_root_by_sudo_measures_in_a_loop_file_and_leaves_nothing(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=HEAD + LOOP_ARM + FIO + PGBENCH, ansible_become=True)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        running.until(is_event("cell_started"))
        during = traces(node)
        ended(running, 0)
    assert any(line.startswith("mount /dev/loop") and " xfs " in line for line in during)
    assert any(line.startswith("loop /var/tmp/labctl-root/arms/") for line in during)
    done_once(bench, 2 * 2 * 2)


@pytest.mark.real(what="fault:reboot", where="container node over SSH")
def test_target_that_reboots_in_order_is_prepared_again(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=ONCE + LOOP_ARM + SLOW_FIO, ansible_become=True)
    bench.env.update(IMPATIENT)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        cell = running.until(is_event("step_started", phase="run"))["cell"]
        with held(node, "fio"):
            node.reboot()
        events = ended(running, 0)
    states = final_states(bench.record())
    assert len(states) == 2
    assert states.pop(cell) == ("done", 2)
    assert set(states.values()) == {("done", 1)}
    assert [event["stage"] for event in events if event["event"] == "stage_started"].count("host") == 2


@pytest.mark.real(what=["fault:power-cut", "fault:reboot"], where="container node over SSH")
def test_target_that_reboots_between_batches_is_not_measured_without_its_file_system(
    node: Node, tmp_path: Path
) -> None:
    bench = bench_on(tmp_path, node, study=ONCE + LOOP_ARM + FIO, ansible_become=True)
    bench.env.update(IMPATIENT)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        running.until(is_event("stage_finished", stage="host"))
        node.power_cut()
        node.start()
        events = ended(running, 0)
    assert [event["stage"] for event in events if event["event"] == "stage_started"].count("host") == 2
    done_once(bench, 2)
    for path in bench.record().glob("raw/*.xfs.*/a1/fingerprint.json"):
        paths = json.loads(path.read_bytes())["paths"]
        assert [found["fs_type"] for found in paths.values()] == ["xfs"]


@pytest.mark.real(what="fault:power-cut", where="container node over SSH")
def test_target_that_loses_power_in_a_cell_is_waited_for_and_prepared_again(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=ONCE + LOOP_ARM + SLOW_FIO, ansible_become=True)
    bench.env.update(IMPATIENT)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        cell = running.until(is_event("step_started", phase="run"))["cell"]
        node.power_cut()
        running.until(is_event("notice"))
        node.start()
        events = ended(running, 0)
    states = final_states(bench.record())
    assert states.pop(cell) == ("done", 2)
    assert set(states.values()) == {("done", 1)}
    assert [event["stage"] for event in events if event["event"] == "stage_started"].count("host") == 2
    evidence = json.loads((bench.record() / "raw" / cell / "a1" / "result.json").read_bytes())
    assert evidence["status"] == "interrupted"
    assert (bench.record() / "raw" / cell / "a2" / "result.json").exists()


@pytest.mark.real(what=["fault:reboot", "fault:kill-9-controller"], where="container node over SSH")
def test_reboot_after_kill_9_of_labctl_costs_one_cell(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=ONCE + LOOP_ARM + SLOW_FIO, ansible_become=True)
    bench.env.update(IMPATIENT)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        running.until(is_event("cell_finished"))
        cell = running.until(is_event("step_started", phase="run"))["cell"]
        running.kill()
        with held(node, "fio"):
            node.reboot()
    resumed(bench)
    states = final_states(bench.record())
    assert len(states) == 2
    assert states.pop(cell) == ("done", 2)
    assert set(states.values()) == {("done", 1)}


@pytest.mark.real(what="fault:ssh-cut", where="container node over SSH")
def test_killed_sessions_and_a_silent_cable_repeat_no_cell(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=SLOW_STUDY)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        running.until(is_event("step_started", phase="run"))
        node.drop_sessions()
        running.until(is_event("cell_finished", status="done"))
        running.until(is_event("step_started", phase="run"))
        with held(node, "sysbench"):
            node.cut()
            try:
                message = running.until(is_event("notice"))["message"]
            finally:
                node.restore()
        assert "reconnecting" in message
        ended(running, 0)
    done_once(bench, 2)


@pytest.mark.real(what="fault:ssh-cut", where="container node over SSH")
def test_cut_that_lasts_ends_labctl_but_not_the_agent(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=SLOW_STUDY)
    bench.env.update(IMPATIENT)
    with bench.running(*bench.run_arguments("--reconnect", "2")) as running, bounded(running):
        running.until(is_event("step_started", phase="run"))
        with held(node, "sysbench"):
            node.cut()
            try:
                last = ended(running, 4)[-1]
                assert agents(node)
            finally:
                node.restore()
            with bench.running("resume", str(bench.record()), "--json") as again, bounded(again):
                again.until(lambda event: "still works" in event.get("message", ""))
                node.exec("pkill", "-CONT", "-x", "sysbench")
                ended(again, 0)
    assert last["status"] == "interrupted"
    assert last["next"][0] == f"labctl resume {bench.record()}"
    done_once(bench, 2)


@pytest.mark.real(what="fault:kill-9-controller", where="container node over SSH")
def test_collect_after_kill_9_fetches_what_is_finished_and_leaves_the_agent_alone(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=SLOW_STUDY)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        running.until(is_event("cell_finished"))
        running.kill()
    with held(node, "sysbench"):
        agent = agents(node)
        assert agent
        result = bench.labctl("collect", str(bench.record()), "--json")
        assert result.returncode == 0, result.stdout + result.stderr
        assert agents(node) == agent
    home = {path.parent.parent.name for path in bench.record().glob("raw/*/a1/result.json")}
    assert len(home) == 1
    assert {cell for cell, state in final_states(bench.record()).items() if state == ("done", 1)} == home
    node.exec("sh", "-c", "while pgrep -f '[a]gent.pyz run'; do sleep 0.2; done")
    before = traces(node)
    result = bench.labctl("collect", str(bench.record()), "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    assert traces(node) == before
    assert len(list(bench.record().glob("raw/*/a1/result.json"))) == 2
    resumed(bench)
    done_once(bench, 2)


@pytest.mark.real(what="two controllers on one host", where="container node over SSH")
def test_second_controller_is_refused_by_the_host_and_told_who_holds_it(node: Node, tmp_path: Path) -> None:
    first = bench_on(tmp_path / "first", node, study=SLOW_STUDY)
    second = bench_on(tmp_path / "second", node, study=SLOW_STUDY)
    with first.running(*first.run_arguments()) as running, bounded(running):
        running.until(is_event("step_started", phase="run"))
        with held(node, "sysbench"):
            refused = second.labctl(*second.run_arguments())
        ended(running, 0)
    assert refused.returncode not in {0, 130}
    assert first.record().name in refused.stdout + refused.stderr
    assert "held by" in refused.stdout + refused.stderr
    done_once(first, 2)
    if second.records.exists():
        gone = second.labctl("teardown", str(second.record()))
        assert gone.returncode == 0, gone.stdout + gone.stderr


@pytest.mark.real(what="stage:stop stage:teardown", where="container node over SSH, XFS in a loop")
def test_teardown_after_kill_9_stops_the_agent_and_leaves_nothing(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=ONCE + LOOP_ARM + PGBENCH, ansible_become=True)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        running.until(is_event("cell_started"))
        running.kill()
    assert agents(node)
    result = bench.labctl("teardown", str(bench.record()), "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    assert agents(node) == []


@pytest.fixture(scope="module")
def second_node() -> Iterator[Node]:
    with running_node("second") as node:
        yield node


@pytest.mark.parametrize("order", ["parallel", "serial"])
def test_two_hosts_measure_at_once_or_one_after_the_other(
    node: Node, second_node: Node, tmp_path: Path, order: str
) -> None:
    study = ONCE + f"order: {{across_hosts: {order}}}\n" + TWO_ARMS + FIO
    bench = bench_on(tmp_path, node, second_node, study=study)
    result = bench.labctl(*bench.run_arguments())
    assert result.returncode == 0, result.stdout + result.stderr
    done_once(bench, 4)
    spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for path in bench.record().glob("raw/*/a1/result.json"):
        ran = json.loads(path.read_bytes())
        spans[node.name in str(path)].append((ran["started"], ran["finished"]))
    assert [len(found) for found in spans.values()] == [2, 2]
    overlap = any(a[0] < b[1] and b[0] < a[1] for a in spans[True] for b in spans[False])
    assert overlap is (order == "parallel")


@pytest.mark.real(what="stage:stop", where="container node over SSH")
def test_ctrl_c_stops_the_cell_on_the_node(node: Node, tmp_path: Path) -> None:
    bench = bench_on(tmp_path, node, study=SLOW_STUDY)
    with bench.running(*bench.run_arguments()) as running, bounded(running):
        running.until(is_event("step_started", phase="run"))
        with held(node, "sysbench"):
            running.signal(signal.SIGINT)
            ended(running, 130)
    assert agents(node) == []
    assert ("interrupted", 1) in final_states(bench.record()).values()
    result = bench.labctl("teardown", str(bench.record()))
    assert result.returncode == 0, result.stdout + result.stderr
