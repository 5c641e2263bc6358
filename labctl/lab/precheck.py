"""Looks at the files of an inventory before Ansible does.

Ansible stops at the first fault, warns where it should refuse (duplicate keys), and expands every alias. So the files
are read once here as node graphs, in which an alias costs nothing, and all faults of all files are told together.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from labctl.errors import LabctlError, Where

MAX_BYTES = 4 << 20
MAX_NODES = 200_000
MAX_FILES = 10_000
_YAML = frozenset({".yml", ".yaml", ".json"})
_VARS_DIRS = frozenset({"group_vars", "host_vars"})
_VAULT = b"$ANSIBLE_VAULT;"


@dataclass(slots=True)
class Precheck:
    """What was found; ``keys``: where each ``lab_*`` key stands first."""

    faults: list[LabctlError] = field(default_factory=list)
    keys: dict[str, Where] = field(default_factory=dict)
    vaulted_files: list[Path] = field(default_factory=list)


def inspect(inventory: Path) -> Precheck:
    """Checks every file of an inventory; never raises for what is in them."""
    found = Precheck()
    for number, path in enumerate(_files(inventory)):
        if number >= MAX_FILES:
            found.faults.append(
                LabctlError(
                    f"more than {MAX_FILES} files below this inventory",
                    where=Where(inventory),
                    hint="name the inventory directory itself, not a directory above it",
                )
            )
            break
        _inspect_file(path, found)
    return found


def _files(inventory: Path) -> Iterator[Path]:
    if not inventory.is_dir():
        yield inventory
        return
    for directory, subdirectories, names in os.walk(inventory):
        subdirectories[:] = sorted(name for name in subdirectories if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith("~"):
                yield Path(directory) / name


def _inspect_file(path: Path, found: Precheck) -> None:
    def fault(what: str, line: int | None = None, column: int | None = None, hint: str | None = None) -> None:
        found.faults.append(LabctlError(what, where=Where(path, line, column), hint=hint))

    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            fault("not a regular file", hint="an inventory holds files and directories only")
            return
        if status.st_size > MAX_BYTES:
            fault(f"{status.st_size} bytes, where at most {MAX_BYTES} are accepted")
            return
        data = path.read_bytes()
    except OSError as error:
        fault(f"cannot be read: {error.strerror}", hint="check its owner and mode, or where it links to")
        return
    if data.startswith(_VAULT):
        found.vaulted_files.append(path)
        return
    is_vars = path.suffix == "" and not _VARS_DIRS.isdisjoint(path.parts)
    if not is_vars and path.suffix not in _YAML and (path.suffix or status.st_mode & stat.S_IXUSR):
        return  # a script, a text, an INI file: Ansible's own business
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        fault(f"byte 0x{data[error.start]:02x} is not UTF-8", line, column, "save the file as UTF-8")
        return
    if path.suffix in _YAML or is_vars:
        _inspect_yaml(path, text, found)


def _inspect_yaml(path: Path, text: str, found: Precheck) -> None:
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        column = mark.column + 1 if mark else None
        problem = str(error.problem or error)
        if "\\t" in problem:
            problem = "a tab, where YAML indents with spaces only"
        found.faults.append(
            LabctlError(f"not valid YAML: {problem}", where=Where(path, line, column), hint=error.context)
        )
        return
    except RecursionError:
        found.faults.append(LabctlError("nested too deeply", where=Where(path)))
        return
    except YAMLError as error:
        found.faults.append(LabctlError(f"not valid YAML: {str(error).splitlines()[0]}", where=Where(path)))
        return
    if root is not None:
        _Walk(path, found).check(root)


class _Walk:
    """One pass over a node graph: duplicate keys, positions of ``lab_*`` keys, size after expansion of aliases."""

    def __init__(self, path: Path, found: Precheck) -> None:
        self._path = path
        self._found = found
        self._sizes: dict[int, int] = {}
        self._open: set[int] = set()

    def check(self, root: Node) -> None:
        """Adds the faults of the document below ``root``."""
        try:
            size = self._size(root)
        except _LoopError as loop:
            self._fault(loop.node, "an anchor that contains itself")
            return
        except RecursionError:
            self._fault(root, "nested too deeply")
            return
        if size > MAX_NODES:
            self._fault(
                root,
                f"its anchors expand to {_rounded(size)} values, where at most {MAX_NODES} are accepted",
                hint="replace the nested aliases",
            )

    def _size(self, node: Node) -> int:
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            raise _LoopError(node)
        self._open.add(id(node))
        size = 1
        if isinstance(node, MappingNode):
            self._keys(node)
            size += sum(self._size(key) + self._size(value) for key, value in node.value)
        elif isinstance(node, SequenceNode):
            size += sum(self._size(item) for item in node.value)
        self._open.remove(id(node))
        self._sizes[id(node)] = size
        return size

    def _keys(self, node: MappingNode) -> None:
        seen: dict[str, Node] = {}
        for key, _ in node.value:
            if not isinstance(key, ScalarNode) or str(key.tag).endswith(":merge"):
                continue
            name = str(key.value)
            if name in seen:
                first = seen[name].start_mark.line + 1
                self._fault(key, f"the key {name!r} stands here twice, first in line {first}")
            seen.setdefault(name, key)
            if name.startswith("lab_"):
                self._found.keys.setdefault(name, self._where(key))

    def _fault(self, node: Node, what: str, hint: str | None = None) -> None:
        self._found.faults.append(LabctlError(what, where=self._where(node), hint=hint))

    def _where(self, node: Node) -> Where:
        return Where(self._path, node.start_mark.line + 1, node.start_mark.column + 1)


class _LoopError(Exception):
    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


def _rounded(size: int) -> str:
    digits = len(str(size)) - 1
    return str(size) if digits < 7 else f"more than 10^{digits}"  # noqa: PLR2004 - readable up to a million
