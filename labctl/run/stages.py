"""The stages of a run: which playbook, with which variables, and where its evidence goes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labctl.automation.models import PlaybookResult, TaskEvent
from labctl.automation.redact import Redactor
from labctl.automation.runner import run_playbook
from labctl.lab.models import Lab
from labctl.plan.models import Cell, Plan
from labctl.plan.planner import host_vars
from labctl.record.files import write_json
from labctl.record.layout import RecordLayout
from labctl.record.ledger import Ledger, StageState
from labctl.record.locks import owner
from labctl.run.events import Listener, RunEvent
from labctl.run.schedule import by_host

COLLECTION = "labctl.lab"
#: Added to the sum of the cells' deadlines: starting the agent, noticing its end.
_MEASURE_SLACK_S = 120.0
#: How long a host is tried that should be stopped: somebody waits for the prompt.
STOP_RECONNECT_S = 30.0
_STAGE_TIMEOUT_S = {"host": 3600.0, "collect": 3600.0, "stop": 180.0, "teardown": 900.0}
_STATE: dict[str, StageState] = {"successful": "done", "canceled": "canceled"}


@dataclass(slots=True)
class Stages:
    """Runs the stages of one record; every call is one playbook, one directory of evidence, two ledger lines."""

    layout: RecordLayout
    run_id: str
    plan: Plan
    lab: Lab
    ledger: Ledger
    emit: Listener
    cancel: threading.Event
    poll_s: float = 1.0
    reconnect_s: float = 300.0

    @property
    def hosts(self) -> list[str]:
        """The hosts that the plan uses, in a stable order."""
        return sorted({arm.host for arm in self.plan.arms})

    def host(self, hosts: Sequence[str]) -> PlaybookResult:
        """Prepare the hosts: tools, working directory, storage of the arms, PostgreSQL."""
        return self._play("host", hosts, {"labctl_host_vars": host_vars(self.plan, self.run_id)})

    def measure(self, cells: Sequence[Cell], boots: Mapping[str, str]) -> PlaybookResult:
        """Hand ``cells`` to the agents of their hosts and wait until they are through.

        ``boots`` says in which boot a host was prepared: in another one its mounts are gone, and nothing is measured.
        """
        batches = self._write_batches(cells)
        return self._wait(list(batches), batches, sum(cell.deadline_s for cell in cells), boots)

    def wait(self, hosts: Sequence[str]) -> PlaybookResult:
        """Wait for agents that an earlier labctl started; gives them nothing new."""
        return self._wait(hosts, {}, sum(cell.deadline_s for cell in self.plan.cells if cell.host in hosts), {})

    def _wait(
        self, hosts: Sequence[str], batches: Mapping[str, str], work_s: float, boots: Mapping[str, str]
    ) -> PlaybookResult:
        deadline_s = _MEASURE_SLACK_S + work_s
        variables = {
            "labctl_batches": batches,
            "labctl_boot_ids": dict(boots),
            "labctl_serial": len(hosts) if self.plan.parallel_hosts else 1,
            "labctl_progress": str(self.layout.progress),
            "labctl_poll_s": self.poll_s,
            "labctl_reconnect_s": self.reconnect_s,
            "labctl_deadline_s": deadline_s,
        }
        return self._play("measure", hosts, variables, timeout_s=deadline_s + self.reconnect_s + 60.0)

    def collect(
        self, hosts: Sequence[str], *, even_when_canceled: bool = False, reconnect_s: float | None = None
    ) -> PlaybookResult:
        """Bring finished bundles home, straight into ``raw/``; ``reconnect_s`` None: as long as everything else."""
        variables = {
            "labctl_inbox": str(self.layout.raw),
            "labctl_progress": str(self.layout.progress),
            "labctl_reconnect_s": self.reconnect_s if reconnect_s is None else reconnect_s,
        }
        return self._play("collect", hosts, variables, even_when_canceled=even_when_canceled)

    def stop(self, hosts: Sequence[str]) -> PlaybookResult:
        """Stop the agents and their running cells."""
        return self._play("stop", hosts, {"labctl_reconnect_s": STOP_RECONNECT_S}, even_when_canceled=True)

    def teardown(self, hosts: Sequence[str]) -> PlaybookResult:
        """Remove everything that the run made on the hosts."""
        return self._play(
            "teardown",
            hosts,
            {"labctl_host_vars": host_vars(self.plan, self.run_id), "labctl_reconnect_s": self.reconnect_s},
            even_when_canceled=True,
        )

    def _write_batches(self, cells: Sequence[Cell]) -> dict[str, str]:
        number = 1 + len(list(self.layout.batches.glob("*.json")))
        paths: dict[str, str] = {}
        for host, group in by_host(cells).items():
            path = self.layout.batches / f"{number:02d}-{host}.json"
            write_json(path, batch_document(self.run_id, group, self.ledger.view.next_attempt))
            paths[host] = str(path)
        return paths

    def _play(
        self,
        stage: str,
        hosts: Sequence[str],
        variables: Mapping[str, object],
        *,
        timeout_s: float | None = None,
        even_when_canceled: bool = False,
    ) -> PlaybookResult:
        artifacts = self.layout.automation / f"{1 + self._last_number():02d}-{stage}"
        self.ledger.stage(stage, "started", artifacts.name)
        self.emit(RunEvent("stage_started", {"stage": stage, "hosts": list(hosts)}))
        result = run_playbook(
            f"{COLLECTION}.{stage}",
            inventory=self.lab.inventory,
            artifacts=artifacts,
            extravars={
                "labctl_hosts": ",".join(hosts),
                "labctl_run_id": self.run_id,
                "labctl_workdirs": self.plan.workdir,
                **variables,
            },
            on_event=lambda event: self._on_task(stage, event),
            cancel=threading.Event() if even_when_canceled else self.cancel,
            timeout_s=timeout_s or _STAGE_TIMEOUT_S[stage],
            redact=Redactor(self.lab.secrets),
        )
        self.ledger.stage(stage, _STATE.get(result.status, "failed"), artifacts.name)
        self.emit(
            RunEvent(
                "stage_finished",
                {
                    "stage": stage,
                    "status": result.status,
                    "seconds": round(result.duration_s, 3),
                    "command": result.command_line,
                    "errors": [
                        {"host": error.host, "task": error.task, "path": error.path, "message": error.message}
                        for error in result.errors
                    ],
                },
            )
        )
        return result

    def _last_number(self) -> int:
        names = (path.name.split("-", 1)[0] for path in self.layout.automation.iterdir())
        return max((int(name) for name in names if name.isdigit()), default=0)

    def _on_task(self, stage: str, event: TaskEvent) -> None:
        if event.kind in {"runner_on_ok", "runner_on_failed", "runner_on_unreachable"}:
            self.emit(
                RunEvent(
                    "task",
                    {
                        "stage": stage,
                        "task": event.task,
                        "host": event.host,
                        "changed": event.changed,
                        "failed": event.kind != "runner_on_ok",
                    },
                )
            )


def batch_document(run_id: str, cells: Iterable[Cell], attempt_of: Callable[[str], int]) -> dict[str, Any]:
    """What the agent on one host gets; the format is in docs/architecture.md.

    Args:
        run_id: The run.
        cells: The host's cells in order.
        attempt_of: Cell id → number of the coming attempt.
    """
    return {
        "schema": 1,
        "run_id": run_id,
        "owner": owner(),
        "sample_interval_s": 1.0,
        "cells": [
            {
                "id": cell.id,
                "attempt": attempt_of(cell.id),
                "data_dir": cell.data_dir,
                "deadline_s": cell.deadline_s,
                "steps": [json.loads(step.model_dump_json()) for step in cell.steps],
            }
            for cell in cells
        ],
    }
