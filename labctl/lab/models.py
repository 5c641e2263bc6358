"""The typed lab: what labctl needs to know of an Ansible inventory.

Variables that belong to labctl begin with ``lab_``; an unknown ``lab_*`` variable is an error with the nearest known
name. Every other variable is Ansible's or a role's business and is left alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
ById = Annotated[str, StringConstraints(pattern=r"^/dev/disk/by-id/[^/\s]+$")]


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
    workdir: str | None = None
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
