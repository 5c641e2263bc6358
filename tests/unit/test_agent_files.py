"""Pure parts of the agent: names, words, tools' order, windows of a tar, and the language level."""

from __future__ import annotations

import ast
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent_support import ROOT, agent_package, plugin_module

bundle, export, files, steps, tools = (
    plugin_module(f"cell_agent.{name}") for name in ("bundle", "export", "files", "steps", "tools")
)


@pytest.mark.parametrize("path", sorted((ROOT / "plugins/module_utils/cell_agent").glob("*.py")), ids=lambda p: p.name)
def test_sources_are_python_3_9(path: Path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    imported = {n.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    imported |= {
        (n.module or "").split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level
    }
    assert imported <= STDLIB_3_9


STDLIB_3_9 = {
    "__future__",
    *("argparse", "base64", "contextlib", "ctypes", "errno", "fcntl", "getpass", "glob", "gzip", "hashlib"),
    *("json", "locale", "os", "platform", "pwd", "re", "select", "shutil", "signal", "stat", "subprocess", "sys"),
    *("tarfile", "threading", "time", "typing"),
}


def test_package_is_the_same_each_time():
    first = agent_package.build()
    agent_package.build.cache_clear()
    assert agent_package.build() == first


@pytest.mark.parametrize("name", ["a", "q__fio-randread.4k", "xfs@loop+1=2,b:c%20~", "_x"])
def test_names_that_are_safe(name: str):
    assert files.safe_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "-x", "a/b", "a\n", "a b", "ä", "x" * 201])
def test_names_that_are_not(name: str):
    assert not files.safe_name(name)


@given(st.binary(max_size=6000), st.integers(min_value=4, max_value=3000))
def test_words_are_valid_utf8_within_the_limit(raw: bytes, limit: int):
    said = files.words(raw, limit)
    assert len(said.encode("utf-8")) <= limit
    assert "\x00" not in said


def test_words_keep_the_end():
    assert files.words("ä".encode() * 2000 + b" the end").endswith("the end")


@given(st.lists(st.binary(max_size=50)), st.integers(0, 200), st.integers(0, 200))
def test_window_is_a_slice(writes: list[bytes], offset: int, limit: int):
    window = export.Window(offset, limit)
    for data in writes:
        assert window.write(data) == len(data)
    whole = b"".join(writes)
    assert window.content() == whole[offset : offset + limit]
    assert window.more == (len(whole) > offset + limit)


@pytest.mark.parametrize("name", ["a", "a/1", "a/b1", "../a1", "a/a", "a/a1/x", "/a1"])
def test_export_names_that_are_refused(name: str):
    with pytest.raises(ValueError, match="not <cell id>"):
        export.parse_name(name)


def test_atomic_write_leaves_no_trace_of_a_failure(tmp_path: Path):
    target = tmp_path / "file"
    files.write_atomic(str(target), b"one")
    assert target.stat().st_mode & 0o777 == 0o600
    target.unlink()
    target.mkdir()
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is checked
        files.write_atomic(str(target), b"two")
    assert caught.value.errno == errno.EISDIR
    assert list(tmp_path.iterdir()) == [target]


def test_links_are_no_evidence(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/real").write_text("x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    assert [name for name, _ in files.regular_files(str(tmp_path))] == ["sub/real"]
    with pytest.raises(OSError):  # noqa: PT011 - ELOOP by O_NOFOLLOW
        files.open_regular(str(tmp_path / "link"))


def test_newest_postgresql_comes_first(monkeypatch: pytest.MonkeyPatch):
    found = {"/usr/lib/postgresql/*/bin": ["/usr/lib/postgresql/9.6/bin", "/usr/lib/postgresql/16/bin"]}
    monkeypatch.setattr(tools.glob, "glob", lambda pattern: found.get(pattern, ["/usr/pgsql-15/bin"]))
    assert [p.split("/")[-2] for p in tools.postgresql_dirs()] == ["16", "pgsql-15", "9.6"]


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        ("fio-3.33", "3.33"),
        ("fio-3.33-24-ga1b2", "3.33-24-ga1b2"),
        ("sysbench 1.0.20", "1.0.20"),
        ("pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
        ("postgres (PostgreSQL) 18beta1", "18beta1"),
        ("mke2fs 1.47.0 (5-Feb-2023)", "1.47.0"),
        ("iperf 3.12 (cJSON 1.7.15)", "3.12"),
    ],
)
def test_version_in_a_tools_own_words(raw: str, version: str):
    assert tools.version_of(raw) == version


def test_step_directories_sort_in_order():
    names = [bundle.step_directory(i, "x") for i in (1, 2, 10)]
    assert names == sorted(names) == ["steps/01-x", "steps/02-x", "steps/10-x"]


def test_words_after_a_prefix_keep_the_prefix():
    said = steps._join("not finished after 5 s", "x" * 5000)
    assert said.startswith("not finished after 5 s: x")
    assert len(said) == 2048
