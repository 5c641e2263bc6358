"""Bundles of a record, opened however damaged they are."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labctl.parsers.base import Finding, Severity
from labctl.record.bundle import BundleResult

_ATTEMPT = re.compile(r"a([1-9]\d{0,8})")


@dataclass(slots=True)
class Bundle:
    """One attempt at a cell; ``result`` is None where ``result.json`` is missing or damaged."""

    path: Path
    attempt: int
    result: BundleResult | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    fingerprint: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def status(self) -> str:
        """As the agent said, else ``interrupted``."""
        return self.result.status if self.result is not None else "interrupted"


def find_attempts(raw: Path) -> dict[str, list[int]]:
    """Cell → attempts of which there is a directory. Other names (temporary ones of the collector) are left alone."""
    found: dict[str, list[int]] = {}
    for cell in _directories(raw):
        numbers = [int(match.group(1)) for d in _directories(cell) if (match := _ATTEMPT.fullmatch(d.name))]
        if numbers:
            found[cell.name] = numbers
    return found


def _directories(top: Path) -> list[Path]:
    try:
        return sorted(path for path in top.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return []


def open_bundle(path: Path, attempt: int) -> Bundle:
    """Read the JSON files of a bundle; what is missing or damaged becomes a finding."""
    bundle = Bundle(path, attempt)
    try:
        bundle.result = BundleResult.model_validate_json(read_evidence(path, "result.json"))
    except OSError as error:
        _say(bundle, "result.json", error.strerror or str(error))
    except ValidationError as error:
        _say(bundle, "result.json", f"{error.error_count()} faults")
    bundle.spec = _object(bundle, "spec.json")
    bundle.fingerprint = _object(bundle, "fingerprint.json")
    return bundle


def read_evidence(bundle: Path, *parts: str) -> bytes:
    """A file of a bundle. What a target hands over may point anywhere: links and pipes lead nowhere here.

    Raises:
        OSError: it cannot be read, or is no regular file below the bundle.
    """
    path = bundle.joinpath(*parts)
    try:
        # realpath, since Path.resolve says RuntimeError of a loop of links before Python 3.13.
        real = Path(os.path.realpath(path, strict=True))
    except ValueError as error:
        raise OSError(errno.EINVAL, f"not a file name: {error}", str(path)) from error
    if not real.is_relative_to(os.path.realpath(bundle)):
        raise OSError(errno.EPERM, "it leads out of the bundle", str(path))
    if not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.read_bytes()


def _object(bundle: Bundle, name: str) -> dict[str, Any]:
    try:
        document = json.loads(read_evidence(bundle.path, name))
    except OSError as error:
        _say(bundle, name, error.strerror or str(error))
        return {}
    except (ValueError, RecursionError) as error:
        _say(bundle, name, str(error))
        return {}
    if not isinstance(document, dict):
        _say(bundle, name, "no JSON object")
        return {}
    return document


def _say(bundle: Bundle, name: str, reason: str) -> None:
    message = f"{name} of the bundle is missing or damaged: {reason}."
    bundle.findings.append(Finding("bundle.damaged", Severity.ERROR, message, {"file": name}))
