"""``labctl resume``: go on with a run that was interrupted, killed, or lost its hosts."""

from __future__ import annotations

import typer

from labctl.cli.options import JsonOption, KeepOption, ReconnectOption, RecordArgument


def resume(
    record: RecordArgument,
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Also repeat cells that failed."),
    keep: KeepOption = False,
    reconnect: ReconnectOption = 300.0,
    as_json: JsonOption = False,
) -> None:
    """Go on with a run: no finished cell is repeated, none is lost.

    Works after Ctrl-C, after `kill -9` of labctl at any moment, and after a reboot of the target. An agent that is
    still measuring is waited for, not started again.

    Examples:
        labctl resume records/20261201-101500-quickstart-k7m2p

        labctl resume records/20261201-101500-quickstart-k7m2p --retry-failed
    """
    from labctl.cli.display import choose_display
    from labctl.cli.records import session_of
    from labctl.run.session import RunOptions

    with choose_display(as_json=as_json) as display:
        code = session_of(record, display.show).run(
            RunOptions(keep=keep, retry_failed=retry_failed, reconnect_s=reconnect),
            resumed=True,
            restore_terminal=display.restore,
        )
    raise typer.Exit(int(code))
