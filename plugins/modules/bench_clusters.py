#!/usr/bin/python
# Copyright: the labctl authors. Apache-2.0.
"""Prepare or remove PostgreSQL data directories that only a benchmark uses."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bench_clusters
short_description: Prepare or remove PostgreSQL data directories that only a benchmark uses
description:
  - Runs C(initdb) for an ordinary user and writes the settings. Starts nothing; nothing will ever listen on TCP.
  - Where the module runs as root, everything belongs to O(database_user), because PostgreSQL refuses root.
options:
  instances:
    description: The data directories.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: Name of the instance., type: str, required: true}
      data_dir: {description: The data directory; its parent must exist., type: path, required: true}
      socket_dir: {description: Directory of the Unix socket; its parent must exist., type: path, required: true}
      settings: {description: Settings of postgresql.conf that replace or add to the defaults., type: dict, default: {}}
  run_id:
    description: The run to which the data directories belong.
    type: str
    required: true
  database_user:
    description: User that owns the data directories where the module runs as root.
    type: str
    default: postgres
  bin_dir:
    description: Directory with C(initdb). Default is the highest version found in the usual places.
    type: path
  state:
    description: Whether the data directories shall exist. V(absent) stops a server that still runs on them.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode: {support: full}
  diff_mode: {support: full}
author: The labctl authors
"""

EXAMPLES = r"""
- name: Prepare a data directory
  labctl.lab.bench_clusters:
    run_id: r1
    instances:
      - name: xfs
        data_dir: /var/tmp/labctl/arms/r1/xfs/pg
        socket_dir: /var/tmp/labctl/arms/r1/xfs/s
        settings: {shared_buffers: 256MB}
"""

RETURN = r"""
bin_dir:
  description: Directory of the programs that were used.
  type: str
  returned: when state is present
user:
  description: The user to whom the data directories belong.
  type: str
  returned: success
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.labctl.lab.plugins.module_utils import ownership as own
from ansible_collections.labctl.lab.plugins.module_utils.postgresql_programs import newest_directory

SETTINGS_FILE = "labctl.conf"
# sun_path of unix(7) has 108 bytes with the final NUL.
SOCKET_PATH_MAX = 107
SOCKET_NAME = "/.s.PGSQL.5432"
MAX_SHARED_BUFFERS = 8 * 2**30
STOP_TIMEOUT_S = 60
SETTING_NAME = re.compile(r"^[a-z_][a-z0-9_.]*$")
RESERVED = ("listen_addresses", "unix_socket_directories", "unix_socket_permissions", "data_directory", "hba_file")


def memory_bytes() -> int:
    """RAM that a server may use: the machine's, or less where a control group says so."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = (read_text(path) or "").strip()
        # cgroup v2 says "max" for no limit.
        if limit.isdigit():
            sizes.append(int(limit))
    return min(sizes)


def default_settings(memory: int) -> dict:
    """Settings derived from memory, as the PostgreSQL manual advises (resource consumption: a quarter for buffers).

    Durability is spelled out: it decides what is measured.
    """
    return {
        "shared_buffers": f"{min(memory // 4, MAX_SHARED_BUFFERS) // 2**20}MB",
        "effective_cache_size": f"{memory // 2 // 2**20}MB",
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "logging_collector": "off",
    }


def render_settings(settings: dict, socket_dir: str) -> str:
    """The text of the included settings file."""
    fixed = {
        "listen_addresses": "",
        "unix_socket_directories": socket_dir,
        "unix_socket_permissions": "0700",
    }
    lines = ["# Written by the role labctl.lab.bench_postgresql; a change here is overwritten."]
    for name, value in {**settings, **fixed}.items():
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        lines.append("{} = '{}'".format(name, text.replace("\\", "\\\\").replace("'", "''")))
    return "\n".join(lines) + "\n"


def check_instance(instance: dict, *, parents: bool) -> None:
    """Refuse unsafe paths, a socket path that the kernel cannot take, and settings that are not the user's.

    Args:
        instance: one of the module's instances.
        parents: whether the directories above must be there; in check mode nobody has made them.
    """
    for path in (instance["data_dir"], instance["socket_dir"]):
        own.check_path(path)
        if parents and not os.path.isdir(os.path.dirname(path)):
            raise own.Refused(f"{os.path.dirname(path)} does not exist")
    length = len(os.fsencode(instance["socket_dir"] + SOCKET_NAME))
    if length > SOCKET_PATH_MAX:
        raise own.Refused(
            f"the socket's path {instance['socket_dir']}{SOCKET_NAME} has {length} bytes, "
            f"{SOCKET_PATH_MAX} are possible; choose a shorter working directory"
        )
    for name in instance["settings"]:
        if not SETTING_NAME.match(name) or name in RESERVED:
            raise own.Refused(f"{name!r} cannot be set")


