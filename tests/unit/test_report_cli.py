import pytest
from typer.testing import CliRunner

from labctl.cli.app import app
from labctl.errors import LabctlError
from tests.report_records import Lab, build_record


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return build_record(tmp_path_factory.mktemp("cli") / "r", Lab(arms=("a",), tools=("pgbench",), repeats=1))


def test_prints_the_paths_that_it_wrote(record, tmp_path):
    out = tmp_path / "new" / "out"
    result = CliRunner().invoke(app, ["report", str(record), "-o", str(out), "--format", "md, csv"])
    assert result.exit_code == 0
    paths = result.stdout.split()
    assert [path.rsplit("/", 1)[1] for path in paths] == ["report.md", "cells.csv", "samples.csv", "summary.csv"]
    assert all((out / path.rsplit("/", 1)[1]).stat().st_size for path in paths)


def test_links_lead_back_to_the_record_from_anywhere(record, tmp_path):
    CliRunner().invoke(app, ["report", str(record), "-o", str(tmp_path / "x y"), "--format", "md"])
    text = (tmp_path / "x y" / "report.md").read_text()
    target = text.split("[plan.json](", 1)[1].split(")", 1)[0]
    assert (tmp_path / "x y" / target).resolve() == (record / "plan.json").resolve()


def test_unknown_format_is_a_fault_of_the_user(record):
    result = CliRunner().invoke(app, ["report", str(record), "--format", "pdf"])
    assert isinstance(result.exception, LabctlError)
    assert "html, md, csv" in (result.exception.hint or "")
