"""Container nodes: Debian with systemd and sshd in a privileged podman container, close to a small server.

Use the fixture ``container_node`` (one node a test module), or ``running_node()`` where a test needs several or breaks
them. Mark such tests ``needs("podman", "mmdebstrap", "root")``. A node has root by ``podman exec`` (``Node.exec``), the
user ``lab`` (sudo without password) and the user ``plain`` (no sudo), both with the node's SSH key; its host key comes
from the node itself, so that host key checking is real. fio, sysbench, PostgreSQL (no server made) and xfsprogs are
installed, and their packages lie in a repository inside the node: tests can remove and install them without a network.

The image is made once by mmdebstrap from this machine's own apt sources and kept below ``LABCTL_TEST_CACHE`` (default
``~/.cache/labctl-tests``); a changed recipe makes a new one. Nodes share the machine's kernel and loop devices.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import ipaddress
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

RECIPE = Path(__file__).with_name("node_image.sh")
PACKAGES = (
    "systemd,systemd-sysv,dbus,libpam-systemd,openssh-server,python3,python3-apt,sudo,iproute2,nftables,procps,kmod,"
    "e2fsprogs,fio,sysbench,xfsprogs,postgresql"
)
NO_CLUSTER = (
    'mkdir -p "$1/etc/postgresql-common/createcluster.d"; '
    'echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.d/image.conf"'
)
IMAGE = "localhost/labctl-test-node"
LABEL = "labctl-test-node"
START_TIMEOUT_S = 60.0
CUT_RULES = """\
table inet labctl_cut {
  chain in { type filter hook input priority -200; tcp dport 22 drop; }
  chain out { type filter hook output priority -200; tcp sport 22 drop; }
}
"""
_ENV = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"}


def _run(*argv: str | Path, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, input=stdin, env=_ENV)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))}: exit {done.returncode}: {done.stderr.strip()}")
    return done


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return values["VERSION_CODENAME"].strip('"')


def _apt_sources(codename: str) -> str:
    """This machine's own sources of its release, as one-line entries; read at run time, kept nowhere."""
    listed = _run(
        "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"
    ).stdout
    entries = {
        f"deb {uri} {release} {component}"
        for uri, release, component in (line.split() for line in listed.splitlines())
        if release == codename or release.startswith(f"{codename}-")
    }
    return "\n".join(sorted(entries)) + "\n"


def cache_dir() -> Path:
    """Where the image is kept."""
    return Path(os.environ.get("LABCTL_TEST_CACHE") or Path.home() / ".cache" / "labctl-tests")


def node_image() -> str:
    """Name of the image; made, or imported from the cache, if podman does not have it. One process at a time."""
    codename = _codename()
    recipe = f"{codename}\n{PACKAGES}\n{NO_CLUSTER}\n{RECIPE.read_text()}"
    name = f"{IMAGE}:{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "node-image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _run("podman", "image", "exists", name, check=False).returncode == 0:
            return name
        archive = cache / f"node-{name.rpartition(':')[2]}.tar"
        if not archive.exists():
            _bootstrap(codename, archive)
        _run("podman", "import", "--quiet", archive, name)
    return name


def _bootstrap(codename: str, archive: Path) -> None:
    partial = archive.with_suffix(".partial.tar")
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "sources.list"
        sources.write_text(_apt_sources(codename))
        _run(
            "mmdebstrap",
            "--variant=minbase",
            f"--include={PACKAGES}",
            f"--essential-hook={NO_CLUSTER}",
            f"--customize-hook={RECIPE}",
            '--aptopt=Apt::Install-Recommends "false"',
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            codename,
            partial,
            sources,
        )
    partial.rename(archive)


def _runtime() -> str:
    """runc where it is installed: crun refuses machines that mix cgroup v1 and v2."""
    return "runc" if shutil.which("runc", path=_ENV["PATH"]) else "crun"


