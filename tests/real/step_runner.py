"""Runs the steps of a cell in a local directory, by the words of ``labctl.plan.models.Step`` and nothing else.

Small on purpose: what the workloads render is tested here without the agent, which has tests of its own.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import find_postgresql_program, find_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labctl.plan.models import Step

POSTGRESQL_PROGRAMS = frozenset({"pg_ctl", "initdb", "pgbench", "psql", "createdb", "dropdb"})


@dataclass(frozen=True)
class Ran:
    """A step's directory, and its return code; None where ``creates`` made it unnecessary."""

    directory: Path
    rc: int | None

    def text(self, name: str) -> str:
        return (self.directory / name).read_text()


def database_user() -> str | None:
    """Who runs PostgreSQL here: nobody else for an ordinary user, ``postgres`` for root."""
    return "postgres" if os.geteuid() == 0 else None


def give(path: Path, user: str | None) -> None:
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def program(name: str) -> str:
    return str(find_postgresql_program(name) if name in POSTGRESQL_PROGRAMS else find_program(name))


def run_steps(steps: Sequence[Step], bundle: Path) -> dict[str, Ran]:
    """Run the steps; a failed one leaves only the ``always`` steps to run, then raises with the tool's words."""
    results: dict[str, Ran] = {}
    failure = ""
    for number, step in enumerate(steps):
        if failure and not step.always:
            continue
        directory = bundle / f"{number:02d}-{step.name}"
        directory.mkdir()
        if step.creates and Path(step.creates).exists():
            results[step.name] = Ran(directory, None)
            continue
        for name, text in step.files.items():
            (directory / name).write_text(text)
        user = database_user() if step.database_user else None
        give(directory, user)
        with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
            ended = subprocess.run(
                [program(step.argv[0]), *step.argv[1:]],
                cwd=step.cwd or directory,
                env={**os.environ, **step.env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=step.timeout_s,
                user=user,
                check=False,
            )
        results[step.name] = Ran(directory, ended.returncode)
        if ended.returncode not in step.ok_codes:
            failure += f"{step.name} ended with {ended.returncode}: {(directory / 'stderr').read_text()}"
        elif step.creates:
            Path(step.creates).touch()
    if failure:
        raise AssertionError(failure)
    return results
