"""Foreign outputs become lines; what cannot be read says so."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from labctl.errors import ExitCode, LabctlError
from labctl.normalise.chunks import tables_of_files
from labctl.normalise.files import normalise_files, parse_source, to_jsonl
from labctl.normalise.schema import TABLES
from tests.unit.parser_values import GOLDEN


def lines(*paths):
    return [json.loads(line) for line in to_jsonl(normalise_files(paths))]


def test_a_line_a_measurement():
    path = GOLDEN / "fio" / "v3.33-libaio-group.json"
    (iops,) = [d for d in lines(path) if d.get("metric") == "iops"]
    assert iops == {
        "kind": "measurement",
        "source": str(path),
        "tool": "fio",
        "tool_version": "3.33",
        "run_index": 0,
        "job": "q",
        "operation": "read",
        "component": "total",
        "metric": "iops",
        "statistic": "mean",
        "value": 19598.086124,
        "unit": "1/s",
        "status": "ok",
    }


def test_failures_are_findings():
    found = [d for d in lines(GOLDEN / "sysbench" / "v1.0.20-fileio-fatal.txt") if d["kind"] == "finding"]
    assert {d["severity"] for d in found} == {"warning", "error"}
    assert all({"source", "rule", "message"} <= set(d) for d in found)


def test_directories_are_read_sorted_and_unknown_files_are_errors(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.md").write_text("# nothing to measure\n")
    (tmp_path / "a.json").write_bytes((GOLDEN / "fio" / "v3.33-gtod-reduce.json").read_bytes())
    (tmp_path / "c_bw.1.log").write_bytes((GOLDEN / "fio" / "v3.33_bw.1.log").read_bytes())
    (tmp_path / "empty").touch()
    results = list(normalise_files([tmp_path]))
    assert [(r.source.removeprefix(f"{tmp_path}/"), r.result.tool) for r in results] == [
        ("a.json", "fio"),
        ("b/notes.md", "unknown"),
        ("c_bw.1.log", "fio"),
        ("empty", "unknown"),
    ]
    rules = [(d["rule"], d["severity"]) for d in map(json.loads, to_jsonl(results)) if d["kind"] == "finding"]
    assert rules == [("file.unknown", "error"), ("file.empty", "error")]


def test_standard_input(monkeypatch):
    data = (GOLDEN / "pgbench" / "v15-select.stdout.txt").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert {d["source"] for d in lines("-")} == {"-"}


def test_a_path_that_does_not_exist_is_a_usage_error(tmp_path):
    with pytest.raises(LabctlError) as fault:
        lines(tmp_path / "nowhere")
    assert fault.value.code is ExitCode.USAGE


def test_a_file_that_cannot_be_read_is_a_finding(tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (found,) = lines(tmp_path)
    assert (found["rule"], found["severity"]) == ("file.unreadable", "error")


def test_lines_are_one_line_each_and_valid_json():
    document = b'{\n"fio version" : "fio-3.33",\n"jobs" : [{"jobname" : "a\\nb\\ud800\\u2028", "error" : 0,\n'
    document += b'"read" : {"io_bytes" : 10, "runtime" : 1, "bw_bytes" : 10000, "iops" : 1e999, "total_ios" : 1}}]\n}\n'
    produced = list(to_jsonl([parse_source("x", document)]))
    assert produced
    for line in produced:
        assert "\n" not in line
        line.encode()
        json.loads(line, parse_constant=pytest.fail)
    (iops,) = [d for d in map(json.loads, produced) if d.get("metric") == "iops"]
    assert (iops["value"], iops["status"]) == (None, "missing")


def test_tables_of_files_are_the_tables_of_a_record():
    path = GOLDEN / "fio" / "v3.33-libaio-group.json"
    tables = tables_of_files(normalise_files([path, GOLDEN / "README.md"]))
    assert set(tables) == set(TABLES)
    (iops,) = [r for r in tables["measurements"].to_pylist() if r["metric"] == "iops"]
    assert (iops["value"], iops["raw_file"], iops["cell"]) == (19598.086124, str(path), None)
    assert [r["rule"] for r in tables["findings"].to_pylist()] == ["file.unknown"]


def test_reading_files_needs_no_arrow():
    code = "import sys, labctl.normalise.files; sys.exit(any(m in sys.modules for m in ('pyarrow', 'numpy', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("below", [False, True])
def test_a_device_is_not_read_without_end(tmp_path, below):
    (tmp_path / "output").symlink_to("/dev/zero")
    (only,) = lines(tmp_path if below else tmp_path / "output")
    assert (only["rule"], only["severity"]) == ("file.unreadable", "error")


def test_a_pipe_in_a_directory_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "output")
    (only,) = lines(tmp_path)
    assert only["rule"] == "file.unreadable"


def test_a_pipe_that_is_named_is_read(tmp_path):
    os.mkfifo(tmp_path / "output")
    text = GOLDEN / "fio" / "v3.33-libaio-group.json"
    with subprocess.Popen(["cp", text, tmp_path / "output"]):
        assert any(line.get("metric") == "iops" for line in lines(tmp_path / "output"))


def test_a_file_beyond_all_measure_is_refused_unread(tmp_path):
    with (tmp_path / "output").open("wb") as file:
        file.truncate(3 << 30)
    (only,) = lines(tmp_path / "output")
    assert "larger than 2 GiB" in only["message"]


def test_a_closed_standard_input_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    (only,) = lines("-")
    assert only["message"] == "Standard input is closed."
