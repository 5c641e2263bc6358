"""The figures of a report, against numbers that are computed here by hand."""

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labctl.errors import LabctlError
from labctl.report.build import build_report
from labctl.report.load import load_record
from labctl.report.write import write_report
from tests.report_records import Lab, build_record


def figure_of(report, title, operation=""):
    figures = report.workloads[0].points[0].hosts[0].figures
    return next(item for item in figures if (item.title, item.operation) == (title, operation))


@pytest.fixture
def small() -> Lab:
    numbers = {"disk": [100.0, 300.0, 200.0], "tmpfs": [500.0, 400.0, 900.0]}
    return Lab(arms=("disk", "tmpfs"), tools=("fio",), block_sizes=("4k",), numbers=numbers)


def test_median_spread_and_ratio(tmp_path, small):
    report = build_report(load_record(build_record(tmp_path / "r", small)))
    disk, tmpfs = figure_of(report, "IOPS", "read").arms
    assert [sample.value for sample in disk.samples] == [100.0, 300.0, 200.0]
    assert (disk.summary.median, disk.summary.minimum, disk.summary.maximum, disk.summary.n) == (200.0, 100.0, 300.0, 3)
    assert disk.summary.stddev == pytest.approx(100.0)
    assert disk.ratio is None
    assert tmpfs.ratio == pytest.approx(500.0 / 200.0)
    assert not report.partial


def test_failed_cells_are_no_samples_and_say_why(tmp_path, small):
    small.status = lambda cell: "failed" if cell.arm == "tmpfs" and cell.repeat > 1 else "done"
    report = build_report(load_record(build_record(tmp_path / "r", small)))
    tmpfs = figure_of(report, "IOPS", "read").arms[1]
    assert [sample.value for sample in tmpfs.samples] == [500.0, None, None]
    assert tmpfs.summary.n == 1
    assert tmpfs.summary.stddev is None
    assert "No space left on device" in tmpfs.reason
    assert report.partial
    assert report.counts == {"done": 4, "failed": 2, "interrupted": 0, "running": 0, "planned": 0}
    assert {item.reason for item in report.missing} == {"failed: fio: io_u error on file data: No space left on device"}
    row = next(row for row in report.findings if row.rule == "cell.failed")
    assert len(row.cells) == 2
    assert all((tmp_path / "r" / name).exists() for name in row.raw_files)


def test_hosts_are_never_mixed(tmp_path, small):
    small.hosts = ("node1", "node2")
    report = build_report(load_record(build_record(tmp_path / "r", small)))
    hosts = report.workloads[0].points[0].hosts
    assert [host.host for host in hosts] == ["node1", "node2"]
    assert all(len(arm.samples) == 3 for host in hosts for figure in host.figures for arm in figure.arms)


def rewrite(record: Path, name: str, change) -> None:
    """Change rows of a table."""
    path = record / "tables" / f"{name}.parquet"
    table = pq.read_table(path)
    rows = [row for old in table.to_pylist() for row in change(old)]
    pq.write_table(type(table).from_pylist(rows, schema=table.schema), path)


def test_a_value_that_is_not_whole_is_shown_but_not_counted(tmp_path, small):
    record = build_record(tmp_path / "r", small)
    rewrite(record, "measurements", lambda row: [row | ({"status": "partial"} if row["value"] == 900.0 else {})])
    tmpfs = figure_of(build_report(load_record(record)), "IOPS", "read").arms[1]
    assert tmpfs.summary.median == 450.0
    assert (tmpfs.samples[2].value, tmpfs.samples[2].counted) == (900.0, False)
    assert "partial" in tmpfs.samples[2].note


def test_rates_of_jobs_add_up_and_their_latencies_do_not(tmp_path, small):
    record = build_record(tmp_path / "r", small)
    rewrite(record, "measurements", lambda row: [row | {"job": "a"}, row | {"job": "b"}])
    report = build_report(load_record(record))
    assert figure_of(report, "IOPS", "read").arms[0].summary.median == 400.0
    latency = figure_of(report, "Latency, mean", "read").arms[0]
    assert latency.summary is None
    assert "cannot be combined" in latency.reason


def test_runs_in_one_file_are_not_added_up(tmp_path, small):
    record = build_record(tmp_path / "r", small)
    rewrite(record, "measurements", lambda row: [row | {"run_index": 0}, row | {"run_index": 1}])
    assert figure_of(build_report(load_record(record)), "IOPS", "read").arms[0].summary is None


def test_an_earlier_attempt_does_not_count(tmp_path, small):
    record = build_record(tmp_path / "r", small)
    rewrite(record, "measurements", lambda row: [row, row | {"attempt": 7, "value": 1e9}])
    assert figure_of(build_report(load_record(record)), "IOPS", "read").arms[0].summary.median == 200.0


def test_figures_that_the_study_asks_for_come_first(tmp_path, small):
    record = build_record(tmp_path / "r", small)
    plan = json.loads((record / "plan.json").read_text())
    asked = {"workload": "fio-random", "metric": "latency", "operation": "write", "statistic": "p99"}
    plan["figures"] = [asked | {"higher_is_better": "False"}]
    (record / "plan.json").write_text(json.dumps(plan))
    overview = build_report(load_record(record)).workloads[0].overview
    assert [(row.figure.metric, row.figure.statistic, row.figure.operation) for row in overview] == [
        ("latency", "p99", "write")
    ]


def test_load_time_is_apart_from_the_run(tmp_path):
    report = build_report(load_record(build_record(tmp_path / "r", Lab(tools=("pgbench",)))))
    load = figure_of(report, "Load time")
    assert load.phase == "load"
    assert load.arms[0].summary.median == pytest.approx(3.3)


