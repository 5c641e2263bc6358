"""YAML with positions, from files that nobody has checked: every limit is met before any object is built.

The event stream is read first (it needs neither recursion nor memory for aliases), so that an alias bomb, a very deep
or a very long file is refused while it is still cheap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, DocumentStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from labctl.errors import ExitCode, InvalidFileError, LabctlError, Where
from labctl.words import ascii_controls, shown

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1024**2
MAX_DEPTH = 20
MAX_EVENTS = 50_000
MAX_ALIASES = 100
MAX_NODES = 50_000
"""Nodes after aliases are followed."""

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls (but tab and line feed), marks that turn the direction of writing, and halves of characters."""

Loc = tuple[str | int, ...]


@dataclass(slots=True)
class Document:
    """Plain values (sequences are tuples), and where each value and each key stands in the file."""

    path: Path | str
    value: object = None
    values: dict[Loc, Where] = field(default_factory=dict)
    keys: dict[Loc, Where] = field(default_factory=dict)

    def where(self, loc: Loc, *, key: bool = False) -> Where:
        """The place of a value (or of its key), or of the nearest thing around it that is in the file."""
        if key and loc in self.keys:
            return self.keys[loc]
        while loc and loc not in self.values:
            loc = loc[:-1]
        return self.values.get(loc, Where(self.path, 1, 1))


def read_document(path: Path) -> tuple[bytes, Document]:
    """A file's bytes and its one YAML document; raises InvalidFileError, or LabctlError where it cannot be read."""
    try:
        if not path.is_file() and path.exists() and not path.is_dir():
            # A pipe that nobody writes to would be waited for, without end.
            raise LabctlError("not a regular file", where=Where(path), code=ExitCode.USAGE)
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise LabctlError("no such file", where=Where(path), code=ExitCode.USAGE) from None
    except OSError as error:
        raise LabctlError(f"cannot read: {error.strerror}", where=Where(path), code=ExitCode.USAGE) from None
    return raw, parse_document(raw, path)


def parse_document(raw: bytes, path: Path | str) -> Document:
    """One YAML document from bytes; raises InvalidFileError with every fault that can be told apart."""
    if len(raw) > MAX_BYTES:
        raise _fault(Where(path), f"larger than {MAX_BYTES // 1024} KiB: this is no file that a person wrote")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        what = f"not UTF-8: byte 0x{raw[error.start]:02x}"
        raise _fault(Where(path, line, column), what, "save the file as UTF-8") from None
    _refuse_tabs(text, path)
    try:
        _refuse_bombs(text, path)
        node = _yaml().compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = Where(path, mark.line + 1, mark.column + 1) if mark else Where(path)
        raise _fault(where, f"not valid YAML: {error.problem or error.context or 'syntax error'}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _fault(Where(path, line), f"not valid YAML: {error.reason}") from None
    except YAMLError as error:
        raise _fault(Where(path), f"not valid YAML: {error}") from None
    if node is None:
        raise _fault(Where(path, 1, 1), "the file is empty", "labctl study show quickstart prints a complete study")
    return _Builder(Document(path)).build(node)


def parse_scalar(text: str) -> object:
    """The value of a command-line ``KEY=VALUE``, read as YAML (``4``, ``true``, ``[1, 2]``)."""
    return parse_document(text.encode(), "<command line>").value if text.strip() else ""


def _yaml() -> YAML:
    return YAML(typ="safe", pure=True)


def _fault(where: Where, what: str, hint: str | None = None) -> InvalidFileError:
    return InvalidFileError([LabctlError(what, where=where, hint=hint, code=ExitCode.USAGE)])


def _refuse_tabs(text: str, path: Path | str) -> None:
    faults = [
        LabctlError(
            "a tab in the indentation: YAML takes spaces only",
            where=Where(path, number, line.index("\t") + 1),
            hint="replace it by spaces",
            code=ExitCode.USAGE,
        )
        for number, line in enumerate(text.splitlines(), 1)
        if "\t" in line[: len(line) - len(line.lstrip())] and line.strip()
    ]
    if faults:
        raise InvalidFileError(faults)


def _refuse_bombs(text: str, path: Path | str) -> None:
    depth = aliases = documents = 0
    for number, event in enumerate(_yaml().parse(text), 1):
        where = Where(path, event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, CollectionStartEvent):
            depth += 1
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        elif isinstance(event, AliasEvent):
            aliases += 1
        elif isinstance(event, DocumentStartEvent):
            documents += 1
        if documents > 1:
            raise _fault(where, "a second YAML document: one study a file", "remove the line ---")
        if depth > MAX_DEPTH:
            raise _fault(where, f"nested deeper than {MAX_DEPTH} levels")
        if aliases > MAX_ALIASES:
            raise _fault(where, f"more than {MAX_ALIASES} aliases")
        if number > MAX_EVENTS:
            raise _fault(where, f"more than {MAX_EVENTS} YAML events")


class _Builder:
    """Nodes to plain values with positions; duplicate and non-text keys are collected as faults."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._construct = _yaml().constructor.construct_object
        self._faults: list[LabctlError] = []
        self._count = 0
        self._active: set[int] = set()

    def build(self, node: Node) -> Document:
        self._document.value = self._value(node, ())
        if self._faults:
            raise InvalidFileError(self._faults)
        return self._document

    def _where(self, node: Node) -> Where:
        return Where(self._document.path, node.start_mark.line + 1, node.start_mark.column + 1)

    def _value(self, node: Node, loc: Loc) -> object:
        self._count += 1
        if self._count > MAX_NODES:
            raise _fault(self._where(node), f"aliases unfold to more than {MAX_NODES} values")
        if id(node) in self._active:
            raise _fault(self._where(node), "an alias that contains itself")
        self._document.values.setdefault(loc, self._where(node))
        self._active.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, loc)
            if isinstance(node, SequenceNode):
                return tuple(self._value(child, (*loc, i)) for i, child in enumerate(node.value))
            return self._scalar(node)
        finally:
            self._active.discard(id(node))

    def _mapping(self, node: MappingNode, loc: Loc) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            where = self._where(key_node)
            if not isinstance(key_node, ScalarNode):
                self._fault_at(where, "a key must be text")
                continue
            key = str(key_node.value)
            if hidden := _HIDDEN.search(key):
                self._fault_at(where, f"an invisible character in the key: {ascii_controls(hidden[0])}")
                continue
            at = (*loc, key)
            if key in result:
                self._fault_at(where, f"duplicate key {shown(key)}, first at line {self._document.keys[at].line}")
                continue
            self._document.keys[at] = where
            result[key] = self._value(value_node, at)
        return result

    def _scalar(self, node: Node) -> object:
        value: object = None
        try:
            value = self._construct(node)
        except ConstructorError as error:
            self._fault_at(self._where(node), f"not a plain value: {error.problem}")
        except (ValueError, OverflowError) as error:
            self._fault_at(self._where(node), f"not a valid value: {error}")
        if isinstance(value, str) and (hidden := _HIDDEN.search(value)):
            # They would rewrite a terminal's line, or cannot be written to a file at all.
            self._fault_at(self._where(node), f"an invisible character in the text: {ascii_controls(hidden[0])}")
        return value

    def _fault_at(self, where: Where, what: str) -> None:
        self._faults.append(LabctlError(what, where=where, code=ExitCode.USAGE))
