"""The environment that Ansible runs in: an allow-list of the user's, and what labctl insists on.

``ansible-runner`` hands the whole environment of its process to Ansible and writes it to disk. So it gets a process of
its own, with nothing in its environment that Ansible has no use for.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path

from labctl.automation.ansible_cfg import read_ansible_cfg
from labctl.automation.redact import looks_secret

PASS_ENV = "LABCTL_PASS_ENV"  # noqa: S105 - the name of a variable
"""Names (comma-separated, globs allowed) of further variables that an inventory reads with ``lookup('env', …)``."""

_ALLOWED = (
    *("HOME", "PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_*"),
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "KRB5CCNAME", "KUBECONFIG", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "ANSIBLE_*"),
)
_DENIED = (
    # Write or print what must stay secret, or leave module arguments behind on the targets.
    *("ANSIBLE_LOG_PATH", "ANSIBLE_DEBUG", "ANSIBLE_NO_LOG", "ANSIBLE_DISPLAY_ARGS_TO_STDOUT"),
    *("ANSIBLE_KEEP_REMOTE_FILES", "ANSIBLE_SSH_VERBOSITY", "ANSIBLE_VERBOSITY"),
    # Change what is run, or wait for a person who is not there.
    *("ANSIBLE_RUN_TAGS", "ANSIBLE_SKIP_TAGS", "ANSIBLE_INVENTORY", "ANSIBLE_LIMIT", "ANSIBLE_STRATEGY"),
    *("ANSIBLE_ENABLE_TASK_DEBUGGER", "ANSIBLE_ASK_PASS", "ANSIBLE_ASK_VAULT_PASS", "ANSIBLE_BECOME_ASK_PASS"),
    *("ANSIBLE_CHECK_MODE", "ANSIBLE_ERROR_ON_MISSING_HANDLER", "ANSIBLE_FORCE_COLOR"),
    # Belong to ansible-runner, which finds its events through them.
    *("ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_CACHE_PLUGIN*", "ANSIBLE_LOAD_CALLBACK_PLUGINS"),
)
_FORCED = {
    # Without it ansible-runner would switch host key checking off.
    "ANSIBLE_HOST_KEY_CHECKING": "True",
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_RETRY_FILES_ENABLED": "False",
    "ANSIBLE_NOCOWS": "1",
}
_DEFAULTS = {"ANSIBLE_PIPELINING": "True"}
_SSH_ARGS = "-C -o ControlMaster=auto -o ControlPersist=60s"
"""Ansible's own default of ``ssh_args``."""
_CONTROL_PATH_DIR = "~/.ansible/cp/labctl"
_KEEPALIVE = "-o ServerAliveInterval=10 -o ServerAliveCountMax=3"
"""A cut cable does not close a connection; without this, ssh waits for TCP to give up, a quarter of an hour."""


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def passed_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The patterns that the user lists in ``LABCTL_PASS_ENV``."""
    return tuple(name for raw in environ.get(PASS_ENV, "").split(",") if (name := raw.strip()))


def ssh_settings(environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """How ssh, scp and sftp are called: as the user or Ansible would, but a silent connection is noticed.

    ssh takes the first value of an option, so a ``ServerAliveInterval`` of the user's own stays. Connections are shared
    among labctl's playbooks only: one that somebody else opened would not have the limit.
    """
    config = read_ansible_cfg(environ, cwd)
    arguments = environ.get("ANSIBLE_SSH_ARGS")
    if arguments is None:
        arguments = config.get("ssh_connection", "ssh_args") or _SSH_ARGS
    settings = {"ANSIBLE_SSH_ARGS": f"{arguments} {_KEEPALIVE}".strip()}
    if config.get("ssh_connection", "control_path_dir") is None:
        settings["ANSIBLE_SSH_CONTROL_PATH_DIR"] = environ.get("ANSIBLE_SSH_CONTROL_PATH_DIR") or _CONTROL_PATH_DIR
    return settings


def scrubbed(
    environ: Mapping[str, str], collections_path: str | None = None, *, cwd: Path | None = None
) -> dict[str, str]:
    """The environment for Ansible.

    Args:
        environ: the user's environment.
        collections_path: value for ``ANSIBLE_COLLECTIONS_PATH``; None keeps the user's.
        cwd: where Ansible will be started, whose ``ansible.cfg`` counts; None is the current directory.

    Returns:
        Allowed and passed variables, then labctl's defaults, then what labctl forces; always with a UTF-8 locale, which
        Ansible demands.
    """
    passed = passed_names(environ)
    env = {
        name: value
        for name, value in environ.items()
        if (_matches(name, _ALLOWED) and not _matches(name, _DENIED))
        or (_matches(name, passed) and name not in _FORCED)
    }
    for name, value in _DEFAULTS.items():
        env.setdefault(name, value)
    env.update(_FORCED)
    env.update(ssh_settings(env, cwd or Path.cwd()))
    if collections_path is not None:
        env["ANSIBLE_COLLECTIONS_PATH"] = collections_path
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    if "utf" not in locale.lower():
        env["LC_ALL"] = "C.UTF-8"
    return env


def secrets_of(env: Mapping[str, str]) -> frozenset[str]:
    """Values of an environment that must never be written: variables that look secret."""
    return frozenset(value for name, value in env.items() if looks_secret(name) and value)
