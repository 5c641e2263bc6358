"""Faults of the surroundings in a whole run: full disks, tools that fail, damaged records, unwritable places."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from labctl.normalise.record import normalise_record
from labctl.record.record import open_record
from labctl.report.write import write_report
from tests.real.run_support import PILOT, Bench, final_states, is_event, make_bench, remove

pytestmark = pytest.mark.needs("fio", "sysbench", "ansible")


@contextmanager
def small_filesystem(path: Path, size: str) -> Iterator[Path]:
    """A tmpfs that fills quickly."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path, *, leave: int) -> Path:
    """Fill a file system but for ``leave`` bytes."""
    ballast = path / "ballast"
    with ballast.open("wb") as handle:
        handle.write(b"\0" * max(0, shutil.disk_usage(path).free - leave))
    return ballast


@pytest.mark.needs("root")
@pytest.mark.real(what="fault:disk-full-on-target", where="localhost")
def test_target_that_fills_up_stops_the_run_with_the_tools_words_and_goes_on_later(tmp_path: Path) -> None:
    study = PILOT.replace("size: 4MiB", "size: 16MiB") + "max_equal_failures: 2\n"
    study = study.replace("  cpu:\n    tool: sysbench-cpu\n    parameters: {time: 1s, threads: 1}\n", "")
    bench = make_bench(tmp_path, study=study)
    with small_filesystem(bench.workdir, "128m"):
        with bench.running(*bench.run_arguments()) as running:
            running.until(is_event("stage_finished", stage="host"))
            ballast = fill(bench.workdir, leave=2 << 20)
            events = running.rest()
        assert running.process.returncode == 1
        failed = [event for event in events if event["event"] == "cell_finished"]
        assert failed
        assert all(event["status"] == "failed" for event in failed)
        assert all("space" in event["error"].lower() for event in failed)
        assert "space" in events[-1]["reason"].lower()
        record = bench.record()
        assert list(record.glob("raw/*/a1/result.json")), "the evidence of a failure came home"
        ballast.unlink()
        resumed = bench.labctl("resume", "--retry-failed", str(record), "--json")
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        assert {state for state, _ in final_states(record).values()} == {"done"}


@pytest.mark.needs("root")
@pytest.mark.real(what="fault:disk-full-on-controller", where="localhost")
def test_controller_that_fills_up_loses_nothing(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, study=PILOT)
    with small_filesystem(bench.records, "16m"):
        with bench.running(*bench.run_arguments()) as running:
            running.until(is_event("cell_finished"))
            ballast = fill(bench.records, leave=0)
            running.rest()
            assert running.process.stderr is not None
            words = running.process.stderr.read() + json.dumps(running.events[-1])
        assert running.process.returncode == 1
        assert "No space left on device" in words
        assert "Traceback" not in words
        ballast.unlink()
        record = bench.record()
        resumed = bench.labctl("resume", str(record), "--json")
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        assert {state for state, _ in final_states(record).values()} == {"done"}


@pytest.mark.real(what="fault:unwritable-records", where="localhost")
def test_records_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, study=PILOT)
    bench.records.write_text("a file, not a directory")
    result = bench.labctl(*[word for word in bench.run_arguments() if word != "--json"])
    assert result.returncode == 1
    assert str(bench.records) in result.stderr
    assert "next:" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("finished")
    bench = make_bench(root, study=PILOT)
    result = bench.labctl(*bench.run_arguments())
    assert result.returncode == 0, result.stdout + result.stderr
    yield bench
    remove(root)


def _cut(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def _pick(record: Path, pattern: str) -> Path:
    return min(record.glob(pattern))


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "record.json cut": lambda record: _cut(record / "record.json", 0.5),
    "ledger cut": lambda record: _cut(record / "ledger.jsonl", 0.7),
    "ledger gone": lambda record: (record / "ledger.jsonl").unlink(),
    "lab.json cut": lambda record: _cut(record / "lab.json", 0.5),
    "study gone": lambda record: (record / "study.yml").unlink(),
    "fio output cut": lambda record: _cut(_pick(record, "raw/fio*/a1/steps/*run*/fio.json"), 0.6),
    "fio output empty": lambda record: _pick(record, "raw/fio*/a1/steps/*run*/fio.json").write_bytes(b""),
    "fio output rubbish": lambda record: _pick(record, "raw/fio*/a1/steps/*run*/fio.json").write_bytes(
        b"\xff\x00" * 99
    ),
    "result cut": lambda record: _cut(_pick(record, "raw/*/a1/result.json"), 0.5),
    "result gone": lambda record: _pick(record, "raw/*/a1/result.json").unlink(),
    "fingerprint cut": lambda record: _cut(_pick(record, "raw/*/a1/fingerprint.json"), 0.5),
    "samples cut": lambda record: _cut(_pick(record, "raw/*/a1/samples.jsonl"), 0.5),
    "spec cut": lambda record: _cut(_pick(record, "raw/*/a1/spec.json"), 0.5),
    "a bundle gone": lambda record: shutil.rmtree(_pick(record, "raw/*/a1")),
    "all raw gone": lambda record: shutil.rmtree(record / "raw"),
    "hosts gone": lambda record: shutil.rmtree(record / "hosts"),
    "automation gone": lambda record: shutil.rmtree(record / "automation"),
    "tables gone": lambda record: shutil.rmtree(record / "tables"),
    "table cut": lambda record: _cut(record / "tables" / "measurements.parquet", 0.5),
}


@pytest.mark.real(what="fault:damaged-record", where="localhost")
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_record_still_gives_tables_and_a_report(
    finished: Bench, tmp_path: Path, damage: Callable[[Path], Any]
) -> None:
    copy = tmp_path / finished.record().name
    shutil.copytree(finished.record(), copy)
    damage(copy)
    open_record(copy)
    tables = normalise_record(copy)
    values = tables["measurements"].column("value").to_pylist()
    whole = normalise_record(finished.record())["measurements"].column("value").to_pylist()
    assert len([value for value in values if value is not None]) <= len(whole)
    assert write_report(copy)


@pytest.mark.real(what="fault:damaged-record", where="localhost")
def test_command_line_says_what_is_damaged_without_a_traceback(finished: Bench, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.record(), copy)
    _cut(copy / "plan.json", 0.5)
    for verb in ("normalise", "report", "resume", "collect", "teardown"):
        result = finished.labctl(verb, str(copy))
        assert "Traceback" not in result.stderr, verb
        if verb in {"resume", "collect", "teardown"}:
            assert result.returncode == 1
            assert "plan.json" in result.stderr
