"""The planner: what runs, in which order, what is left out, what is refused."""

import random
import re
from collections import Counter
from typing import Any

import pytest

from labctl.errors import ExitCode, LabctlError
from labctl.plan.models import Plan
from labctl.plan.placing import MAX_SOCKET_DIR, cell_id, paths_to_probe, select_hosts
from labctl.plan.planner import choose_seed, host_vars, make_plan, refusal
from labctl.plan.tools import tools_to_probe
from labctl.study.load import load_study
from tests.plan_support import GIB, SHM, VAR_TMP, facts, lab, path, study

PG = "w: {tool: pgbench, parameters: {scale: 1, settings: {max_wal_size: 64MB}}}"


def plan(a_study=None, a_lab=None, host_facts=None, **more: Any):
    a_lab = a_lab or lab()
    known = {host: host_facts or facts() for host in a_lab.hosts}
    return make_plan(a_study or study(), a_lab, known, **{"run_id": "r1", "seed": 5, **more})


def errors(made):
    return {finding.rule: finding for finding in made.findings if finding.severity == "error"}


def test_cells_are_arms_by_points_by_hosts_by_repeats():
    made = plan(
        study(
            "a: {}\nb: {}",
            "w: {tool: fio, parameters: {size: 64MiB}, sweep: {iodepth: [1, 2]}}\nc: {tool: sysbench-cpu}",
        ),
        lab("n1", "n2"),
    )
    assert len(made.cells) == 2 * 3 * 2 * 3
    assert len({cell.id for cell in made.cells}) == len(made.cells)
    assert Counter(cell.block for cell in made.cells) == {1: 12, 2: 12, 3: 12}
    assert all(cell.block == cell.repeat for cell in made.cells)


def test_blocks_follow_each_other_and_hosts_stay_together_in_a_block():
    made = plan(study("a: {}\nb: {}\nc: {}"), lab("n1", "n2", "n3"))
    assert [cell.block for cell in made.cells] == sorted(cell.block for cell in made.cells)
    for block in (1, 2, 3):
        hosts = [cell.host for cell in made.cells if cell.block == block]
        assert len([h for i, h in enumerate(hosts) if i == 0 or hosts[i - 1] != h]) == 3


def test_the_order_is_the_documented_shuffle():
    made = plan(study("a: {}\nb: {}\nc: {}"), lab("n1", "n2"), seed=42)
    rng = random.Random(42)
    expected = []
    for _ in range(3):
        hosts = ["n1", "n2"]
        rng.shuffle(hosts)
        for host in hosts:
            arms = ["a", "b", "c"]
            rng.shuffle(arms)
            expected += [(host, arm) for arm in arms]
    assert [(cell.host, cell.arm) for cell in made.cells] == expected


def test_the_same_arguments_give_the_same_plan_and_another_seed_another_order():
    arms = study("\n".join(f"a{i}: {{}}" for i in range(6)).replace("a0", "a"))
    assert plan(arms) == plan(arms)
    assert [c.id for c in plan(arms).cells] != [c.id for c in plan(arms, seed=6).cells]


def test_steps_of_all_repeats_are_equal_and_arms_differ_in_the_path_only():
    made = plan(study("a: {}\nb: {}", "w: {tool: fio, parameters: {size: 64MiB}}\np: {tool: pgbench}"))
    by_arm = {}
    for cell in made.cells:
        text = "\n".join(step.model_dump_json() for step in cell.steps)
        by_arm.setdefault((cell.workload, cell.arm), set()).add(text)
    assert all(len(texts) == 1 for texts in by_arm.values())
    for workload in ("w", "p"):
        one, two = by_arm[workload, "a"].pop(), by_arm[workload, "b"].pop()
        if workload == "p":
            one, two = (re.sub(r"/s-[0-9a-f]{6}\b", "/s", text) for text in (one, two))
        assert one.replace("/arms/r1/a", "/arms/r1/b") == two


def test_a_plan_survives_json():
    made = plan(load_study("quickstart").study, host_facts=facts())
    assert Plan.model_validate_json(made.model_dump_json()) == made


def test_only_the_first_cell_of_a_layout_counts_the_prefill():
    made = plan(study(workloads="w: {tool: fio, parameters: {size: 64MiB}, sweep: {rw: [read, randread]}}"))
    first, *others = made.cells
    assert first.bytes_written == 64 << 20
    assert [cell.bytes_written for cell in others] == [0] * 5
    assert first.estimate_s > max(cell.estimate_s for cell in others)
    assert {cell.deadline_s for cell in made.cells} == {3 * first.estimate_s + 60}
    assert made.estimate_s == pytest.approx(sum(cell.estimate_s for cell in made.cells))


