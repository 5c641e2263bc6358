#!/usr/bin/python

# Copyright: the labctl authors. Apache-2.0.
"""Read what a host really is."""

DOCUMENTATION = r"""
module: probe
short_description: Read what a host really is
version_added: 0.1.0
description:
  - Reads kernel, operating system, virtualization, CPU, memory, load, clock, tools and storage of a host.
  - Changes nothing. Free of libraries; needs Python 3.9 or newer.
options:
  paths:
    description: Directories that shall be used. They need not exist; then the nearest existing parent is looked at.
    type: list
    elements: path
    default: []
  tools:
    description: Programs to look for. Known ones are asked for their version.
    type: list
    elements: str
    default: [fio, sysbench, pgbench, postgres, initdb, pg_ctl, psql, iperf3, mkfs.xfs, mkfs.ext4, losetup]
attributes:
  check_mode:
    description: Reads in check mode too.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author:
  - The labctl authors
"""

EXAMPLES = r"""
- name: Look at the host
  labctl.lab.probe:
    paths: [/var/lib/labctl]
    tools: [fio, pgbench]
"""

RETURN = r"""
facts:
  description: What was found; the fields of C(labctl.lab.facts.HostFacts).
  returned: success
  type: dict
  contains:
    host: {description: "Name, kernel, system, boot and kind of machine.", type: dict, returned: success}
    cpu: {description: "Model, sockets, cores, threads, governor.", type: dict, returned: success}
    memory: {description: "Bytes of RAM and swap, and the limit of the cgroup.", type: dict, returned: success}
    load: {description: "Load averages and busy processes.", type: dict, returned: success}
    time: {description: "Clock and whether it is disciplined.", type: dict, returned: success}
    user: {description: "Who logs in, and whether sudo works without a password.", type: dict, returned: success}
    tools: {description: "Path and version by name, null where missing.", type: dict, returned: success}
    paths: {description: "Mount, file system, space and disk by path.", type: dict, returned: success}
    loop: {description: "Whether loop devices can be had.", type: dict, returned: success}
    systemd: {description: "Whether systemd runs and keeps the user's processes.", type: dict, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.labctl.lab.plugins.module_utils.cell_agent import facts

_POSTGRESQL = ["pgbench", "postgres", "initdb", "pg_ctl", "psql"]
_TOOLS = ["fio", "sysbench", *_POSTGRESQL, "iperf3", "mkfs.xfs", "mkfs.ext4", "losetup"]


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "default": []},
            "tools": {"type": "list", "elements": "str", "default": _TOOLS},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, facts=facts.gather(module.params["paths"], module.params["tools"]))


if __name__ == "__main__":
    main()
