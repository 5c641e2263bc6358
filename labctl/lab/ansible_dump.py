"""Reads an inventory with Ansible's own code and prints what labctl needs of it as JSON. Run by path, as a child.

Ansible keeps global state (configuration, loaders, signal handlers); none of it may enter labctl. The output goes
through a pipe to labctl only: it holds the values of secrets, which the redactor must know.

Usage: ``ansible_dump.py INVENTORY``, with the JSON list of patterns of secret names on standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_CONNECTION = ("ansible_host", "ansible_connection")
_VAULT = b"$ANSIBLE_VAULT;"


def _origin_reader() -> Callable[[Any], list[Any] | None]:
    """Ansible 2.19 and later tag values with where they come from; that interface is internal and may vanish."""
    try:
        from ansible._internal._datatag._tags import Origin  # noqa: PLC0415
    except ImportError:
        return lambda _: None

    def read(value: Any) -> list[Any] | None:  # noqa: ANN401 - any tagged value
        tag = Origin.get_tag(value)
        return [tag.path, tag.line_num, tag.col_num] if tag is not None and tag.path else None

    return read


def _origins(name: str, value: Any, read: Callable[[Any], list[Any] | None]) -> Iterator[tuple[str, list[Any]]]:  # noqa: ANN401
    """``lab_disks/0/id`` → file, line, column, for a value and everything in it."""
    if (origin := read(value)) is not None:
        yield name, origin
    if isinstance(value, Mapping):
        for key, item in value.items():
            if (origin := read(key)) is not None:
                yield f"{name}/{key}#key", origin
            yield from _origins(f"{name}/{key}", item, read)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _origins(f"{name}/{index}", item, read)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Ansible's tagged strings, lists and mappings as ordinary ones."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)


def _is_vaulted(value: Any) -> bool:  # noqa: ANN401 - any tagged value
    return type(value).__name__ in ("EncryptedString", "AnsibleVaultEncryptedUnicode")


class _Reader:
    """One inventory, read."""

    def __init__(self, source: str, is_secret: Callable[[str], bool]) -> None:
        # Imported here: the arguments are checked first, and Ansible reads its configuration while it is imported.
        from ansible import constants  # noqa: PLC0415
        from ansible.cli import CLI  # noqa: PLC0415
        from ansible.inventory.manager import InventoryManager  # noqa: PLC0415
        from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415
        from ansible.plugins.loader import init_plugin_loader  # noqa: PLC0415
        from ansible.template import Templar  # noqa: PLC0415
        from ansible.vars.manager import VariableManager  # noqa: PLC0415

        init_plugin_loader()
        self.is_secret = is_secret
        self.read = _origin_reader()
        self.errors: list[dict[str, Any]] = []
        self.secrets: set[str] = set()
        has_password = bool(constants.DEFAULT_VAULT_PASSWORD_FILE or constants.DEFAULT_VAULT_IDENTITY_LIST)

        class Loader(DataLoader):  # type: ignore[misc]
            def load_from_file(self, file_name: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                """An encrypted file without a password holds nothing that labctl needs."""
                if not has_password and os.path.isfile(file_name):  # noqa: PTH113
                    with open(file_name, "rb") as stream:  # noqa: PTH123
                        if stream.read(len(_VAULT)) == _VAULT:
                            return {}
                return super().load_from_file(file_name, *args, **kwargs)

        self.loader = Loader()
        if has_password:
            identities = list(constants.DEFAULT_VAULT_IDENTITY_LIST or [])
            self.loader.set_vault_secrets(CLI.setup_vault_secrets(self.loader, vault_ids=identities, auto_prompt=False))
        self.inventory = InventoryManager(loader=self.loader, sources=[source])
        self.variables = VariableManager(loader=self.loader, inventory=self.inventory)
        self.templar = Templar

    def document(self) -> dict[str, Any]:
        """Hosts with their variables and origins, groups, faults, secrets."""
        hosts = {host.name: self._host(host) for host in self.inventory.get_hosts()}
        groups = {
            name: [host.name for host in group.get_hosts()] for name, group in sorted(self.inventory.groups.items())
        }
        return {"hosts": hosts, "groups": groups, "errors": self.errors, "secrets": sorted(self.secrets)}

    def _host(self, host: Any) -> dict[str, Any]:  # noqa: ANN401 - Ansible is untyped
        raw = self.variables.get_vars(host=host, include_hostvars=False)
        templar = self.templar(loader=self.loader, variables=raw)
        taken: dict[str, Any] = {}
        origins: dict[str, list[Any]] = {}
        for key, value in raw.items():
            name = str(key)
            if name.startswith("lab_"):
                origins.update(_origins(name, value, self.read))
                if (key_origin := self.read(key)) is not None:
                    origins[f"{name}#key"] = key_origin
            if name.startswith("lab_") and _is_vaulted(value):
                self._error(
                    "is encrypted, but labctl writes lab_* variables into its records", name, host.name, origins
                )
            elif name.startswith("lab_") or name in _CONNECTION:
                try:
                    taken[name] = _plain(templar.template(value))
                except Exception as error:  # noqa: BLE001 - Ansible raises many kinds; each is the user's to know
                    words = str(error).strip().splitlines() or [type(error).__name__]
                    self._error(words[0], name, host.name, origins)
            elif name not in ("groups", "hostvars", "omit") and not name.startswith("ansible_playbook"):
                self._secret(name, value, templar)
        groups = sorted(group.name for group in host.get_groups() if group.name not in ("all", "ungrouped"))
        return {"groups": groups, "vars": taken, "origins": origins}

    def _secret(self, name: str, value: Any, templar: Any, *, below: bool = False) -> None:  # noqa: ANN401
        """Collects the values that must never be written: encrypted ones, and those whose name says so."""
        secret = below or self.is_secret(name)
        if isinstance(value, Mapping):
            for key, item in value.items():
                self._secret(str(key), item, templar, below=secret)
        elif isinstance(value, list | tuple):
            for item in value:
                self._secret(name, item, templar, below=secret)
        elif (secret or _is_vaulted(value)) and value is not None and not isinstance(value, bool):
            # Without a password, or with a lookup that cannot be made here, nobody can print the value either.
            with contextlib.suppress(Exception):
                self.secrets.add(str(templar.template(value)))

    def _error(self, what: str, name: str, host: str, origins: Mapping[str, list[Any]]) -> None:
        self.errors.append({"what": what, "name": name, "host": host, "where": origins.get(name)})


def main() -> int:
    """Prints one JSON document: the inventory, or ``{"fatal": words}``."""
    secret, harmless = (re.compile(pattern, re.IGNORECASE) for pattern in json.load(sys.stdin))

    def is_secret(name: str) -> bool:
        return bool(secret.search(name)) and not harmless.search(name)

    # Whatever plugins print must not mix with the document.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as output:
        os.dup2(2, 1)
        try:
            document: dict[str, Any] = _Reader(sys.argv[1], is_secret).document()
        except Exception as error:  # noqa: BLE001 - told to the user by the parent process
            document = {"fatal": str(error).strip() or type(error).__name__}
        json.dump(document, output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
