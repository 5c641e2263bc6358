"""The loop over batches: prepare, measure, collect, account, again; and every way in which that can end early."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labctl.automation.models import PlaybookResult
from labctl.errors import ExitCode
from labctl.lab.models import Lab
from labctl.plan.models import Cell, Plan
from labctl.record.layout import RecordLayout
from labctl.record.ledger import Ledger, RunState
from labctl.run.events import Listener, RunEvent
from labctl.run.progress import Progress
from labctl.run.reconcile import HomeBundle, reconcile
from labctl.run.schedule import MAX_ATTEMPTS, CircuitBreaker, next_batch, pending_cells
from labctl.run.stages import STOP_RECONNECT_S, Stages
from labctl.run.watch import Follower


class _Stopped(Exception):  # noqa: N818 - not an error: the one way out of the loop before its end
    def __init__(self, state: RunState, code: ExitCode, reason: str) -> None:
        super().__init__(reason)
        self.state: RunState = state
        self.code = code
        self.reason = reason


@dataclass(slots=True)
class Outcome:
    """How the run ended."""

    code: ExitCode
    reason: str | None
    counts: dict[str, int]


@dataclass(slots=True)
class Engine:
    """Runs what the ledger of one record says is still to be done. The caller holds the locks of record and lab."""

    layout: RecordLayout
    run_id: str
    plan: Plan
    lab: Lab
    ledger: Ledger
    emit: Listener
    stop: threading.Event
    keep: bool = False
    retry: Mapping[str, int] = field(default_factory=dict)
    reconnect_s: float = 300.0
    _breaker: CircuitBreaker = field(init=False)
    _cancel: threading.Event = field(default_factory=threading.Event)
    _stages: Stages = field(init=False)
    _progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        self._breaker = CircuitBreaker(self.plan.max_equal_failures)
        self._stages = Stages(
            self.layout,
            self.run_id,
            self.plan,
            self.lab,
            self.ledger,
            self.emit,
            self._cancel,
            reconnect_s=self.reconnect_s,
        )
        self._progress = Progress(self.plan, self.ledger, self.emit, self._breaker, self._cancel)

    def execute(self, *, resumed: bool) -> Outcome:
        """Run to the end, to a stop, or to a fault; the ledger has the last word on each cell when this returns."""
        hosts = self._stages.hosts
        watcher = threading.Thread(target=self._pass_on_stop, name="labctl-stop", daemon=True)
        watcher.start()
        if resumed:
            self.ledger.run("resumed")
        try:
            if resumed:
                self._pick_up(hosts)
            self._loop(hosts)
            self._finish(hosts)
        except _Stopped as stopped:
            self.ledger.run(stopped.state, stopped.reason)
            return Outcome(stopped.code, stopped.reason, self._counts())
        counts = self._counts()
        failed = counts.get("failed", 0)
        reason = f"{failed} of {len(self.plan.cells)} cells failed" if failed else None
        self.ledger.run("finished", reason)
        return Outcome(ExitCode.ERROR if failed else ExitCode.OK, reason, counts)

    def _pass_on_stop(self) -> None:
        self.stop.wait()
        self._cancel.set()

    def _counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for cell in self.plan.cells:
            entry = self.ledger.view.cells.get(cell.id)
            state = entry.state if entry else "planned"
            counts[state] = counts.get(state, 0) + 1
        return counts

    def _pick_up(self, hosts: Sequence[str]) -> None:
        """What an earlier labctl left behind: bundles that came home, bundles on the hosts, agents that still work."""
        self._account(reconcile(self.layout, self.plan, self.ledger))
        result = self._bring_home(hosts)
        working = [host for host in hosts if _agent(result, host).get("alive")]
        if working:
            self.emit(RunEvent("notice", {"message": f"the agent still works on {', '.join(working)}; waiting for it"}))
            self._watched(working, lambda: self._stages.wait(working))
        self._orphans_are_interrupted("labctl was gone and no bundle was left")

    def _pending(self) -> list[Cell]:
        return pending_cells(self.plan, self.ledger.view, self.retry)

    def _loop(self, hosts: Sequence[str]) -> None:
        prepared = False
        boots: dict[str, str] = {}
        losses, left = 0, len(self._pending())
        while batch := next_batch(self._pending()):
            if self._breaker.reason:  # opened by what bundles showed when they were home
                self._wind_down(hosts)
            if not prepared:
                boots = _boots(self._checked(self._stages.host(hosts)))
                prepared = True
            # An agent that vanished (reboot, kill) has taken mounts and servers with it: prepare again.
            prepared = self._measure(batch, boots)
            losses = 0 if prepared or len(self._pending()) < left else losses + 1
            left = len(self._pending())
            if losses >= MAX_ATTEMPTS:
                reason = f"agents vanished {losses} times in a row without finishing a cell"
                raise _Stopped("failed", ExitCode.HOSTS_FAILED, reason)

    def _measure(self, cells: Sequence[Cell], boots: Mapping[str, str]) -> bool:
        """One batch, measured, brought home and accounted for; False if an agent vanished."""
        attempts = {cell.id: self.ledger.view.next_attempt(cell.id) for cell in cells}
        result, whole = self._watched(sorted({cell.host for cell in cells}), lambda: self._stages.measure(cells, boots))
        if whole:
            self._checked(result)
            self._unmeasured_count(cells, attempts)
        return whole

    def _watched(self, hosts: Sequence[str], measure: Callable[[], PlaybookResult]) -> tuple[PlaybookResult, bool]:
        """Let the agents work, follow them, bring home what they leave; the second value is False if one vanished."""
        with Follower(self.layout.progress, self._progress.saw, on_error=self._cancel.set):
            result = measure()
        if self.stop.is_set() or self._breaker.reason:
            self._wind_down(hosts)
        if result.status == "timeout":
            self._stages.stop(hosts)
        if result.status == "unreachable":
            # A host that was waited for in vain is not waited for again, but others may have something. Its agent works
            # on: what it has in hand is not lost.
            self._collect(hosts, reconnect_s=0.0)
            self._checked(result)
        self._bring_home(hosts)
        lost = {host: _agent(result, host) for host in hosts if _agent(result, host).get("agent_lost")}
        for host, agent in lost.items():
            self.emit(RunEvent("notice", {"message": f"the agent on {host} vanished: {agent.get('reason', '')}"}))
        self._orphans_are_interrupted("; ".join(str(agent.get("reason")) for agent in lost.values()) or "no bundle")
        gave_up = [
            f"{host}: {why}" for host in hosts if host not in lost and (why := _agent(result, host).get("reason"))
        ]
        if gave_up:
            # Nothing that another attempt would mend: a full disk, above all.
            raise _Stopped("failed", ExitCode.ERROR, f"the agent gave up: {'; '.join(gave_up)}")
        return result, not lost

    def _bring_home(self, hosts: Sequence[str]) -> PlaybookResult:
        return self._checked(self._collect(hosts))

    def _collect(self, hosts: Sequence[str], reconnect_s: float | None = None) -> PlaybookResult:
        result = self._stages.collect(hosts, reconnect_s=reconnect_s)
        for host in hosts:
            for bundle, why in (_agent(result, host).get("damaged") or {}).items():
                self.emit(RunEvent("notice", {"message": f"{host}: bundle {bundle} is damaged, kept aside: {why}"}))
        self._account(reconcile(self.layout, self.plan, self.ledger))
        return result

    def _unmeasured_count(self, cells: Sequence[Cell], attempts: dict[str, int]) -> None:
        """A batch that ended in peace without a bundle for a cell: count the attempt, or this would go on for ever."""
        for cell in cells:
            entry = self.ledger.view.cells.get(cell.id)
            if entry is None or entry.attempt < attempts[cell.id]:
                self._interrupted(cell.id, attempts[cell.id], "the agent left no bundle")

    def _orphans_are_interrupted(self, why: str) -> None:
        """Cells that the ledger calls running, while no agent works on them."""
        for cell in self.plan.cells:
            entry = self.ledger.view.cells.get(cell.id)
            if entry is not None and entry.state == "running":
                self._interrupted(cell.id, entry.attempt, why)

    def _interrupted(self, cell: str, attempt: int, why: str) -> None:
        if attempt >= MAX_ATTEMPTS:
            self.ledger.cell(cell, attempt, "failed", f"lost in {attempt} attempts, the last time: {why}")
        else:
            self.ledger.cell(cell, attempt, "interrupted", why)

    def _account(self, news: Sequence[HomeBundle]) -> None:
        for bundle in news:
            self._progress.home(bundle)

    def _wind_down(self, hosts: Sequence[str]) -> None:
        """Stop the running cells, bring home what there is, and leave the loop."""
        if self._breaker.reason:
            stopped = _Stopped("failed", ExitCode.ERROR, self._breaker.reason)
        else:
            stopped = _Stopped("interrupted", ExitCode.INTERRUPTED, "stopped by a signal")
        self._stages.stop(hosts)
        self._stages.collect(hosts, even_when_canceled=True, reconnect_s=STOP_RECONNECT_S)
        self._account(reconcile(self.layout, self.plan, self.ledger))
        self._orphans_are_interrupted(stopped.reason)
        if self._breaker.reason and not self.keep:
            self._stages.teardown(self._stages.hosts)
        raise stopped

    def _checked(self, result: PlaybookResult) -> PlaybookResult:
        """Raise the right kind of stop if a playbook did not succeed."""
        if self.stop.is_set():
            raise _Stopped("interrupted", ExitCode.INTERRUPTED, "stopped by a signal")
        if result.ok:
            return result
        words = "; ".join(f"{error.host}: {error.task}: {error.message}" for error in result.errors[:3])
        reason = f"stage {result.playbook} {result.status}" + (f": {words}" if words else "")
        match result.status:
            case "unreachable":
                raise _Stopped("interrupted", ExitCode.HOSTS_UNREACHABLE, reason)
            case "timeout":
                raise _Stopped("interrupted", ExitCode.TIMEOUT, reason)
            case "spec-error":
                raise _Stopped("failed", ExitCode.USAGE, reason)
            case _:
                raise _Stopped("failed", ExitCode.HOSTS_FAILED, reason)

    def _finish(self, hosts: Sequence[str]) -> None:
        if self.keep:
            self.emit(RunEvent("notice", {"message": "data and agents' files stay on the hosts, as asked by --keep"}))
            return
        result = self._stages.teardown(hosts)
        if not result.ok:
            # The measurements are home: a teardown that fails must be seen, but it takes nothing away from them.
            message = "; ".join(f"{error.host}: {error.task}: {error.message}" for error in result.errors)
            self.emit(RunEvent("notice", {"message": f"teardown {result.status}: {message or 'see the record'}"}))


def _boots(prepared: PlaybookResult) -> dict[str, str]:
    """Host → id of the boot in which it was prepared."""
    return {host: str(found["boot_id"]) for host, found in prepared.results.items() if "boot_id" in found}


def _agent(result: PlaybookResult, host: str) -> dict[str, Any]:
    """What ``measure`` or ``collect`` published of the agent on a host."""
    return result.results.get(host, {})
