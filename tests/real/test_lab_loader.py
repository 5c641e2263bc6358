"""Inventories read through the real Ansible: what a lab becomes, and how each fault is told."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from labctl.errors import ExitCode, InvalidFileError, LabctlError, Where
from labctl.lab.loader import load_lab

pytestmark = pytest.mark.real(what="Ansible inventory", where="localhost")

REPO = Path(__file__).resolve().parents[2]
HOSTS = "all:\n  hosts:\n    one:\n"


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "my_lab"
    directory.mkdir()
    return directory


def write(lab, files):
    for name, text in files.items():
        path = lab / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def faults(lab):
    with pytest.raises(InvalidFileError) as caught:
        load_lab(lab)
    assert caught.value.code == ExitCode.USAGE
    return caught.value.faults


def place(fault, lab):
    assert isinstance(fault.where, Where)
    path = Path(fault.where.path)
    return (str((Path.cwd() / path).relative_to(lab)), fault.where.line, fault.where.column)


@pytest.mark.parametrize(
    "path", ["inventories/localhost", "inventories/examples/single-host", "inventories/examples/three-hosts"]
)
def test_the_inventories_that_we_ship_load(path):
    assert load_lab(REPO / path).hosts


def test_the_example_with_disks_and_nics():
    lab = load_lab(REPO / "inventories/examples/three-hosts")
    assert (lab.name, list(lab.hosts)) == ("three-hosts", ["node1", "node2", "node3"])
    assert lab.groups["storage"] == ("node1", "node2", "node3")
    node = lab.hosts["node1"]
    assert node.groups == ("clients", "storage")
    assert node.address == "node1.lab.example.org"
    assert [disk.id[-2:] for disk in node.disks] == ["1A", "1B"]
    assert [(nic.name, nic.speed_gbps) for nic in node.nics] == [("ens1f0", 100), ("ens1f1", 100)]
    assert node.workdir == "/srv/labctl"


def test_ini_ranges_and_templates(lab):
    write(
        lab, {"hosts": "[db]\nnode[01:03] ansible_host=10.0.0.9\n[db:vars]\nlab_workdir=/x/{{ inventory_hostname }}\n"}
    )
    found = load_lab(lab)
    assert [host.workdir for host in found.hosts.values()] == ["/x/node01", "/x/node02", "/x/node03"]
    # Several names of one machine are the user's business.
    assert {host.address for host in found.hosts.values()} == {"10.0.0.9"}


def test_an_inventory_script_is_run(lab):
    script = lab / "dynamic.sh"
    script.write_text('#!/bin/sh\necho \'{"web": {"hosts": ["w1"], "vars": {"lab_workdir": "/w"}}}\'\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    assert load_lab(lab).hosts["w1"].workdir == "/w"


def test_the_name_defaults_to_the_directory(lab):
    write(lab, {"hosts.yml": HOSTS})
    assert load_lab(lab).name == "my-lab"
    assert load_lab(lab / "hosts.yml").name == "my-lab"


def test_a_missing_and_an_empty_directory(lab):
    assert "no such inventory" in faults(lab / "nowhere")[0].what
    assert "empty" in faults(lab)[0].what
    assert "labctl init" in str(faults(lab)[0].hint)


def test_no_hosts(lab):
    write(lab, {"hosts.yml": "all:\n  children:\n    web:\n"})
    assert "no hosts" in faults(lab)[0].what


def test_all_faults_at_once_with_line_column_and_the_nearest_name(lab):
    write(
        lab,
        {
            "hosts.yml": (
                "all:\n  hosts:\n    one:\n      lab_disk: []\n      lab_disks:\n"
                "        - id: /dev/sda\n          size_gb: 4\n        - purpose: x\n"
            ),
            "group_vars/all.yml": "lab_workdir: 7\nlab_nics: eth0\n",
        },
    )
    told = [(place(fault, lab), fault.what, fault.hint) for fault in faults(lab)]
    assert [at for at, _, _ in told] == [
        ("group_vars/all.yml", 1, 14),
        ("group_vars/all.yml", 2, 11),
        ("hosts.yml", 4, 7),
        ("hosts.yml", 6, 15),
        ("hosts.yml", 7, 11),
        ("hosts.yml", 8, 11),
    ]
    words = [what for _, what, _ in told]
    assert words[0] == "lab_workdir: expected a text, not 7"
    assert words[1].startswith("lab_nics: expected a list")
    assert words[2] == "unknown variable lab_disk"
    assert told[2][2] == "did you mean lab_disks?"
    assert "/dev/sda" in words[3]
    assert "by-id" in str(told[3][2])
    assert (words[4], told[4][2]) == ("unknown key lab_disks.0.size_gb", "did you mean size_gib?")
    assert words[5] == "lab_disks.1.id is required"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("all:\n  hosts:\n\tone:\n", 3, 1, "a tab"),
        ("all:\n  hosts:\n    one:\n    two:\n    one:\n", 5, 5, "stands here twice, first in line 3"),
        ("all: [\n", 2, 1, "not valid YAML"),
        (b"all:\n  hosts:\n    \xff\xfe:\n", 3, 5, "0xff is not UTF-8"),
        ("all: &a\n  hosts: *a\n", 1, 6, "contains itself"),
    ],
    ids=["tab", "duplicate", "syntax", "latin1", "loop"],
)
def test_faults_of_the_file_itself(lab, text, line, column, words):
    write(lab, {"hosts.yml": text})
    (fault,) = faults(lab)
    assert words in fault.what
    assert place(fault, lab) == ("hosts.yml", line, column)


def test_a_yaml_bomb_is_refused_before_it_expands(lab):
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
    )
    write(lab, {"hosts.yml": HOSTS, "group_vars/all.yml": bomb})
    (fault,) = faults(lab)
    assert "expand to more than 10^" in fault.what


def test_a_huge_file_is_refused(lab):
    write(lab, {"hosts.yml": HOSTS + "#" * (5 << 20)})
    assert "at most" in faults(lab)[0].what


def test_faults_in_several_files_come_together(lab):
    write(lab, {"hosts.yml": HOSTS + "    one:\n", "group_vars/all.yml": "a: [\n", "host_vars/one": "\tb: 1\n"})
    assert len(faults(lab)) == 3


def test_unreadable_files(lab):
    write(lab, {"hosts.yml": HOSTS})
    (lab / "group_vars").mkdir()
    (lab / "group_vars/all.yml").symlink_to("/nowhere/at/all")
    os.mkfifo(lab / "pipe.yml")
    told = [fault.what for fault in faults(lab)]
    assert any("cannot be read: No such file" in what for what in told)
    assert any("not a regular file" in what for what in told)


@pytest.mark.parametrize("name", ["../evil", "a/b", "..", "a b", "-x", "x" * 300, "a..b"])
def test_names_that_would_leave_their_directory(lab, name):
    write(lab, {"hosts.yml": f'all:\n  hosts:\n    "{name}":\n'})
    assert any("cannot be the name of a host" in fault.what for fault in faults(lab))


def test_hosts_that_differ_only_in_case(lab):
    write(lab, {"hosts.yml": "all:\n  hosts:\n    Node1:\n    node1:\n"})
    assert "differ only in case" in faults(lab)[0].what


def test_a_source_that_nobody_can_parse_is_a_fault(lab):
    write(lab, {"hosts.yml": HOSTS, "more.yml": "just a text\n"})
    assert "more.yml" in str(faults(lab)[0])


def test_a_wrong_lab_name(lab):
    write(lab, {"hosts.yml": HOSTS, "group_vars/all.yml": "\nlab_name: ../My Lab\n"})
    (fault,) = faults(lab)
    assert "cannot be the name of a lab" in fault.what
    assert place(fault, lab) == ("group_vars/all.yml", 2, 11)


def test_lab_wide_variables_must_agree(lab):
    write(lab, {"hosts.yml": "all:\n  hosts:\n    a: {lab_name: x}\n    b: {lab_name: y}\n"})
    assert "differs: 'x' on a, 'y' on b" in faults(lab)[0].what


def test_an_undefined_variable_in_a_template(lab):
    write(lab, {"hosts.yml": HOSTS, "group_vars/all.yml": 'lab_workdir: "{{ nowhere }}"\n'})
    (fault,) = faults(lab)
    assert "'nowhere' is undefined" in fault.what
    assert place(fault, lab) == ("group_vars/all.yml", 1, 14)


def vault(text, password_file):
    return VaultLib([("default", VaultSecret(password_file.read_bytes().strip()))]).encrypt(text.encode()).decode()


def test_secrets_are_known_and_never_in_the_dump(lab, tmp_path, monkeypatch):
    password = tmp_path / "vault-password"
    password.write_text("open sesame")
    cipher = vault("inline-value-1", password).replace("\n", "\n    ")
    write(
        lab,
        {
            "hosts.yml": HOSTS,
            "group_vars/all/plain.yml": (
                f'half: "be"\nbmc_password: "{{{{ half }}}}tween-2"\ndb:\n  users: [{{token: deep-value-3}}]\n'
                f"harmless: !vault |\n    {cipher}\n"
            ),
            "group_vars/all/secret.yml": vault("other_secret: file-value-4\n", password),
        },
    )
    closed = load_lab(lab)
    assert closed.secrets == {"between-2", "deep-value-3"}
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    opened = load_lab(lab)
    assert opened.secrets == {"between-2", "deep-value-3", "inline-value-1", "file-value-4"}
    for secret in opened.secrets:
        assert secret not in opened.model_dump_json() + repr(opened)


def test_encrypted_lab_variables_are_refused(lab, tmp_path):
    password = tmp_path / "vault-password"
    password.write_text("open sesame")
    cipher = vault("/srv", password).replace("\n", "\n    ")
    write(lab, {"hosts.yml": HOSTS, "group_vars/all.yml": f"lab_workdir: !vault |\n    {cipher}\n"})
    (fault,) = faults(lab)
    assert "is encrypted" in fault.what
    assert place(fault, lab)[0] == "group_vars/all.yml"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("list/hosts.yml", "- a\n", "should be a dictionary, got: list"),
        ("hosts.yml", "all:\n  hosts:\n    - a\n", 'Invalid "hosts" entry for "all" group'),
        ("hosts", "[web\nh1\n", "Failed to parse inventory"),
        ("inv.sh", "#!/bin/sh\necho the cloud is away >&2\nexit 3\n", "non-zero exit code 3: the cloud is away"),
        ("inv.sh", "#!/bin/sh\necho no JSON\n", "JSON"),
    ],
)
def test_a_source_that_cannot_be_parsed_is_told_in_the_words_of_its_plugin(lab, name, text, words):
    write(lab, {name: text})
    if name.endswith(".sh"):
        (lab / name).chmod(0o755)
    (fault,) = faults(lab)
    assert words in fault.what
    assert "Completely failed" not in fault.what
    assert "_Ansible" not in fault.what
    assert str(fault.where).endswith(name)


def test_a_misspelt_key_of_a_group_is_told_where_no_host_is_left(lab):
    write(lab, {"hosts.yml": "all:\n  hots:\n    one: {}\n"})
    (fault,) = faults(lab)
    assert fault.what == "the inventory has no hosts"
    assert "hots" in fault.hint


def test_an_inventory_script_that_hangs_is_ended_with_all_that_it_started(lab, monkeypatch):
    monkeypatch.setattr("labctl.lab.loader.READ_TIMEOUT_S", 3.0)
    write(lab, {"inv.sh": "#!/bin/sh\nsleep 3600 & echo $! > child\nwait\n"})
    (lab / "inv.sh").chmod(0o755)
    with pytest.raises(LabctlError, match="did not finish reading") as caught:
        load_lab(lab)
    assert caught.value.code == ExitCode.TIMEOUT
    started = next(path for path in (lab / "child", Path.cwd() / "child") if path.exists())
    state = Path(f"/proc/{started.read_text().strip()}/stat")
    for _ in range(500):  # a signal is delivered when it is delivered
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX":
            break
        time.sleep(0.02)
    else:
        pytest.fail("what the script started goes on")


def test_a_working_directory_that_others_need_is_refused_with_its_place(lab):
    write(lab, {"hosts.yml": "all:\n  hosts:\n    one:\n      lab_workdir: /etc\n"})
    (fault,) = faults(lab)
    assert fault.what.startswith("lab_workdir: expected a directory for data")
    assert place(fault, lab) == ("hosts.yml", 4, 20)