def _address() -> str:
    """An address of podman's default network, fixed so that a node keeps it over a reboot."""
    network = json.loads(_run("podman", "network", "inspect", "podman").stdout)[0]
    subnet = ipaddress.ip_network(network["subnets"][0]["subnet"])
    # Not cryptography; the upper half stays clear of what podman hands out itself from below.
    return str(subnet[random.randrange(subnet.num_addresses // 2, subnet.num_addresses - 2)])


@dataclass(frozen=True, slots=True)
class Node:
    """One running node; ``directory`` holds its key and its known_hosts."""

    name: str
    address: str
    directory: Path

    @property
    def key(self) -> Path:
        """Private SSH key of both users."""
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The node's host key, read from the node and not over the network."""
        return self.directory / "known_hosts"

    def exec(self, *argv: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the node as root, not over SSH: works while the network is cut."""
        words = ["podman", "exec", *(["--interactive"] if stdin is not None else []), self.name]
        return _run(*words, *argv, check=check, stdin=stdin)

    def ssh_options(self) -> list[str]:
        """Options of ssh(1) with strict host key checking."""
        return [
            *("-i", str(self.key), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=5"),
            *("-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "StrictHostKeyChecking=yes"),
        ]

    def ssh(self, command: str, *, user: str = "lab", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell command over SSH."""
        return _run("ssh", *self.ssh_options(), f"{user}@{self.address}", command, check=check)

    def variables(self, user: str = "lab") -> dict[str, str]:
        """Ansible's connection variables."""
        return {
            "ansible_host": self.address,
            "ansible_user": user,
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.known_hosts} -o StrictHostKeyChecking=yes",
            "ansible_python_interpreter": "/usr/bin/python3",
        }

    def write_inventory(self, directory: Path, user: str = "lab", **more: object) -> Path:
        """An inventory directory with this node; ``more`` are further host variables. JSON is YAML as well."""
        directory.mkdir(parents=True, exist_ok=True)
        hosts = {"all": {"hosts": {self.name: {**self.variables(user), **more}}}}
        (directory / "hosts.yml").write_text(json.dumps(hosts, indent=2))
        return directory

    def wait(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until SSH answers; notes the host key first."""
        give_up = time.monotonic() + timeout_s
        while True:
            key = self.exec("cat", "/etc/ssh/ssh_host_ed25519_key.pub", check=False)
            if key.returncode == 0:
                self.known_hosts.write_text(f"{self.address} {' '.join(key.stdout.split()[:2])}\n")
                answer = self.ssh("true", check=False)
                if answer.returncode == 0:
                    return
                key = answer
            if time.monotonic() > give_up:
                raise TimeoutError(f"{self.name} does not answer: {key.stderr.strip()}")
            time.sleep(0.3)

    def stop(self) -> None:
        """Switch the node off in order: systemd stops its services."""
        with self._loops_freed():
            _run("podman", "stop", "--time", "20", self.name)

    def start(self) -> None:
        """Switch a stopped node on and wait for SSH."""
        _run("podman", "start", self.name)
        self.wait()

    def reboot(self) -> None:
        """Restart: processes, /run, /tmp and mounts are gone, the boot id is another, the disk and the address stay."""
        self.stop()
        self.start()

    def power_cut(self) -> None:
        """Kill everything at once, as a pulled plug does; ``start()`` boots again."""
        with self._loops_freed():
            _run("podman", "kill", "--signal", "KILL", self.name)
            _run("podman", "wait", self.name)

    def cut(self) -> None:
        """Drop everything that goes to or from the node's sshd, as a pulled cable does; open sessions hang."""
        self.exec("nft", "-f", "-", stdin=CUT_RULES)

    def restore(self) -> None:
        """Plug the cable in again."""
        self.exec("nft", "delete", "table", "inet", "labctl_cut")

    def drop_sessions(self) -> None:
        """Kill the sshd processes of open sessions; new logins work."""
        self.exec("pkill", "-KILL", "-f", "^sshd: (lab|plain)", check=False)

    def remove(self) -> None:
        """Remove the node, its disk, and the loop devices that hold images on it."""
        with self._loops_freed():
            _run("podman", "rm", "--force", "--time", "0", self.name)

    @contextlib.contextmanager
    def _loops_freed(self) -> Iterator[None]:
        """Detach loop devices of the node after it is gone: they belong to the machine's kernel and would stay.

        Images on the node's own disk are told from all others by the device number of that disk.
        """
        disk = self.exec("mountpoint", "--fs-devno", "/", check=False).stdout.strip()
        yield
        listed = _run("losetup", "--noheadings", "--output", "NAME,BACK-MAJ:MIN").stdout
        for name, number in (line.split() for line in listed.splitlines()):
            if disk and number == disk:
                _run("losetup", "--detach", name)


@contextlib.contextmanager
def running_node(name: str = "node") -> Iterator[Node]:
    """A fresh node, removed at the end."""
    image = node_image()
    with tempfile.TemporaryDirectory(prefix="labctl-node-") as scratch:
        node = Node(f"labctl-{name}-{uuid.uuid4().hex[:8]}", _address(), Path(scratch))
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", node.key)
        _run(
            *("podman", "--runtime", _runtime(), "run", "--detach", "--name", node.name, "--hostname", node.name),
            *("--label", LABEL, "--privileged", "--systemd=false", "--env", "container=podman"),
            *("--stop-signal", "SIGRTMIN+3", "--cgroupns=private", "--ip", node.address),
            *("--tmpfs", "/run:rw,dev,suid,exec,mode=755", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:rw,exec"),
            *("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=32768:32768"),
            *(image, "/lib/systemd/systemd"),
        )
        try:
            public = Path(f"{node.key}.pub").read_text()
            for user in ("lab", "plain"):
                place = f"/home/{user}/.ssh"
                script = f"install -d -m 700 -o {user} -g {user} {place} && cat > {place}/authorized_keys"
                node.exec("sh", "-c", script, stdin=public)
            node.wait()
            yield node
        finally:
            node.remove()


@pytest.fixture(scope="module")
def container_node() -> Iterator[Node]:
    """One node for a test module."""
    with running_node() as node:
        yield node
