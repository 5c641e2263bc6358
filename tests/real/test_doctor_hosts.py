"""``doctor``, ``init``, ``lab show`` and ``stage`` on this machine, and over a real SSH server."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from labctl.cli import doctor, init, lab, stage
from labctl.errors import ExitCode, InvalidFileError, LabctlError
from labctl.lab.default import default_inventory
from labctl.lab.loader import load_lab

pytestmark = pytest.mark.real(what="doctor", where="localhost")

app = typer.Typer()
app.command()(init.init)
app.command()(doctor.doctor)
app.command()(stage.stage)
app.add_typer(lab.app, name="lab")


def invoke(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(result.exception, LabctlError):
        raise result.exception
    return result


def json_lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABCTL_INVENTORY", raising=False)
    return tmp_path


class SshServer:
    """A server of our own on a free port, with keys of its own."""

    def __init__(self, directory):
        self.directory = directory
        for name in ("host", "user", "other"):
            key = directory / name
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        (directory / "authorized").write_text((directory / "user.pub").read_text())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = directory / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nPidFile none\n"
            f"AuthorizedKeysFile {directory}/authorized\nStrictModes no\nPasswordAuthentication no\n"
            "PermitRootLogin yes\nUsePAM no\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)  # privilege separation of sshd started as root
        self.process = subprocess.Popen(
            ["/usr/sbin/sshd", "-D", "-e", "-f", config], stderr=(directory / "sshd.log").open("wb")
        )
        host_key = (directory / "host.pub").read_text().split()[:2]
        (directory / "known").write_text(f"[127.0.0.1]:{self.port} {' '.join(host_key)}\n")
        (directory / "unknown").touch()
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError((directory / "sshd.log").read_text())

    def host(self, *, key="user", known="known", port=None):
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": port or self.port,
            "ansible_user": getpass.getuser(),
            "ansible_ssh_private_key_file": str(self.directory / key),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.directory / known} -o IdentitiesOnly=yes",
            # All these hosts are one address: a connection that is kept open would serve them all.
            "ansible_ssh_args": "-o ControlMaster=no",
            "ansible_python_interpreter": sys.executable,
        }


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    server = SshServer(tmp_path_factory.mktemp("ssh"))
    yield server
    server.process.terminate()
    server.process.wait()


def test_the_default_lab_is_this_machine(work):
    assert load_lab(default_inventory()).hosts["localhost"].connection == "local"
    (work / "inventories/localhost").mkdir(parents=True)
    assert default_inventory() == Path("inventories/localhost")


def test_doctor_of_this_machine():
    result = invoke("doctor", "--json")
    *checks, summary = json_lines(result)
    by_host = {host: {c["id"]: c for c in checks if c["host"] == host} for host in ("", "localhost")}
    assert by_host[""]["ansible-core"]["evidence"].startswith("2.")
    assert by_host[""]["collection"]["status"] == "ok"
    assert by_host["localhost"]["reachable"]["status"] == "ok"
    assert getpass.getuser() in by_host["localhost"]["reachable"]["evidence"]
    assert by_host["localhost"]["time-skew"]["status"] == "ok"
    assert summary == {
        "event": "summary",
        **{s: sum(c["status"] == s for c in checks) for s in ("ok", "warn", "fail", "skip")},
    }
    assert (result.exit_code == 0) == (summary["fail"] == 0)
    assert all(check["fix"] for check in checks if check["status"] in ("warn", "fail"))


def test_doctor_in_words():
    result = invoke("doctor")
    assert "localhost: reachable" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("skip")


@pytest.mark.needs("sshd")
def test_doctor_over_ssh_tells_each_kind_of_failure(work, ssh):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hosts = {
            "good": ssh.host(),
            "stranger": ssh.host(known="unknown"),
            "denied": ssh.host(key="other"),
            "closed": ssh.host(port=closed.getsockname()[1]),
        }
        (work / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
        result = invoke("doctor", "-i", "hosts.json", "--json")
    checks = json_lines(result)[:-1]
    assert result.exit_code == ExitCode.HOSTS_UNREACHABLE
    good = {check["id"]: check for check in checks if check["host"] == "good"}
    assert good["host-key"]["status"] == "ok"
    assert good["time-skew"]["status"] == "ok"
    failed = {check["host"]: check for check in checks if check["status"] == "fail" and check["id"] == "reachable"}
    assert set(failed) == {"stranger", "denied", "closed"}
    assert "Host key verification failed" in failed["stranger"]["evidence"]
    assert "fingerprint" in failed["stranger"]["fix"]
    assert "Permission denied" in failed["denied"]["evidence"]
    assert "ssh-copy-id" in failed["denied"]["fix"]
    assert "refused" in failed["closed"]["evidence"]


@pytest.mark.needs("sshd")
def test_host_key_checking_stays_on_whatever_the_environment_says(work, ssh, monkeypatch):
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    (work / "hosts.json").write_text(json.dumps({"all": {"hosts": {"stranger": ssh.host(known="unknown")}}}))
    assert invoke("doctor", "-i", "hosts.json").exit_code == ExitCode.HOSTS_UNREACHABLE
    assert (ssh.directory / "unknown").read_text() == ""


def test_disks_and_nics_that_are_not_there(work):
    (work / "hosts.yml").write_text(
        "all:\n  hosts:\n    here:\n      ansible_connection: local\n"
        f"      ansible_python_interpreter: {sys.executable}\n"
        "      lab_disks: [{id: /dev/disk/by-id/nvme-no-such-disk}]\n      lab_nics: [{name: lo}, {name: nosuch0}]\n"
    )
    result = invoke("doctor", "-i", "hosts.yml", "--json")
    found = [(c["evidence"], c["status"]) for c in json_lines(result)[:-1] if c["id"] in ("disk", "nic")]
    assert found == [
        ("/dev/disk/by-id/nvme-no-such-disk is missing", "fail"),
        ("lo is there", "ok"),
        ("nosuch0 is missing", "fail"),
    ]
    assert result.exit_code == ExitCode.HOSTS_FAILED


def test_init_makes_a_lab_that_loads():
    result = invoke("init", "labs/My Rack", "--host", "root@10.0.0.1", "--host", "n2=fe80::2", "--host", "1e3")
    assert result.exit_code == 0
    made = load_lab(Path("labs/My Rack"))
    assert made.name == "my-rack"
    assert {name: host.address for name, host in made.hosts.items()} == {
        "10.0.0.1": "10.0.0.1",
        "n2": "fe80::2",
        "1e3": "1e3",
    }


def test_every_commented_key_of_a_new_lab_is_right():
    """The comments are there to be uncommented."""
    invoke("init", "new")
    for path in (Path("new/group_vars/all.yml"), Path("new/host_vars/localhost.yml")):
        lines = [line.removeprefix("# ") for line in path.read_text().splitlines()]
        keys = [line for line in lines if line.startswith(("lab_", "ansible_user", "  -", "   "))]
        path.write_text("\n".join(keys) + "\n")
    made = load_lab(Path("new"))
    host = made.hosts["localhost"]
    assert made.description
    assert host.workdir
    assert len(host.disks) == 1
    assert len(host.nics) == 1


def test_init_without_hosts_is_this_machine_and_passes_doctor():
    invoke("init", "here")
    checks = json_lines(invoke("doctor", "-i", "here", "--json"))
    assert any(check.get("host") == "localhost" and check["id"] == "reachable" for check in checks)


def test_init_overwrites_nothing(work):
    (work / "full").mkdir()
    (work / "full/mine").write_text("precious")
    with pytest.raises(LabctlError, match="not an empty directory"):
        invoke("init", "full")
    assert [path.name for path in (work / "full").iterdir()] == ["mine"]


def test_lab_show(work):
    invoke("init", "new", "--host", "n1=10.0.0.1")
    assert "host n1: 10.0.0.1" in invoke("lab", "show", "-i", "new").stdout
    shown = json.loads(invoke("lab", "show", "-i", "new", "--json").stdout)
    assert shown["hosts"]["n1"]["address"] == "10.0.0.1"
    assert "secrets" not in shown
    with pytest.raises(InvalidFileError, match="no such inventory"):
        invoke("lab", "show", "-i", "nowhere")


def test_stage_prints_progress_and_the_line_by_hand():
    result = invoke("stage", "probe", "--check", "--diff", "-e", "labctl_probe_paths=['/tmp']")
    assert result.exit_code == 0, result.output
    assert "task: Read facts" in result.stdout
    assert "ok localhost" in result.stdout
    line = result.stdout.splitlines()[-1]
    assert line.startswith("by hand: ")
    assert "labctl.lab.probe --check --diff" in line


def test_the_line_by_hand_needs_no_record():
    result = invoke("stage", "probe", "-e", "labctl_probe_paths=['/tmp']", "-e", "a_password=s3cr3t")
    assert "s3cr3t" not in result.output
    line = result.stdout.splitlines()[-1].removeprefix("by hand: ")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["../x", "no/such", "-v", "a b"])
def test_stage_names_that_are_none(name):
    with pytest.raises(LabctlError, match="cannot be the name of a stage"):
        invoke("stage", "--", name)


def test_a_stage_that_does_not_exist():
    result = invoke("stage", "nosuch")
    assert result.exit_code == ExitCode.HOSTS_FAILED
    assert "nosuch" in result.output


def test_extra_variables(work):
    (work / "v.yml").write_text("a: 1\nb: two\n")
    given = ["@v.yml", "a=5", 'c="5"', '{"d": [1]}', "e=x=y", "f="]
    assert stage.parse_variables(given) == {"a": 5, "b": "two", "c": "5", "d": [1], "e": "x=y", "f": ""}


@pytest.mark.parametrize("text", ["novalue", "@missing.yml", "{", "a=[", "1a=x", "@list.yml"])
def test_extra_variables_that_are_none(work, text):
    (work / "list.yml").write_text("- 1\n")
    with pytest.raises(LabctlError, match="-e "):
        stage.parse_variables([text])
