"""The user's ``ansible.cfg``: what labctl has to carry over, because a variable of the environment hides it."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AnsibleCfg:
    """The values of the first ``ansible.cfg`` that there is; empty without one."""

    directory: Path
    sections: Mapping[str, Mapping[str, str]]

    def get(self, section: str, *keys: str) -> str | None:
        """The first of ``keys`` that has a value in ``section``."""
        values = self.sections.get(section, {})
        return next((values[key] for key in keys if values.get(key)), None)


def read_ansible_cfg(environ: Mapping[str, str], cwd: Path) -> AnsibleCfg:
    """Look where Ansible looks: ``ANSIBLE_CONFIG``, the working directory, the home directory, ``/etc/ansible``.

    A file that cannot be read gives no values: Ansible itself will say what is wrong with it.
    """
    home = Path(environ.get("HOME") or "~").expanduser()
    named = environ.get("ANSIBLE_CONFIG")
    candidates = [Path(named).expanduser()] if named else []
    candidates += [cwd / "ansible.cfg", home / ".ansible.cfg", Path("/etc/ansible/ansible.cfg")]
    for candidate in candidates:
        config = candidate / "ansible.cfg" if candidate.is_dir() else candidate
        if not config.is_file():
            continue
        parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
        try:
            parser.read(config, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            break
        return AnsibleCfg(config.parent, {name: dict(parser[name]) for name in parser.sections()})
    return AnsibleCfg(cwd, {})
