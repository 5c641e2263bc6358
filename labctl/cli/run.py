"""``labctl run``: execute a study in a lab, from an untouched host to a report."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from labctl.cli.lab_options import LabOption
from labctl.cli.options import (
    ArmsOption,
    JsonOption,
    KeepOption,
    ReconnectOption,
    RecordsOption,
    RepeatsOption,
    SeedOption,
    SetOption,
    StudyArgument,
    split_arms,
)


def run(
    study: StudyArgument,
    inventory: LabOption,
    records: RecordsOption = Path("records"),
    set_: SetOption = None,
    repeats: RepeatsOption = None,
    seed: SeedOption = None,
    arms: ArmsOption = None,
    keep: KeepOption = False,
    reconnect: ReconnectOption = 300.0,
    as_json: JsonOption = False,
) -> None:
    """Run a study in a lab and keep the evidence in a record.

    Ctrl-C stops the running cell, collects what there is and ends with 130; twice ends at once. `labctl resume` goes on
    after either, and after anything worse.

    Examples:
        labctl run quickstart

        labctl run my-study.yml -i inventories/rack4 --records /srv/records

        labctl run quickstart --repeats 5 --set workloads.*.parameters.runtime=10s
    """
    from labctl.cli.display import choose_display
    from labctl.plan.planner import refusal
    from labctl.record.files import write_json
    from labctl.record.locks import check_free, lab_lock_path
    from labctl.record.record import create_record, new_run_id
    from labctl.run.events import RunEvent
    from labctl.run.prepare import Wishes, prepare
    from labctl.run.session import RunOptions, Session

    run_id = new_run_id(Path(study).stem)
    with choose_display(as_json=as_json) as display:
        display.show(RunEvent("notice", {"message": f"looking at the hosts of {inventory}"}))
        wishes = Wishes(set_ or (), repeats, seed, split_arms(arms))
        prepared = prepare(study, inventory, wishes, run_id=run_id)
        if refused := refusal(prepared.plan):
            raise refused
        lab = prepared.lab
        # Asked again, and held, by the session: here it only saves a record that could not start.
        check_free(lab_lock_path(lab.name, lab.inventory), what=f"lab {lab.name}")
        layout = create_record(
            records,
            run_id=run_id,
            plan=prepared.plan,
            study_text=prepared.study.raw,
            lab=lab.model_dump(mode="json"),
            inventory=inventory,
            command=["labctl", *sys.argv[1:]],
        )
        for host, facts in prepared.facts.items():
            write_json(layout.hosts / f"{host}.json", facts.model_dump(mode="json", by_alias=True))
        code = Session(layout, run_id, prepared.plan, lab, display.show).run(
            RunOptions(keep=keep, reconnect_s=reconnect),
            resumed=False,
            restore_terminal=display.restore,
        )
    raise typer.Exit(int(code))
