"""The molecule scenario on a container node: syntax, check, converge, idempotence, check again, verify, cleanup."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labctl.automation import collection
from tests.real.nodes import Node, container_node  # noqa: F401

REPO = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.real(
        what=["bench_host", "bench_postgresql", "bench_storage", "bench_tools"], where="Molecule scenario"
    ),
    pytest.mark.needs("podman", "mmdebstrap", "root", "ssh", "loop"),
]


def test_the_scenario_passes(container_node: Node, tmp_path):  # noqa: F811
    hosts = container_node.write_inventory(tmp_path) / "hosts.yml"
    programs = Path(sys.executable).parent
    ours = collection.ensure(os.environ)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "LABCTL_NODE_HOSTS": str(hosts),
        "LABCTL_NODE_NAME": container_node.name,
        "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path / "molecule"),
        "ANSIBLE_COLLECTIONS_PATH": collection.collections_path(os.environ, REPO, ours),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
    }
    done = subprocess.run(
        [programs / "molecule", "test", "--scenario-name", "default"],
        cwd=REPO,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    summary = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    # As many as the scenario's sequence has: none was left out.
    assert re.search(r"actions=7\s+successful=7\b", summary), summary[-2000:]
    assert container_node.exec("find", "/var/tmp", "-name", "labctl*").stdout == ""
