"""The ``labctl`` command: puts the verbs together and turns faults into messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from labctl import __version__
from labctl.cli import (
    attach,
    collect,
    doctor,
    init,
    lab,
    normalise,
    plan,
    records,
    report,
    resume,
    run,
    stage,
    study,
    teardown,
)
from labctl.cli.output import print_json
from labctl.errors import ExitCode, InvalidFileError, LabctlError
from labctl.words import plain

app = typer.Typer(
    name="labctl",
    help="Build labs with Ansible, run the same work in every arm of a study, keep the evidence.",
    epilog="First steps:  labctl doctor   labctl plan quickstart   labctl run quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"labctl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version_flag: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


app.command()(init.init)
app.command()(doctor.doctor)
app.add_typer(lab.app, name="lab")
app.command()(stage.stage)
app.add_typer(study.app, name="study")
app.command()(plan.plan)
app.command()(run.run)
app.command()(resume.resume)
app.command()(attach.attach)
app.command()(collect.collect)
app.command()(teardown.teardown)
app.command()(records.records)
app.command()(normalise.normalise)
app.command()(report.report)


def _faults(error: LabctlError) -> list[LabctlError]:
    return error.faults if isinstance(error, InvalidFileError) else [error]


def show_error(error: LabctlError, *, as_json: bool) -> None:
    """Say what, where and what next: for people on standard error, for machines one JSON object on standard output."""
    if as_json:
        faults = [
            {"what": fault.what, "where": str(fault.where) if fault.where else None, "hint": fault.hint}
            for fault in _faults(error)
        ]
        print_json({"event": "error", "code": int(error.code), "errors": faults})
        return
    for fault in _faults(error):
        place = f"{fault.where}: " if fault.where is not None else ""
        typer.echo(f"labctl: error: {place}{fault.what}", err=True)
        if fault.hint:
            typer.echo(f"  next: {fault.hint}", err=True)


#: What the command line library raises for wrong arguments; its own name for the class differs between versions.
_USAGE_ERRORS = tuple(base for base in typer.BadParameter.__bases__ if issubclass(base, Exception))


def _show_usage_error(error: Exception, *, as_json: bool) -> None:
    context = getattr(error, "ctx", None)
    words = error.format_message() if hasattr(error, "format_message") else str(error)
    if words.startswith("Usage:"):  # no arguments at all: its message is the help
        if not as_json:
            typer.echo(words, err=True)
            return
        words = "a verb is missing"
    elif context is not None and not as_json:
        typer.echo(context.get_usage(), err=True)
    path = context.command_path if context is not None else "labctl"
    hint = f"{path} --help shows the arguments"
    show_error(LabctlError(plain(words), hint=hint, code=ExitCode.USAGE), as_json=as_json)


def _internal(error: Exception) -> LabctlError:
    """A fault of labctl itself, in a line for people; where it happened is for those who mend it."""
    if os.environ.get("LABCTL_TRACEBACK"):
        import traceback

        traceback.print_exc()
    words = str(error).strip().partition("\n")[0]
    what = f"this should not have happened: {type(error).__name__}" + (f": {words}" if words else "")
    return LabctlError(what, hint="a fault of labctl: please report it with what LABCTL_TRACEBACK=1 shows")


def main() -> None:
    """Entry point of the ``labctl`` command."""
    as_json = "--json" in sys.argv[1:]
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files need not be valid text, and a locale need not have our letters: neither may end labctl.
        sys.stdout.reconfigure(encoding="utf-8" if as_json else None, errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except LabctlError as error:
        show_error(error, as_json=as_json)
        sys.exit(int(error.code))
    except OSError as error:
        what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        show_error(LabctlError(what, hint="check the path, its permissions and the free space"), as_json=as_json)
        sys.exit(int(ExitCode.ERROR))
    except KeyboardInterrupt:
        sys.exit(int(ExitCode.INTERRUPTED))
    except _USAGE_ERRORS as error:
        _show_usage_error(error, as_json=as_json)
        sys.exit(int(ExitCode.USAGE))
    except Exception as error:  # noqa: BLE001 - the last resort: a user gets a message, never a traceback
        show_error(_internal(error), as_json=as_json)
        sys.exit(int(ExitCode.ERROR))
    sys.exit(code if isinstance(code, int) else int(ExitCode.OK))
