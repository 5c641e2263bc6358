"""A playbook through labctl's adapter against bare ansible-playbook: same playbook, inventory and configuration."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.timing import Line, alternate, milliseconds, ratios
from labctl.automation import collection, environment
from labctl.automation.runner import run_playbook

ROUNDS = 5
#: A short playbook shows the fixed cost of a run (about a quarter of a second), a longer one the cost of its events.
TASKS = (12, 40)

INVENTORY = f"""\
all:
  hosts:
    local: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}
"""


def _playbook(count: int) -> str:
    tasks = "".join(f"    - {{name: 'Task {n}', ansible.builtin.command: 'true'}}\n" for n in range(count))
    return f"- name: Bench\n  hosts: all\n  gather_facts: true\n  tasks:\n{tasks}"


def measure(scratch: Path) -> Iterator[Line]:
    """Playbooks with facts and commands on the local host."""
    inventory, playbook = scratch / "hosts.yml", scratch / "bench.yml"
    inventory.write_text(INVENTORY)
    ours = collection.ensure(os.environ)
    env = environment.scrubbed(os.environ, collection.collections_path(os.environ, Path.cwd(), ours))
    program = str(Path(sys.executable).parent / "ansible-playbook")
    numbers = itertools.count()

    def bare() -> None:
        argv = [program, "-i", str(inventory), str(playbook)]
        subprocess.run(argv, check=True, env=env, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def through_labctl() -> None:
        result = run_playbook(str(playbook), inventory=inventory, artifacts=scratch / f"run-{next(numbers)}")
        if not result.ok:
            raise RuntimeError(f"the playbook ended as {result.status}: {result.errors}")

    for count in TASKS:
        playbook.write_text(_playbook(count))
        pairs = alternate(through_labctl, bare, ROUNDS)
        note = milliseconds(pairs, ("labctl", "ansible-playbook"))
        yield Line(f"playbook of {count} tasks / bare ansible-playbook", ratios(pairs), "x", 1.05, note)
