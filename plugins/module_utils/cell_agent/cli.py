"""The commands of ``agent.pyz``; every one prints one line of JSON (``export`` without --limit: a tar)."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Sequence

from . import control, export, facts, queue

_EXIT_REFUSED = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent.pyz", description="Run benchmark cells on this host.")
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text)

    for name, text in (
        ("start", "Launch a detached agent; idempotent. Exit 75: the host is busy, the holder is printed."),
        ("run", "Run the batch in the foreground."),
        ("status", "Print the status; 'alive' is certain."),
        ("stop", "Ask the agent to end, then kill it."),
        ("list", "Print the finished attempts."),
        ("export", "Print bundles as a tar."),
        ("remove", "Stop the agent and delete the run's directory."),
    ):
        add(name, text).add_argument("--dir", required=True, help="<workdir>/runs/<run id>")
    choices = commands.choices
    choices["start"].add_argument("--batch", help="batch file to take, - for standard input")
    for name in ("stop", "remove"):
        choices[name].add_argument("--grace", type=float, default=60.0, help="seconds to wait before SIGKILL")
    choices["list"].add_argument("--recover", action="store_true", help="first finish what a vanished agent left")
    choices["export"].add_argument("--cell", action="append", required=True, metavar="ID/aN")
    choices["export"].add_argument("--offset", type=int, default=0)
    choices["export"].add_argument("--limit", type=int, help="print one piece of at most so many bytes, as JSON")
    asked = add("facts", "Print what this host really is.")
    asked.add_argument("--path", nargs="*", default=[], action="extend")
    asked.add_argument("--tool", nargs="*", default=[], action="extend")
    return parser


def _read_batch(source: str | None) -> bytes | None:
    if source is None:
        return None
    if source == "-":
        return sys.stdin.buffer.read()
    with open(source, "rb") as stream:
        return stream.read()


def _dispatch(options: argparse.Namespace) -> tuple[int, Any]:
    if options.command == "facts":
        return 0, facts.gather(options.path, options.tool)
    run = control.Run(options.dir)
    if options.command == "start":
        return control.start(run, _read_batch(options.batch))
    if options.command == "run":
        return control.serve(run), None
    if options.command == "status":
        return 0, run.status()
    if options.command == "stop":
        return 0, control.stop(run, options.grace)
    if options.command == "remove":
        return 0, control.remove(run, options.grace)
    if options.command == "list":
        recovered = control.recover(run) if options.recover else []
        return 0, {"recovered": recovered, "attempts": export.finished(run.path), "status": run.status()}
    if options.limit is None:
        export.write_tar(run.path, options.cell, sys.stdout.buffer)
        return 0, None
    return 0, export.piece(run.path, options.cell, options.offset, options.limit)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; faults of the request are one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        code, answer = _dispatch(options)
    except (control.Refused, queue.BatchError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_REFUSED
    if answer is not None:
        print(json.dumps(answer, separators=(",", ":")))
    return code
