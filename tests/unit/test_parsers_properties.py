"""Damage never raises, never turns what is missing into a number, and never changes a value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl.parsers.registry import detect, parser
from tests.unit.parser_values import GOLDEN, rows

#: The last report of several cumulative ones is the result; cut before it, an earlier one is the last.
_CUMULATIVE = "v3.33-status-interval.json"
FILES = [p for p in sorted([*GOLDEN.glob("*/*.json"), *GOLDEN.glob("*/*.txt")]) if p.name != _CUMULATIVE]
WHOLE = {path: rows(parser(path.parent.name).parse(path.read_bytes())) for path in FILES}

noise = st.one_of(
    st.sampled_from(
        [
            "fio: pid=1, err=5/file:io_u.c:1876, func=io_u error, error=Input/output error",
            "WARNING: something is odd",
            "[12345.678] blk_update_request: I/O error, dev sda, sector 0",
            "Warning: Permanently added '192.0.2.10' (ECDSA) to the list of known hosts.",
            "pgbench: error: connection lost",
            "0.000",
        ]
    ),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters='\n\r"{}[]\ufeff'), max_size=80),
)


def assert_same_or_less(path, damaged):
    """Every value of the damaged output is the value of the whole one."""
    whole = WHOLE[path]
    for key, found in rows(damaged).items():
        if found.value is not None:
            assert key in whole, key
            assert found.value == whole[key].value, key


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(FILES), share=st.floats(0, 1))
def test_cut_anywhere(path, share):
    data = path.read_bytes()
    cut = data[: int(len(data) * share)]
    tool = parser(path.parent.name)
    result = tool.parse(cut)
    assert_same_or_less(path, result)
    lost = set(WHOLE[path]) - set(rows(result))
    # What follows pgbench's rate (statements, scripts) has no end mark, so that it ends early cannot be seen.
    can_end_here = tool.NAME == "pgbench" and b"\ntps = " in cut
    assert not lost or result.findings or can_end_here or not cut.strip()


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(FILES), line=noise, share=st.floats(0, 1))
def test_a_foreign_line_anywhere(path, line, share):
    lines = path.read_bytes().decode().split("\n")
    lines.insert(int(len(lines) * share), line)
    assert_same_or_less(path, parser(path.parent.name).parse("\n".join(lines).encode()))


@settings(max_examples=100, deadline=None)
@given(path=st.sampled_from(FILES), prefix=st.binary(max_size=200))
def test_any_bytes_before(path, prefix):
    result = parser(path.parent.name).parse(prefix + b"\n" + path.read_bytes())
    if not prefix.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert_same_or_less(path, result)


@settings(max_examples=100, deadline=None)
@given(path=st.sampled_from(FILES), position=st.floats(0, 0.999), byte=st.integers(0, 255))
def test_a_wrong_byte_never_raises(path, position, byte):
    data = bytearray(path.read_bytes())
    data[int(len(data) * position)] = byte
    parser(path.parent.name).parse(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_never_raise_and_give_no_values(data):
    found = detect(data)
    for name in ("fio", "sysbench", "pgbench"):
        assert parser(name).parse(data).measurements == [] or found is not None


@pytest.mark.parametrize("depth", [10, 100_000])
def test_deep_nesting_does_not_end_the_process(depth):
    data = b'{\n"fio version" : "fio-3.33", "jobs" : ' + b"[" * depth
    assert parser("fio").parse(data).measurements == []