def test_fingerprints_same_different_and_moving(tmp_path, small):
    prints = build_report(load_record(build_record(tmp_path / "r", small))).fingerprints
    assert {"host.kernel", "cpu.model", "path.mount_options"} <= {item.field for item in prints.same}
    assert {item.field: item.values for item in prints.different} == {
        "path.fs_type": {"disk": "ext4", "tmpfs": "tmpfs"},
        "path.device": {"disk": "/dev/vda1", "tmpfs": "tmpfs"},
    }
    assert {item.field for item in prints.moving} == {"memory.available_bytes", "load.load1"}
    assert next(item for item in prints.moving if item.field == "load.load1").values["disk"] == "0.3000 to 0.5000"


def test_csv_has_canonical_units_and_all_digits(tmp_path, small):
    small.numbers = {"disk": [1 / 3, 2 / 3, 0.1], "tmpfs": [1.0, 2.0, 3.0]}
    record = build_record(tmp_path / "r", small)
    paths = {path.name: path for path in write_report(record, tmp_path / "out", ("csv",))}
    assert set(paths) == {"cells.csv", "samples.csv", "summary.csv"}
    rows = list(csv.DictReader(paths["samples.csv"].open()))
    chosen = [row for row in rows if (row["metric"], row["operation"], row["arm"]) == ("iops", "read", "disk")]
    assert [float(row["value"]) for row in chosen] == [1 / 3, 2 / 3, 0.1]
    assert {row["unit"] for row in chosen} == {"1/s"}
    summary = next(
        row
        for row in csv.DictReader(paths["summary.csv"].open())
        if (row["metric"], row["operation"], row["arm"]) == ("iops", "read", "tmpfs")
    )
    assert float(summary["ratio_to_baseline"]) == 2.0 / (1 / 3)
    assert len(list(csv.DictReader(paths["cells.csv"].open()))) == 6


def test_csv_of_missing_values_is_empty_with_a_note(tmp_path, small):
    small.status = lambda cell: "planned" if cell.arm == "tmpfs" else "done"
    record = build_record(tmp_path / "r", small)
    paths = {path.name: path for path in write_report(record, formats=("csv",))}
    rows = [row for row in csv.DictReader(paths["samples.csv"].open()) if row["arm"] == "tmpfs"]
    assert {(row["value"], row["counted"], row["note"]) for row in rows} == {("", "false", "not run")}


def test_csv_runs_no_formula(tmp_path, small):
    small.error = "=cmd|' /C calc'!A0"
    small.status = lambda _cell: "failed"
    paths = {path.name: path for path in write_report(build_record(tmp_path / "r", small), formats=("csv",))}
    errors = {row["error"] for row in csv.DictReader(paths["cells.csv"].open())}
    assert errors == {"'=cmd|' /C calc'!A0"}


@pytest.mark.parametrize("name", ["measurements", "series", "histograms", "fingerprints", "findings", "cells"])
@pytest.mark.parametrize("kept", [0, 100, None])
def test_a_damaged_table_is_said_and_nothing_fails(tmp_path, small, name, kept):
    small.block_sizes = ("4k",)
    record = build_record(tmp_path / "r", small)
    path = record / "tables" / f"{name}.parquet"
    if kept is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:kept])
    text = next(iter(write_report(record, formats=("md",)))).read_text()
    assert f"tables/{name}.parquet" in text
    assert "labctl normalise" in text


def test_torn_ledger_and_identity(tmp_path, small):
    record = build_record(tmp_path / "r", small)
    (record / "ledger.jsonl").write_bytes((record / "ledger.jsonl").read_bytes()[:-20])
    (record / "record.json").write_text("{")
    (record / "manifest.json").unlink()
    text = next(iter(write_report(record, formats=("md",)))).read_text()
    assert "record.json cannot be read" in text
    assert "ledger.jsonl, line" in text
    assert "There is no manifest" in text


@pytest.mark.parametrize("content", [None, "{", "[]", '{"study": 1}'])
def test_without_a_plan_there_is_an_error_and_no_traceback(tmp_path, content):
    tmp_path.joinpath("r").mkdir()
    if content is not None:
        (tmp_path / "r" / "plan.json").write_text(content)
    with pytest.raises(LabctlError, match=r"plan"):
        write_report(tmp_path / "r")


def test_no_record_and_unknown_format(tmp_path, small):
    with pytest.raises(LabctlError, match="no such record"):
        write_report(tmp_path / "nothing")
    with pytest.raises(LabctlError, match="unknown report format 'pdf'"):
        write_report(tmp_path, formats=("pdf",))


def test_output_that_cannot_be_made(tmp_path, small):
    (tmp_path / "file").write_text("x")
    with pytest.raises(LabctlError, match="cannot make"):
        write_report(build_record(tmp_path / "r", small), tmp_path / "file" / "out", ("csv",))


def test_equal_records_give_equal_bytes(tmp_path, small):
    record = build_record(tmp_path / "r", small)
    one = [path.read_bytes() for path in write_report(record)]
    two = [path.read_bytes() for path in write_report(record)]
    assert one == two


def test_a_finding_of_the_planner_is_said_once(tmp_path, small):
    record = build_record(tmp_path / "r", small)
    found = json.loads((record / "plan.json").read_text())["findings"][0]
    path = record / "tables" / "findings.parquet"
    schema = pq.read_schema(path)
    row = {"rule": found["rule"], "severity": found["severity"], "message": found["message"], "evidence": "{}"}
    pq.write_table(pa.Table.from_pylist([row], schema=schema), path)
    findings = build_report(load_record(record)).findings
    assert [item.message for item in findings].count(found["message"]) == 1
