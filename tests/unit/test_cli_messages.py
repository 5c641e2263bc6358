"""What users and machines are told when arguments, locales or labctl itself are at fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labctl.cli import app as cli
from labctl.errors import ExitCode

_LABCTL = [sys.executable, "-c", "from labctl.cli.app import main; main()"]


def _run(*arguments: str | bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, **environment}
    command: list[str | bytes] = [*_LABCTL, *arguments]
    return subprocess.run(command, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "--json"), "STUDY"),
        (("plan", "quickstart", "--nope", "--json"), "--nope"),
        (("plan", "quickstart", "--repeats", "zero", "--json"), "expected a whole number"),
        (("run", "quickstart", "surplus", "--json"), "surplus"),
        (("frobnicate", "--json"), "frobnicate"),
    ],
)
def test_wrong_arguments_are_json_where_json_was_asked_for(arguments: tuple[str, ...], words: str) -> None:
    done = _run(*arguments)
    assert done.returncode == ExitCode.USAGE
    event = json.loads(done.stdout)
    assert event["event"] == "error"
    assert event["code"] == ExitCode.USAGE
    assert words in event["errors"][0]["what"]


@pytest.mark.parametrize("arguments", [("plan",), ("run", "quickstart", "--repeats", "many"), ("stage", "--nope")])
def test_wrong_arguments_say_how_it_is_used(arguments: tuple[str, ...]) -> None:
    done = _run(*arguments)
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == b""
    assert f"labctl {arguments[0]}" in done.stderr.decode().splitlines()[0] or b"Usage:" in done.stderr
    assert b"labctl: error: " in done.stderr
    assert b"Input should" not in done.stderr


def test_no_arguments_show_the_help() -> None:
    done = _run()
    assert done.returncode == ExitCode.USAGE
    assert b"Usage:" in done.stdout + done.stderr
    assert b"quickstart" in done.stdout + done.stderr


def test_exit_codes_survive_the_json_mode(tmp_path: Path) -> None:
    assert _run("study", "list", "--json").returncode == ExitCode.OK
    assert _run("study", "check", str(tmp_path / "none.yml"), "--json").returncode == ExitCode.USAGE


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_names_that_are_not_valid_text_are_shown_escaped(tmp_path: Path, form: tuple[str, ...]) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.yml"
    Path(os.fsdecode(name)).write_bytes(b"name: 1\n")
    done = _run("study", "check", name, *form)
    assert done.returncode == ExitCode.USAGE
    assert b"Traceback" not in done.stderr
    if form:
        assert json.loads(done.stdout)["errors"]
    else:
        assert rb"caf\udce9.yml:1:7" in done.stderr


def test_a_locale_without_our_letters_changes_no_json() -> None:
    plain = _run("study", "show", "quickstart", "--json", PYTHONIOENCODING="ascii")
    assert plain.returncode == ExitCode.USAGE  # `study show` has no --json, and says so in JSON
    assert json.loads(plain.stdout)["code"] == ExitCode.USAGE


def test_a_fault_of_labctl_itself_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("no such number")

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr(sys, "argv", ["labctl", "records"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == ExitCode.ERROR
    told = capfd.readouterr().err
    assert "ZeroDivisionError: no such number" in told
    assert "LABCTL_TRACEBACK=1" in told
    assert "Traceback" not in told

    monkeypatch.setenv("LABCTL_TRACEBACK", "1")
    with pytest.raises(SystemExit):
        cli.main()
    assert "Traceback (most recent call last)" in capfd.readouterr().err
