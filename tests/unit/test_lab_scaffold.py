"""Names of hosts on the command line, and the files that come of them."""

from __future__ import annotations

import pytest

from labctl.errors import LabctlError
from labctl.lab.scaffold import NewHost, parse_host, scaffold


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("node1", NewHost("node1", "node1")),
        ("root@10.0.0.1", NewHost("10.0.0.1", "10.0.0.1", "root")),
        ("n1=bench@node1.example.org", NewHost("n1", "node1.example.org", "bench")),
        ("n1=fe80::1", NewHost("n1", "fe80::1")),
        ("n1=::1", NewHost("n1", "::1")),
    ],
)
def test_hosts(text, host):
    assert parse_host(text) == host


@pytest.mark.parametrize(
    "text", ["", "a b", "../x", "a/b", "n=", "=x", "fe80::1", "x;y", "-o", "n=-oProxyCommand=x", "u@", "a..b", "x\n"]
)
def test_what_is_no_host(text):
    with pytest.raises(LabctlError, match="--host"):
        parse_host(text)


def test_the_same_name_twice():
    with pytest.raises(LabctlError, match="same name"):
        scaffold("x", [NewHost("a", "1"), NewHost("A", "2")])
