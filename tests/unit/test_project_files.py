"""Every file of the repository: nothing of one machine, nothing broken that no linter looks at."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML

REPO = Path(__file__).resolve().parents[2]
NOT_OURS = {".git", ".venv", ".cache", ".ansible", "build", "dist", "records", "htmlcov"}

# In pieces, so that this file does not match itself.
MACHINE_PATHS = re.compile(r"(?<![\w.~<>-])(/wo" + r"rk/(?!dir)|/r" + r"oot/\.)")
REGISTRY_HOSTS = re.compile(
    r"\b(py" + r"pi\.org|python" + r"hosted\.org|crates" + r"\.io|registry\.npm" + r"js|proxy\.gol" + r"ang|maven"
    r"\.org|deb\.deb" + r"ian\.org|security\.deb" + r"ian\.org)",
    re.IGNORECASE,
)


@cache
def files() -> tuple[Path, ...]:
    """What is tracked; without Git (a source archive), every file that was not made here."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        paths = [REPO / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    else:
        paths = [path for path in REPO.rglob("*") if not NOT_OURS & set(path.relative_to(REPO).parts)]
    # A deleted file stays in Git's index until the commit.
    return tuple(path for path in paths if path.is_file() and "__pycache__" not in path.parts)


def texts() -> list[tuple[str, str]]:
    return [(str(path.relative_to(REPO)), path.read_text(encoding="utf-8", errors="replace")) for path in files()]


def faults(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_repository_is_seen():
    assert {REPO / "pyproject.toml", REPO / "labctl" / "errors.py"} <= set(files())


def test_no_paths_of_one_machine():
    assert faults(MACHINE_PATHS) == []


def test_no_package_registry_is_named():
    assert faults(REGISTRY_HOSTS) == []


@pytest.mark.parametrize("bad", ["cd /wo" + "rk/main", "'/r" + "oot/.ssh/id'", "x=/wo" + "rk/a"])
def test_the_pattern_finds_machine_paths(bad):
    assert MACHINE_PATHS.search(bad)


def test_every_yaml_file_loads():
    broken = []
    for path in files():
        # Test data may be broken on purpose; files of Ansible may carry its own tags.
        if path.suffix not in {".yml", ".yaml"} or (REPO / "tests") in path.parents:
            continue
        yaml = YAML(typ="rt")
        try:
            list(yaml.load_all(path.read_text()))
        except Exception as error:  # noqa: BLE001 - whatever the parser says is the finding
            broken.append(f"{path.relative_to(REPO)}: {error}")
    assert broken == []


def test_scripts_are_executable_and_say_how_to_run():
    wrong = [
        str(path.relative_to(REPO))
        for path in files()
        if path.suffix == ".sh" and not (os.access(path, os.X_OK) and path.read_bytes().startswith(b"#!/bin/"))
    ]
    assert wrong == []


def target_side() -> list[Path]:
    """What Ansible copies to hosts, whose Python may be 3.9 with nothing but its standard library."""
    roots = (REPO / "plugins" / "modules", REPO / "plugins" / "module_utils")
    return [path for path in files() if path.suffix == ".py" and any(root in path.parents for root in roots)]


def foreign_imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    ours = ("ansible.module_utils.", "ansible_collections.labctl.lab.plugins.module_utils")
    return {
        name for name in names if name.split(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith(ours)
    }


def test_code_for_hosts_needs_only_python_3_9():
    wrong = []
    for path in target_side():
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        if foreign := foreign_imports(tree):
            wrong.append(f"{path.relative_to(REPO)}: {', '.join(sorted(foreign))}")
    assert wrong == []


def test_foreign_imports_are_found():
    tree = ast.parse("import json, yaml\nfrom ansible.module_utils.basic import AnsibleModule\nfrom labctl import x")
    assert foreign_imports(tree) == {"yaml", "labctl"}
