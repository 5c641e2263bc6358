"""``labctl attach``: follow a run that another labctl is driving."""

from __future__ import annotations

import time

import typer

from labctl.cli.options import JsonOption, RecordArgument


def attach(record: RecordArgument, as_json: JsonOption = False) -> None:
    """Follow a running record until its run ends; reads only, Ctrl-C ends the following and not the run.

    Ends with the state of the run: 0 finished, 130 interrupted, 1 failed or killed.

    Examples:
        labctl attach records/20261201-101500-quickstart-k7m2p
    """
    from labctl.cli.display import choose_display
    from labctl.record.record import open_record
    from labctl.run.attach import follow

    opened = open_record(record)
    with choose_display(as_json=as_json) as display:
        code = follow(opened, display.show, sleep=time.sleep)
    raise typer.Exit(int(code))
