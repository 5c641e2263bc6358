"""Facts of every host of a lab, through the ``labctl.lab.probe`` playbook."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from labctl.automation.redact import Redactor
from labctl.automation.runner import line_without_files, run_playbook
from labctl.errors import ExitCode, LabctlError
from labctl.lab.facts import HostFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labctl.automation.models import PlaybookResult
    from labctl.lab.models import Lab

_CODES = {
    "failed": ExitCode.HOSTS_FAILED,
    "unreachable": ExitCode.HOSTS_UNREACHABLE,
    "timeout": ExitCode.TIMEOUT,
    "canceled": ExitCode.INTERRUPTED,
}


def probe_hosts(lab: Lab, paths: Sequence[str], tools: Sequence[str]) -> dict[str, HostFacts]:
    """Probe all hosts, changing nothing on them.

    Args:
        lab: the lab; its inventory is read in place.
        paths: directories to look at on each host (they need not exist).
        tools: binaries to look for.

    Returns:
        Host name to facts, for every host of the lab.

    Raises:
        LabctlError: a host failed or cannot be reached, with Ansible's words; or its facts cannot be read.
    """
    redact = Redactor(lab.secrets)
    variables = {"labctl_probe_paths": list(paths), "labctl_probe_tools": list(tools)}
    with tempfile.TemporaryDirectory(prefix="labctl-probe-") as scratch:
        result = run_playbook(
            "labctl.lab.probe",
            inventory=lab.inventory,
            artifacts=Path(scratch) / "probe",
            extravars=variables,
            redact=redact,
        )
    hint = f"by hand: {line_without_files(result, variables, redact)}"
    if not result.ok:
        raise _error(result, hint)
    return {host: _facts(host, result, hint) for host in lab.hosts}


def _error(result: PlaybookResult, hint: str) -> LabctlError:
    words = "\n".join(f"  {error.host}: {error.task}: {error.message}" for error in result.errors)
    return LabctlError(
        f"probing the hosts ended as {result.status}" + (f":\n{words}" if words else ""),
        hint=hint,
        code=_CODES.get(result.status, ExitCode.ERROR),
    )


def _facts(host: str, result: PlaybookResult, hint: str) -> HostFacts:
    try:
        return HostFacts.model_validate(result.results[host]["facts"])
    except KeyError:
        raise LabctlError(f"the probe of {host} left no facts", hint=hint) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise LabctlError(f"the probe of {host} cannot be read: {place}: {first['msg']}") from None
