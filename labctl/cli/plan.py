"""``labctl plan``: what a study means in a lab, without writing anything."""

from __future__ import annotations

from typing import Annotated

import typer

from labctl.cli.lab_options import LabOption
from labctl.cli.options import ArmsOption, JsonOption, RepeatsOption, SeedOption, SetOption, StudyArgument, split_arms


def plan(
    study: StudyArgument,
    inventory: LabOption,
    *,
    set_: SetOption = None,
    repeats: RepeatsOption = None,
    seed: SeedOption = None,
    arms: ArmsOption = None,
    as_json: JsonOption = False,
    commands: Annotated[bool, typer.Option("--commands", help="Also print the exact commands and job files.")] = False,
) -> None:
    """Show cells, order, time, bytes, disk and needs of a study in a lab; writes nothing.

    Ends with 6 and the reasons if the study cannot or should not run in this lab.

    Examples:
        labctl plan quickstart

        labctl plan my-study.yml -i inventories/rack4 --commands
    """
    from labctl.cli.plan_text import show_plan
    from labctl.plan.planner import refusal
    from labctl.run.prepare import Wishes, prepare

    wishes = Wishes(set_ or (), repeats, seed, split_arms(arms))
    made = prepare(study, inventory, wishes, run_id="preview").plan
    if as_json:
        typer.echo(made.model_dump_json())
    else:
        show_plan(made, commands=commands)
    refused = refusal(made)
    if refused is not None:
        raise refused
