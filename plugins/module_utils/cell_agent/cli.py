"""The commands of ``agent.pyz``; every one prints one line of JSON (``export`` without --limit: a tar)."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Callable, Sequence

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


def _list(run: control.Run, options: argparse.Namespace) -> dict[str, Any]:
    recovered = control.recover(run) if options.recover else []
    return {"recovered": recovered, "attempts": export.finished(run.path), "status": run.status()}


def _export(run: control.Run, options: argparse.Namespace) -> dict[str, Any] | None:
    if options.limit is not None:
        return export.piece(run.path, options.cell, options.offset, options.limit)
    export.write_tar(run.path, options.cell, sys.stdout.buffer)
    return None


_COMMANDS: dict[str, Callable[[control.Run, argparse.Namespace], Any]] = {
    "start": lambda run, options: control.start(run, _read_batch(options.batch)),
    "run": lambda run, _: (control.serve(run), None),
    "status": lambda run, _: (0, run.status()),
    "stop": lambda run, options: (0, control.stop(run, options.grace)),
    "remove": lambda run, options: (0, control.remove(run, options.grace)),
    "list": lambda run, options: (0, _list(run, options)),
    "export": lambda run, options: (0, _export(run, options)),
}


def _dispatch(options: argparse.Namespace) -> tuple[int, Any]:
    if options.command == "facts":
        return 0, facts.gather(options.path, options.tool)
    answer: tuple[int, Any] = _COMMANDS[options.command](control.Run(options.dir), options)
    return answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; faults of the request are one line on standard error and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        code, answer = _dispatch(options)
    except (control.Refused, queue.BatchError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_REFUSED
    if answer is not None:
        sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
    return code
