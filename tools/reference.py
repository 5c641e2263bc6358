"""Writes docs/reference/ from the code: ``python -m tools.reference``.

A unit test compares :func:`documents` with the files, so the reference cannot drift from what labctl does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer.main
from ruamel.yaml import YAML

from labctl.cli.app import app
from labctl.errors import ExitCode
from labctl.normalise.schema import MEASUREMENTS
from labctl.study.schema import study_schema
from tools.markdown import GENERATED, table

REPO = Path(__file__).resolve().parents[1]
REFERENCE = Path("docs/reference")

EXIT_CODES = {
    ExitCode.OK: "Done; for comparisons: better or equivalent.",
    ExitCode.ERROR: "Something failed that no other code names; the message says what.",
    ExitCode.USAGE: "Wrong arguments, or a lab or study file with faults; all faults are listed.",
    ExitCode.HOSTS_FAILED: "At least one host failed a task, or cells failed on it.",
    ExitCode.HOSTS_UNREACHABLE: "At least one host could not be reached.",
    ExitCode.TIMEOUT: "A deadline passed.",
    ExitCode.GUARD_REFUSED: "A guard refused: the plan cannot work, or would do harm.",
    ExitCode.WORSE: "Comparison: worse than the baseline.",
    ExitCode.VARIANCE_TOO_HIGH: "Comparison: the samples vary too much for a verdict.",
    ExitCode.NOT_ENOUGH_SAMPLES: "Comparison: too few samples for a verdict.",
    ExitCode.NOT_COMPARABLE: "Comparison: the arms differ in more than what was asked.",
    ExitCode.INCONCLUSIVE: "Comparison: neither a difference nor equivalence is shown.",
    ExitCode.INTERRUPTED: "Stopped by Ctrl-C or SIGTERM; what there was is collected, `labctl resume` goes on.",
}


def documents() -> dict[Path, str]:
    """Path below the repository → text of every generated reference file."""
    return {
        REFERENCE / "cli.md": cli_reference(),
        REFERENCE / "exit-codes.md": exit_code_reference(),
        REFERENCE / "measurements.md": measurement_reference(),
        REFERENCE / "roles.md": role_reference(REPO),
        REFERENCE / "study.schema.json": json.dumps(study_schema(), indent=2, sort_keys=True) + "\n",
    }


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    # Typer carries its own copy of click, which has no public types: what is used here is click's long-stable core.
    if subcommands := getattr(command, "commands", None):
        for name in sorted(subcommands):
            yield from _commands(subcommands[name], f"{path} {name}")
    else:
        yield path, command


def _default(parameter: Any) -> str:  # noqa: ANN401
    default = parameter.default
    plain = isinstance(default, str | int | float | Path | Enum) and not isinstance(default, bool)
    return str(default.value if isinstance(default, Enum) else default) if plain else ""


def _options(command: Any) -> list[list[str]]:  # noqa: ANN401
    rows = []
    for parameter in command.params:
        if parameter.hidden or parameter.name == "help":
            continue
        if parameter.param_type_name == "argument":
            name = f"`{parameter.name.upper()}`"
        else:
            name = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
        rows.append([name, parameter.help or "", _default(parameter)])
    return rows


def cli_reference() -> str:
    """Every command with its options, from the Typer application itself."""
    root = typer.main.get_command(app)
    parts = ["# The command line\n", GENERATED, "\nExit codes: [exit-codes.md](exit-codes.md).\n"]
    for path, command in _commands(root, "labctl"):
        parts += [f"## {path}\n", (command.help or "").strip() + "\n"]
        if rows := _options(command):
            parts.append(table(["Argument or option", "Meaning", "Default"], rows))
    return "\n".join(parts)


def exit_code_reference() -> str:
    """Every exit code; a code without a description is a KeyError, so none is forgotten."""
    rows = [[str(int(code)), code.name.lower().replace("_", "-"), EXIT_CODES[code]] for code in ExitCode]
    return f"# Exit codes\n\n{GENERATED}\n\nStable from the first release on.\n\n" + table(
        ["Code", "Name", "Meaning"], rows
    )


def measurement_reference() -> str:
    """The columns of the tidy table, with their types as a reader of Parquet sees them."""
    rows = [[f"`{field.name}`", _type_name(field.type)] for field in MEASUREMENTS]
    text = "One row a value; every column may be null, and a missing value is null with a `status`, never 0."
    return f"# Columns of the measurement table\n\n{GENERATED}\n\n{text}\n\n" + table(["Column", "Type"], rows)


def _type_name(kind: pa.DataType) -> str:
    return "text (dictionary)" if pa.types.is_dictionary(kind) else str(kind)


def _specs(role: Path) -> dict[str, Any]:
    for name in ("argument_specs.yml", "argument_specs.yaml"):
        if (role / "meta" / name).is_file():
            loaded = YAML(typ="safe").load((role / "meta" / name).read_text())
            return dict(loaded["argument_specs"])
    return {}


def role_reference(repo: Path) -> str:
    """Every role of the collection with its public variables, from the argument specs."""
    parts = ["# Roles\n", GENERATED, "\nRoles of the collection `labctl.lab`. Each works without labctl.\n"]
    for role in sorted(path for path in (repo / "roles").glob("*") if path.is_dir()):
        parts.append(f"## labctl.lab.{role.name}\n")
        for entry, spec in _specs(role).items():
            description = spec.get("short_description", "")
            parts.append(f"Entry point `{entry}`: {description}\n")
            rows = [
                [
                    f"`{name}`",
                    str(option.get("type", "str")),
                    "required" if option.get("required") else f"`{json.dumps(option.get('default'), default=str)}`",
                    " ".join(
                        [option["description"]] if isinstance(option["description"], str) else option["description"]
                    ),
                ]
                for name, option in spec.get("options", {}).items()
            ]
            if rows:
                parts.append(table(["Variable", "Type", "Default", "Meaning"], rows))
    return "\n".join(parts)


def write() -> None:
    """Writes every file of :func:`documents` that has changed."""
    for path, text in documents().items():
        target = REPO / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


if __name__ == "__main__":
    write()
