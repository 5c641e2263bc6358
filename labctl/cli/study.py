"""``labctl study``: list, show and check study files; print their JSON Schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.options import JsonOption
from labctl.cli.output import print_json

app = typer.Typer(
    help="Study files: the built-in ones, a check of yours, the schema for editors.", no_args_is_help=True
)


@app.command(name="list")
def list_studies(*, as_json: JsonOption = False) -> None:
    """List the built-in studies."""
    from labctl.study.load import builtin_studies, load_study

    studies = [load_study(path).study for path in builtin_studies().values()]
    if as_json:
        for study in studies:
            print_json({"name": study.name, "title": study.title, "arms": list(study.arms)})
        return
    width = max((len(study.name) for study in studies), default=0)
    for study in studies:
        typer.echo(f"{study.name:<{width}}  {study.title} ({len(study.arms)} arms, {study.repeats} repeats)")


@app.command()
def show(name: Annotated[str, typer.Argument(help="Built-in name, or a path.")]) -> None:
    """Print a study file as it is, to read or to copy."""
    from labctl.study.load import load_study

    sys.stdout.buffer.write(load_study(name).raw)


@app.command()
def schema() -> None:
    """Print the JSON Schema of study files."""
    from labctl.study.schema import study_schema

    print_json(study_schema(), indent=2)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="A study file.")], *, as_json: JsonOption = False) -> None:
    """Check a study file without a lab: every fault at once, with its line."""
    from labctl.study.expand import expand
    from labctl.study.load import load_study

    # A bare name is a file here, also where a built-in study is called the same.
    study = load_study(file if file.suffix else Path.cwd() / file).study
    points = sum(len(expand(workload)) for workload in study.workloads.values())
    if as_json:
        print_json({"name": study.name, "arms": len(study.arms), "points": points})
        return
    typer.echo(f"{file}: {study.name} is valid: {len(study.arms)} arms, {points} points, {study.repeats} repeats")
