"""Where tools are found and what version they say they are."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from typing import Any, Iterable

_SYSTEM_DIRS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_VERSION_ARGUMENTS = {"mkfs.xfs": "-V", "mkfs.ext4": "-V", "xfs_info": "-V"}
_POSTGRESQL = ("pgbench", "postgres", "initdb", "pg_ctl", "pg_isready", "psql", "createdb", "dropdb")
_ASKABLE = frozenset((*_POSTGRESQL, *_VERSION_ARGUMENTS, "fio", "sysbench", "iperf3", "stress-ng", "losetup"))
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.~-]*|\d{2,}\w*")


def search_path() -> str:
    """PATH for tools: PostgreSQL's private directories (newest first), ours, and the system's.

    PostgreSQL's come first, since Debian's /usr/bin/pgbench is a wrapper that may choose another version than initdb.
    """
    ours = os.environ.get("PATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys(d for d in (*postgresql_dirs(), *ours, *_SYSTEM_DIRS) if d.startswith("/")))


def postgresql_dirs() -> list[str]:
    """Directories in which distributions hide the server's programs, the highest version first."""
    found = glob.glob("/usr/lib/postgresql/*/bin") + glob.glob("/usr/pgsql-*/bin")
    return sorted(found, key=_numbers, reverse=True)


def _numbers(path: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", path)]


def find(name: str, path: str | None = None) -> str | None:
    """The absolute path of a tool; a name with a slash is taken as it is, if it can be executed."""
    return shutil.which(name, path=search_path() if path is None else path)


def describe(name: str) -> dict[str, Any] | None:
    """ToolFacts of one tool, None where it is missing. Only tools known to answer are asked for their version."""
    path = find(name)
    if path is None:
        return None
    base = os.path.basename(path)
    raw = _ask(path, _VERSION_ARGUMENTS.get(base, "--version")) if base in _ASKABLE else ""
    return {"path": path, "version": version_of(raw), "raw": raw}


def version_of(raw: str) -> str | None:
    """The first thing that looks like a version in what a tool says of itself."""
    match = _VERSION.search(raw)
    return match.group() if match else None


def describe_all(names: Iterable[str]) -> dict[str, dict[str, Any] | None]:
    """ToolFacts by name."""
    return {name: describe(name) for name in dict.fromkeys(names)}


def _ask(path: str, argument: str) -> str:
    try:
        done = subprocess.run(
            [path, argument],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=10,
            check=False,
            env={"PATH": search_path(), "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return lines[0].strip()[:200] if lines else ""
