"""From ansible-runner's raw events to typed ones, and from many events to one recap. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labctl.automation.models import HostStats, PlaybookStatus, TaskError, TaskEvent

_FAILED = "runner_on_failed"
_ITEM_FAILED = "runner_item_on_failed"
_UNREACHABLE = "runner_on_unreachable"
_STATS = "playbook_on_stats"
_RC_FAILED = 2
_RC_UNREACHABLE = 4
_TAIL_LINES = 12

_STATS_FIELDS = {
    "ok": "ok",
    "changed": "changed",
    "failed": "failures",
    "unreachable": "dark",
    "skipped": "skipped",
    "rescued": "rescued",
    "ignored": "ignored",
}


def message_of(result: Mapping[str, Any]) -> str:
    """The words of a task result that say what went wrong: the module's message, then what the program printed."""
    if "censored" in result:
        return str(result["censored"])
    parts = [str(result.get("msg") or "").strip()]
    if errors := result.get("argument_errors"):
        parts.extend(str(error) for error in errors)
    for key in ("module_stderr", "stderr", "module_stdout", "stdout"):
        text = str(result.get(key) or "").strip()
        if text:
            tail = "\n".join(text.splitlines()[-_TAIL_LINES:])
            if tail not in parts[0]:
                parts.append(tail)
            break
    return "\n".join(part for part in parts if part)


def task_event(raw: Mapping[str, Any]) -> TaskEvent:
    """The typed form of one raw event that has already been redacted."""
    data = raw.get("event_data") or {}
    result = data.get("res") or {}
    kind = str(raw.get("event", ""))
    message = message_of(result) if kind in (_FAILED, _ITEM_FAILED, _UNREACHABLE) else ""
    if kind == "verbose":
        message = str(raw.get("stdout") or "")
    duration = data.get("duration")
    return TaskEvent(
        kind=kind,
        counter=int(raw.get("counter", 0)),
        play=str(data.get("play") or data.get("name") or ""),
        task=str(data.get("task") or ""),
        host=str(data.get("host") or ""),
        path=str(data.get("task_path") or ""),
        changed=bool(result.get("changed", False)),
        message=message,
        duration_s=float(duration) if isinstance(duration, int | float) else None,
    )


class Recap:
    """Folds the events of one playbook, in order of arrival."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostStats] = {}
        self.results: dict[str, dict[str, object]] = {}
        self._errors: list[TaskError] = []
        self._item_messages: dict[tuple[str, str], list[str]] = {}
        self._verbose: list[str] = []
        self._counters: set[int] = set()
        self._bodiless = False
        self._stats_seen = False

    def add(self, raw: Mapping[str, Any], event: TaskEvent) -> None:
        """Takes one redacted raw event and its typed form."""
        self._counters.add(event.counter)
        data = raw.get("event_data")
        if event.kind == "verbose":
            self._verbose.append(event.message)
            return
        if not isinstance(data, Mapping):
            # The event's announcement came through the terminal, its file did not.
            self._bodiless = True
            return
        if event.kind == _STATS:
            self._stats(data)
        elif event.kind == _ITEM_FAILED:
            self._item_messages.setdefault((event.host, str(data.get("task_uuid"))), []).append(event.message)
        elif event.kind in (_FAILED, _UNREACHABLE) and not data.get("ignore_errors"):
            self._error(event, data)

    @property
    def lost_events(self) -> bool:
        """A gap in the counters, or an event without a body."""
        return self._bodiless or self._counters != set(range(1, len(self._counters) + 1))

    @property
    def complete(self) -> bool:
        """Whether Ansible came to the end of the playbook and said so."""
        return self._stats_seen

    @property
    def errors(self) -> tuple[TaskError, ...]:
        """Failures that count: neither ignored nor rescued. Before the recap is known, all that were seen."""
        if not self._stats_seen:
            return tuple(self._errors)
        kept: list[TaskError] = []
        for host, stats in self.hosts.items():
            failed = [error for error in self._errors if error.host == host and not error.unreachable]
            # A rescued host goes on, so what really ended it comes last.
            kept.extend(failed[len(failed) - stats.failed :] if stats.failed else [])
            if stats.unreachable:
                kept.extend(error for error in self._errors if error.host == host and error.unreachable)
        return tuple(kept)

    @property
    def output_tail(self) -> str:
        """The last lines outside of any task: where Ansible explains why it could not begin."""
        lines = [line.rstrip() for line in self._verbose if line.strip()]
        start = next((i for i, line in enumerate(lines) if line.startswith(("[ERROR]", "ERROR!"))), None)
        return "\n".join(lines[start:] if start is not None else lines[-_TAIL_LINES:])

    def _stats(self, data: Mapping[str, Any]) -> None:
        self._stats_seen = True
        names = {name for key in _STATS_FIELDS.values() for name in data.get(key) or {}}
        self.hosts = {
            name: HostStats(**{field: int((data.get(key) or {}).get(name, 0)) for field, key in _STATS_FIELDS.items()})
            for name in sorted(names)
        }

    def _error(self, event: TaskEvent, data: Mapping[str, Any]) -> None:
        result = data.get("res") or {}
        items = self._item_messages.get((event.host, str(data.get("task_uuid"))), [])
        message = "\n".join(dict.fromkeys(items)) if items else event.message
        self._errors.append(
            TaskError(
                host=event.host,
                task=event.task,
                path=event.path,
                message=message,
                unreachable=event.kind == _UNREACHABLE,
                spec_error="argument_errors" in result,
            )
        )

    def publish(self, raw: Mapping[str, Any]) -> None:
        """Takes what a task published with ``set_stats``, from an event that is *not* redacted.

        labctl works on these values, and a weak password may be a common word: a lab whose password is "root" would
        else turn every path of root's into stars. Whoever writes them redacts them.

        ansible-runner's recap carries only what is not per host, so the task's own result is read.
        """
        data = raw.get("event_data")
        if raw.get("event") != "runner_on_ok" or not isinstance(data, Mapping):
            return
        host, stats = str(data.get("host") or ""), (data.get("res") or {}).get("ansible_stats")
        if isinstance(stats, Mapping) and stats.get("per_host") and isinstance(stats.get("data"), Mapping):
            published = self.results.setdefault(host, {})
            for key, value in stats["data"].items():
                old = published.get(key)
                merge = stats.get("aggregate") and isinstance(old, dict) and isinstance(value, Mapping)
                published[str(key)] = {**old, **value} if merge and isinstance(old, dict) else value


def status_of(stopped: str | None, rc: int | None, recap: Recap) -> PlaybookStatus:
    """How the playbook ended.

    Args:
        stopped: why labctl stopped it (``canceled``, ``timeout``, ``orphaned``), None if it did not.
        rc: the exit code of ansible-playbook; None if a signal ended it or it never ran.
        recap: what its events said.

    Returns:
        The one status. ``successful`` needs exit code 0, a recap that names at least one host, and every event.
    """
    if stopped is not None:
        return "timeout" if stopped == "timeout" else "canceled"
    if rc == 0 and recap.complete and recap.hosts and not recap.lost_events:
        return "successful"
    if any(error.spec_error for error in recap.errors):
        return "spec-error"
    # Ansible ends with the same code where it cannot begin at all: a vault without its password, a broken variable.
    gone = any(error.unreachable for error in recap.errors) or any(host.unreachable for host in recap.hosts.values())
    if rc is not None and rc & _RC_UNREACHABLE and not rc & _RC_FAILED and gone:
        return "unreachable"
    return "failed"
