"""A study file to a checked :class:`Study`: every fault at once, each with its place and the nearest known name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import BaseModel, ValidationError

from labctl.errors import ExitCode, InvalidFileError, LabctlError
from labctl.study.expand import expand
from labctl.study.models import (
    MIN_REPEATS,
    NAME_PATTERN,
    PATH_PATTERN,
    STATISTIC_PATTERN,
    WORKLOAD_MODELS,
    Arm,
    Figure,
    Order,
    Storage,
    Study,
)
from labctl.study.overrides import apply_overrides
from labctl.study.yamlfile import Document, Loc, read_document
from labctl.words import plain, shown
from labctl.workloads.registry import TOOLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails

    from labctl.workloads.base import Given

_MAPPING = "a mapping (key: value)"
_CONTAINERS = {
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": "a list",
}


_PATTERNS = {
    NAME_PATTERN: "a name (lower-case letters, digits and inner hyphens, 40 at most)",
    PATH_PATTERN: "an absolute path below / without .., spaces or special characters",
    STATISTIC_PATTERN: "mean, min, max, stddev, total or a percentile such as p99 or p99.9",
}


@dataclass(frozen=True, slots=True)
class LoadedStudy:
    """A study, the file it came from, and that file's bytes (they go into the record unchanged)."""

    study: Study
    path: Path
    raw: bytes


def load_study(reference: str | Path, overrides: Sequence[str] = ()) -> LoadedStudy:
    """Load a study by built-in name or by path; ``overrides`` are ``dotted.path=value`` (see ``apply_overrides``).

    Raises:
        InvalidFileError: the file has faults; all of them are in it.
        LabctlError: no such study, unreadable file, or an override that fits nothing.
    """
    path = find_study(reference)
    raw, document = read_document(path)
    apply_overrides(document, overrides)
    return LoadedStudy(check_document(document), path, raw)


