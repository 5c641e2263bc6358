"""The documents: commands exist, links lead somewhere, generated pages are what the generator makes."""

import re
import unicodedata
from pathlib import Path

import pytest

from labctl.errors import ExitCode
from tools import reference, support_matrix
from tools.markdown import table

REPO = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    path
    for path in sorted([*REPO.glob("*.md"), *REPO.glob("docs/**/*.md"), *REPO.glob("roles/*/README.md")])
    if path.is_file()
]
MAKE_TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (REPO / "Makefile").read_text(), re.MULTILINE))


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`|(?m:^ {4}.*$)", "", text, flags=re.DOTALL)


def commands(text: str) -> list[str]:
    """Targets of every ``make ...`` that stands as code: in backticks or at the start of a line of a code block."""
    return re.findall(r"(?:`|^(?: {4}|\$ )?)make ([a-z][a-z-]*)", text, re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors that the usual renderers make of headings."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        kept = "".join(c for c in plain if c in " -_" or unicodedata.category(c)[0] in "LN")
        found.add(kept.replace(" ", "-"))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_make_targets_in_documents_exist(document):
    assert set(commands(document.read_text())) <= MAKE_TARGETS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_links_lead_to_files_and_headings(document):
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(document.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        heading_missing = anchor and target.suffix == ".md" and target.is_file()
        if not target.exists() or (heading_missing and anchor not in anchors(target.read_text())):
            broken.append(link)
    assert broken == []


def test_readme_names_the_two_commands():
    assert {"quickstart", "test"} <= set(commands((REPO / "README.md").read_text()))


def test_every_make_target_is_described():
    described = set(re.findall(r"^([a-z][a-z-]*):.*## ", (REPO / "Makefile").read_text(), re.MULTILINE))
    assert described == MAKE_TARGETS


@pytest.mark.parametrize("path", sorted(reference.documents()), ids=str)
def test_reference_is_up_to_date(path):
    assert (REPO / path).read_text() == reference.documents()[path], "make docs"


def test_reference_has_every_exit_code():
    text = reference.exit_code_reference()
    assert all(f"| {int(code)} |" in text for code in ExitCode)


def test_support_matrix_is_up_to_date():
    assert support_matrix.TARGET.read_text() == support_matrix.document(REPO), "make docs"


MARKED = """
import pytest
pytestmark = pytest.mark.real(what="fio", where="localhost")
def test_a(): ...
class TestB:
    @pytest.mark.real(what=["pgbench", "bench_postgresql"], where="container node")
    def test_c(self): ...
"""


def test_marks_of_module_class_and_function_are_read():
    marks = list(support_matrix.read_marks(MARKED, "tests/real/test_x.py"))
    assert [(mark.what, mark.where, mark.test) for mark in marks] == [
        (("fio",), "localhost", "tests/real/test_x.py::test_a"),
        (("fio",), "localhost", "tests/real/test_x.py::TestB::test_c"),
        (("pgbench", "bench_postgresql"), "container node", "tests/real/test_x.py::TestB::test_c"),
    ]


@pytest.mark.parametrize(
    "mark", ['"fio"', "what=NAME, where='x'", "what='fio'", "what='', where=3", "what=[], where='x'"]
)
def test_unreadable_marks_are_refused(mark):
    source = f"import pytest\n@pytest.mark.real({mark})\ndef test_a(): ...\n"
    with pytest.raises(support_matrix.MarkError):
        list(support_matrix.read_marks(source, "tests/test_x.py"))


def test_ambiguous_and_unknown_names_are_refused():
    known = {("stage", "host"): "only rendered", ("target", "host"): "only rendered"}

    def mark(what: str) -> support_matrix.RealTest:
        return support_matrix.RealTest((what,), "localhost", "t")

    with pytest.raises(support_matrix.MarkError, match="say which"):
        support_matrix.assign(known, [mark("host")])
    with pytest.raises(support_matrix.MarkError, match="no role"):
        support_matrix.assign(known, [mark("role:hots")])
    found, other = support_matrix.assign(known, [mark("target:host"), mark("kill -9")])
    assert list(found) == [("target", "host")]
    assert [entry.what for entry in other] == [("kill -9",)]


def test_table_cells_cannot_break_the_table():
    assert table(["a"], [["x | y\nz"]]) == "| a |\n| --- |\n| x \\| y z |\n"
