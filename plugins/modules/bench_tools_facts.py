#!/usr/bin/python
# Copyright: the labctl authors. Apache-2.0.
"""Find benchmark tools on a host, and say what would install those that are missing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_tools_facts
short_description: Find benchmark tools on a host and say what would install the missing ones
description:
  - Looks for the programs of each tool and asks them for their version. Changes nothing.
options:
  tools:
    description: Names of tools. A program's name stands for its tool, for example C(pg_ctl) for C(postgresql).
    type: list
    elements: str
    required: true
  minimum:
    description: Tool to the lowest version that is good enough.
    type: dict
    default: {}
attributes:
  check_mode: {support: full}
author: The labctl authors
"""

EXAMPLES = r"""
- name: Look for fio
  labctl.lab.bench_tools_facts:
    tools: [fio]
    minimum: {fio: "3.0"}
"""

RETURN = r"""
found:
  description: Tool to path and version.
  type: dict
  returned: always
missing:
  description: Tools that are not there.
  type: list
  elements: str
  returned: always
outdated:
  description: Tools that are older than asked for, with both versions.
  type: list
  elements: str
  returned: always
manager:
  description: Package manager of the host, C(apt), C(dnf), C(zypper) or empty.
  type: str
  returned: always
packages:
  description: Packages that hold what is missing or outdated.
  type: list
  elements: str
  returned: always
needs_epel:
  description: Whether a package comes only from EPEL, and EPEL is not set up.
  type: bool
  returned: always
command:
  description: The command that installs the packages.
  type: str
  returned: always
"""

import glob
import os
import re
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.labctl.lab.plugins.module_utils.postgresql_programs import newest_directory

# Tool → programs that must all be there (the first is asked for its version), and package per package manager.
# pgbench of Fedora, RHEL and SUSE is in the contrib package; Debian's server package holds it.
TOOLS = {
    "fio": {"programs": ["fio"], "apt": ["fio"], "dnf": ["fio"], "zypper": ["fio"]},
    "sysbench": {"programs": ["sysbench"], "apt": ["sysbench"], "dnf": ["sysbench"], "zypper": ["sysbench"]},
    "postgresql": {
        "programs": ["postgres", "initdb", "pg_ctl", "psql", "createdb", "dropdb", "pgbench"],
        "apt": ["postgresql"],
        "dnf": ["postgresql-server", "postgresql", "postgresql-contrib"],
        "zypper": ["postgresql-server", "postgresql", "postgresql-contrib"],
    },
    "xfsprogs": {"programs": ["mkfs.xfs"], "apt": ["xfsprogs"], "dnf": ["xfsprogs"], "zypper": ["xfsprogs"]},
    "e2fsprogs": {"programs": ["mkfs.ext4"], "apt": ["e2fsprogs"], "dnf": ["e2fsprogs"], "zypper": ["e2fsprogs"]},
    "util-linux": {"programs": ["losetup"], "apt": ["util-linux"], "dnf": ["util-linux"], "zypper": ["util-linux"]},
}
VERSION_OPTION = {"mkfs.xfs": "-V", "mkfs.ext4": "-V"}
# Not in RHEL nor its rebuilds.
EPEL_ONLY = frozenset(["sysbench"])
INSTALL = {"apt": "apt-get install", "dnf": "dnf install", "zypper": "zypper install"}
ADMIN_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def tool_of(name: str) -> str | None:
    """The tool that a name of a tool or of a program stands for."""
    if name in TOOLS:
        return name
    return next((tool for tool, about in TOOLS.items() if name in about["programs"]), None)


def find_program(name: str) -> str | None:
    """Path of a program; of PostgreSQL in the newest server's directory, because Debian's wrappers on PATH guess."""
    directory = newest_directory()
    postgresql = name in TOOLS["postgresql"]["programs"]
    if postgresql and directory and os.access(os.path.join(directory, name), os.X_OK):
        return os.path.join(directory, name)
    path = os.pathsep.join([os.environ.get("PATH", ""), *ADMIN_DIRECTORIES])
    program = shutil.which(name, path=path)
    # Debian's wrapper is there without any server; it is not the program.
    if postgresql and program and os.path.realpath(program).endswith("/pg_wrapper"):
        return None
    return program


def version_numbers(text: str) -> tuple:
    """The first dotted number of a text, as integers: ``fio-3.33`` → (3, 33)."""
    match = re.search(r"(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def manager_of_host() -> str:
    """The package manager, by its program: derivatives keep it where they rename themselves."""
    programs = (("apt", "apt-get"), ("zypper", "zypper"), ("dnf", "dnf"))
    return next((name for name, program in programs if shutil.which(program)), "")


def os_release() -> dict:
    """/etc/os-release as a dictionary."""
    values = {}
    try:
        with open("/etc/os-release", encoding="utf-8") as handle:
            for line in handle:
                key, _, value = line.strip().partition("=")
                values[key] = value.strip("\"'")
    except OSError:
        pass
    return values


def needs_epel(tools: list, release: dict) -> bool:
    """Whether one of the tools is only in EPEL, and the host has no EPEL. Fedora has all of them itself."""
    family = (release.get("ID", "") + " " + release.get("ID_LIKE", "")).split()
    if release.get("ID") == "fedora" or "rhel" not in family:
        return False
    return bool(EPEL_ONLY.intersection(tools)) and not glob.glob("/etc/yum.repos.d/*epel*.repo")


def main() -> None:
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "tools": {"type": "list", "elements": "str", "required": True},
            "minimum": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    unknown = [name for name in module.params["tools"] if tool_of(name) is None]
    if unknown:
        module.fail_json(msg=f"Unknown tool {', '.join(unknown)}; known are {', '.join(TOOLS)}.")
    wanted = list(dict.fromkeys(tool_of(name) or name for name in module.params["tools"]))
    minimum = {tool_of(name) or name: str(version) for name, version in module.params["minimum"].items()}
    found, missing, outdated, lacking = {}, [], [], []
    for tool in wanted:
        programs = TOOLS[tool]["programs"]
        paths = [path for path in map(find_program, programs) if path is not None]
        if len(paths) < len(programs):
            missing.append(tool)
            lacking.append(tool)
            continue
        rc, out, err = module.run_command([paths[0], VERSION_OPTION.get(programs[0], "--version")])
        text = (out + err).strip().split("\n")[0]
        if rc != 0:
            module.fail_json(msg=f"{paths[0]} does not run: {text}")
        numbers = version_numbers(text)
        found[tool] = {"path": paths[0], "version": ".".join(str(part) for part in numbers)}
        if tool in minimum and numbers < version_numbers(minimum[tool]):
            outdated.append(f"{tool} {found[tool]['version']} (needed: {minimum[tool]} or newer)")
            lacking.append(tool)
    manager = manager_of_host()
    packages = list(dict.fromkeys(name for tool in lacking for name in TOOLS[tool].get(manager, [tool])))
    module.exit_json(
        changed=False,
        found=found,
        missing=missing,
        outdated=outdated,
        manager=manager,
        packages=packages,
        needs_epel=needs_epel(lacking, os_release()),
        command=" ".join([INSTALL.get(manager, "install"), *packages]) if packages else "",
    )


if __name__ == "__main__":
    main()