def builtin_directory() -> Path:
    """Built-in studies: inside the installed package, or ``studies/`` of a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "builtin"
    return installed if installed.is_dir() else package.parents[1] / "studies"


def builtin_studies() -> dict[str, Path]:
    """Name → file of every built-in study, sorted by name."""
    return {path.stem: path for path in sorted(builtin_directory().glob("*.yml"))}


def find_study(reference: str | Path) -> Path:
    """The file of a study; a text without ``/`` and without ``.yml`` or ``.yaml`` is a built-in name."""
    path = Path(reference)
    if path.suffix in {".yml", ".yaml"} or "/" in str(reference):
        return path
    known = builtin_studies()
    if str(reference) in known:
        return known[str(reference)]
    raise LabctlError(
        f"no built-in study is called {shown(str(reference))}",
        hint=_nearest(str(reference), known) or f"known: {', '.join(known)}; or give a path to a .yml file",
        code=ExitCode.USAGE,
    )


def check_document(document: Document) -> Study:
    """The typed study of a document; raises InvalidFileError with all faults, in the order of the file."""
    try:
        study = Study.model_validate(document.value)
    except ValidationError as error:
        faults = [_explain(document, detail) for detail in error.errors(include_url=False)]
        raise InvalidFileError(_sorted(faults)) from None
    faults = _Meaning(study, document).faults()
    if faults:
        raise InvalidFileError(_sorted(faults))
    return study


def _sorted(faults: Iterable[LabctlError]) -> list[LabctlError]:
    def place(fault: LabctlError) -> tuple[int, int]:
        return (getattr(fault.where, "line", None) or 0, getattr(fault.where, "column", None) or 0)

    return sorted(faults, key=place)


class _Meaning:
    """Checks that need more than one place of the file."""

    def __init__(self, study: Study, document: Document) -> None:
        self._study = study
        self._document = document

    def faults(self) -> list[LabctlError]:
        return [*self._top(), *self._arms(), *self._workloads(), *self._figures()]

    def _fault(self, loc: Loc, what: str, hint: str | None = None) -> LabctlError:
        return LabctlError(what, where=self._document.where(loc), hint=hint, code=ExitCode.USAGE)

    def _top(self) -> Iterator[LabctlError]:
        study = self._study
        if study.baseline not in study.arms:
            hint = _nearest(study.baseline, study.arms) or f"arms: {', '.join(study.arms)}"
            yield self._fault(("baseline",), f"baseline {study.baseline!r} is not an arm", hint)
        elif study.arms[study.baseline].noise:
            yield self._fault(("arms", study.baseline, "noise"), "the baseline cannot be its own noise arm")
        if study.repeats < MIN_REPEATS and not study.pilot:
            what = f"{study.repeats} repeats: at least {MIN_REPEATS} are needed"
            yield self._fault(("repeats",), what, "or say pilot: true")

    def _arms(self) -> Iterator[LabctlError]:
        for name, arm in self._study.arms.items():
            loop = arm.storage.kind == "loop"
            for key in ("filesystem", "size"):
                if (getattr(arm.storage, key) is not None) != loop:
                    what = f"storage of kind loop needs {key}" if loop else f"{key} is for storage of kind loop only"
                    yield self._fault(("arms", name, "storage", key), what)

    def _workloads(self) -> Iterator[LabctlError]:
        for name, workload in self._study.workloads.items():
            for i, arm in enumerate(workload.only_arms):
                if arm not in self._study.arms:
                    where: Loc = ("workloads", name, "only_arms", i)
                    yield self._fault(where, f"{arm!r} is not an arm", _nearest(arm, self._study.arms))
            try:
                expand(workload)
            except ValueError as error:
                yield self._fault(("workloads", name), str(error))

    def _figures(self) -> Iterator[LabctlError]:
        for i, figure in enumerate(self._study.figures):
            problem = _figure_problem(figure, self._study)
            if problem:
                key, what, hint = problem
                yield self._fault(("figures", i, key), what, hint)


def _figure_problem(figure: Figure, study: Study) -> tuple[str, str, str | None] | None:
    workload = study.workloads.get(figure.workload)
    if workload is None:
        hint = _nearest(figure.workload, study.workloads) or f"workloads: {', '.join(study.workloads)}"
        return "workload", f"{figure.workload!r} is not a workload", hint
    try:
        points = expand(workload)
    except ValueError:
        return None  # said already, at the workload
    given: Given = {}
    for point in points:
        for pair, statistics in point.tool.gives(point.parameters).items():
            given[pair] = given.get(pair, frozenset()) | statistics
    asked = (figure.metric, figure.operation)
    if asked in given:
        if figure.statistic in given[asked]:
            return None
        what = f"workload {figure.workload} does not give {figure.statistic!r} of {figure.metric}"
        return "statistic", what, f"it gives: {', '.join(sorted(given[asked]))}"
    key = "operation" if any(metric == figure.metric for metric, _ in given) else "metric"
    pairs = ", ".join(sorted(" ".join(pair).strip() for pair in given))
    what = f"workload {figure.workload} does not give {' '.join(asked).strip()!r}"
    return key, what, f"it gives: {pairs}"


def _explain(document: Document, detail: ErrorDetails) -> LabctlError:
    loc, on_key = _in_file(document.value, detail["loc"])
    kind, context = detail["type"], detail.get("ctx", {})
    hint = None
    name = str(loc[-1]) if loc else ""
    if kind == "extra_forbidden":
        known = _known_keys(document.value, loc[:-1])
        what, on_key = f"unknown key {shown(name)}", True
        hint = _nearest(name, known) or f"known here: {', '.join(known)}"
    elif kind == "missing":
        what = f"{detail['loc'][-1]!r} is missing"
    elif kind in {"union_tag_invalid", "union_tag_not_found"}:
        given = detail["input"]
        absent = not isinstance(given, dict) or "tool" not in given
        tag = "" if absent else str(given["tool"])
        loc = (*loc, "tool")
        what = "'tool' is missing" if absent else f"unknown tool {shown(given['tool'])}"
        hint = _nearest(tag, TOOLS) or f"known: {', '.join(TOOLS)}"
    elif kind == "value_error":
        what = str(context["error"])
    elif kind in {"literal_error", "enum"}:
        what = f"expected {context['expected']}, got {shown(detail['input'])}"
        hint = _nearest(str(detail["input"]), _quoted(context["expected"]))
    elif kind == "string_pattern_mismatch":
        expected = _PATTERNS.get(context["pattern"], f"a text of the form {context['pattern']}")
        what = f"expected {expected}, got {shown(detail['input'])}"
    elif kind in _CONTAINERS:
        what = f"expected {_CONTAINERS[kind]}, got {shown(detail['input'])}"
    else:
        what = f"{plain(detail['msg'])}, got {shown(detail['input'])}"
    return LabctlError(what, where=document.where(loc, key=on_key), hint=hint, code=ExitCode.USAGE)


def _in_file(value: object, loc: Sequence[str | int]) -> tuple[Loc, bool]:
    """Pydantic's location without what is not in the file (union tags, ``[key]``), and whether it means a key."""
    result: list[str | int] = []
    for part in loc:
        children = dict(enumerate(value)) if isinstance(value, tuple) else value
        if isinstance(children, dict) and part in children:
            value = children[part]
            result.append(part)
    return tuple(result), bool(loc) and loc[-1] == "[key]"


def _known_keys(value: object, loc: Loc) -> list[str]:
    """The keys that a mapping at ``loc`` may have."""
    model: type[BaseModel] = Study
    match loc:
        case ("arms", _):
            model = Arm
        case ("arms", _, "storage"):
            model = Storage
        case ("figures", _):
            model = Figure
        case ("order",):
            model = Order
        case ("workloads", str() as name, *rest):
            tool = cast("dict[str, dict[str, dict[str, str]]]", value)["workloads"][name]["tool"]
            model = TOOLS[tool].parameters if rest else WORKLOAD_MODELS[tool]
    return list(model.model_fields)


def _quoted(expected: str) -> list[str]:
    return expected.split("'")[1::2]


def _nearest(name: str, known: Iterable[str]) -> str | None:
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {matches[0]!r}?" if matches else None