def test_disk_counts_shared_layouts_once_and_passing_data_by_their_largest():
    made = plan(
        study(
            workloads="x: {tool: fio, parameters: {size: 1GiB}, sweep: {bs: [4k, 8k]}}\n"
            "y: {tool: fio, parameters: {size: 2GiB}}\n"
            "z: {tool: sysbench-fileio, sweep: {total_size: [1GiB, 3GiB]}, parameters: {num: 1}}"
        )
    )
    assert made.arms[0].disk_needed_bytes == (1 + 2 + 3) * GIB


def test_arms_on_one_file_system_share_its_space():
    arms = "a: {}\nb: {}"
    workloads = "w: {tool: fio, parameters: {size: 4GiB}}"
    assert errors(plan(study(arms, workloads), host_facts=facts(free=9 * GIB))) == {}
    found = errors(plan(study(arms, workloads), host_facts=facts(free=8 * GIB)))
    assert "8.0GiB needed on / (a, b) and 8GiB free" in found["disk-space"].message
    elsewhere = facts(free=5 * GIB, paths={"/mnt/b": path("/mnt/b", "/mnt/b", 5 * GIB)})
    assert errors(plan(study("a: {}\nb: {storage: {path: /mnt/b}}", workloads), host_facts=elsewhere)) == {}
    same = facts(free=5 * GIB, paths={"/mnt/b": path("/mnt/b", "/", 5 * GIB)})
    assert set(errors(plan(study("a: {}\nb: {storage: {path: /mnt/b}}", workloads), host_facts=same))) == {"disk-space"}


def test_optional_arms_take_the_space_that_is_left():
    arms = "o1: {optional: true}\na: {}\no2: {optional: true}"
    made = plan(study(arms, "w: {tool: fio, parameters: {size: 4GiB}}"), host_facts=facts(free=9 * GIB))
    assert [arm.name for arm in made.arms] == ["o1", "a"]
    assert [(left.arm, left.host) for left in made.left_out] == [("o2", "node1")]
    assert "12.0GiB needed" in made.left_out[0].reason
    assert refusal(made) is None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"uid": 1000, "sudo": False}, "a loop file system needs root, and ann cannot become root"),
        ({"loop": False}, "no loop devices: no /dev/loop-control"),
        ({"free": GIB // 2}, "needed on /"),
    ],
)
def test_an_optional_loop_arm_is_left_out_with_the_reason(more, reason):
    arms = "a: {}\nx: {storage: {kind: loop, filesystem: xfs, size: 512MiB}, optional: true}"
    made = plan(study(arms), host_facts=facts(**more))
    assert [arm.name for arm in made.arms] == ["a"]
    assert reason in made.left_out[0].reason
    assert refusal(made) is None
    required = plan(study(arms.replace(", optional: true", "")), host_facts=facts(**more))
    assert reason in str(refusal(required))


def test_a_loop_file_must_hold_the_data():
    arms = "a: {}\nx: {storage: {kind: loop, filesystem: xfs, size: 512MiB}}"
    assert errors(plan(study(arms, "w: {tool: fio, parameters: {size: 400MiB}}"))) == {}
    found = errors(plan(study(arms, "w: {tool: fio, parameters: {size: 420MiB}}")))
    assert found["loop-too-small"].where == "x on node1"


def test_direct_io_decides_over_the_arm_and_not_over_the_study():
    without = facts(paths={SHM: path(SHM, SHM, GIB, direct_io=False)})
    made = plan(study("a: {}\nm: {storage: {path: /dev/shm}, optional: true}"), host_facts=without)
    assert made.left_out[0].reason == f"{SHM} on node1 does not take direct I/O (O_DIRECT)"
    assert refusal(made) is None
    refused = errors(plan(study("a: {}\nm: {storage: {path: /dev/shm}}"), host_facts=without))
    assert refused["no-direct-io"].where == "m on node1"
    fault = study("a: {optional: true}", "w: {tool: fio, parameters: {size: 64MiB, ioengine: psync, iodepth: 4}}")
    assert errors(plan(fault))["fio-sync-iodepth"].where == "w/default"


