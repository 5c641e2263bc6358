"""Gathers what ``doctor`` judges: facts of the controller, and of the hosts through the probe playbook."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from labctl.automation import collection
from labctl.automation.models import PlaybookResult, TaskError, TaskEvent
from labctl.automation.redact import Redactor
from labctl.automation.runner import run_playbook
from labctl.errors import LabctlError
from labctl.lab.doctor import (
    BY_ID,
    Check,
    ControllerFacts,
    Seen,
    controller_checks,
    failure_check,
    host_checks,
    nic_path,
)
from labctl.lab.facts import HostFacts
from labctl.lab.models import Host, Lab
from labctl.plan.placing import DEFAULT_BASE

PROBE = "labctl.lab.probe"
_VERSION_TIMEOUT_S = 10


def survey(
    lab: Lab,
    records: Path,
    *,
    limit: str | None = None,
    cancel: threading.Event | None = None,
    on_event: Callable[[TaskEvent], None] | None = None,
) -> list[Check]:
    """Looks at the controller and at every host.

    Args:
        lab: from :func:`labctl.lab.loader.load_lab`.
        records: where records would go.
        limit: only hosts that match this pattern of Ansible.
        cancel: stops the probe when set.
        on_event: told of every event.

    Returns:
        The controller's checks, then those of each host.

    Raises:
        LabctlError: the probe could not be started, or failed without naming a host.
    """
    needs_ssh = any(host.connection not in ("local", "ansible.builtin.local") for host in lab.hosts.values())
    checks = list(controller_checks(controller(records), needs_ssh=needs_ssh))
    if any(check.status == "fail" and check.id in ("ansible-core", "ansible-runner", "collection") for check in checks):
        return checks
    watch = _Watch(on_event)
    with tempfile.TemporaryDirectory(prefix="labctl-doctor-") as scratch:
        result = run_playbook(
            PROBE,
            inventory=lab.inventory,
            artifacts=Path(scratch) / "probe",
            extravars={"labctl_probe_paths": {name: probed_paths(host) for name, host in lab.hosts.items()}},
            limit=limit,
            on_event=watch,
            cancel=cancel,
            redact=Redactor(lab.secrets),
        )
    if result.errors and not result.errors[0].host:
        raise LabctlError(
            f"the probe failed: {result.errors[0].message}", hint=f"labctl stage probe -i {lab.inventory}"
        )
    for host in lab.hosts.values():
        checks += _host(host, result, watch.seen(host.name))
    return checks


def workdir(host: Host) -> str:
    """The directory whose file system is looked at for labctl's data."""
    return host.workdir or DEFAULT_BASE


def probed_paths(host: Host) -> list[str]:
    """Directories, disks and interfaces of the inventory that the probe shall look for."""
    disks = [BY_ID, *(disk.id for disk in host.disks)] if host.disks else []
    return [workdir(host), *disks, *(nic_path(nic.name) for nic in host.nics)]


def controller(records: Path) -> ControllerFacts:
    """Facts of this machine."""
    existing = records.absolute()
    while not existing.is_dir():
        existing = existing.parent
    problem, found = "", None
    try:
        found = str(collection.ensure(os.environ).source)
    except LabctlError as error:
        problem = str(error)
    return ControllerFacts(
        python=tuple(sys.version_info[:3]),
        ansible_core=_distribution("ansible-core"),
        ansible_runner=_distribution("ansible-runner"),
        ssh=_ssh(),
        records=str(existing),
        records_free_bytes=shutil.disk_usage(existing).free,
        records_writable=os.access(existing, os.W_OK | os.X_OK),
        collection=found,
        collection_problem=problem,
        synchronised=_synchronised(),
    )


class _Watch:
    """Notes when each host's probe began and ended, by this machine's clock."""

    def __init__(self, then: Callable[[TaskEvent], None] | None) -> None:
        self._then = then
        self._begin: dict[str, float] = {}
        self._end: dict[str, float] = {}

    def __call__(self, event: TaskEvent) -> None:
        now = time.time()
        if event.kind == "runner_on_start":
            self._begin.setdefault(event.host, now)
        elif event.kind == "runner_on_ok":
            self._end.setdefault(event.host, now)
        if self._then is not None:
            self._then(event)

    def seen(self, host: str) -> Seen | None:
        """Between which moments the host was looked at; None if it never was."""
        begin, end = self._begin.get(host), self._end.get(host)
        return Seen(begin, end) if begin is not None and end is not None else None


def _host(host: Host, result: PlaybookResult, seen: Seen | None) -> list[Check]:
    by_hand = host.address or host.name
    errors = [failure_check(error, by_hand) for error in result.errors if error.host == host.name]
    if errors:
        return errors
    published = result.results.get(host.name)
    if published is None:
        return []  # outside of the limit
    try:
        facts = HostFacts.model_validate(published.get("facts"))
    except ValidationError as error:
        fault = TaskError(host.name, "", "", f"the probe answered with something else: {error.errors()[0]['msg']}")
        return [failure_check(fault, by_hand)]
    return list(host_checks(host, facts, workdir(host), seen))


def _distribution(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _ssh() -> str | None:
    """What the client says of itself, such as ``OpenSSH_9.2p1``."""
    try:
        done = subprocess.run(["ssh", "-V"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stderr or done.stdout).strip().split(",")[0] or None


def _synchronised() -> bool | None:
    """Whether the kernel's clock is disciplined: adjtimex(2) with no mode set only reads."""
    import ctypes  # noqa: PLC0415 - needed here only

    buffer = ctypes.create_string_buffer(512)
    state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    time_error = 5
    return None if state < 0 else state != time_error
