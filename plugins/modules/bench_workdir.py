#!/usr/bin/python
# Copyright: the labctl authors. Apache-2.0.
"""Make or remove the directory that belongs to labctl on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_workdir
short_description: Make or remove the directory that belongs to labctl on a host
description:
  - Makes the working directory and the directories of one run below it, each with a marker file.
  - Removes only what carries a marker of the run, and the working directory itself once it holds no run any more.
options:
  path:
    description: The working directory.
    type: path
    required: true
  run_id:
    description: The run whose directories are made or removed.
    type: str
    required: true
  mode:
    description: Mode of the directories, C(0700), or C(0711) where another user must pass through them.
    type: str
    choices: ["0700", "0711"]
    default: "0711"
  state:
    description: Whether the directories shall exist.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode: {support: full}
  diff_mode: {support: full}
author: The labctl authors
"""

EXAMPLES = r"""
- name: Make the working directory
  labctl.lab.bench_workdir:
    path: /var/tmp/labctl
    run_id: 20261201-quickstart
"""

RETURN = r"""
paths:
  description: The directories of the run.
  type: list
  elements: str
  returned: always
"""

import os
import stat

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.labctl.lab.plugins.module_utils import ownership as own

RUN_PARENTS = ("arms", "runs")


def present(module: AnsibleModule, workdir: str, run_id: str, mode: int) -> dict:
    """Make what is missing; returns lists ``before`` and ``after`` of what a diff shows."""
    wanted = [(workdir, "workdir")] + [(os.path.join(workdir, name), "runs") for name in RUN_PARENTS]
    wanted += [(os.path.join(workdir, name, run_id), "run") for name in RUN_PARENTS]
    before, after = [], []
    for path, what in wanted:
        marker = own.check_owned(path, what, run_id if what == "run" else None)
        right = marker is not None and stat.S_IMODE(os.lstat(path).st_mode) == mode
        after.append(f"{path} {mode:04o}")
        if right:
            before.append(after[-1])
        elif marker is not None:
            before.append(f"{path} {stat.S_IMODE(os.lstat(path).st_mode):04o}")
        if right or module.check_mode:
            continue
        if marker is None:
            own.make_directory(path, what, run_id, mode)
        else:
            os.chmod(path, mode)
    return {"before": before, "after": after}


def absent(module: AnsibleModule, workdir: str, run_id: str) -> dict:
    """Remove the run's directories, then those above that hold nothing but their marker any more."""
    before = []
    gone = set()
    targets = [(os.path.join(workdir, name, run_id), "run") for name in RUN_PARENTS]
    targets += [(os.path.join(workdir, name), "runs") for name in RUN_PARENTS] + [(workdir, "workdir")]
    for path, what in targets:
        # An empty or absent directory without a marker is not ours: leave it.
        marker = own.check_owned(path, what, run_id if what == "run" else None) if os.path.isdir(path) else None
        if marker is None:
            continue
        left = {name for name in os.listdir(path) if os.path.join(path, name) not in gone}
        if what != "run" and left - {own.MARKER, "agent.lock"}:
            continue
        before.append(path)
        gone.add(path)
        if not module.check_mode:
            own.remove_directory(path, marker)
    return {"before": before, "after": []}


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "run_id": {"type": "str", "required": True},
            "mode": {"type": "str", "choices": ["0700", "0711"], "default": "0711"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    workdir, run_id = module.params["path"], module.params["run_id"]
    try:
        own.check_run_id(run_id)
        own.check_path(workdir)
        if module.params["state"] == "present":
            lists = present(module, workdir, run_id, int(module.params["mode"], 8))
        else:
            lists = absent(module, workdir, run_id)
    except own.Refused as refused:
        module.fail_json(msg=f"Refused: {refused}.")
    except OSError as error:
        module.fail_json(msg=f"The working directory {workdir} cannot be changed: {error}.")
    module.exit_json(
        changed=lists["before"] != lists["after"],
        paths=[os.path.join(workdir, name, run_id) for name in RUN_PARENTS],
        diff={name: "".join(f"{line}\n" for line in lines) for name, lines in lists.items()},
    )


if __name__ == "__main__":
    main()
