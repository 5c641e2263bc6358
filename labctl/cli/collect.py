"""``labctl collect``: bring home what a vanished labctl left on the hosts."""

from __future__ import annotations

import typer

from labctl.cli.options import JsonOption, RecordArgument


def collect(record: RecordArgument, as_json: JsonOption = False) -> None:
    """Fetch finished bundles from the hosts into the record and derive its tables and report; starts nothing.

    An agent that is still measuring is left alone; what it has finished comes home.

    Examples:
        labctl collect records/20261201-101500-quickstart-k7m2p
    """
    from labctl.cli.display import choose_display
    from labctl.cli.records import session_of

    with choose_display(as_json=as_json) as display:
        code = session_of(record, display.show).collect()
    raise typer.Exit(int(code))
