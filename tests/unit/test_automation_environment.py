"""Which variables reach Ansible, and where the collection is looked for."""

from __future__ import annotations

import subprocess

import pytest

from labctl.automation import collection, environment
from labctl.errors import LabctlError


def test_only_what_ansible_needs_passes():
    env = environment.scrubbed(
        {
            "HOME": "/h",
            "PATH": "/bin",
            "LANG": "C.UTF-8",
            "AWS_SECRET_ACCESS_KEY": "x",
            "ANSIBLE_FORKS": "7",
            "FOO": "1",
        }
    )
    assert env["HOME"] == "/h"
    assert env["ANSIBLE_FORKS"] == "7"
    assert "AWS_SECRET_ACCESS_KEY" not in env
    assert "FOO" not in env


def test_host_key_checking_cannot_be_switched_off_by_the_environment():
    given = {"ANSIBLE_HOST_KEY_CHECKING": "False", "LABCTL_PASS_ENV": "ANSIBLE_HOST_KEY_CHECKING"}
    assert environment.scrubbed(given)["ANSIBLE_HOST_KEY_CHECKING"] == "True"


@pytest.mark.parametrize("name", ["ANSIBLE_LOG_PATH", "ANSIBLE_KEEP_REMOTE_FILES", "ANSIBLE_STDOUT_CALLBACK"])
def test_dangerous_variables_of_ansible_do_not_pass(name):
    assert name not in environment.scrubbed({name: "1"})


def test_the_user_can_pass_variables_on_and_they_count_as_secrets_by_name():
    env = environment.scrubbed({"LABCTL_PASS_ENV": "BMC_*, OTHER", "BMC_PASSWORD": "pw-1", "OTHER": "o", "NOT": "n"})
    assert (env["BMC_PASSWORD"], env["OTHER"], "NOT" in env) == ("pw-1", "o", False)
    assert environment.secrets_of(env) == {"pw-1"}


@pytest.mark.parametrize(("lang", "expected"), [("de_DE.UTF-8", None), ("C", "C.UTF-8"), ("", "C.UTF-8")])
def test_ansible_always_gets_an_utf8_locale(lang, expected):
    assert environment.scrubbed({"LANG": lang}).get("LC_ALL") == expected


def test_pipelining_is_on_unless_the_user_says_otherwise():
    assert environment.scrubbed({})["ANSIBLE_PIPELINING"] == "True"
    assert environment.scrubbed({"ANSIBLE_PIPELINING": "False"})["ANSIBLE_PIPELINING"] == "False"


def effective(args: str, name: str) -> str:
    """What ssh makes of its arguments."""
    done = subprocess.run(["ssh", "-G", *args.split(), "host"], capture_output=True, text=True, check=True)
    return next(line.split()[1] for line in done.stdout.splitlines() if line.startswith(f"{name.lower()} "))


@pytest.mark.needs("ssh")
def test_ssh_notices_silence_whatever_the_user_configured_but_keeps_the_users_own_limit(tmp_path):
    (tmp_path / "ansible.cfg").write_text("[ssh_connection]\nssh_args = -o ControlMaster=no -o ConnectionAttempts=7\n")
    for given in ({"HOME": str(tmp_path / "none")}, {"ANSIBLE_CONFIG": str(tmp_path)}, {"ANSIBLE_SSH_ARGS": ""}):
        args = environment.scrubbed(given, cwd=tmp_path / "none")["ANSIBLE_SSH_ARGS"]
        assert 0 < int(effective(args, "ServerAliveInterval")) * int(effective(args, "ServerAliveCountMax")) <= 60
        assert effective(args, "ConnectionAttempts") == ("7" if "ANSIBLE_CONFIG" in given else "1")
    own = environment.scrubbed({"ANSIBLE_SSH_ARGS": "-o ServerAliveInterval=99"})["ANSIBLE_SSH_ARGS"]
    assert effective(own, "ServerAliveInterval") == "99"


def test_connections_are_shared_among_labctls_playbooks_only_unless_the_user_chose_a_place(tmp_path):
    (tmp_path / "ansible.cfg").write_text("[ssh_connection]\ncontrol_path_dir = ~/mine\n")
    ours = environment.scrubbed({}, cwd=tmp_path / "none")["ANSIBLE_SSH_CONTROL_PATH_DIR"]
    assert ours not in {"", "~/.ansible/cp"}
    assert "ANSIBLE_SSH_CONTROL_PATH_DIR" not in environment.scrubbed({}, cwd=tmp_path)
    given = {"ANSIBLE_SSH_CONTROL_PATH_DIR": "/cp"}
    assert environment.scrubbed(given, cwd=tmp_path / "none")["ANSIBLE_SSH_CONTROL_PATH_DIR"] == "/cp"


def test_a_checkout_is_known_by_its_galaxy_file(tmp_path):
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "galaxy.yml").touch()
    assert collection.find_source(tmp_path / "labctl") == (tmp_path, True)


def test_an_installation_has_the_collection_beside_the_package(tmp_path):
    installed = tmp_path / "ansible_collections/labctl/lab"
    (installed / "playbooks").mkdir(parents=True)
    assert collection.find_source(tmp_path / "labctl") == (installed, False)


def test_an_installation_without_the_collection_says_so(tmp_path):
    with pytest.raises(LabctlError, match=r"labctl\.lab is missing"):
        collection.find_source(tmp_path / "labctl")


def test_the_link_is_made_repaired_and_kept(tmp_path):
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "galaxy.yml").touch()
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = collection.ensure(environ, tmp_path / "labctl")
    link = first.search_path / "ansible_collections/labctl/lab"
    assert link.resolve() == tmp_path.resolve()
    link.unlink()
    link.symlink_to("/nowhere")
    assert collection.ensure(environ, tmp_path / "labctl") == first
    assert link.resolve() == tmp_path.resolve()
    assert [path.name for path in first.search_path.iterdir()] == ["ansible_collections"]


def test_an_unwritable_cache_is_a_clear_error(tmp_path):
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "galaxy.yml").touch()
    (tmp_path / "file").touch()
    with pytest.raises(LabctlError, match="cannot prepare") as caught:
        collection.ensure({"XDG_CACHE_HOME": str(tmp_path / "file")}, tmp_path / "labctl")
    assert "XDG_CACHE_HOME" in str(caught.value)


def test_the_collections_path_of_ansible_cfg_is_not_hidden(tmp_path):
    (tmp_path / "ansible.cfg").write_text("[defaults]\ncollections_path = ./mine:/opt/c\n")
    assert collection.configured_paths({"HOME": "/nohome"}, tmp_path) == f"{tmp_path}/mine:/opt/c"


def test_the_variable_wins_over_ansible_cfg(tmp_path):
    (tmp_path / "ansible.cfg").write_text("[defaults]\ncollections_path = ./mine\n")
    assert collection.configured_paths({"ANSIBLE_COLLECTIONS_PATH": "/v"}, tmp_path) == "/v"
