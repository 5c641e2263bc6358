"""What the workloads render, run with the real tools."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from labctl.parsers.base import Metric
from labctl.parsers.registry import detect
from labctl.workloads.base import Site
from labctl.workloads.fio import FIO, FioParameters
from labctl.workloads.pgbench import PGBENCH, PgbenchParameters
from labctl.workloads.sysbench_cpu import SYSBENCH_CPU, SysbenchCpuParameters
from labctl.workloads.sysbench_fileio import SYSBENCH_FILEIO, SysbenchFileioParameters
from tests.real.step_runner import database_user, give, program, run_steps


@pytest.fixture
def place():
    """A short directory on a disk, open to the database user: socket paths are limited, tmpfs may lack O_DIRECT."""
    with tempfile.TemporaryDirectory(prefix="labctl-w-", dir="/var/tmp") as name:
        root = Path(name)
        root.chmod(0o711)
        for part in ("data", "bundle", "sock"):
            (root / part).mkdir()
            (root / part).chmod(0o711)
        yield root


def site(place: Path) -> Site:
    return Site(str(place / "data"), str(place / "sock"), seed=11)


def bundle(place: Path, name: str) -> Path:
    path = place / "bundle" / name
    path.mkdir()
    path.chmod(0o711)
    return path


def assert_given(tool, params, output: str) -> None:
    """The figures that a study may ask for are those that the parser finds."""
    found: dict[tuple[Metric, str], set[str]] = {}
    parser = detect(output.encode())
    assert parser is not None
    for row in parser.parse(output.encode()).measurements:
        if row.component == "total" and row.value is not None:
            found.setdefault((row.metric, row.operation), set()).add(row.statistic)
    for pair, statistics in tool.gives(params).items():
        assert statistics <= found.get(pair, set()), pair


@pytest.mark.real(what="fio", where="localhost")
@pytest.mark.needs("fio")
@pytest.mark.parametrize("rw", ["randread", "write", "randrw"])
def test_fio_prefills_the_very_files_that_it_measures(place, rw):
    params = FioParameters(rw=rw, bs=4096, size=8 << 20, numjobs=2, iodepth=4, runtime=1.0, ramp=0.0, log_interval=0.1)
    first = run_steps(FIO.render(params, site(place)), bundle(place, "a"))
    files = {p.name: (p.stat().st_size, p.stat().st_ino) for p in (place / "data").iterdir()}
    prefilled = json.loads(first["fio-prefill"].text("fio.json"))
    assert prefilled["jobs"][0]["write"]["io_bytes"] == 2 * params.file_size
    assert sorted(size for size, _ in files.values()) == [0, params.file_size, params.file_size]

    assert_given(FIO, params, first["fio-run"].text("fio.json"))
    report = json.loads(first["fio-run"].text("fio.json"))
    assert [job["error"] for job in report["jobs"]] == [0]
    job = report["jobs"][0]
    directions = {"randread": ["read"], "write": ["write"], "randrw": ["read", "write"]}[rw]
    assert [d for d in ("read", "write") if job[d]["io_bytes"]] == directions
    for direction in directions:
        assert set(job[direction]["clat_ns"]["percentile"]) == {f"{p:.6f}" for p in params.percentiles}
        assert job[direction]["clat_ns"]["bins"]
    run = next(step for step in FIO.render(params, site(place)) if step.phase == "run")
    assert all((first["fio-run"].directory / name).stat().st_size for name in run.outputs)

    second = run_steps(FIO.render(params, site(place)), bundle(place, "b"))
    assert second["fio-prefill"].rc is None
    assert files == {p.name: (p.stat().st_size, p.stat().st_ino) for p in (place / "data").iterdir()}


@pytest.mark.real(what="fio", where="localhost")
@pytest.mark.needs("fio")
def test_fio_leaves_ramp_out_of_the_figures(place):
    params = FioParameters(rw="randread", size=8 << 20, runtime=1.0, ramp=1.0)
    ran = run_steps(FIO.render(params, site(place)), bundle(place, "a"))
    report = json.loads(ran["fio-run"].text("fio.json"))
    assert report["jobs"][0]["job_runtime"] == pytest.approx(1000, abs=300)


@pytest.mark.real(what="fio", where="localhost")
@pytest.mark.needs("fio")
def test_fio_holds_a_rate_limit(place):
    params = FioParameters(rw="randwrite", size=8 << 20, iodepth=4, runtime=2.0, ramp=0.0, rate_iops=100, fsync=10)
    ran = run_steps(FIO.render(params, site(place)), bundle(place, "a"))
    job = json.loads(ran["fio-run"].text("fio.json"))["jobs"][0]
    assert job["write"]["iops"] == pytest.approx(100, rel=0.2)
    assert job["sync"]["total_ios"] > 0


@pytest.mark.real(what="sysbench-fileio", where="localhost")
@pytest.mark.needs("sysbench")
@pytest.mark.parametrize("mode", ["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"])
def test_sysbench_fileio_reads_and_writes_as_said_and_leaves_nothing(place, mode):
    params = SysbenchFileioParameters(test_mode=mode, num=2, total_size=4 << 20, block_size=16384, time=1.0)
    ran = run_steps(SYSBENCH_FILEIO.render(params, site(place)), bundle(place, "a"))
    report = ran["fileio-run"].text("stdout")
    rates = {
        line.split(":")[0].strip(): float(line.split(":")[1])
        for line in report.splitlines()
        if line.strip().startswith(("reads/s", "writes/s"))
    }
    assert_given(SYSBENCH_FILEIO, params, report)
    operations = {op for _, op in SYSBENCH_FILEIO.gives(params)} - {"", "sync"}
    assert {"read" if name == "reads/s" else "write" for name, rate in rates.items() if rate > 0} == operations
    assert "99th percentile" in report
    assert list((place / "data").iterdir()) == []


@pytest.mark.real(what="sysbench-fileio", where="localhost")
@pytest.mark.needs("sysbench")
def test_sysbench_fileio_cleans_up_after_a_failure(place):
    steps = SYSBENCH_FILEIO.render(
        SysbenchFileioParameters(num=2, total_size=4 << 20, block_size=16384, time=1.0), site(place)
    )
    broken = [
        s.model_copy(update={"argv": (*s.argv[:-1], "--threads=0", "run")}) if s.phase == "run" else s for s in steps
    ]
    with pytest.raises(AssertionError, match="fileio-run ended with"):
        run_steps(broken, bundle(place, "a"))
    assert list((place / "data").iterdir()) == []


@pytest.mark.real(what="sysbench-cpu", where="localhost")
@pytest.mark.needs("sysbench")
def test_sysbench_cpu_reports_events(place):
    steps = SYSBENCH_CPU.render(SysbenchCpuParameters(time=1.0, threads=2, max_prime=2000), site(place))
    report = run_steps(steps, bundle(place, "a"))["cpu-run"].text("stdout")
    assert "Number of threads: 2" in report
    assert_given(SYSBENCH_CPU, SysbenchCpuParameters(), report)
    assert float(report.split("events per second:")[1].split()[0]) > 0


@pytest.fixture
def cluster(place):
    data = place / "data" / "pg"
    data.mkdir()
    for path in (data, place / "sock"):
        give(path, database_user())
    subprocess.run(
        [program("initdb"), "-D", data, "--auth=trust", "--no-sync"],
        user=database_user(),
        cwd=place,
        env={**os.environ, "LC_ALL": "C"},
        check=True,
        capture_output=True,
    )
    return data


@pytest.mark.real(what="pgbench", where="localhost")
@pytest.mark.needs("postgresql")
def test_pgbench_runs_twice_and_leaves_no_server(place, cluster):
    params = PgbenchParameters(
        scale=1,
        clients=2,
        time=2.0,
        settings={"shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "32MB"},
    )
    steps = PGBENCH.render(params, site(place))
    for name in ("a", "b"):
        ran = run_steps(steps, bundle(place, name))
        report = ran["pgbench-run"].text("stdout")
        assert "number of clients: 2" in report
        assert_given(PGBENCH, params, report)
        assert "query mode: prepared" in report
        assert float(report.split("tps = ")[1].split()[0]) > 0
        assert "progress: 1.0 s" in ran["pgbench-run"].text("stderr")
        assert "100000 of 100000 tuples" in ran["pgbench-load"].text("stderr")
        assert not (cluster / "postmaster.pid").exists()


@pytest.mark.real(what="pgbench", where="localhost")
@pytest.mark.needs("postgresql")
def test_pgbench_copes_with_a_server_that_a_dead_agent_left(place, cluster):
    steps = PGBENCH.render(
        PgbenchParameters(scale=1, clients=1, time=1.0, settings={"shared_buffers": "16MB"}), site(place)
    )
    start = [step for step in steps if step.name in {"pg-start", "pg-create"}]
    run_steps(start, bundle(place, "left"))
    assert (cluster / "postmaster.pid").exists()
    ran = run_steps(steps, bundle(place, "a"))
    assert ran["pg-stop-leftover"].rc == 0
    assert not (cluster / "postmaster.pid").exists()


@pytest.mark.real(what="pgbench", where="localhost")
@pytest.mark.needs("postgresql")
def test_pgbench_stops_the_server_after_a_failed_run(place, cluster):
    steps = PGBENCH.render(
        PgbenchParameters(scale=1, clients=1, time=1.0, settings={"shared_buffers": "16MB"}), site(place)
    )
    broken = [s.model_copy(update={"argv": (*s.argv[:-1], "nosuch")}) if s.name == "pgbench-run" else s for s in steps]
    with pytest.raises(AssertionError, match="nosuch"):
        run_steps(broken, bundle(place, "a"))
    assert not (cluster / "postmaster.pid").exists()
