"""``labctl teardown``: remove from the hosts what a run made there."""

from __future__ import annotations

import typer

from labctl.cli.options import JsonOption, RecordArgument


def teardown(record: RecordArgument, as_json: JsonOption = False) -> None:
    """Stop the run's agents, collect what they finished, and remove its data and storage from the hosts.

    Only what carries the run's own marks is removed; the record stays.

    Examples:
        labctl teardown records/20261201-101500-quickstart-k7m2p
    """
    from labctl.cli.display import choose_display
    from labctl.cli.records import session_of

    with choose_display(as_json=as_json) as display:
        code = session_of(record, display.show).teardown()
    raise typer.Exit(int(code))
