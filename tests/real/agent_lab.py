"""One host and ansible-playbook for it, as a user would run the collection's playbooks by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.agent_support import ROOT, RUN_ID, batch

HOST = "node"


class AgentLab:
    """Variables, files and results of the agent's playbooks."""

    def __init__(self, top: Path, host: dict[str, object], workdir: Path) -> None:
        self.top, self.workdir = top, workdir
        self.inbox, self.progress, self.batch = top / "inbox", top / "progress.jsonl", top / "batch.json"
        collection = top / "collections/ansible_collections/labctl/lab"
        collection.parent.mkdir(parents=True)
        collection.symlink_to(ROOT)
        (top / "hosts.json").write_text(json.dumps({"all": {"hosts": {HOST: host}}}))
        self.run_dir = workdir / "runs" / RUN_ID

    def give(self, *cells: dict[str, Any], run_id: str = RUN_ID) -> None:
        self.batch.write_text(json.dumps(batch(*cells, run_id=run_id)))

    def spawn(self, playbook: str, *arguments: str, **extra: object) -> subprocess.Popen[str]:
        variables = {
            "labctl_run_id": RUN_ID,
            "labctl_workdirs": {HOST: str(self.workdir)},
            "labctl_batches": {HOST: str(self.batch)},
            "labctl_progress": str(self.progress),
            "labctl_inbox": str(self.inbox),
            "labctl_poll_s": 0.2,
            "labctl_reconnect_s": 60,
            **extra,
        }
        program = Path(sys.executable).with_name("ansible-playbook")
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.top / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            "ANSIBLE_SHOW_CUSTOM_STATS": "1",
            "ANSIBLE_DEPRECATION_WARNINGS": "0",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.top / "cp"),
        }
        return subprocess.Popen(
            [program, f"labctl.lab.{playbook}", "-i", self.top / "hosts.json", "-e", json.dumps(variables), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
        out, err = process.communicate(timeout=120)
        document = json.loads(out[out.index("{") :])
        return process.returncode, document.get("custom_stats", {}).get(HOST, {}), out + err

    def play(self, playbook: str, *arguments: str, **extra: object) -> dict[str, Any]:
        code, stats, words = self.result(self.spawn(playbook, *arguments, **extra))
        assert code == 0, words
        return stats

    def events(self) -> list[dict[str, Any]]:
        if not self.progress.exists():
            return []
        return [json.loads(line) for line in self.progress.read_text().splitlines()]

    def await_event(self, name: str, process: subprocess.Popen[str]) -> None:
        while not any(event["event"] == name for event in self.events()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)

    def agent(self) -> int:
        return int(json.loads((self.run_dir / "status.json").read_text())["pid"])
