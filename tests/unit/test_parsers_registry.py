"""Tools are told by content; what is unknown stays unknown."""

from __future__ import annotations

import pytest

from labctl.parsers.registry import NAMES, detect, parser
from tests.unit.parser_values import GOLDEN, golden


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/*.json")) + sorted(GOLDEN.glob("*/*.txt")), ids=lambda p: p.name)
def test_every_fixture_is_its_tools(path):
    found = detect(path.read_bytes())
    assert found is not None
    assert path.parent.name == found.NAME


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"\x00" * 100, b'{"jobs": []}', b"total time: 3", b"tps", b"PostgreSQL 15", b"progress: 10%\n"],
)
def test_unknown_stays_unknown(data):
    assert detect(data) is None


def test_long_warnings_before_the_result_do_not_hide_it():
    found = detect(b"kernel: something\n" * 10_000 + golden("sysbench", "v1.0.20-cpu.txt"))
    assert found is not None
    assert found.NAME == "sysbench"


def test_utf_16_is_recognised():
    found = detect(golden("pgbench", "v15-select.stdout.txt").decode().encode("utf-16"))
    assert found is not None
    assert found.NAME == "pgbench"


def test_parsers_follow_the_contract():
    for name in NAMES:
        module = parser(name)
        assert name == module.NAME
        assert module.VERSION >= 1
    with pytest.raises(KeyError):
        parser("os")
