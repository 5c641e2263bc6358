"""One sitting with a record: locks, signals, the engine, and what is derived at the end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from labctl.automation.models import PlaybookResult
from labctl.errors import ExitCode
from labctl.lab.models import Lab
from labctl.plan.models import Plan
from labctl.record.layout import RecordLayout
from labctl.record.ledger import Ledger
from labctl.record.locks import held, lab_lock_path
from labctl.record.manifest import write_manifest
from labctl.run.engine import Engine, Outcome
from labctl.run.events import Listener, RunEvent
from labctl.run.reconcile import reconcile
from labctl.run.schedule import Pace, failed_attempts, pending_cells
from labctl.run.signals import two_step_stop
from labctl.run.stages import Stages

_CODES = {"successful": ExitCode.OK, "unreachable": ExitCode.HOSTS_UNREACHABLE, "timeout": ExitCode.TIMEOUT}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user can choose for a sitting."""

    keep: bool = False
    retry_failed: bool = False
    reconnect_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Session:
    """A record that is going to be worked on. Every verb locks the record and the lab for as long as it lasts."""

    layout: RecordLayout
    run_id: str
    plan: Plan
    lab: Lab
    emit: Listener

    def run(self, options: RunOptions, *, resumed: bool, restore_terminal: Callable[[], None]) -> ExitCode:
        """Run the pending cells, then derive tables and report, whatever the end was.

        Raises:
            LabctlError: The record or the lab is locked by another labctl (6), or the record cannot be written.
        """
        with self._locked("resume" if resumed else "run") as ledger:

            def asked(signal_name: str) -> None:
                message = f"{signal_name}: stopping the running cell; once more ends at once"
                self.emit(RunEvent("notice", {"message": message}))

            with two_step_stop(asked, restore_terminal) as stop:
                outcome = self._execute(ledger, stop, options, resumed=resumed)
                report = self.derive()
            self._tell_end(ledger, outcome, report, options)
            return outcome.code

    def collect(self) -> ExitCode:
        """Bring home what is finished on the hosts, account for it, and derive tables and report.

        Raises:
            LabctlError: The record or the lab is locked by another labctl (6).
        """
        with self._locked("collect") as ledger:
            result = self._stages(ledger).collect(sorted(self.plan.workdir))
            news = reconcile(self.layout, self.plan, ledger)
            self.emit(RunEvent("notice", {"message": f"{len(news)} bundles came home"}))
            self.derive()
        return _code_of(result)

    def teardown(self) -> ExitCode:
        """Stop the agents, bring home what there is, and remove what the run made on the hosts.

        Raises:
            LabctlError: The record or the lab is locked by another labctl (6).
        """
        with self._locked("teardown") as ledger:
            stages = self._stages(ledger)
            hosts = sorted(self.plan.workdir)
            for step in (stages.stop, stages.collect):
                result = step(hosts)
                if not result.ok:
                    return _code_of(result)
            reconcile(self.layout, self.plan, ledger)
            result = stages.teardown(hosts)
            self.derive()
        return _code_of(result)

    def derive(self) -> Path | None:
        """Manifest, tables and report of what is in the record; returns the path of the HTML report.

        Raw data are home already: a fault here is told, never raised, since everything can be derived again.
        """
        from labctl.normalise.record import normalise_record  # noqa: PLC0415 - Arrow and pandas load slowly
        from labctl.normalise.tables import write_tables  # noqa: PLC0415
        from labctl.report.write import write_report  # noqa: PLC0415 - so do plots

        try:
            write_manifest(self.layout)
            write_tables(normalise_record(self.layout.root), self.layout.tables)
            paths = write_report(self.layout.root)
        except Exception as error:  # noqa: BLE001 - whatever it is, hours of measuring end with their outcome told
            again = f"`labctl normalise {self.layout.root}` and `labctl report {self.layout.root}`"
            message = f"cannot derive the report: {error or type(error).__name__}; nothing is lost, see {again}"
            self.emit(RunEvent("notice", {"message": message}))
            return None
        return next((path for path in paths if path.suffix == ".html"), None)

    @contextlib.contextmanager
    def _locked(self, verb: str) -> Iterator[Ledger]:
        purpose = f"{verb} {self.run_id}"
        with (
            held(self.layout.lock, what=f"record {self.run_id}", purpose=purpose),
            held(lab_lock_path(self.lab.name, self.lab.inventory), what=f"lab {self.lab.name}", purpose=purpose),
        ):
            yield Ledger(self.layout.ledger)

    def _stages(self, ledger: Ledger) -> Stages:
        return Stages(self.layout, self.run_id, self.plan, self.lab, ledger, self.emit, threading.Event())

    def _execute(self, ledger: Ledger, stop: threading.Event, options: RunOptions, *, resumed: bool) -> Outcome:
        retry = failed_attempts(self.plan, ledger.view) if options.retry_failed else {}
        pending = pending_cells(self.plan, ledger.view, retry)
        total = len(self.plan.cells)
        left_s = Pace().left(pending, parallel_hosts=self.plan.parallel_hosts)
        numbers = {"of": total, "pending": len(pending), "finished": total - len(pending), "left_s": left_s}
        self.emit(RunEvent("run_started", {"run": self.run_id, "record": str(self.layout.root), **numbers}))
        engine = Engine(
            layout=self.layout,
            run_id=self.run_id,
            plan=self.plan,
            lab=self.lab,
            ledger=ledger,
            emit=self.emit,
            stop=stop,
            keep=options.keep,
            retry=retry,
            reconnect_s=options.reconnect_s,
        )
        return engine.execute(resumed=resumed)

    def _tell_end(self, ledger: Ledger, outcome: Outcome, report: Path | None, options: RunOptions) -> None:
        steps: list[str] = []
        if pending_cells(self.plan, ledger.view):
            steps.append(f"labctl resume {self.layout.root}")
        if failed_attempts(self.plan, ledger.view):
            steps.append(f"labctl resume --retry-failed {self.layout.root}")
        if options.keep or ledger.view.run_state in {"interrupted", "failed"}:
            steps.append(f"labctl teardown {self.layout.root}")
        data = {
            "status": ledger.view.run_state,
            "code": int(outcome.code),
            "reason": outcome.reason,
            "counts": outcome.counts,
            "record": str(self.layout.root),
            "report": str(report) if report else None,
            "next": steps,
        }
        self.emit(RunEvent("run_finished", data))


def _code_of(result: PlaybookResult) -> ExitCode:
    return _CODES.get(result.status, ExitCode.HOSTS_FAILED)
