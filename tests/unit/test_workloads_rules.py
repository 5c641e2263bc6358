"""Lint, resolution, estimates and rendering of the workloads, without the tools."""

import configparser
import dataclasses
import re

import pytest
from pydantic import ValidationError

from labctl.study.expand import expand
from labctl.study.load import load_study
from labctl.workloads.base import Site, Surroundings
from labctl.workloads.fio import FIO, FioParameters
from labctl.workloads.pgbench import PGBENCH, PgbenchParameters
from labctl.workloads.registry import TOOLS
from labctl.workloads.sysbench_fileio import SYSBENCH_FILEIO, SysbenchFileioParameters

GIB = 1 << 30
AROUND = Surroundings(ram_bytes=8 * GIB, direct_io=True, storage="/data on node1")
SITE = Site("/data/a", "/run/a", 7)


def rules(tool, params, around=AROUND):
    return {found.rule: found.severity for found in tool.lint(params, around)}


def job(step):
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(step.files["job.fio"])
    return dict(parser[parser.sections()[0]])


@pytest.mark.parametrize("name", TOOLS)
def test_rendering_for_two_arms_differs_in_the_paths_only(name):
    tool = TOOLS[name]
    one, two = Site("/data/one", "/sock/one", 7), Site("/mnt/another", "/sock/b", 7)
    params = tool.resolve(tool.parameters(), AROUND)
    first = "\n".join(step.model_dump_json() for step in tool.render(params, one))
    second = "\n".join(step.model_dump_json() for step in tool.render(params, two))
    assert first.replace("/data/one", "/mnt/another").replace("/sock/one", "/sock/b") == second
    assert (first != second) == tool.uses_storage


@pytest.mark.parametrize("name", TOOLS)
def test_the_seed_reaches_the_tool(name):
    tool = TOOLS[name]
    params = tool.resolve(tool.parameters(), AROUND)
    runs = [
        next(s for s in tool.render(params, dataclasses.replace(SITE, seed=seed)) if s.phase == "run")
        for seed in (7, 8)
    ]
    assert (
        runs[0].model_dump_json().replace("seed=7", "seed=8") == runs[1].model_dump_json() != runs[0].model_dump_json()
    )


@pytest.mark.parametrize("name", TOOLS)
def test_steps_are_well_formed(name):
    tool = TOOLS[name]
    params = tool.resolve(tool.parameters(), AROUND)
    steps = tool.render(params, SITE)
    assert len({step.name for step in steps}) == len(steps)
    assert [step.phase for step in steps].count("run") == 1
    for step in steps:
        assert re.fullmatch(r"[a-z0-9-]+", step.name)
        assert step.argv[0] in tool.binaries
        assert step.timeout_s > 0
        assert (step.phase == "cleanup") == step.always
    run = next(step for step in steps if step.phase == "run")
    assert run.timeout_s > tool.estimate(params).run_s
    assert run.outputs


@pytest.mark.parametrize(
    ("changes", "around", "expected"),
    [
        ({}, {}, {}),
        ({"ioengine": "psync", "iodepth": 2}, {}, {"fio-sync-iodepth": "error"}),
        ({"ioengine": "psync", "iodepth": 1}, {}, {}),
        ({"ioengine": "io_uring", "iodepth": 64}, {}, {}),
        ({"direct": False, "size": 16 * GIB}, {}, {"fio-libaio-buffered": "error"}),
        ({"direct": False, "size": 16 * GIB, "ioengine": "psync"}, {}, {}),
        ({"direct": False, "size": 15 * GIB, "ioengine": "psync"}, {}, {"size-below-ram": "error"}),
        ({"direct": False, "size": 4 * GIB, "numjobs": 4, "ioengine": "psync"}, {}, {}),
        ({}, {"direct_io": False}, {"no-direct-io": "error"}),
        ({}, {"direct_io": None}, {}),
        ({"direct": False, "size": 16 * GIB, "ioengine": "psync"}, {"direct_io": False}, {}),
        ({"bs": 3000}, {}, {"fio-size-bs": "error"}),
        ({"runtime": 2.0}, {}, {"short-runtime": "warning"}),
    ],
)
def test_fio_lint(changes, around, expected):
    params = FioParameters(**({"size": GIB} | changes))
    assert rules(FIO, params, dataclasses.replace(AROUND, **around)) == expected


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({}, GIB),
        ({"bs": 3 << 20}, 342 * (3 << 20)),
        ({"bs": 5000}, 214749 * 5000),
        ({"direct": False, "ioengine": "psync"}, 16 * GIB),
        ({"direct": False, "ioengine": "psync", "numjobs": 3}, 5462 << 20),
        ({"size": 4096}, 4096),
    ],
)
def test_fio_size_auto_is_resolved_to_what_lint_takes(changes, size):
    params = FIO.resolve(FioParameters(runtime=30.0, **changes), AROUND)
    assert params.size == size
    assert rules(FIO, params) == {}


def test_fio_size_must_be_resolved_before_use():
    with pytest.raises(ValueError, match="resolve the parameters first"):
        FIO.estimate(FioParameters())


