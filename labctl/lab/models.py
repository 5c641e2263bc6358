"""The typed lab: what labctl needs to know of an Ansible inventory.

Variables that belong to labctl begin with ``lab_``; an unknown ``lab_*`` variable is an error with the nearest known
name. Every other variable is Ansible's or a role's business and is left alone.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from labctl.paths import SAFE_PATH

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
ById = Annotated[str, StringConstraints(pattern=r"^/dev/disk/by-id/[^/\s]+$")]


_WORKDIR = re.compile(f"({SAFE_PATH})?/?")
_SYSTEM = frozenset(("bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr"))
_SHARED = frozenset(
    ("/", "/dev", "/dev/shm", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/var", "/var/lib")  # noqa: S108
) | {"/var/tmp"}  # noqa: S108


def _own_directory(value: str) -> str:
    """A working directory belongs to labctl with all that is in it, so it must not be one that others need.

    Raises:
        ValueError: with what was expected.
    """
    if not value or not _WORKDIR.fullmatch(value):
        raise ValueError("expected an absolute path without .., spaces or special characters")
    path = PurePosixPath(value)
    top = path.parts[1] if len(path.parts) > 1 else ""
    if top in _SYSTEM or (top == "dev" and path.parts[2:3] != ("shm",)):
        raise ValueError(f"expected a directory for data, and /{top} belongs to the system")
    if str(path) in _SHARED:
        raise ValueError(f"expected a directory of its own, such as {str(path).rstrip('/')}/labctl")
    return value


Workdir = Annotated[str, AfterValidator(_own_directory)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Disk(_Model):
    """A disk that roles may use, named only by its stable id (``lab_disks``)."""

    id: ById
    purpose: str = ""
    size_gib: float | None = Field(None, gt=0)


class Nic(_Model):
    """A network interface that is expected on the host (``lab_nics``)."""

    name: str
    mac: str | None = None
    speed_gbps: float | None = Field(None, gt=0)


class Host(_Model):
    """One host of the lab. Secrets never enter this model."""

    name: str
    groups: tuple[str, ...] = ()
    address: str | None = None
    connection: str | None = None
    workdir: Workdir | None = None
    """``lab_workdir``: where labctl may write; None = decided from the user on the host."""
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()


class Lab(_Model):
    """One inventory directory."""

    name: Name
    description: str = ""
    inventory: Path
    hosts: dict[str, Host]
    groups: dict[str, tuple[str, ...]]
    secrets: frozenset[str] = Field(frozenset(), exclude=True, repr=False)
    """Values that must never be written anywhere; the redactor takes them from here."""
