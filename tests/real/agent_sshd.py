"""A private sshd on loopback with an ordinary user, to cut and to come back to."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.agent_support import alive


class Sshd:
    """Starts on a free port; ``cut`` ends it with all its sessions, ``start`` brings it back on the same port."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.made_user = os.geteuid() == 0
        self.user = f"labctl-t{os.getpid()}" if self.made_user else getpass.getuser()
        if self.made_user:
            subprocess.run(
                ["useradd", "-m", "-d", str(top / "home"), "-s", "/bin/bash", "-p", "*", self.user], check=True
            )
            Path("/run/sshd").mkdir(exist_ok=True)
        self.home = Path(pwd.getpwnam(self.user).pw_dir)
        for name in ("host", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(top / name)], check=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        keys = top / "authorized_keys"
        keys.write_bytes((top / "key.pub").read_bytes())
        keys.chmod(0o644)
        (top / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {top}/host\nPidFile {top}/pid\nUsePAM no\n"
            f"AuthorizedKeysFile {keys}\nStrictModes no\nPasswordAuthentication no\nMaxStartups 50\n"
        )
        host_key = (top / "host.pub").read_text().split()
        (top / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host_key[0]} {host_key[1]}\n")
        self.pid = 0
        self.start()

    def start(self) -> None:
        subprocess.run([shutil.which("sshd") or "/usr/sbin/sshd", "-f", str(self.top / "sshd_config")], check=True)
        pid = self.top / "pid"
        while not (pid.exists() and pid.read_text().strip()):
            time.sleep(0.02)
        self.pid = int(pid.read_text())

    def sessions(self) -> list[int]:
        found, queue = [], [self.pid]
        while queue:
            with contextlib.suppress(FileNotFoundError):
                parent = queue.pop()
                for task in Path(f"/proc/{parent}/task").iterdir():
                    fresh = [int(n) for n in (task / "children").read_text().split()]
                    found += fresh
                    queue += fresh
        return found

    def cut(self) -> None:
        pids = [self.pid, *self.sessions()]
        (self.top / "pid").unlink(missing_ok=True)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while any(alive(pid) for pid in pids):
            time.sleep(0.02)

    def inventory(self) -> dict[str, object]:
        options = f"-o UserKnownHostsFile={self.top}/known_hosts -o StrictHostKeyChecking=yes -o ControlPersist=30"
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_user": self.user,
            "ansible_ssh_private_key_file": str(self.top / "key"),
            "ansible_ssh_args": f"-o ControlMaster=auto {options}",
            "ansible_python_interpreter": "/usr/bin/python3",
        }

    def close(self) -> None:
        self.cut()
        if self.made_user:
            subprocess.run(["userdel", "-f", self.user], check=True, capture_output=True)
