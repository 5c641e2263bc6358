"""PathFacts: the mount, the file system and the disk below a directory. Writes no name anywhere."""

from __future__ import annotations

import errno
import os
import re
from typing import Any, NamedTuple

from .files import read_text

_ESCAPE = re.compile(r"\\([0-7]{3})")
_DIRECT = getattr(os, "O_DIRECT", 0) | getattr(os, "O_TMPFILE", 0)


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo (proc(5))."""

    number: str
    point: str
    fs_type: str
    source: str
    options: str


def parse_mountinfo(text: str) -> list[Mount]:
    """Mounts in the order of mounting; options are those of the mount, then those of the file system."""
    mounts = []
    for line in text.splitlines():
        left, found, right = line.partition(" - ")
        if not found:
            continue
        _, _, number, _, point, options, *_ = left.split(" ")
        fs_type, source, more, *_ = right.split(" ")
        both = ",".join(dict.fromkeys(options.split(",") + more.split(",")))
        mounts.append(Mount(number, _unescape(point), fs_type, _unescape(source), both))
    return mounts


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 8)), text)


def mount_of(path: str, mounts: list[Mount]) -> Mount | None:
    """The mount that an absolute, resolved path lies in: the longest mount point, the latest where several."""
    best = None
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def existing_parent(path: str) -> str:
    """The nearest directory at or above ``path`` that exists, links resolved."""
    current = os.path.realpath(path)
    while not os.path.isdir(current) and current != "/":
        current = os.path.dirname(current)
    return current


def describe(path: str) -> dict[str, Any]:
    """PathFacts of one path."""
    parent = existing_parent(path)
    mount = mount_of(parent, parse_mountinfo(read_text("/proc/self/mountinfo") or ""))
    space = os.statvfs(parent)
    writable = os.access(parent, os.W_OK | os.X_OK)
    return {
        "requested": path,
        "existing_parent": parent,
        "mount_point": mount.point if mount else None,
        "fs_type": mount.fs_type if mount else None,
        "mount_options": mount.options if mount else None,
        "device": mount.source if mount else None,
        "size_bytes": space.f_blocks * space.f_frsize,
        "free_bytes": space.f_bavail * space.f_frsize,
        "writable": writable,
        "direct_io": direct_io(parent) if writable else None,
        "block_device": block_device(mount) if mount else None,
    }


def direct_io(directory: str) -> bool | None:
    """Whether files here open with O_DIRECT; None where a nameless file (O_TMPFILE) cannot be had to ask with."""
    try:
        os.close(os.open(directory, _DIRECT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        if error.errno != errno.EINVAL:
            return None
    else:
        return True
    try:
        os.close(os.open(directory, getattr(os, "O_TMPFILE", 0) | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError:
        return None
    return False


def whole_disk(sysfs: str) -> str:
    """From a sysfs directory of a block device to that of the one disk below it, through partitions, LVM and LUKS.

    A device over several disks (RAID, striped volumes) is as far down as "the disk" makes sense.
    """
    current = os.path.realpath(sysfs)
    while True:
        if os.path.exists(f"{current}/partition"):
            current = os.path.dirname(current)
        slaves = os.listdir(f"{current}/slaves") if os.path.isdir(f"{current}/slaves") else []
        if len(slaves) != 1:
            return current
        current = os.path.realpath(f"{current}/slaves/{slaves[0]}")


def block_device(mount: Mount) -> dict[str, Any] | None:
    """BlockDevice below a mount, None for network and memory file systems."""
    sysfs = f"/sys/dev/block/{mount.number}"
    if not os.path.exists(sysfs) and mount.source.startswith("/dev/"):  # btrfs has an anonymous number
        try:
            number = os.stat(mount.source).st_rdev
        except OSError:
            return None
        sysfs = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
    if not os.path.exists(sysfs):
        return None
    disk = whole_disk(sysfs)
    sectors, rotational = _integer(f"{disk}/size"), _integer(f"{disk}/queue/rotational")
    depth = _integer(f"{disk}/device/queue_depth")
    return {
        "name": os.path.basename(disk),
        "model": read_text(f"{disk}/device/model") or None,
        "size_bytes": None if sectors is None else sectors * 512,
        "rotational": None if rotational is None else rotational == 1,
        "scheduler": chosen(read_text(f"{disk}/queue/scheduler") or ""),
        "queue_depth": _integer(f"{disk}/queue/nr_requests") if depth is None else depth,
        "logical_block_size": _integer(f"{disk}/queue/logical_block_size"),
        "write_cache": read_text(f"{disk}/queue/write_cache") or None,
    }


def chosen(schedulers: str) -> str | None:
    """``none mq-deadline [bfq]`` to ``bfq``."""
    found = re.search(r"\[([^\]]+)\]", schedulers)
    return found.group(1) if found else schedulers or None


def _integer(path: str) -> int | None:
    text = read_text(path)
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None
