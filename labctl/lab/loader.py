"""From an Ansible inventory to a typed ``Lab``; every fault with file, line and what was expected."""

from __future__ import annotations

import difflib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from labctl import words
from labctl.automation import collection, environment
from labctl.automation.redact import KEY_PATTERNS
from labctl.errors import ExitCode, InvalidFileError, LabctlError, Where
from labctl.lab.models import Disk, Host, Lab, Nic
from labctl.lab.precheck import Precheck, inspect

READ_TIMEOUT_S = 120.0
"""Inventory scripts and cloud plugins may be slow; one that hangs must not hang labctl."""

_LAB_KEYS = ("lab_name", "lab_description")
_HOST_KEYS = ("lab_workdir", "lab_disks", "lab_nics")
_HOST_FIELDS = {key.removeprefix("lab_"): key for key in _HOST_KEYS}
_ITEMS: dict[str, type[BaseModel]] = {"disks": Disk, "nics": Nic}
_SAFE_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\Z")
_SAFE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")

_Origins = Mapping[str, list[Any]]


def load_lab(inventory: Path) -> Lab:
    """Reads and checks an inventory.

    Args:
        inventory: directory or file, of any form that Ansible reads.

    Returns:
        The lab; its ``secrets`` are for the redactor.

    Raises:
        InvalidFileError: all faults that were found, with code USAGE.
        LabctlError: Ansible could not be run.
    """
    _must_exist(inventory)
    found = inspect(inventory)
    if found.faults:
        raise InvalidFileError(_told(found.faults))
    dump = _read_with_ansible(inventory)
    if "fatal" in dump:
        raise InvalidFileError([_fatal(str(dump["fatal"]), str(dump.get("said", "")), inventory)])
    return _build(inventory, dump, found)


def _must_exist(inventory: Path) -> None:
    def refuse(what: str) -> None:
        hint = "make one with `labctl init DIR`"
        raise InvalidFileError([LabctlError(what, where=Where(inventory), hint=hint, code=ExitCode.USAGE)])

    if not inventory.exists():
        refuse("there is no such inventory")
    if inventory.is_dir():
        try:
            if not any(inventory.iterdir()):
                refuse("the inventory directory is empty")
        except OSError as error:
            refuse(f"the inventory directory cannot be read: {error.strerror}")


