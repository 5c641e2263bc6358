"""The tools that are installed here, run for real: what they print is read, and its arithmetic is right."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from pathlib import Path

import pytest

from labctl.parsers.registry import detect
from tests.conftest import find_postgresql_program, find_program
from tests.unit.parser_values import metrics, row, series, value


def run(*argv, cwd, ok=True, **options):
    done = subprocess.run([str(a) for a in argv], cwd=cwd, capture_output=True, check=False, timeout=120, **options)
    assert (done.returncode == 0) is ok, done.stderr
    return done


def parsed(data):
    found = detect(data)
    assert found is not None
    return found.parse(data)


@pytest.mark.real(what="fio", where="localhost")
@pytest.mark.needs("fio")
def test_fio(tmp_path):
    job = ("--name=j", "--rw=randrw", "--bs=4k", "--size=4m", "--ioengine=psync", f"--directory={tmp_path}")
    done = run(find_program("fio"), *job, "--output-format=json+", cwd=tmp_path)
    result = parsed(done.stdout)
    assert not result.failed
    assert result.tool_version
    total = 0.0
    for operation in ("read", "write"):
        done_bytes = value(result, "bytes", "total", operation, job="j")
        seconds = value(result, "runtime", "total", operation, job="j")
        operations = value(result, "operations", "total", operation, job="j")
        assert done_bytes == operations * 4096
        assert value(result, "bandwidth", "mean", operation, job="j") == pytest.approx(done_bytes / seconds, rel=1e-3)
        assert value(result, "iops", "mean", operation, job="j") == pytest.approx(operations / seconds, rel=1e-3)
        total += done_bytes
    assert total == 4 * 1024**2
    assert {h.operation: sum(h.counts) for h in result.histograms} == {
        operation: value(result, "operations", "total", operation, job="j") for operation in ("read", "write")
    }


@pytest.mark.real(what="fio", where="localhost")
@pytest.mark.needs("fio")
def test_fio_on_a_full_device(tmp_path):
    job = ("--name=j", "--rw=write", "--bs=4k", "--size=1m", "--ioengine=psync", "--filename=/dev/full")
    done = run(find_program("fio"), *job, "--output-format=json", cwd=tmp_path, ok=False)
    result = parsed(done.stdout + done.stderr)
    assert result.failed
    assert "No space left on device" in (result.words or "")
    assert not any(r.status.value == "ok" for r in result.measurements)


@pytest.mark.real(what="sysbench-fileio", where="localhost")
@pytest.mark.needs("sysbench")
def test_sysbench_fileio(tmp_path):
    base = (find_program("sysbench"), "fileio", "--file-total-size=4M", "--file-num=2")
    assert parsed(run(*base, "prepare", cwd=tmp_path).stdout).measurements == []
    done = run(*base, "--file-test-mode=rndrw", "--time=2", "--report-interval=1", "run", cwd=tmp_path)
    result = parsed(done.stdout)
    for operation in ("read", "write"):
        rate = value(result, "iops", "mean", operation)
        assert value(result, "bandwidth", "mean", operation) == pytest.approx(rate * 16384, rel=1e-2)
    assert series(result.series, "bandwidth", "read")
    missing = parsed(run(*base, "cleanup", cwd=tmp_path).stdout)
    assert missing.measurements == []
    failed = parsed(run(*base, "--file-test-mode=rndrd", "run", cwd=tmp_path, ok=False).stdout)
    assert failed.failed
    assert "FATAL" in (failed.words or "")


@pytest.mark.real(what="sysbench-cpu", where="localhost")
@pytest.mark.needs("sysbench")
def test_sysbench_cpu(tmp_path):
    result = parsed(run(find_program("sysbench"), "cpu", "--time=1", "run", cwd=tmp_path).stdout)
    rate = value(result, "events_rate", "mean")
    assert rate == pytest.approx(value(result, "operations", "total") / value(result, "runtime", "total"), rel=2e-2)
    assert metrics(result) == {"events_rate", "runtime", "operations", "latency"}


@pytest.fixture
def database():
    """A throw-away PostgreSQL on a socket of its own; runs as an ordinary user even where the tests are root.

    In a directory of its own, because pytest's is closed to that user.
    """
    with tempfile.TemporaryDirectory(prefix="labctl-pg-") as name:
        top = Path(name)
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PGHOST": name, "PGDATABASE": "postgres"}
        options = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(top, user.pw_uid, user.pw_gid)
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            environment["PGUSER"] = "postgres"

        def tool(program, *argv, ok=True):
            return run(find_postgresql_program(program), *argv, cwd=top, ok=ok, env=environment, **options)

        data = top / "data"
        tool("initdb", "-D", data, "-A", "trust", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories={top} -c fsync=off"
        tool("pg_ctl", "-D", data, "-w", "-l", top / "pg.log", "-o", settings, "start")
        yield tool
        tool("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


@pytest.mark.real(what="pgbench", where="localhost")
@pytest.mark.needs("postgresql")
def test_pgbench(database):
    load = parsed(database("pgbench", "-i", "-q", "-s", "1").stderr)
    parts = [r.value for r in load.measurements if r.operation == "initialise" and r.component != "total"]
    assert value(load, "runtime", "total", "initialise") == pytest.approx(sum(parts), abs=0.05)
    done = database("pgbench", "-n", "-c", "2", "-T", "2", "-P", "1", "-r")
    result = parsed(done.stdout)
    rate = value(result, "transactions_rate", "mean")
    assert value(result, "latency", "mean") == pytest.approx(2 / rate, rel=0.2)
    assert value(result, "latency", "mean", "statement", "END;") > 0
    assert series(parsed(done.stderr).series, "transactions_rate")
    failed = parsed(database("pgbench", "-n", "-t", "1", "-b", "tpcb-like", "nosuchdatabase", ok=False).stderr)
    assert failed.failed
    assert "nosuchdatabase" in (failed.words or "")


@pytest.mark.real(what="fio", where="localhost")
@pytest.mark.needs("fio")
def test_fio_without_clocks(tmp_path):
    job = ("--name=j", "--rw=read", "--bs=4k", "--size=1m", "--ioengine=psync", f"--directory={tmp_path}")
    result = parsed(run(find_program("fio"), *job, "--gtod_reduce=1", "--output-format=json", cwd=tmp_path).stdout)
    assert row(result, "latency", "mean", "read", job="j").value is None
    assert value(result, "bytes", "total", "read", job="j") == 1024**2