def test_size_auto_follows_each_hosts_memory():
    a_lab = lab("big", "small")
    known = {"big": facts(ram=16 * GIB), "small": facts(ram=4 * GIB)}
    a_study = study(workloads="w: {tool: fio, parameters: {direct: false, ioengine: psync}}")
    made = make_plan(a_study, a_lab, known, run_id="r1", seed=1)
    assert {(cell.host, cell.parameters["size"]) for cell in made.cells} == {("big", 32 * GIB), ("small", 8 * GIB)}
    notes = [f"{f.where}: {f.message}" for f in made.findings if f.rule == "resolved"]
    assert notes == [f"w/default: size auto is {32 * GIB} on big", f"w/default: size auto is {8 * GIB} on small"]


def test_a_tool_that_root_can_install_is_a_note():
    made = plan(host_facts=facts(missing=("fio",)))
    assert refusal(made) is None
    assert ("to-install", "fio will be installed") in {(f.rule, f.message) for f in made.findings}


def test_a_tool_that_nobody_can_install_refuses_or_leaves_the_workload_out():
    poor = facts(missing=("fio",), sudo=False)
    text = "fio missing, and ann cannot install fio without root"
    assert text in errors(plan(host_facts=poor))["missing-tool"].message
    two = study(workloads="w: {tool: fio, parameters: {size: 64MiB}, optional: true}\nc: {tool: sysbench-cpu}")
    made = plan(two, host_facts=poor)
    assert refusal(made) is None
    assert {cell.workload for cell in made.cells} == {"c"}
    assert [f.message for f in made.findings if f.rule == "workload-left-out"] == [f"workload w is left out: {text}"]
    alone = study(workloads="w: {tool: fio, parameters: {size: 64MiB}, optional: true}")
    assert set(errors(plan(alone, host_facts=poor))) == {"no-cells"}


def test_an_old_tool_is_refused():
    found = errors(plan(host_facts=facts(versions={"fio": "2.2.10"})))
    assert found["missing-tool"].message == "w: fio 2.2.10 is older than fio 3.0 or later"
    assert errors(plan(host_facts=facts(versions={"fio": "fio-3.0"}))) == {}


def test_a_place_without_permission_or_facts_is_refused():
    closed = facts(paths={"/mnt/b": path("/mnt/b", "/", GIB, writable=False)})
    arms = study("a: {}\nb: {storage: {path: /mnt/b}}")
    assert errors(plan(arms, host_facts=closed))["not-writable"].message == "/mnt/b is not writable for ann"
    assert "no-facts" in errors(plan(arms))
    assert errors(make_plan(study(), lab(), {}, run_id="r1", seed=1))["no-facts"].where == "node1"


def test_unsafe_and_long_working_directories_are_refused():
    def at(workdir):
        known = facts(paths={workdir: path(workdir, "/", 99 * GIB)})
        return errors(plan(study(workloads=PG), lab(workdir=workdir), known))

    assert at("/srv/labctl") == {}
    # Without lab_workdir the name of the user is in the path.
    assert "path-characters" in errors(plan(study(), host_facts=facts(user="DOMAIN\\ann")))
    longest = MAX_SOCKET_DIR - len("/arms/r1/s-123456")
    assert at("/" + "x" * (longest - 1)) == {}
    assert set(at("/" + "x" * longest)) == {"socket-path"}


def test_without_the_baseline_the_plan_is_refused():
    arms = "a: {storage: {path: /nowhere}, optional: true}\nb: {}"
    assert "is left out" in errors(plan(study(arms)))["no-baseline"].message
    assert "is not among the chosen arms" in errors(plan(study("a: {}\nb: {}"), arms=["b"]))["no-baseline"].message


def test_arms_and_repeats_can_be_chosen():
    made = plan(study("a: {}\nb: {}\nc: {}"), arms=["c", "a"], repeats=2)
    assert [arm.name for arm in made.arms] == ["a", "c"]
    assert len(made.cells) == 4
    assert [f.rule for f in made.findings if f.severity == "warning"] == ["few-repeats"]
    with pytest.raises(LabctlError, match="'d' is not an arm") as caught:
        plan(arms=["d"])
    assert caught.value.code == ExitCode.USAGE


def test_workloads_of_some_arms_only():
    made = plan(study("a: {}\nb: {}", "w: {tool: sysbench-cpu, only_arms: [b]}\nv: {tool: sysbench-cpu}"))
    assert {(cell.arm, cell.workload) for cell in made.cells} == {("b", "w"), ("a", "v"), ("b", "v")}


