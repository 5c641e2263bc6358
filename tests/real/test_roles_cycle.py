"""The stages host and teardown on a real server over SSH: made, made again, rebooted, used, removed without a trace."""

from __future__ import annotations

import json

import pytest

from tests.real.nodes import Node, container_node  # noqa: F401
from tests.real.roles_support import MIB, RUN, Machine

pytestmark = [
    pytest.mark.real(what=["bench_host", "bench_postgresql", "bench_storage", "bench_tools"], where="container node"),
    pytest.mark.needs("podman", "mmdebstrap", "root", "ssh", "loop"),
]
TOOLS = ["fio", "sysbench", "postgresql", "xfsprogs"]


@pytest.fixture
def machine(container_node: Node, tmp_path):  # noqa: F811
    """The node as user ``lab``, who has sudo; what a failed test left is removed."""
    inventory = container_node.write_inventory(tmp_path / "lab")
    host = Machine(
        container_node.name,
        inventory,
        tmp_path,
        lambda text: container_node.exec("sh", "-c", text).stdout,
        "/var/tmp/labctl-lab",
    )
    yield host
    container_node.exec("sh", "-c", "umount /var/tmp/labctl-lab/arms/*/* 2>/dev/null; rm -rf /var/tmp/labctl-lab")


def test_host_and_teardown_leave_nothing_and_repeat_without_change(machine, container_node):  # noqa: F811
    shm = f"/dev/shm/labctl-{RUN}-memory"
    arms = [
        machine.directory_arm(),
        machine.loop_arm(),
        machine.loop_arm("ext", "ext4"),
        machine.directory_arm("memory", path=shm),
    ]
    wanted = {
        "bench_tools_required": TOOLS,
        "bench_storage_arms": arms,
        "bench_postgresql_instances": [machine.instance("dir"), machine.instance("xfs")],
    }
    before = machine.listing()

    planned = machine.stats(machine.play("host", check=True, **wanted))
    assert planned.changed > 0
    assert machine.listing() == before, "check mode changed the host"

    assert machine.stats(machine.play("host", **wanted)).changed > 0
    assert machine.stats(machine.play("host", **wanted)).changed == 0
    assert machine.stats(machine.play("host", check=True, **wanted)).changed == 0

    loop = machine.arms + "/xfs"
    assert machine.shell(f"findmnt -no FSTYPE {loop}").strip() == "xfs"
    assert machine.shell(f"findmnt -no FSTYPE {machine.arms}/ext").strip() == "ext4"
    allocated, size = map(int, machine.shell(f"stat --format '%b %s' {loop}.img").split())
    assert allocated * 512 >= size == 320 * MIB, "the image has holes"
    assert container_node.ssh(f"touch {loop}/mine {shm}/mine && stat -c %U {loop}").stdout.strip() == "lab"

    # A cell's own steps, as the ordinary user.
    programs = "/usr/lib/postgresql/*/bin"
    data, socket = f"{loop}/pg", f"{machine.arms}/s-xfs"
    used = container_node.ssh(
        f"cd {loop} && PATH=$(echo {programs}):$PATH && export PATH && "
        f"pg_ctl -D {data} -w -l pg.log start >/dev/null && createdb -h {socket} bench && "
        f"pgbench -h {socket} -i -q bench 2>/dev/null && pgbench -h {socket} -t 20 bench && "
        f"psql -h {socket} -Atc 'show data_checksums; show fsync; show shared_buffers; show listen_addresses' "
        "-d bench | tr '\\n' '|' && ss -Hltn | grep -c 5432",
        check=False,
    ).stdout
    assert "number of transactions actually processed: 20/20" in used
    assert used.endswith("on|on|64MB||0\n"), used

    # The plug is pulled with the server running; another boot has neither mounts nor loop devices.
    container_node.power_cut()
    container_node.start()
    machine.shell(f"rm -rf /dev/shm/labctl-{RUN}-memory")
    assert machine.stats(machine.play("host", **wanted)).changed > 0
    assert machine.shell(f"ls {loop}/mine; findmnt -no FSTYPE {loop}").split() == [f"{loop}/mine", "xfs"]
    container_node.ssh(f"$(echo {programs})/pg_ctl -D {data} -w -l {loop}/pg.log start >/dev/null")

    with_server = machine.listing()
    assert machine.stats(machine.play("teardown", check=True, **wanted)).changed > 0
    assert machine.listing() == with_server, "check mode changed the host"

    machine.stats(machine.play("teardown", **wanted))
    assert machine.listing() == before
    assert machine.stats(machine.play("teardown", **wanted)).changed == 0


def test_an_interrupted_preparation_is_done_again(machine):
    arm = machine.loop_arm()
    machine.stats(machine.play("host"))
    marker = {
        "schema": 1,
        "what": "image",
        "run_id": RUN,
        "state": "making",
        "size_bytes": 320 * MIB,
        "filesystem": "xfs",
    }
    machine.shell(f"cd {machine.arms} && truncate -s 5M xfs.img && echo '{json.dumps(marker)}' > xfs.img.labctl")
    machine.stats(machine.play("host", bench_storage_arms=[arm]))
    assert machine.shell(f"findmnt -no FSTYPE {machine.arms}/xfs").strip() == "xfs"
    machine.stats(machine.play("teardown", bench_storage_arms=[arm]))


def test_two_runs_share_a_working_directory(machine):
    before = machine.listing()
    for run_id in (RUN, "r2"):
        machine.stats(machine.play("host", run_id=run_id))
    machine.stats(machine.play("teardown", run_id=RUN))
    assert machine.shell(f"ls {machine.workdir}/runs").split() == ["r2"]
    machine.stats(machine.play("teardown", run_id="r2"))
    assert machine.listing() == before


def test_teardown_fails_when_something_is_left(machine, container_node):  # noqa: F811
    machine.stats(machine.play("host"))
    container_node.ssh(f"cd {machine.arms} && setsid -f sleep 300 >/dev/null 2>&1 </dev/null")
    message = machine.refusal(machine.play("teardown"))
    machine.shell("pkill -x sleep")
    assert "sleep 300" in message
    assert machine.arms not in machine.listing()
