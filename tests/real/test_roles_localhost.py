"""The stages host and teardown on this machine as root, where PostgreSQL must belong to another user."""

from __future__ import annotations

import pwd
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.real.roles_support import Machine

pytestmark = [
    pytest.mark.real(what=["bench_host", "bench_postgresql", "bench_storage"], where="localhost as root"),
    pytest.mark.needs("root", "postgresql"),
]
INVENTORY = (
    "all: {hosts: {here: {ansible_connection: local, ansible_python_interpreter: '{{ ansible_playbook_python }}'}}}"
)


def shell(text: str) -> str:
    return subprocess.run(["/bin/sh", "-c", text], check=True, capture_output=True, text=True).stdout


def test_root_prepares_databases_for_the_user_postgres(tmp_path):
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="labctl-test-") as base:
        # The user postgres must pass; the directory of the run itself is made by the role.
        Path(base).chmod(0o711)
        machine = Machine("here", tmp_path / "hosts.yml", tmp_path, shell, f"{base}/w")
        wanted: dict[str, Any] = {
            "bench_storage_arms": [machine.directory_arm()],
            "bench_postgresql_instances": [machine.instance("dir")],
        }
        machine.stats(machine.play("host", **wanted))
        data = Path(machine.arms) / "dir" / "pg"
        assert pwd.getpwuid(data.stat().st_uid).pw_name == "postgres"
        assert (data / "PG_VERSION").is_file()
        assert machine.stats(machine.play("host", **wanted)).changed == 0
        machine.stats(machine.play("teardown", **wanted))
        assert list(Path(base).iterdir()) == []