def _read_with_ansible(inventory: Path) -> dict[str, Any]:
    """The document of ``ansible_dump.py``."""
    ours = collection.ensure(os.environ)
    env = environment.scrubbed(os.environ, collection.collections_path(os.environ, Path.cwd(), ours))
    # A source that nobody can parse is a fault, where Ansible would go on with fewer hosts.
    env["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] = "True"
    script = Path(__file__).with_name("ansible_dump.py")
    try:
        done = _run_child([sys.executable, "-P", str(script), str(inventory.absolute())], json.dumps(KEY_PATTERNS), env)
    except subprocess.TimeoutExpired:
        raise LabctlError(
            f"Ansible did not finish reading the inventory in {READ_TIMEOUT_S:.0f} s",
            where=Where(inventory),
            hint="an inventory script or plugin hangs: try `ansible-inventory -i … --list`",
            code=ExitCode.TIMEOUT,
        ) from None
    try:
        document = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines()
        raise LabctlError(
            f"Ansible could not read the inventory: {said[-1] if said else f'exit code {done.returncode}'}",
            where=Where(inventory),
        ) from None
    if not isinstance(document, dict):
        return {"fatal": "Ansible answered with something else"}
    return {**document, "said": done.stderr}


def _run_child(command: list[str], given: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Like :func:`subprocess.run`, but what the child started (an inventory script) ends with it after the time."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            output, said = child.communicate(given, timeout=READ_TIMEOUT_S)
        except BaseException:  # also Ctrl-C, which a session of its own does not get
            # A script that still holds the pipes would otherwise be waited for.
            os.killpg(child.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, child.returncode, output, said)


def _fatal(told: str, said: str, inventory: Path) -> LabctlError:
    """Ansible's own words, with the place taken out of them where they name one.

    Args:
        told: the exception.
        said: what was on standard error: there each plugin says why it could not parse a source.
        inventory: the place, where the words name none.
    """
    if source := re.match(r"Completely failed to parse inventory source (.+)", told):
        where = Where(Path(source[1]))
        if reason := _plugin_words(said, Path(source[1])):
            return LabctlError(f"Ansible cannot read it: {reason}", where=where)
        return LabctlError("Ansible finds no inventory in it", where=where, hint="see `ansible-inventory -i … --list`")
    place = re.search(r"(/[^\s:'\"]+):(\d+)(?::(\d+))?", told)
    where = Where(inventory)
    if place:
        where = Where(Path(place[1]), int(place[2]), int(place[3]) if place[3] else None)
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    return LabctlError(f"Ansible cannot read it: {lines[0]}", where=where, hint=" ".join(lines[1:3]) or None)


_PLUGIN = re.compile(r"^\[WARNING\]: Failed to parse inventory with '([^']+)' plugin: (.+)$", re.MULTILINE)


def _plugin_words(said: str, source: Path) -> str | None:
    """The words of the plugin that the source was meant for; Ansible tries others after it, whose words mislead."""
    reasons = dict(_PLUGIN.findall(said))
    meant = ("script", "yaml", "ini") if source.suffix in {".yml", ".yaml", ".json"} else ("script", "ini", "yaml")
    plugin = next((name for name in (*meant, *reasons) if name in reasons), None)
    if plugin is None:
        return None
    reason = re.sub(
        r"<class '[\w.]*?(\w+)'>", lambda kind: kind[1].removeprefix("_AnsibleTagged").lower(), reasons[plugin]
    )
    own = (
        re.search(r"^Standard error from inventory script:\n(.+)$", said, re.MULTILINE) if plugin == "script" else None
    )
    return f"{reason.rstrip('.')}: {own[1].strip()}" if own else reason


def _skipped_words(said: str) -> str:
    """What Ansible left out of the inventory with no more than a warning."""
    found = re.findall(r"^\[WARNING\]: (Skipping .+)$", said, re.MULTILINE)
    return f"Ansible says: {found[0]}" if found else "add one below `all: hosts:`"


def _build(inventory: Path, dump: Mapping[str, Any], found: Precheck) -> Lab:
    hosts: dict[str, Any] = dump["hosts"]
    faults = [_dump_fault(error, found) for error in dump["errors"]]
    if not hosts:
        what = "the inventory has no hosts"
        faults.append(LabctlError(what, where=Where(inventory), hint=_skipped_words(str(dump.get("said", "")))))
    faults += _host_name_faults(hosts, inventory)
    typed: dict[str, Host] = {}
    for name, host in hosts.items():
        faults += _unknown_variables(host, found)
        built = _host(name, host, faults, found)
        if built is not None:
            typed[name] = built
    name = _one_for_all("lab_name", hosts, faults, found) or _default_name(inventory)
    description = _one_for_all("lab_description", hosts, faults, found) or ""
    if not _SAFE_NAME.match(name):
        origins: _Origins = next((host["origins"] for host in hosts.values()), {})
        where = _place("lab_name", origins, found) or Where(inventory)
        hint = "1 to 63 lower-case letters, digits and inner dashes"
        faults.append(LabctlError(f"{words.shown(name)} cannot be the name of a lab", where=where, hint=hint))
    if faults:
        raise InvalidFileError(_told(faults))
    return Lab(
        name=name,
        description=description,
        inventory=inventory.absolute(),
        hosts=typed,
        groups={group: tuple(members) for group, members in dump["groups"].items()},
        secrets=frozenset(dump["secrets"]),
    )


def _host(name: str, host: Mapping[str, Any], faults: list[LabctlError], found: Precheck) -> Host | None:
    variables: dict[str, Any] = host["vars"]
    given = {field: variables[key] for field, key in _HOST_FIELDS.items() if variables.get(key) is not None}
    address = variables.get("ansible_host")
    try:
        return Host.model_validate(
            {
                "name": name,
                "groups": host["groups"],
                "address": None if address is None else str(address),
                "connection": variables.get("ansible_connection"),
                **given,
            }
        )
    except ValidationError as error:
        faults += [_model_fault(dict(fault), host["origins"], found) for fault in error.errors(include_url=False)]
        return None


def _model_fault(fault: dict[str, Any], origins: _Origins, found: Precheck) -> LabctlError:
    """One of pydantic's errors, in the words of the inventory."""
    first, *rest = [str(part) for part in fault["loc"]]
    path = "/".join([_HOST_FIELDS.get(first, first), *rest])
    shown = path.replace("/", ".")
    if fault["type"] == "extra_forbidden":
        known = _ITEMS[first].model_fields if first in _ITEMS else Host.model_fields
        where = _place(f"{path}#key", origins, found)
        return LabctlError(f"unknown key {shown}", where=where, hint=_nearest(rest[-1] if rest else first, known))
    if fault["type"] == "string_pattern_mismatch" and rest and rest[-1] == "id":
        what = f"{shown} is {words.shown(fault['input'])}"
        return LabctlError(
            what,
            where=_place(path, origins, found),
            hint="name disks by their stable id: /dev/disk/by-id/…; `ls -l /dev/disk/by-id` shows them",
        )
    what = f"{shown} is required" if fault["type"] == "missing" else f"{shown}: {_expected(fault)}"
    return LabctlError(what, where=_place(path, origins, found))


def _expected(fault: Mapping[str, Any]) -> str:
    return f"{words.plain(str(fault['msg']))}, not {words.shown(fault['input'])}"


def _dump_fault(error: Mapping[str, Any], found: Precheck) -> LabctlError:
    where = _where(error["where"]) or found.keys.get(error["name"])
    return LabctlError(f"{error['name']}: {error['what']}", where=where or f"host {error['host']}")


def _unknown_variables(host: Mapping[str, Any], found: Precheck) -> list[LabctlError]:
    known = (*_LAB_KEYS, *_HOST_KEYS)
    return [
        LabctlError(
            f"unknown variable {key}",
            where=_place(f"{key}#key", host["origins"], found),
            hint=_nearest(key, known),
        )
        for key in host["vars"]
        if key.startswith("lab_") and key not in known
    ]


def _host_name_faults(hosts: Iterable[str], inventory: Path) -> list[LabctlError]:
    """Names become names of files in records and of directories on targets."""
    faults: list[LabctlError] = []
    folded: dict[str, str] = {}
    for name in hosts:
        if not _SAFE_HOST.match(name) or ".." in name:
            hint = "letters, digits, inner dots, dashes and underscores; put the address into ansible_host"
            faults.append(
                LabctlError(f"{words.shown(name)} cannot be the name of a host", where=Where(inventory), hint=hint)
            )
        other = folded.setdefault(name.lower(), name)
        if other != name:
            what = f"the hosts {other!r} and {name!r} differ only in case"
            faults.append(LabctlError(what, where=Where(inventory), hint="their files would overwrite each other"))
    return faults


def _one_for_all(key: str, hosts: Mapping[str, Any], faults: list[LabctlError], found: Precheck) -> str | None:
    """A variable of the lab as a whole: text, and the same for every host."""
    values: dict[str, str] = {}
    for name, host in hosts.items():
        value = host["vars"].get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            what = f"{key}: expected a text, not {words.shown(value)}"
            faults.append(LabctlError(what, where=_place(key, host["origins"], found)))
            return None
        values.setdefault(value, name)
    if len(values) > 1:
        told = ", ".join(f"{value!r} on {name}" for value, name in values.items())
        host = hosts[list(values.values())[-1]]
        what = f"{key} belongs to the whole lab, but differs: {told}"
        faults.append(LabctlError(what, where=_place(key, host["origins"], found), hint="set it in group_vars/all.yml"))
    return next(iter(values), None)


def _default_name(inventory: Path) -> str:
    """The directory's name, in the letters that a lab's name may have."""
    full = inventory.absolute()
    directory = full if full.is_dir() else full.parent
    return re.sub(r"[^a-z0-9]+", "-", directory.name.lower()).strip("-")[:63].strip("-") or "lab"


def _nearest(word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"


def _place(path: str, origins: _Origins, found: Precheck) -> Where | str | None:
    """Where a variable stands: itself, else the nearest thing around it, else the first file that has its key."""
    key = path.split("/", 1)[0].removesuffix("#key")
    while path:
        if (where := _where(origins.get(path))) is not None:
            return where
        path = path.removesuffix("#key") if path.endswith("#key") else path.rpartition("/")[0]
    return found.keys.get(key)


def _where(origin: list[Any] | None) -> Where | None:
    return Where(Path(origin[0]), origin[1], origin[2]) if origin else None


def _told(faults: Iterable[LabctlError]) -> list[LabctlError]:
    """Each fault once, as a usage error, in the order of files and lines, with paths that a user would type."""
    unique: dict[tuple[str, str], LabctlError] = {}
    for fault in faults:
        where = fault.where
        if isinstance(where, Where) and Path(where.path).is_relative_to(Path.cwd()):
            where = Where(Path(where.path).relative_to(Path.cwd()), where.line, where.column)
        told = LabctlError(fault.what, where=where, hint=fault.hint, code=ExitCode.USAGE)
        unique.setdefault((str(where), fault.what), told)
    return sorted(unique.values(), key=_order)


def _order(fault: LabctlError) -> tuple[str, int, int]:
    if isinstance(fault.where, Where):
        return str(fault.where.path), fault.where.line or 0, fault.where.column or 0
    return str(fault.where or ""), 0, 0
