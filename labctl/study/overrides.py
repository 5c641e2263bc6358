"""``--set PATH=VALUE``: change a study's values without a copy of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labctl.errors import ExitCode, LabctlError, Where
from labctl.study.yamlfile import parse_scalar
from labctl.workloads.registry import TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labctl.study.yamlfile import Document


def apply_overrides(document: Document, overrides: Sequence[str]) -> None:
    """Set values in the document before it is checked.

    ``PATH`` is dotted (``workloads.randread.parameters.runtime``); ``*`` stands for every entry, and below
    ``workloads.*.parameters`` reaches only the tools that have the parameter. ``VALUE`` is YAML. Mappings on the way
    are made; what is not a mapping cannot be entered. The checks that follow name unknown keys.
    """
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            raise LabctlError(
                f"cannot read --set {override!r}",
                hint="expected PATH=VALUE, such as workloads.*.parameters.runtime=2s",
                code=ExitCode.USAGE,
            )
        if not _set(document, document.value, keys, parse_scalar(text), Where(f"--set {override}")):
            raise LabctlError(f"--set {override!r} fits nothing in this study", code=ExitCode.USAGE)


def _set(document: Document, target: object, keys: list[str], value: object, where: Where) -> int:
    """How many places were set."""

    def descend(target: object, at: tuple[str, ...], rest: list[str]) -> int:
        if not isinstance(target, dict):
            raise LabctlError(f"{'.'.join(at)!r} is not a mapping", where=where, code=ExitCode.USAGE)
        key, *deeper = rest
        if key == "*":
            return sum(descend(target[name], (*at, name), deeper) for name in target if _reaches(target[name], deeper))
        here = (*at, key)
        if deeper:
            return descend(target.setdefault(key, {}), here, deeper)
        target[key] = value
        document.values[here] = document.keys[here] = where
        return 1

    return descend(target, (), keys)


def _reaches(entry: object, rest: list[str]) -> bool:
    if not isinstance(entry, dict) or not rest:
        return False
    if rest[0] != "parameters" or entry.get("tool") not in TOOLS:
        return True
    return len(rest) == 1 or rest[1] in TOOLS[entry["tool"]].parameters.model_fields
