"""``labctl study``."""

import json

import pytest
from typer.testing import CliRunner

from labctl.cli.study import app
from labctl.errors import InvalidFileError, LabctlError
from labctl.study.load import builtin_studies

CLI = CliRunner()


def invoke(*words):
    return CLI.invoke(app, words, catch_exceptions=False)


def test_list_names_every_built_in_study():
    lines = invoke("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(builtin_studies())
    objects = [json.loads(line) for line in invoke("list", "--json").stdout.splitlines()]
    assert [o["name"] for o in objects] == list(builtin_studies())


def test_show_prints_the_file_as_it_is():
    assert invoke("show", "quickstart").stdout_bytes == builtin_studies()["quickstart"].read_bytes()


def test_schema_is_json():
    assert json.loads(invoke("schema").stdout)["required"] == [
        "name",
        "title",
        "question",
        "baseline",
        "arms",
        "workloads",
    ]


def test_check_counts_or_raises(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_bytes(builtin_studies()["quickstart"].read_bytes())
    assert "quickstart is valid: 4 arms, 7 points, 3 repeats" in invoke("check", str(path)).stdout
    assert json.loads(invoke("check", str(path), "--json").stdout) == {"name": "quickstart", "arms": 4, "points": 7}
    path.write_text("name: x")
    with pytest.raises(InvalidFileError):
        invoke("check", str(path))


def test_check_takes_a_file_even_where_a_built_in_study_has_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabctlError, match="no such file"):
        invoke("check", "quickstart")
