"""``labctl plan``: what a study means in a lab, without writing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.options import JsonOption

StudyArgument = Annotated[str, typer.Argument(help="Built-in name, or path of a study file.", metavar="STUDY")]
InventoryOption = Annotated[
    Path, typer.Option("--inventory", "-i", envvar="LABCTL_INVENTORY", help="Inventory directory or file of the lab.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value: workloads.*.parameters.runtime=2s. Repeatable."),
]
RepeatsOption = Annotated[int | None, typer.Option(min=1, max=1000, help="Repeats instead of the study's.")]
SeedOption = Annotated[
    int | None, typer.Option(min=1, max=2**31 - 1, help="Seed of order and random data; default: the study's, or new.")
]
ArmsOption = Annotated[str | None, typer.Option(metavar="A,B", help="Only these arms (the baseline among them).")]


def split_arms(arms: str | None) -> list[str] | None:
    """``a,b`` to a list; None stays None (all arms)."""
    return None if arms is None else [name.strip() for name in arms.split(",") if name.strip()]


def plan(
    study: StudyArgument,
    inventory: InventoryOption = Path("inventories/localhost"),
    *,
    set_: SetOption = None,
    repeats: RepeatsOption = None,
    seed: SeedOption = None,
    arms: ArmsOption = None,
    as_json: JsonOption = False,
    commands: Annotated[bool, typer.Option("--commands", help="Also print the exact commands and job files.")] = False,
) -> None:
    """Show cells, order, time, bytes, disk and needs of a study in a lab; writes nothing."""
    from labctl.cli.plan_text import show_plan
    from labctl.lab.loader import load_lab
    from labctl.plan.placing import paths_to_probe
    from labctl.plan.planner import choose_seed, make_plan, refusal
    from labctl.plan.probe import probe_hosts
    from labctl.plan.tools import tools_to_probe
    from labctl.study.load import load_study

    loaded = load_study(study, set_ or ())
    lab = load_lab(inventory)
    facts = probe_hosts(lab, paths_to_probe(loaded.study, lab), tools_to_probe(loaded.study))
    made = make_plan(
        loaded.study,
        lab,
        facts,
        run_id="preview",
        seed=choose_seed(loaded.study, seed),
        repeats=repeats,
        arms=split_arms(arms),
    )
    if as_json:
        typer.echo(made.model_dump_json())
    else:
        show_plan(made, commands=commands)
    refused = refusal(made)
    if refused is not None:
        raise refused