def test_fio_prefill_has_the_layout_of_the_run():
    prefill, run = FIO.render(FioParameters(rw="randread", size=GIB, numjobs=4, bs=4096), SITE)
    layout = ("directory", "filename_format", "size", "numjobs", "direct")
    assert {key: job(prefill)[key] for key in layout} == {key: job(run)[key] for key in layout}
    assert (job(prefill)["rw"], job(prefill)["end_fsync"], job(prefill)["bs"]) == ("write", "1", str(1 << 20))
    assert prefill.creates == "/data/a/.fio-1073741824x4-direct.filled"


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        ({"rw": "write"}, True), ({"bs": 8192}, True), ({"iodepth": 9}, True), ({"size": 2 * GIB}, False),
        ({"numjobs": 2}, False), ({"direct": False}, False),
    ],
)  # fmt: skip
def test_fio_points_share_a_prefill_when_their_layout_is_equal(change, shared):
    markers = {FIO.render(FioParameters(**({"size": GIB} | c)), SITE)[0].creates for c in ({}, change)}
    assert (len(markers) == 1) == shared


def test_fio_writes_overwrite_and_reads_say_nothing_of_writing():
    assert job(FIO.render(FioParameters(rw="randwrite", size=GIB, fsync=4), SITE)[1])["overwrite"] == "1"
    read = job(FIO.render(FioParameters(rw="randread", size=GIB, fsync=4), SITE)[1])
    assert not {"overwrite", "fsync", "refill_buffers"} & set(read)


def test_fio_estimate_counts_limits_and_mixes():
    full = FIO.estimate(FioParameters(rw="write", size=GIB, runtime=10.0, ramp=0.0))
    assert (full.run_s, full.kept_bytes, full.prepare_bytes, full.run_bytes) == (11.0, GIB, GIB, 5_000_000_000)
    assert FIO.estimate(FioParameters(rw="read", size=GIB)).run_bytes == 0
    limited = FioParameters(rw="randrw", rwmixread=75, rate_iops=100, bs=4096, size=GIB, runtime=10.0, ramp=0.0)
    assert FIO.estimate(limited).run_bytes == 100 * 4096 * 10 // 4


@pytest.mark.parametrize(
    ("changes", "around", "expected"),
    [
        ({}, {}, {}),
        ({"extra_flags": ""}, {}, {"size-below-ram": "error"}),
        ({"extra_flags": "dsync", "total_size": 16 * GIB}, {}, {}),
        ({}, {"direct_io": False}, {"no-direct-io": "error"}),
        ({"io_mode": "mmap"}, {}, {"sysbench-mmap-direct": "error"}),
        ({"io_mode": "async", "extra_flags": "", "total_size": 16 * GIB}, {}, {"sysbench-async-buffered": "error"}),
        ({"num": 3}, {}, {"sysbench-size-blocks": "error"}),
        ({"time": 1.0}, {}, {"short-runtime": "warning"}),
    ],
)
def test_sysbench_fileio_lint(changes, around, expected):
    found = rules(SYSBENCH_FILEIO, SysbenchFileioParameters(**changes), dataclasses.replace(AROUND, **around))
    assert found == expected


def test_sysbench_fileio_gives_all_steps_the_same_file_options():
    steps = SYSBENCH_FILEIO.render(SysbenchFileioParameters(num=4, block_size=4096), SITE)
    options = [{word for word in step.argv if word.startswith("--file-")} for step in steps]
    assert options[0] == options[1] == options[2]
    assert {"--file-num=4", "--file-block-size=4096", "--file-extra-flags=direct"} <= options[0]
    assert {step.cwd for step in steps} == {SITE.data_dir}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"jobs": 5}, {"pgbench-jobs": "error"}),
        ({"time": 90.5}, {"pgbench-time": "error"}),
        ({"clients": 11}, {"pgbench-contention": "warning"}),
        ({"clients": 11, "builtin": "select-only"}, {}),
        ({"time": 5.0}, {"short-runtime": "warning"}),
    ],
)
def test_pgbench_lint(changes, expected):
    assert rules(PGBENCH, PgbenchParameters(**changes)) == expected


@pytest.mark.parametrize(
    ("settings", "wal"),
    [({}, 1024), ({"max_wal_size": "128MB"}, 128), ({"max_wal_size": "2GB"}, 2048), ({"max_wal_size": "64"}, 64)],
)
def test_pgbench_disk_counts_the_wal(settings, wal):
    kept = PGBENCH.estimate(PgbenchParameters(settings=settings)).kept_bytes
    assert kept == (wal + 64) << 20


@pytest.mark.parametrize("value", ["a b", "a'b", "$(reboot)", "a;b", "`x`", ""])
def test_pgbench_settings_cannot_reach_the_shell_of_pg_ctl(value):
    with pytest.raises(ValidationError):
        PgbenchParameters(settings={"work_mem": value})


def test_flat_parameters_are_scalars():
    flat = PgbenchParameters(settings={"shared_buffers": "1GB"}).flat()
    assert flat["settings.shared_buffers"] == "1GB"
    assert "rate" not in FioParameters().flat()
    assert FioParameters().flat()["percentiles"] == "50.0:90.0:95.0:99.0:99.9:99.99"


def test_figures_of_the_quickstart_are_given_by_every_workload_that_they_name():
    study = load_study("quickstart").study
    assert {workload.tool for workload in study.workloads.values()} == set(TOOLS)
    for figure in study.figures:
        points = expand(study.workloads[figure.workload])
        given = [point.tool.gives(point.parameters).get((figure.metric, figure.operation), ()) for point in points]
        assert any(figure.statistic in statistics for statistics in given)
