"""What the roles refuse, on a real server: nothing that labctl did not make is ever touched."""

from __future__ import annotations

import pytest

from tests.real.nodes import Node, container_node  # noqa: F401
from tests.real.roles_support import MIB, RUN, Machine

pytestmark = [
    pytest.mark.real(what=["bench_host", "bench_postgresql", "bench_storage", "bench_tools"], where="container node"),
    pytest.mark.needs("podman", "mmdebstrap", "root", "ssh"),
]
HOME = "/var/tmp/labctl-lab"


@pytest.fixture
def machine_of(container_node: Node, tmp_path):  # noqa: F811
    """Makes the node reachable as one of its users."""

    def make(user: str) -> Machine:
        inventory = container_node.write_inventory(tmp_path / user, user)
        return Machine(
            container_node.name,
            inventory,
            tmp_path,
            lambda text: container_node.exec("sh", "-c", text).stdout,
            f"/var/tmp/labctl-{user}",
        )

    yield make
    container_node.exec("sh", "-c", "rm -rf /var/tmp/labctl-plain /var/tmp/other")


@pytest.fixture
def machine(machine_of):
    """The node as user ``lab`` with the run's directories made, once for all tests that do not tear them down."""
    host = machine_of("lab")
    if host.shell(f"test -d {host.arms} || echo missing"):
        host.stats(host.play("host"))
    yield host
    host.shell(f"umount {host.arms}/*/ 2>/dev/null; rm -rf {host.arms}/*")


@pytest.mark.parametrize(
    ("workdir", "prepare", "words"),
    [
        ("/etc/labctl", "true", "belongs to the system"),
        ("/var/tmp", "true", "holds what belongs to others"),
        ("/var/tmp/../tmp/x", "true", "not a plain path"),
        ("/var/tmp/other", "mkdir /var/tmp/other", "belongs to root"),
        (
            "/var/tmp/other/x",
            "ln -s /home/lab /var/tmp/other && chown -h plain /var/tmp/other",
            "symbolic link of plain",
        ),
        (
            "/var/tmp/other",
            "install -d -o lab /var/tmp/other && touch /var/tmp/other/a",
            "files that labctl did not make",
        ),
    ],
)
def test_a_working_directory_that_is_not_ours(machine_of, workdir, prepare, words):
    machine = machine_of("lab")
    machine.shell(prepare)
    before = machine.listing()
    assert words in machine.refusal(machine.play("host", bench_host_workdir=workdir))
    assert machine.listing() == before


@pytest.mark.parametrize(
    ("kind", "change", "prepare", "words"),
    [
        ("directory", {}, "install -d -o lab {path} && touch {path}/a", "files that labctl did not make"),
        ("directory", {}, "mkdir {path} && mount -t tmpfs none {path}", "mount point that labctl did not make"),
        ("directory", {"path": "/var/tmp/other"}, "true", "lies outside"),
        ("directory", {"size_bytes": 1 << 50}, "true", "MiB free"),
        ("loop", {"size_bytes": 1 << 50}, "true", "MiB free"),
        ("loop", {}, "truncate -s 320M {path}.img", "labctl did not make it"),
        ("loop", {}, "mkdir {path} && mount -t tmpfs none {path}", "mount point of none"),
        ("loop", {"image": "/home/lab/x.img"}, "true", "lies outside"),
    ],
)
def test_storage_that_is_not_ours_or_too_small(machine, kind, change, prepare, words):
    arm = {**(machine.loop_arm("arm") if kind == "loop" else machine.directory_arm("arm")), **change}
    machine.shell(prepare.format(path=arm["path"]))
    before = machine.listing()
    message = machine.refusal(machine.play("host", bench_storage_arms=[arm]))
    assert words in message
    assert message.startswith("Arm arm: refused")
    assert machine.listing() == before


def test_an_image_of_another_size_is_not_made_anew(machine):
    arm = machine.loop_arm()
    machine.stats(machine.play("host", bench_storage_arms=[arm]))
    bigger = {**arm, "size_bytes": 400 * MIB}
    assert f"has size_bytes {320 * MIB}" in machine.refusal(machine.play("host", bench_storage_arms=[bigger]))
    machine.stats(machine.play("teardown", bench_storage_arms=[arm]))


