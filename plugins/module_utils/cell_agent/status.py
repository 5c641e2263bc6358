"""``status.json``: what the controller sees of the agent while it works."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

from . import SCHEMA, files


class Status:
    """Replaced atomically at each change and, by the sampler's heartbeat, every two seconds at most."""

    def __init__(self, run_dir: str, run_id: str, batch: str) -> None:
        self._path = os.path.join(run_dir, "status.json")
        self._lock = threading.Lock()
        self._finished: list[dict[str, Any]] = []
        self._value: dict[str, Any] = {
            "schema": SCHEMA,
            "run_id": run_id,
            "pid": os.getpid(),
            "boot_id": files.boot_id(),
            "batch": batch,
            "state": "running",
            "heartbeat": time.time(),
            "cell": None,
            "attempt": None,
            "step": None,
            "phase": None,
            "cell_started": None,
            "step_started": None,
            "error": None,
            "finished": self._finished,
        }

    def update(self, **changes: object) -> None:
        """Change fields and write; a full disk is no reason to stop measuring."""
        with self._lock:
            self._value.update(changes, heartbeat=time.time())
            with contextlib.suppress(OSError):
                files.write_atomic(self._path, files.dump(self._value), durable=False)

    def beat(self) -> None:
        """Say that the agent is alive."""
        self.update()

    def cell_finished(self, cell_id: str, attempt: int, result: dict[str, Any]) -> None:
        """Add a finished attempt."""
        entry = {key: result.get(key) for key in ("status", "started", "finished", "error")}
        with self._lock:
            self._finished.append({"id": cell_id, "attempt": attempt, **entry})
        self.update(cell=None, attempt=None, step=None, phase=None, cell_started=None, step_started=None)
