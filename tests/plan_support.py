"""Labs and facts for tests of the planner, with only what a test wants to be different."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labctl.lab.facts import HostFacts
from labctl.lab.models import Host, Lab
from labctl.study.load import check_document
from labctl.study.yamlfile import parse_document
from labctl.workloads.registry import TOOLS

GIB = 1 << 30
VAR_TMP = "/var/tmp"  # only names: nothing is written there
SHM = "/dev/shm"
ALL_TOOLS = sorted({binary for tool in TOOLS.values() for binary in tool.binaries} | {"mkfs.xfs", "mkfs.ext4"})


def lab(*names: str, groups: dict[str, tuple[str, ...]] | None = None, workdir: str | None = None) -> Lab:
    hosts = {name: Host(name=name, workdir=workdir) for name in names or ("node1",)}
    return Lab(name="test", inventory=Path("inventory"), hosts=hosts, groups=groups or {})


def path(requested: str, mount: str, free: int, **more: Any) -> dict[str, Any]:
    known = {"requested": requested, "existing_parent": requested, "mount_point": mount, "free_bytes": free}
    return {**known, "writable": True, "direct_io": True, **more}


def facts(
    *,
    free: int = 100 * GIB,
    missing: tuple[str, ...] = (),
    versions: dict[str, str] | None = None,
    user: str = "ann",
    uid: int = 1000,
    sudo: bool = True,
    ram: int = 8 * GIB,
    loop: bool = True,
    paths: dict[str, dict[str, Any]] | None = None,
) -> HostFacts:
    tools = {
        name: None if name in missing else {"path": f"/usr/bin/{name}", "version": (versions or {}).get(name, "15.3")}
        for name in ALL_TOOLS
    }
    known = {VAR_TMP: path(VAR_TMP, "/", free), SHM: path(SHM, SHM, 4 * GIB)}
    return HostFacts.model_validate(
        {
            "schema": 1,
            "host": {},
            "cpu": {"threads": 4},
            "memory": {"total_bytes": ram},
            "load": {},
            "time": {"epoch_s": 0.0},
            "user": {"name": user, "uid": uid, "sudo": sudo},
            "tools": tools,
            "paths": known | (paths or {}),
            "loop": {"available": loop, "reason": None if loop else "no /dev/loop-control"},
        }
    )


def study(arms: str = "a: {}", workloads: str = "w: {tool: fio, parameters: {size: 64MiB}}", **top: object):
    extra = "".join(f"{key}: {value}\n" for key, value in top.items())
    head = "name: s\ntitle: t\nquestion: q\nbaseline: a\nrepeats: 3\n"
    text = f"{head}arms:\n{_indent(arms)}workloads:\n{_indent(workloads)}{extra}"
    if "repeats" in top:
        text = text.replace("repeats: 3\n", "", 1)
    return check_document(parse_document(text.encode(), "s.yml"))


def _indent(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())
