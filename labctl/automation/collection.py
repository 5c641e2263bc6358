"""Makes the collection ``labctl.lab`` of *this* labctl the one that Ansible finds, from a checkout and from a wheel.

Ansible looks for ``<dir>/ansible_collections/labctl/lab``. A checkout has no such path, and an old copy in
``~/.ansible/collections`` would win over the one of a wheel. A private directory in the user's cache that holds nothing
but a symbolic link to our own collection, put first on ``ANSIBLE_COLLECTIONS_PATH``, settles both.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labctl.automation.ansible_cfg import read_ansible_cfg
from labctl.errors import LabctlError

NAMESPACE, NAME = "labctl", "lab"
_DEFAULT_PATHS = "~/.ansible/collections:/usr/share/ansible/collections"


@dataclass(frozen=True, slots=True)
class Collection:
    """Where the collection lies; ``search_path`` is the directory to put on Ansible's path."""

    source: Path
    checkout: bool
    search_path: Path


def find_source(package: Path | None = None) -> tuple[Path, bool]:
    """The directory of the collection that belongs to this labctl.

    Args:
        package: the directory of the Python package; None = the running one.

    Returns:
        The directory with ``playbooks`` and ``roles``, and whether it is a checkout.

    Raises:
        LabctlError: neither a checkout nor an installed collection is beside the package.
    """
    package = package or Path(__file__).resolve().parent.parent
    root = package.parent
    if (root / "galaxy.yml").is_file() and (root / "playbooks").is_dir():
        return root, True
    installed = root / "ansible_collections" / NAMESPACE / NAME
    if (installed / "playbooks").is_dir():
        return installed, False
    raise LabctlError(
        "the Ansible collection labctl.lab is missing from this installation",
        where=str(root),
        hint="install labctl again: pip install --force-reinstall labctl",
    )


def cache_dir(environ: Mapping[str, str]) -> Path:
    """The directory of labctl in the user's cache (XDG base directories)."""
    base = environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path(environ.get("HOME") or "~").expanduser() / ".cache"
    return root / "labctl"


def ensure(environ: Mapping[str, str], package: Path | None = None) -> Collection:
    """Makes the private link and says where everything is. Idempotent, safe when several labctl start at once.

    Raises:
        LabctlError: the collection is missing, or the cache directory cannot be written.
    """
    source, checkout = find_source(package)
    key = hashlib.sha256(os.fsencode(source)).hexdigest()[:12]
    search_path = cache_dir(environ) / f"collections-{key}"
    link = search_path / "ansible_collections" / NAMESPACE / NAME
    try:
        link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (link.is_symlink() and link.readlink() == source):
            # A new link beside it and a rename: another labctl never sees a moment without the link.
            with tempfile.TemporaryDirectory(dir=search_path) as scratch:
                fresh = Path(scratch) / NAME
                fresh.symlink_to(source)
                fresh.rename(link)
    except OSError as error:
        raise LabctlError(
            f"cannot prepare the Ansible collection labctl.lab: {error.strerror}",
            where=str(search_path),
            hint="set XDG_CACHE_HOME to a directory that you can write",
        ) from error
    return Collection(source, checkout, search_path)


def configured_paths(environ: Mapping[str, str], cwd: Path) -> str:
    """The collections path that Ansible would use without us: the variable, else ``ansible.cfg``, else its default.

    Naming a path in the environment hides the one of ``ansible.cfg``, so it must be carried over.
    """
    if value := environ.get("ANSIBLE_COLLECTIONS_PATH"):
        return value
    config = read_ansible_cfg(environ, cwd)
    if value := config.get("defaults", "collections_path", "collections_paths"):
        parts = [Path(part).expanduser() for part in value.split(":") if part]
        return ":".join(str(config.directory / part) for part in parts)
    return _DEFAULT_PATHS


def collections_path(environ: Mapping[str, str], cwd: Path, collection: Collection) -> str:
    """Our collection first, then whatever the user has."""
    return f"{collection.search_path}:{configured_paths(environ, cwd)}"