class Clusters:
    """The data directories of one host."""

    def __init__(self, module: AnsibleModule, user: pwd.struct_passwd) -> None:
        self.module = module
        self.run_id = module.params["run_id"]
        self.user = user
        self.bin_dir = ""
        self.before: list = []
        self.after: list = []

    def run(self, argv: list) -> str:
        """Run a command as the database user; its own words as refusal if it fails."""
        identity: dict[str, Any] = {}
        if os.getuid() != self.user.pw_uid:
            identity = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "HOME": self.user.pw_dir}
        done = subprocess.run(
            argv, cwd="/", env=environment, capture_output=True, text=True, errors="replace", check=False, **identity
        )
        if done.returncode != 0:
            raise own.Refused(f"{' '.join(argv)} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def program(self, name: str) -> str:
        """Path of a PostgreSQL program."""
        return os.path.join(self.bin_dir, name)

    def marker_of(self, data_dir: str) -> dict | None:
        """The marker beside a data directory; refuses what is not ours."""
        marker = own.read_marker_file(data_dir + own.MARKER)
        if marker is None:
            if os.path.lexists(data_dir):
                raise own.Refused(f"{data_dir} exists and labctl did not make it")
            return None
        if marker.get("run_id") != self.run_id:
            raise own.Refused(f"{data_dir} belongs to run {marker.get('run_id')}, not to {self.run_id}")
        return marker

    def owned_directory(self, path: str) -> None:
        """Make a directory 0700 that belongs to the database user."""
        os.makedirs(path, mode=0o700, exist_ok=True)
        os.chmod(path, 0o700)
        os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def present(self, instance: dict) -> None:
        """Run initdb where that is not done, and write the settings where they differ."""
        check_instance(instance, parents=not self.module.check_mode)
        data_dir = instance["data_dir"]
        marker = self.marker_of(data_dir)
        ready = marker is not None and marker.get("state") == "ready"
        settings = {**default_settings(memory_bytes()), **instance["settings"]}
        wanted = render_settings(settings, instance["socket_dir"])
        there = read_text(os.path.join(data_dir, SETTINGS_FILE)) if ready else None
        socket_ready = os.path.isdir(instance["socket_dir"])
        self.after.append(f"{instance['name']}: {data_dir}\n{wanted}")
        if ready and socket_ready:
            self.before.append(f"{instance['name']}: {data_dir}\n{there}")
        if ready:
            self.check_version(data_dir)
        if self.module.check_mode or (there == wanted and socket_ready):
            return
        if not ready:
            self.initialise(instance)
        self.owned_directory(instance["socket_dir"])
        settings_file = os.path.join(data_dir, SETTINGS_FILE)
        with open(settings_file, "w", encoding="utf-8") as handle:
            handle.write(wanted)
        os.chown(settings_file, self.user.pw_uid, self.user.pw_gid)
        # The server reads its files and says what is wrong with them, without starting.
        self.run([self.program("postgres"), "-D", data_dir, "-C", "listen_addresses"])
        own.write_marker_file(
            data_dir + own.MARKER, "postgresql", self.run_id, state="ready", socket_dir=instance["socket_dir"]
        )

    def check_version(self, data_dir: str) -> None:
        """Refuse a data directory of another major version than the programs."""
        made_by = (read_text(os.path.join(data_dir, "PG_VERSION")) or "").strip()
        have = self.run([self.program("postgres"), "--version"])
        match = re.search(r"\) (\d+)", have)
        if match is None or match.group(1) != made_by:
            raise own.Refused(f"{data_dir} was made by PostgreSQL {made_by}, {self.bin_dir} is {have.strip()}")

    def initialise(self, instance: dict) -> None:
        """Run initdb in an empty directory; what an interrupted initdb left is removed first."""
        data_dir = instance["data_dir"]
        own.write_marker_file(
            data_dir + own.MARKER, "postgresql", self.run_id, state="making", socket_dir=instance["socket_dir"]
        )
        if os.path.isdir(data_dir):
            shutil.rmtree(data_dir)
        self.owned_directory(data_dir)
        try:
            self.run(["/bin/sh", "-c", 'cd "$1"', "sh", data_dir])
        except own.Refused:
            raise own.Refused(
                f"user {self.user.pw_name} cannot reach {data_dir}: a directory above it has no x permission for others"
            ) from None
        self.run(
            [
                self.program("initdb"),
                f"--pgdata={data_dir}",
                f"--username={self.user.pw_name}",
                "--auth-local=peer",
                "--auth-host=reject",
                "--data-checksums",
                "--encoding=UTF8",
                "--locale=C",
            ]
        )
        with open(os.path.join(data_dir, "postgresql.conf"), "a", encoding="utf-8") as handle:
            handle.write(f"\ninclude = '{SETTINGS_FILE}'\n")

    def absent(self, instance: dict) -> None:
        """Stop what still runs on a data directory, then remove it and its socket directory."""
        data_dir = instance["data_dir"]
        own.check_path(data_dir)
        marker = self.marker_of(data_dir)
        if marker is None:
            return
        self.before.append(f"{instance['name']}: {data_dir}")
        if self.module.check_mode:
            return
        stop_server(data_dir)
        socket_dir = marker.get("socket_dir")
        for path in (data_dir, socket_dir):
            if path and os.path.isdir(path):
                own.check_path(path)
                shutil.rmtree(path)
        os.unlink(data_dir + own.MARKER)


def read_text(path: str) -> str | None:
    """Text of a file, None where there is none."""
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def running_server(data_dir: str) -> int | None:
    """Process id of the server of a data directory. A stale postmaster.pid, as after a reboot, does not count."""
    text = read_text(os.path.join(data_dir, "postmaster.pid")) or ""
    first = text.split("\n", 1)[0].strip()
    if not first.isdigit():
        return None
    try:
        # A postmaster's working directory is its data directory.
        here = os.path.samefile(f"/proc/{first}/cwd", data_dir)
    except OSError:
        return None
    return int(first) if here else None


def stop_server(data_dir: str) -> None:
    """Stop a server: fast first, then at once. The signals are those of pg_ctl(1), which may be uninstalled by now."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        pid = running_server(data_dir)
        if pid is None:
            return
        os.kill(pid, number)
        give_up = time.monotonic() + STOP_TIMEOUT_S
        while running_server(data_dir) is not None and time.monotonic() < give_up:
            time.sleep(0.1)
    if running_server(data_dir) is not None:
        raise own.Refused(f"the server on {data_dir} does not stop")


def main() -> None:
    """Entry point of the module."""
    instance_spec = {
        "name": {"type": "str", "required": True},
        "data_dir": {"type": "path", "required": True},
        "socket_dir": {"type": "path", "required": True},
        "settings": {"type": "dict", "default": {}},
    }
    module = AnsibleModule(
        argument_spec={
            "instances": {"type": "list", "elements": "dict", "required": True, "options": instance_spec},
            "run_id": {"type": "str", "required": True},
            "database_user": {"type": "str", "default": "postgres"},
            "bin_dir": {"type": "path"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    state = module.params["state"]
    name = module.params["database_user"] if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    bin_dir = None
    if state == "present":
        bin_dir = module.params["bin_dir"] or newest_directory()
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            user = None
        if (bin_dir is None or user is None) and module.check_mode:
            module.exit_json(changed=True, user=name, bin_dir=bin_dir, msg="PostgreSQL is not installed yet")
        if bin_dir is None:
            module.fail_json(msg="PostgreSQL's initdb is not installed on this host.")
        if user is None:
            module.fail_json(msg=f"User {name} does not exist; it is to own the data directories.")
            return
    else:
        user = pwd.getpwuid(os.getuid())
    work = Clusters(module, user)
    work.bin_dir = bin_dir or ""
    instance = {}
    try:
        own.check_run_id(work.run_id)
        for instance in module.params["instances"]:
            getattr(work, state)(instance)
    except own.Refused as refused:
        module.fail_json(msg=f"PostgreSQL instance {instance.get('name')}: refused: {refused}.")
    except OSError as error:
        module.fail_json(msg=f"PostgreSQL instance {instance.get('name')}: {error}.")
    module.exit_json(
        changed=work.before != work.after,
        user=name,
        bin_dir=bin_dir,
        diff={"before": "\n".join(work.before), "after": "\n".join(work.after)},
    )


if __name__ == "__main__":
    main()
