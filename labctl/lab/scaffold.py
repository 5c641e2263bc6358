"""The files of a new lab. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from labctl.errors import ExitCode, LabctlError

_HOST = re.compile(
    r"(?:(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)=)?"
    r"(?:(?P<user>[A-Za-z_][A-Za-z0-9._-]*\$?)@)?"
    r"(?P<address>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+)\Z"
)

_HOSTS = """\
---
# The hosts of this lab: an ordinary Ansible inventory. Everything that Ansible allows is allowed here (groups,
# children, ranges such as node[1:3], plugins); variables that begin with lab_ belong to labctl.
# Check it:  labctl lab show -i .     Check the hosts:  labctl doctor -i .
all:
  hosts:
"""
_LOCAL = """\
    localhost:
      # This machine, without SSH. A host over SSH has ansible_host and ansible_user instead.
      ansible_connection: local
      # Controller and target are the same machine, so the Python that runs Ansible serves both.
      ansible_python_interpreter: "{{ ansible_playbook_python }}"
"""
_ALL = """\
---
# Variables of every host. What stands in host_vars/<host>.yml wins over this file.

# Name of the lab in records and reports. Unset: the name of this directory.
lab_name: %(name)s

# One line for reports.
# lab_description: Four servers of rack 4

# Where labctl may write on the hosts: put it on the file system that is to be measured, at least 20 GiB free.
# Unset: a directory of its own below /var/tmp.
# lab_workdir: /srv/labctl

# How Ansible logs in and becomes root. Passwords belong into a file made with `ansible-vault encrypt`.
# ansible_user: bench
# ansible_ssh_private_key_file: ~/.ssh/bench
# ansible_become_password: "{{ vault_become_password }}"
"""
_HOST_VARS = """\
---
# Variables of %(host)s alone.

# Disks that roles may use, only by their stable id: `ls -l /dev/disk/by-id` on the host shows them.
# lab_disks:
#   - id: /dev/disk/by-id/nvme-MODEL_SERIAL
#     # In your words: what it is for.
#     purpose: benchmark
#     # Size in GiB.
#     size_gib: 1788

# Network interfaces that must be there; labctl doctor checks them.
# lab_nics:
#   - name: ens1f0
#     mac: 00:00:5e:00:53:01
#     speed_gbps: 25
"""
_README = """\
# Lab %(name)s

An Ansible inventory that labctl reads in place.

| file | holds |
| --- | --- |
| hosts.yml | the hosts and their groups |
| group_vars/all.yml | variables of every host: name of the lab, working directory, login |
| host_vars/*.yml | variables of one host: disks, network interfaces |

    labctl lab show -i .           # is the inventory right? contacts no host
    labctl doctor -i .             # are the hosts fit to measure?
    labctl plan quickstart -i .    # what would run, how long, how much is written
    labctl run quickstart -i .

Everything labctl does to a host is a playbook of the collection `labctl.lab`; each run prints the `ansible-playbook`
line that does the same by hand.
"""


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host as the user named it."""

    name: str
    address: str
    user: str | None = None


def parse_host(text: str) -> NewHost:
    """``[NAME=][USER@]ADDRESS``; without a name, the address is the name if it can be one.

    Raises:
        LabctlError: anything else.
    """
    match = _HOST.match(text)
    if match is None or ".." in text:
        hint = "expected [NAME=][USER@]ADDRESS, such as node1=bench@10.0.0.11"
        raise LabctlError(f"--host {text}: not a host", hint=hint, code=ExitCode.USAGE)
    name = match["name"] or match["address"]
    if ":" in name:
        hint = f"give it a name: --host node1={text}"
        raise LabctlError(f"--host {text}: an IPv6 address cannot be a name", hint=hint, code=ExitCode.USAGE)
    return NewHost(name, match["address"], match["user"])


def scaffold(directory: str, hosts: Sequence[NewHost]) -> dict[str, str]:
    """Relative path to text of each file of a new lab.

    Args:
        directory: name of the lab's directory; the lab is named after it.
        hosts: none means this machine.

    Raises:
        LabctlError: two hosts have the same name.
    """
    name = re.sub(r"[^a-z0-9]+", "-", directory.lower()).strip("-")[:63].strip("-") or "lab"
    names = [host.name for host in hosts] or ["localhost"]
    if len({name.lower() for name in names}) != len(names):
        hint = "name them: --host node1=ADDRESS --host node2=ADDRESS"
        raise LabctlError("two hosts have the same name", hint=hint, code=ExitCode.USAGE)
    files = {
        "README.md": _README % {"name": name},
        "hosts.yml": _HOSTS + ("".join(_entry(host) for host in hosts) or _LOCAL),
        "group_vars/all.yml": _ALL % {"name": json.dumps(name)},
    }
    for host in names:
        files[f"host_vars/{host}.yml"] = _HOST_VARS % {"host": host}
    return files


def _entry(host: NewHost) -> str:
    """One host over SSH. Quoted, because YAML takes 1e3 for a number."""
    lines = [f"    {json.dumps(host.name)}:", f"      ansible_host: {json.dumps(host.address)}"]
    if host.user:
        lines.append(f"      ansible_user: {json.dumps(host.user)}")
    return "\n".join(lines) + "\n"
