"""Rows become the tables of the schema, the same bytes for the same rows, and null where there is no value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labctl.errors import LabctlError
from labctl.normalise.chunks import add_findings, add_result
from labctl.normalise.schema import TABLES
from labctl.normalise.tables import build_tables, write_tables
from labctl.parsers import fio
from labctl.parsers.base import Finding, Measurement, Metric, ParseResult, Severity, Status
from tests.unit.parser_values import golden


def context(cell, attempt=1):
    return {"run": "r", "lab": "l", "study": "s", "cell": cell, "attempt": attempt, "sample": 1, "phase": "run"}


def filled(cells):
    chunks = {}
    result = fio.parse(golden("fio", "v3.33-randrw-jsonplus.json"))
    for cell in cells:
        add_result(chunks, result, context(cell), raw_file=f"raw/{cell}/fio.json", parser="fio/1")
    return build_tables(chunks)


def test_every_table_has_its_schema_even_without_rows():
    tables = build_tables({})
    assert set(tables) == set(TABLES)
    for name, table in tables.items():
        assert table.schema.equals(TABLES[name], check_metadata=True)
        assert table.num_rows == 0
    for name, table in filled(["a"]).items():
        assert table.schema.equals(TABLES[name], check_metadata=True)


def test_rows_are_what_the_parser_said():
    rows = filled(["a"])["measurements"].to_pylist()
    result = fio.parse(golden("fio", "v3.33-randrw-jsonplus.json"))
    assert len(rows) == len(result.measurements)
    for got, said in zip(rows, result.measurements, strict=True):
        assert got["value"] == said.value
        assert got["unit"] == said.unit
        assert (got["metric"], got["statistic"], got["operation"]) == (said.metric, said.statistic, said.operation)
        assert (got["tool"], got["tool_version"], got["raw_file"]) == ("fio", "3.33", "raw/a/fio.json")
        assert got["arm"] is None
    histogram = filled(["a"])["histograms"].to_pylist()
    assert sum(r["count"] for r in histogram if r["operation"] == "read") == 28267


def test_order_does_not_depend_on_the_order_of_adding(tmp_path):
    write_tables(filled(["a", "b", "c"]), tmp_path / "one")
    write_tables(filled(["c", "a", "b"]), tmp_path / "two")
    for name in TABLES:
        assert (tmp_path / f"one/{name}.parquet").read_bytes() == (tmp_path / f"two/{name}.parquet").read_bytes()


def test_written_tables_read_back_and_replace_old_ones(tmp_path):
    write_tables(build_tables({}), tmp_path)
    files = write_tables(filled(["a"]), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"{name}.parquet" for name in TABLES)
    assert files == sorted(files)
    back = pq.read_table(tmp_path / "measurements.parquet")
    assert back.equals(filled(["a"])["measurements"])


def test_missing_failed_and_not_finite():
    rows = [
        Measurement(Metric.IOPS, "mean", 5.0, "read"),
        Measurement(Metric.IOPS, "max", None, "read", status=Status.MISSING),
        Measurement(Metric.IOPS, "min", float("nan"), "read"),
        Measurement(Metric.IOPS, "p50", 1.0, "read", status=Status.PARTIAL),
    ]
    chunks = {}
    add_result(
        chunks, ParseResult("fio", measurements=rows), context("a"), raw_file="f", parser="fio/1", status=Status.FAILED
    )
    got = build_tables(chunks)["measurements"].to_pylist()
    assert [(r["value"], r["status"]) for r in got] == [
        (5.0, "failed"),
        (None, "missing"),
        (None, "missing"),
        (1.0, "partial"),
    ]


def test_text_that_is_not_unicode_is_kept_readable():
    chunks = {}
    result = ParseResult("fio", measurements=[Measurement(Metric.IOPS, "mean", 1.0, job="a\ud800b")])
    add_result(chunks, result, context("a"), raw_file="raw/\udcff", parser="fio/1")
    add_findings(chunks, [Finding("x", Severity.NOTE, "\ud800")], context("a"))
    tables = build_tables(chunks)
    assert tables["measurements"].to_pylist()[0]["job"] == "a?b"
    assert tables["measurements"].to_pylist()[0]["raw_file"] == "raw/?"
    assert tables["findings"].to_pylist()[0]["message"] == "?"


def test_parallel_nulls_and_words_in_one_dictionary_column():
    chunks = {}
    add_findings(chunks, [Finding("x", Severity.NOTE, "m")], {"cell": "b", "arm": "one"})
    add_findings(chunks, [Finding("y", Severity.NOTE, "n")], {"cell": "a"})
    table = build_tables(chunks)["findings"]
    assert isinstance(table.column("arm").combine_chunks(), pa.DictionaryArray)
    assert [(r["cell"], r["arm"]) for r in table.to_pylist()] == [("a", None), ("b", "one")]


def test_unwritable_directory_is_a_users_fault(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("x")
    with pytest.raises(LabctlError, match="cannot write the tables"):
        write_tables(build_tables({}), blocked)


def test_a_failed_write_leaves_no_half_file(tmp_path):
    write_tables(filled(["a"]), tmp_path)
    before = (tmp_path / "cells.parquet").read_bytes()
    (tmp_path / "measurements.parquet").unlink()
    (tmp_path / "measurements.parquet").mkdir()
    with pytest.raises(LabctlError):
        write_tables(filled(["b"]), tmp_path)
    assert (tmp_path / "cells.parquet").read_bytes() == before
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
