"""The cell agent: runs a batch of cells on a target and leaves one finished bundle per attempt.

Runs from ``agent.pyz`` on Python 3.9 and newer with the standard library only; the files that a run leaves
are described in docs/architecture.md, section "The agent".
"""

SCHEMA = 1
EXIT_BUSY = 75
"""Another run holds the host (``EX_TEMPFAIL`` of sysexits.h)."""
