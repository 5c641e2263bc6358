"""Study files that are wrong on purpose: every one is refused with its place, in words of the file."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from labctl.errors import ExitCode, InvalidFileError, LabctlError, Where
from labctl.study.load import load_study

_STUDY = """\
name: {name}
title: t
question: q
baseline: a
repeats: {repeats}
arms:
  a: {arm}
workloads:
  w:
    tool: {tool}
    parameters: {parameters}
"""
_GOOD = {"name": "t", "repeats": "3", "arm": "{title: x}", "tool": "fio", "parameters": "{size: 1GiB}"}
#: Python's and pydantic's ways of saying things.
_JARGON = re.compile(r"\bNone\b|\bTrue\b|\bFalse\b|datetime|\bb'|Input should|valid string|String should|got \(|\^\[")
_RIGHT = {
    ("{{storage: {}}}", "{}"),
    ("{{storage: {{path: {}}}}}", "~"),
    ("{{runtime: {}}}", "1e3"),
    ("{{direct: {}}}", "true"),
}
"""What is no fault where it stands."""
_VALUES = [
    *("~", "[]", "[1]", "{}", "{a: 1}", "yes", "true", "1e3", "1e30", ".inf", "-.inf", ".nan", "2024-01-01", "0", "-1"),
    *("''", "../x", '"a\\0b"', "٤", "!!binary aGVsbG8=", "x" * 5000, "4MB", '"4KiB\\nfilename=/dev/sda"'),
    *("999999999999999999999TiB", "-4KiB", "1e30s", '"\\e[31m"', '"\\u202ecod.exe"', '"\\ud800"', "!vault x"),
]


def _faults(tmp_path: Path, **given: str) -> list[LabctlError]:
    file = tmp_path / "study.yml"
    file.write_text(_STUDY.format(**{**_GOOD, **given}))
    with pytest.raises(InvalidFileError) as raised:
        load_study(file)
    return raised.value.faults


def test_the_pattern_of_these_files_is_good(tmp_path: Path) -> None:
    file = tmp_path / "study.yml"
    file.write_text(_STUDY.format(**_GOOD))
    assert load_study(file).study.repeats == int(_GOOD["repeats"])


@pytest.mark.parametrize(
    ("field", "template", "line"),
    [
        ("repeats", "{}", 5),
        ("arm", "{{storage: {}}}", 7),
        ("arm", "{{storage: {{kind: loop, filesystem: xfs, size: {}}}}}", 7),
        ("arm", "{{storage: {{path: {}}}}}", 7),
        ("tool", "{}", 10),
        ("parameters", "{{bs: {}, size: 1GiB}}", 11),
        ("parameters", "{{size: {}}}", 11),
        ("parameters", "{{runtime: {}}}", 11),
        ("parameters", "{{direct: {}}}", 11),
    ],
)
@pytest.mark.parametrize("value", _VALUES)
def test_any_wrong_value_is_told_in_words_of_the_file(
    tmp_path: Path, field: str, template: str, line: int, value: str
) -> None:
    if (template, value) in _RIGHT:
        return
    for fault in _faults(tmp_path, **{field: template.format(value)}):
        assert fault.code == ExitCode.USAGE
        assert isinstance(fault.where, Where)
        assert fault.where.line == line
        assert fault.where.column
        assert not _JARGON.search(str(fault)), str(fault)
        assert len(fault.what) < 250
        assert fault.what.isprintable()


@pytest.mark.parametrize("title", ['"\\e[2J"', '"a\\x7f"', '"\\u202eb"', '"\\u2066b"', '"\\ud800"', '"\\x85"', '"\\0"'])
def test_text_that_would_rewrite_a_terminal_is_refused(tmp_path: Path, title: str) -> None:
    (fault,) = _faults(tmp_path, arm=f"{{title: {title}}}")
    assert "invisible character" in fault.what
    assert str(fault).isprintable()


@pytest.mark.parametrize("title", ["Größe ½ µs", "標題", "نص", '"two\\nlines\\tand a tab"'])
def test_text_in_any_script_is_taken(tmp_path: Path, title: str) -> None:
    file = tmp_path / "study.yml"
    file.write_text(_STUDY.format(**{**_GOOD, "arm": f"{{title: {title}}}"}), encoding="utf-8")
    assert load_study(file).study.arms["a"].title


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "loop", "missing"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "study.yml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    with pytest.raises(LabctlError) as raised:
        load_study(path)
    assert raised.value.code == ExitCode.USAGE
    assert str(raised.value.where) == str(path)
