"""Writes the README.md of every role from its ``meta/argument_specs.yml``, the single schema of its variables.

``python tools/role_readme.py`` writes; with ``--check`` it only names the files that are not up to date, and exits 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROLES = Path(__file__).resolve().parents[1] / "roles"
WIDTH_OF_DEFAULT = 60
# Ansible's markup in descriptions: C(code), O(option), V(value).
MARKUP = re.compile(r"\b[COV]\(([^)]*)\)")


def load(path: Path) -> Any:  # noqa: ANN401  YAML holds anything
    """A YAML file as plain Python values."""
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def prose(text: str | list[str] | None) -> str:
    """A description as Markdown in one paragraph."""
    lines = [text] if isinstance(text, str) else list(text or ())
    return " ".join(MARKUP.sub(r"`\1`", " ".join(line.split())) for line in lines)


def default_text(option: Mapping[str, Any]) -> str:
    """What the column ``default`` says: a value, ``required``, or nothing."""
    if option.get("required"):
        return "required"
    if "default" not in option:
        return ""
    value = option["default"]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if value == "":
        return "empty"
    if isinstance(value, dict) and len(str(value)) > WIDTH_OF_DEFAULT:
        return ", ".join(f"`{key}: {item}`" for key, item in value.items())
    return f"`{value}`"


def type_text(option: Mapping[str, Any]) -> str:
    """The column ``type``, with what a list holds and the choices."""
    kind = str(option.get("type", "str"))
    if "elements" in option:
        kind = f"{kind} of {option['elements']}"
    choices = option.get("choices")
    return f"{kind}: {', '.join(f'`{choice}`' for choice in choices)}" if choices else kind


def rows(options: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Table rows of options, those of suboptions after their own."""
    for name, option in options.items():
        text = prose(option.get("description")).replace("|", "\\|")
        yield f"| `{prefix}{name}` | {type_text(option)} | {default_text(option)} | {text} |"
        yield from rows(option.get("options", {}), f"{prefix}{name}[].")


def entry_point(name: str, spec: Mapping[str, Any]) -> Iterator[str]:
    """The section of one entry point."""
    yield f"## {'Use' if name == 'main' else f'Entry point `{name}`'}"
    yield ""
    yield f"{prose(spec['short_description'])}."
    yield ""
    for line in spec.get("description", ()):
        yield f"- {prose(line)}"
    yield ""
    yield "| variable | type | default | meaning |"
    yield "| --- | --- | --- | --- |"
    yield from rows(spec.get("options", {}))
    yield ""


def readme(role: Path) -> str:
    """The text of a role's README."""
    specs = load(role / "meta" / "argument_specs.yml")["argument_specs"]
    about = load(role / "meta" / "main.yml")["galaxy_info"]
    lines = [
        f"# labctl.lab.{role.name}",
        "",
        "<!-- Made by tools/role_readme.py from meta/argument_specs.yml; change it there. -->",
        "",
        about["description"],
        "",
    ]
    for name, spec in specs.items():
        lines += entry_point(name, spec)
    lines += ["## Example", "", "```yaml", "- hosts: all", "  gather_facts: false", "  roles:"]
    lines += [f"    - role: labctl.lab.{role.name}", "```", ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Write or check every README; returns the exit code."""
    stale = []
    for specs in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        role = specs.parents[1]
        path, text = role / "README.md", readme(role)
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    for path in stale:
        print(path.relative_to(ROLES.parent))  # noqa: T201  this is a command
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