def test_an_arm_of_another_run_is_kept(machine):
    arm = machine.directory_arm()
    machine.stats(machine.play("host", bench_storage_arms=[arm]))
    for stage in ("host", "teardown"):
        result = machine.play(stage, run_id="r2", bench_storage_arms=[arm])
        assert f"belongs to run {RUN}, not to r2" in machine.refusal(result)
    assert machine.shell(f"ls -A {arm['path']}").split() == [".labctl"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"socket_dir": f"{HOME}/arms/{RUN}/{'s' * 80}"}, "107 are possible"),
        ({"settings": {"listen_addresses": "*"}}, "'listen_addresses' cannot be set"),
        ({"settings": {"shared_bufers": "1GB"}}, "shared_bufers"),
    ],
)
def test_a_database_that_cannot_be(machine, change, words):
    instance = {**machine.instance("dir"), **change}
    wanted = {"bench_storage_arms": [machine.directory_arm()], "bench_postgresql_instances": [instance]}
    assert words in machine.refusal(machine.play("host", **wanted))


def test_data_of_another_database_are_kept(machine):
    arm, instance = machine.directory_arm(), machine.instance("dir")
    machine.stats(machine.play("host", bench_storage_arms=[arm]))
    machine.shell(f"install -d -o lab {instance['data_dir']}")
    result = machine.play("host", bench_storage_arms=[arm], bench_postgresql_instances=[instance])
    assert "labctl did not make it" in machine.refusal(result)
    assert machine.shell(f"ls -d {instance['data_dir']}")


def test_a_fault_in_variables_is_told_from_one_of_the_host(machine):
    result = machine.play("host", bench_storage_arms=[{"name": "a", "kind": "tape", "path": "/x"}])
    assert result.status == "spec-error"
    assert "tape" in result.errors[-1].message


def test_an_ordinary_user_without_sudo_is_told_what_to_install(machine_of):
    machine = machine_of("plain")
    machine.shell("apt-get purge -q -y sysbench")
    try:
        message = machine.refusal(machine.play("host", bench_tools_required=["fio", "sysbench"]))
    finally:
        machine.shell("apt-get update -q && apt-get install -q -y sysbench")
    assert f"sysbench is missing on {machine.name}. Install with: apt-get install sysbench (as root)." in message
    machine.stats(machine.play("host", bench_tools_required=["fio", "sysbench"]))


def test_a_tool_that_is_too_old_is_named_with_both_versions(machine_of):
    machine = machine_of("plain")
    result = machine.play("host", bench_tools_required=["fio"])
    machine.stats(result)
    machine.inventory.joinpath("group_vars").mkdir()
    machine.inventory.joinpath("group_vars/all.yml").write_text("bench_tools_minimum: {fio: '99.1'}\n")
    message = machine.refusal(machine.play("host", bench_tools_required=["fio"]))
    assert "fio 3." in message
    assert "(needed: 99.1 or newer)" in message


def test_a_loop_arm_without_root_names_the_arm(machine_of):
    machine = machine_of("plain")
    before = machine.listing()
    message = machine.refusal(machine.play("host", bench_storage_arms=[machine.loop_arm("xfs")]))
    assert f"Arm xfs needs root on {machine.name}" in message
    machine.stats(machine.play("teardown"))
    assert machine.listing() == before


def test_installing_postgresql_makes_no_server(machine_of):
    machine = machine_of("lab")
    machine.shell(
        "apt-get purge -q -y 'postgresql*' && rm -rf /etc/postgresql-common /etc/postgresql /var/lib/postgresql"
    )
    planned = machine.stats(machine.play("host", check=True, bench_tools_required=["postgresql", "fio"]))
    assert planned.changed > 0
    assert "postgresql" not in machine.shell("dpkg --get-selections | grep -v deinstall | grep '^postgresql-1' || true")
    machine.stats(machine.play("host", bench_tools_required=["postgresql", "fio"]))
    assert machine.shell("pg_lsclusters --no-header; pgrep -x postgres || true") == ""
    assert machine.shell("find /etc/postgresql-common -name labctl.conf") == ""
    assert machine.stats(machine.play("host", bench_tools_required=["postgresql", "fio"])).changed == 0
