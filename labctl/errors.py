"""The exit codes of labctl and the one exception that the command line turns into a message.

An error says *what* is wrong, *where* (file and line, or host and task), and what to do *next*.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """Process exit codes; documented in docs/reference/exit-codes.md, stable from the first release."""

    OK = 0
    ERROR = 1
    USAGE = 2
    HOSTS_FAILED = 3
    HOSTS_UNREACHABLE = 4
    TIMEOUT = 5
    GUARD_REFUSED = 6
    WORSE = 10
    VARIANCE_TOO_HIGH = 11
    NOT_ENOUGH_SAMPLES = 12
    NOT_COMPARABLE = 13
    INCONCLUSIVE = 14
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file: 1-based line and column, None where unknown."""

    path: Path | str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        """``file:line:column`` as editors and terminals understand it."""
        parts = [str(self.path), *(str(n) for n in (self.line, self.column) if n is not None)]
        return ":".join(parts)


class LabctlError(Exception):
    """A user-facing failure: shown without a traceback."""

    def __init__(
        self,
        what: str,
        *,
        where: Where | str | None = None,
        hint: str | None = None,
        code: ExitCode = ExitCode.ERROR,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        """One line for logs: where, what, next step."""
        place = f"{self.where}: " if self.where is not None else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.what}{hint}"


class InvalidFileError(LabctlError):
    """One or more faults in a user's file; all faults are shown at once."""

    def __init__(self, faults: list[LabctlError]) -> None:
        first = faults[0]
        super().__init__(first.what, where=first.where, hint=first.hint, code=ExitCode.USAGE)
        self.faults = faults
