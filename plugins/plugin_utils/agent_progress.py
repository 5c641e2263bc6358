"""Progress lines for labctl, derived from one status of the agent and the next."""

from __future__ import annotations

import json
import os
import time
from typing import Any


def events(before: dict[str, Any] | None, after: dict[str, Any]) -> list[dict[str, Any]]:
    """What happened between two polls, in order; cells too short to be seen running still get their start.

    ``before`` None means the first status of this wait: what had finished by then is told too.
    """
    told = before or {}
    found: list[dict[str, Any]] = []
    if before is None or before.get("pid") != after.get("pid"):
        found.append({"event": "agent_started"})
        told = {}
    seen = (told.get("cell"), told.get("attempt"))
    for entry in after.get("finished", [])[len(told.get("finished", [])) :]:
        where = {"cell": entry["id"], "attempt": entry["attempt"]}
        if seen != (entry["id"], entry["attempt"]):
            found.append({"event": "cell_started", **where})
        found.append({"event": "cell_finished", **where, "status": entry["status"], "error": entry["error"]})
    current = (after.get("cell"), after.get("attempt"))
    where = {"cell": current[0], "attempt": current[1]}
    if current[0] is not None:
        if current != seen:
            found.append({"event": "cell_started", **where})
        if after.get("step") and (current != seen or after["step"] != told.get("step")):
            found.append({"event": "step_started", **where, "step": after["step"], "phase": after["phase"]})
    if after.get("state") != "running" and told.get("state") != after.get("state"):
        found.append({"event": "agent_finished", "status": after.get("state")})
    return found


class Progress:
    """Appends lines to the file that labctl follows; without a file it does nothing."""

    def __init__(self, path: str | None, host: str) -> None:
        self._path, self._host = path, host

    def emit(self, event: dict[str, Any]) -> None:
        """Append one line in one write, so that hosts can share the file."""
        if not self._path:
            return
        line = json.dumps({"t": time.time(), "host": self._host, **event}, separators=(",", ":")) + "\n"
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)
