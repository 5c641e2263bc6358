"""Writes docs/support.md: what is run for real and what is only checked, from the tests' own marks.

``python -m tools.support_matrix``. The tests are read, not imported: ``@pytest.mark.real(what=..., where=...)`` with
literal texts (or lists of texts), on a function, a class or as ``pytestmark``, is all that counts. ``what`` is the name
of a role, target, workload, stage or study, or ``kind:name`` where one name means several (``stage:host``); several
``kind:name`` may stand in one text.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from labctl.study.load import builtin_studies
from labctl.study.models import Arm
from labctl.workloads.registry import TOOLS
from tools.markdown import GENERATED, table

REPO = Path(__file__).resolve().parents[1]
TARGET = REPO / "docs" / "support.md"
KINDS = ("stage", "role", "target", "workload", "study")

LEGEND = """# What is supported, and how we know

{generated}

- **run for real**: a test runs it with the real tools, where the table says. In CI these tests cannot be skipped.
- **schema-checked**: its argument spec or schema is checked against what is there, but no test runs it.
- **only rendered**: only what it renders or its syntax is checked.
"""


class MarkError(ValueError):
    """A ``real`` mark that this generator cannot read."""


@dataclass(frozen=True, slots=True)
class RealTest:
    """One mark of one test: the names it runs for real, where, and the test's pytest id."""

    what: tuple[str, ...]
    where: str
    test: str


def _texts(node: ast.expr, place: str) -> tuple[str, ...]:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
        raise MarkError(f"{place}: what and where of the mark real must be literal text")
    return tuple(texts)


def _marks(nodes: Sequence[ast.expr], test: str) -> Iterator[RealTest]:
    for node in nodes:
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "pytest.mark.real":
            continue
        words = {word.arg: word.value for word in node.keywords}
        if node.args or set(words) != {"what", "where"}:
            raise MarkError(f"{test}: the mark real takes exactly what= and where=")
        yield RealTest(_texts(words["what"], test), ", ".join(_texts(words["where"], test)), test)


def _module_marks(body: Sequence[ast.stmt]) -> list[ast.expr]:
    for statement in body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
            value = statement.value
            return value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return []


def read_marks(source: str, path: str) -> Iterator[RealTest]:
    """The ``real`` marks of one test file, in order.

    Raises:
        MarkError: a mark without literal ``what`` and ``where``.
    """

    def walk(body: Sequence[ast.stmt], prefix: str, inherited: Sequence[ast.expr]) -> Iterator[RealTest]:
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                marks = [*inherited, *_module_marks(node.body), *node.decorator_list]
                yield from walk(node.body, f"{prefix}::{node.name}", marks)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                yield from _marks([*inherited, *node.decorator_list], f"{prefix}::{node.name}")

    body = ast.parse(source, path).body
    yield from walk(body, path, _module_marks(body))


def real_tests(repo: Path) -> list[RealTest]:
    """Every mark of every test file below ``tests``."""
    files = sorted((repo / "tests").rglob("test_*.py"))
    return [mark for file in files for mark in read_marks(file.read_text(), str(file.relative_to(repo)))]


def parts(repo: Path) -> dict[tuple[str, str], str]:
    """(kind, name) of everything that the project offers → the level that it has without a real test."""
    known: dict[tuple[str, str], str] = {}
    for playbook in sorted((repo / "playbooks").glob("*.yml")):
        known["stage", playbook.stem] = "only rendered"
    for role in sorted(path for path in (repo / "roles").glob("*") if path.is_dir()):
        specs = (role / "meta" / "argument_specs.yml").is_file()
        known["role", role.name] = "schema-checked" if specs else "only rendered"
    for target in get_args(Arm.model_fields["target"].annotation):
        known["target", target] = "only rendered"
    for tool in TOOLS:
        known["workload", tool] = "only rendered"
    for study in builtin_studies():
        known["study", study] = "schema-checked"
    return known


def _names(texts: Sequence[str]) -> Iterator[str]:
    # "stage:host stage:measure" is two names; "kill -9 of labctl" is one.
    for text in texts:
        words = text.split()
        yield from words if all(word.partition(":")[0] in KINDS and ":" in word for word in words) else [text]


def assign(
    known: Mapping[tuple[str, str], str], marks: Sequence[RealTest]
) -> tuple[dict[tuple[str, str], list[RealTest]], list[RealTest]]:
    """The marks of each part, and the marks that name something that is no part (a fault, a library)."""
    found: dict[tuple[str, str], list[RealTest]] = defaultdict(list)
    other: list[RealTest] = []
    for mark in marks:
        for what in _names(mark.what):
            kind, colon, name = what.partition(":")
            keys = [(kind, name)] if colon and kind in KINDS else [key for key in known if key[1] == what]
            if colon and kind in KINDS and keys[0] not in known:
                raise MarkError(f"{mark.test}: there is no {kind} {name!r}")
            if len(keys) > 1:
                raise MarkError(f"{mark.test}: {what!r} is {' and '.join(f'{k}:{n}' for k, n in keys)}; say which")
            for key in keys:
                found[key].append(mark)
            if not keys:
                other.append(RealTest((what,), mark.where, mark.test))
    return found, other


def _evidence(marks: Sequence[RealTest]) -> list[str]:
    where = sorted({mark.where for mark in marks})
    files = sorted({mark.test.partition("::")[0] for mark in marks})
    shown = ", ".join(f"[{Path(file).name}](../{file})" for file in files)
    return ["; ".join(where), shown]


def document(repo: Path) -> str:
    """The text of docs/support.md."""
    known = parts(repo)
    found, other = assign(known, real_tests(repo))
    text = [LEGEND.format(generated=GENERATED)]
    for kind in KINDS:
        rows = [
            [f"`{name}`", "**run for real**" if found[key] else level, *_evidence(found[key])]
            for key, level in known.items()
            for name in [key[1]]
            if key[0] == kind
        ]
        if rows:
            heading = {"study": "Studies"}.get(kind, f"{kind.capitalize()}s")
            text.append(f"\n## {heading}\n\n" + table([kind.capitalize(), "Level", "Where", "Tests"], rows))
    if other:
        named = sorted({mark.what[0] for mark in other})
        rows = [[what, *_evidence([mark for mark in other if mark.what[0] == what])] for what in named]
        text.append("\n## Behaviour and faults tested on real parts\n\n" + table(["What", "Where", "Tests"], rows))
    return "".join(text)


if __name__ == "__main__":
    TARGET.write_text(document(REPO))