def test_a_refusal_names_every_reason():
    two = study(
        workloads="w: {tool: fio, parameters: {size: 64MiB, bs: 3000}}\nv: {tool: pgbench, parameters: {jobs: 9}}"
    )
    refused = refusal(plan(two))
    assert refused is not None
    assert refused.code == ExitCode.GUARD_REFUSED
    assert "fio-size-bs: w/default: " in str(refused)
    assert "pgbench-jobs: v/default: " in str(refused)


def test_equal_findings_of_many_places_become_one():
    points = "w: {tool: fio, parameters: {size: 64MiB, runtime: 2s}, sweep: {iodepth: [1, 2, 3, 4, 5, 6]}}"
    (short,) = [f for f in plan(study("a: {}\nb: {}", points)).findings if f.rule == "short-runtime"]
    assert short.where == "w/iodepth-1, w/iodepth-2, w/iodepth-3, w/iodepth-4 and 2 more"


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("all", ["n1", "n2", "db1"]), ("n1", ["n1"]), ("n*", ["n1", "n2"]), ("web", ["n2", "db1"]),
        ("db1,n1", ["n1", "db1"]), ("all,!web", ["n1"]), ("!n1", ["n2", "db1"]), (" n1 , n2 ", ["n1", "n2"]),
    ],
)  # fmt: skip
def test_host_patterns(pattern, hosts):
    assert select_hosts(pattern, lab("n1", "n2", "db1", groups={"web": ("n2", "db1")})) == hosts


def test_a_pattern_that_fits_nothing_is_an_error():
    with pytest.raises(LabctlError, match="hosts 'n3' fit no host and no group"):
        plan(study("a: {hosts: n3}"))


def test_cell_ids_are_safe_and_short_for_any_host_name():
    ids = {
        cell_id("w" * 40, "p" * 48, "a" * 40, host, 1000) for host in ("x" * 253, "x" * 252, "fe80::1%eth0", "a/b", "ä")
    }
    assert len(ids) == 5
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]+", i) and len(i) <= 200 for i in ids)
    assert cell_id("w", "default", "a", "node-1.example.org", 2) == "w.default.a.node-1.example.org.r2"


def test_host_vars_are_what_the_roles_take():
    arms = "a: {}\nx: {storage: {kind: loop, filesystem: xfs, size: 2GiB}, hosts: n1}"
    made = plan(
        study(arms, PG), lab("n1", "n2", workdir="/srv/l"), facts(paths={"/srv/l": path("/srv/l", "/", 99 * GIB)})
    )
    variables: Any = host_vars(made, "r1")
    assert variables["n1"]["bench_tools_required"] == ["postgresql", "xfsprogs"]
    assert variables["n1"]["bench_storage_arms"] == [
        {"name": "a", "kind": "directory", "path": "/srv/l/arms/r1/a"},
        {
            "name": "x", "kind": "loop", "path": "/srv/l/arms/r1/x", "filesystem": "xfs", "size_bytes": 2 * GIB,
            "image": "/srv/l/arms/r1/x.img",
        },
    ]  # fmt: skip
    assert [arm["name"] for arm in variables["n2"]["bench_storage_arms"]] == ["a"]
    (instance,) = variables["n2"]["bench_postgresql_instances"]
    assert instance["data_dir"] == "/srv/l/arms/r1/a/pg"
    start = next(step for step in made.cells[0].steps if step.name == "pg-start")
    sockets = {i["socket_dir"] for i in variables["n1"]["bench_postgresql_instances"]}
    assert any(f"-k {socket} " in " ".join(start.argv) for socket in sockets)


def test_the_probe_is_asked_for_what_the_plan_needs():
    quick = load_study("quickstart").study
    assert paths_to_probe(quick, lab()) == (SHM, VAR_TMP)
    assert paths_to_probe(quick, lab("n1", workdir="/srv/l")) == (SHM, "/srv/l")
    assert {"fio", "sysbench", "pgbench", "initdb", "mkfs.xfs"} <= set(tools_to_probe(quick))


def test_seeds():
    assert choose_seed(study(), 9) == 9
    assert choose_seed(study(seed=4)) == 4
    assert len({choose_seed(study()) for _ in range(5)}) > 1


def test_the_quickstart_fits_small_machines():
    small = facts(free=2 * GIB, sudo=False, ram=GIB, paths={SHM: path(SHM, SHM, 64 << 20)})
    made = plan(load_study("quickstart").study, host_facts=small)
    assert refusal(made) is None
    assert [(arm.name, arm.noise) for arm in made.arms] == [("workdir", False), ("workdir-again", True), ("shm", False)]
    assert made.estimate_s < 8 * 60
