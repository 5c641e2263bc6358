"""Bundles that a hostile target handed over: nothing outside of them is read, and nothing is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labctl.normalise.bundles import open_bundle, read_evidence


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "secret.json").write_text('{"secret": 1}')
    made = tmp_path / "bundle"
    (made / "steps").mkdir(parents=True)
    (made / "spec.json").write_text('{"own": 1}')
    return made


def test_what_is_below_is_read(bundle: Path) -> None:
    assert read_evidence(bundle, "spec.json") == b'{"own": 1}'
    (bundle / "steps" / "link").symlink_to("../spec.json")
    assert read_evidence(bundle, "steps", "link") == b'{"own": 1}'


@pytest.mark.parametrize("target", ["../secret.json", "/dev/zero", "/proc/self/environ", "/etc/hostname"])
def test_a_link_that_leads_out_is_not_followed(bundle: Path, target: str) -> None:
    (bundle / "fingerprint.json").symlink_to(target)
    with pytest.raises(OSError, match="leads out"):
        read_evidence(bundle, "fingerprint.json")
    opened = open_bundle(bundle, 1)
    assert opened.fingerprint == {}
    assert any("leads out" in finding.message for finding in opened.findings)
    assert opened.spec == {"own": 1}


@pytest.mark.parametrize("parts", [("..", "secret.json"), ("steps/../..", "secret.json"), ("/etc", "hostname")])
def test_a_name_that_leads_out_is_not_followed(bundle: Path, parts: tuple[str, ...]) -> None:
    with pytest.raises(OSError, match="leads out"):
        read_evidence(bundle, *parts)


def test_a_pipe_is_not_waited_for(bundle: Path) -> None:
    os.mkfifo(bundle / "result.json")
    opened = open_bundle(bundle, 1)
    assert opened.result is None
    assert any("not a regular file" in finding.message for finding in opened.findings)


def test_a_loop_of_links_is_damage(bundle: Path) -> None:
    (bundle / "result.json").symlink_to("result.json")
    assert open_bundle(bundle, 1).result is None


def test_a_name_that_no_file_can_have_is_damage(bundle: Path) -> None:
    with pytest.raises(OSError, match="not a file name"):
        read_evidence(bundle, "a\0b")
