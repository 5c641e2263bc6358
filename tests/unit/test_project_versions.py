"""One version, one set of dependencies: what several files say must be the same."""

import re
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import labctl

REPO = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())
GALAXY = YAML(typ="safe").load((REPO / "galaxy.yml").read_text())
LOCKS = ("requirements.lock", "requirements-dev.lock")


def canonical(requirement: str) -> str:
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> set[str]:
    """Lines ``name==version`` with their markers, without the hashes."""
    text = (REPO / lock).read_text()
    return {line.rstrip(" \\") for line in text.splitlines() if re.match(r"[a-z0-9]", line)}


def test_versions_are_equal():
    assert labctl.__version__ == PROJECT["project"]["version"] == GALAXY["version"]


def test_changelog_has_the_version():
    assert f"## [{labctl.__version__}]" in (REPO / "CHANGELOG.md").read_text()


def test_builder_is_the_same_in_pyproject_and_for_the_lock():
    lines = (REPO / "tools" / "build-requirements.in").read_text().splitlines()
    assert PROJECT["build-system"]["requires"] == [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-dev.lock", PROJECT["project"]["optional-dependencies"]["dev"]),
    ],
)
def test_lock_has_every_dependency(lock, wanted):
    locked = {canonical(pin) for pin in pins(lock)}
    assert {canonical(name) for name in wanted} <= locked


def test_developers_run_the_versions_that_users_run():
    # The markers may differ: a developers' tool may need a package on more platforms.
    users, developers = ({pin.partition(" ;")[0] for pin in pins(lock)} for lock in LOCKS)
    assert users <= developers


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_is_hashed_and_names_no_index(lock):
    text = (REPO / lock).read_text()
    assert "://" not in text
    for block in re.split(r"\n(?=[a-z0-9])", text):
        if re.match(r"[a-z0-9]", block):
            assert "--hash=sha256:" in block, block


def test_wheel_carries_what_exists():
    carried = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["carry"]
    assert [path for path in carried if not (REPO / path).exists()] == []
