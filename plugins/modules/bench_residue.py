#!/usr/bin/python
# Copyright: the labctl authors. Apache-2.0.
"""Look for anything that a run has left on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_residue
short_description: Look for anything that a run has left on a host
description:
  - Looks for directories, images, mounts, loop devices, processes and systemd units of a run. Changes nothing.
  - Fails if there is something, but not in check mode, where everything is still there.
options:
  workdir:
    description: The working directory of labctl.
    type: path
    required: true
  run_id:
    description: The run.
    type: str
    required: true
  paths:
    description: More paths that the run used.
    type: list
    elements: path
    default: []
attributes:
  check_mode: {support: full}
author: The labctl authors
"""

EXAMPLES = r"""
- name: Look for what is left
  labctl.lab.bench_residue:
    workdir: /var/tmp/labctl
    run_id: r1
"""

RETURN = r"""
left:
  description: What is left, a line each; empty if nothing is.
  type: list
  elements: str
  returned: always
"""

import glob
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.labctl.lab.plugins.module_utils import ownership as own


def belongs(path: str, roots: list) -> bool:
    """Whether a path is one of the roots or lies below one."""
    return any(path == root or own.is_below(path, root) for root in roots)


def left_files(roots: list) -> list:
    """Roots that exist. An unmarked empty directory is the user's: it was there before."""
    left = []
    for root in roots:
        if not os.path.lexists(root):
            continue
        if os.path.isdir(root) and not os.listdir(root):
            continue
        left.append(f"{root} exists")
    return left


def left_mounts(roots: list) -> list:
    """Mounts at or below the roots."""
    return [f"{source} is mounted on {point}" for point, source in own.mounts().items() if belongs(point, roots)]


def left_loops(roots: list) -> list:
    """Loop devices whose backing file lies below the roots, deleted or not."""
    left = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as handle:
                backing = handle.read().rstrip("\n")
        except OSError:
            continue
        if belongs(backing.replace(" (deleted)", ""), roots):
            left.append(f"/dev/{path.split('/')[3]} holds {backing}")
    return left


def ancestors() -> set:
    """This process and those above it: they may name the run without belonging to it."""
    found, pid = set(), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
                pid = int(handle.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def left_processes(roots: list) -> list:
    """Processes that work in one of the roots, or name one in an argument."""
    left, spared = [], ancestors()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in spared:
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as handle:
                arguments = [os.fsdecode(word) for word in handle.read().split(b"\0")]
        except OSError:
            continue
        try:
            here = os.readlink(f"/proc/{entry}/cwd").replace(" (deleted)", "")
        except OSError:
            here = ""
        if belongs(here, roots) or any(root in word for word in arguments for root in roots):
            left.append(f"process {entry}: {' '.join(arguments).strip()[:200]}")
    return left


def left_units(module: AnsibleModule, run_id: str) -> list:
    """Systemd units that carry the run's id, of the system and of the user."""
    if not os.path.isdir("/run/systemd/system"):
        return []
    left = []
    for scope in ([], ["--user"]):
        argv = ["systemctl", *scope, "list-units", "--all", "--plain", "--no-legend", f"*labctl*{run_id}*"]
        rc, out, _ = module.run_command(argv)
        # No user manager runs for a user who never logged in: then there are no units either.
        if rc == 0:
            left += [f"unit {line.split()[0]}" for line in out.splitlines() if line.strip()]
    return left


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "workdir": {"type": "path", "required": True},
            "run_id": {"type": "str", "required": True},
            "paths": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    workdir, run_id = module.params["workdir"], module.params["run_id"]
    roots = [os.path.join(workdir, name, run_id) for name in ("runs", "arms")] + module.params["paths"]
    try:
        own.check_run_id(run_id)
        own.check_path(workdir)
    except own.Refused as refused:
        module.fail_json(msg=f"Refused: {refused}.")
    left = left_files(roots) + left_mounts(roots) + left_loops(roots)
    left += left_processes(roots) + left_units(module, run_id)
    if left and not module.check_mode:
        module.fail_json(msg=f"Left behind by run {run_id}: {'; '.join(left)}.", left=left)
    module.exit_json(changed=False, left=left)


if __name__ == "__main__":
    main()
