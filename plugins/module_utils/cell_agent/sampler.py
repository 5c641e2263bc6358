"""A thread that writes the machine's counters once an interval and keeps the agent's heartbeat."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import Any, Callable

from . import files

_TICKS = os.sysconf("SC_CLK_TCK")
_SECTOR = 512
"""Unit of /proc/diskstats, whatever the device's own block size (Documentation/admin-guide/iostats.rst)."""
_DISK_FIELDS, _NIC_FIELDS = 14, 9
"""Fewest fields of a line that has what is read here (Linux 2.6 on)."""
_NO_DISK = re.compile(r"(?:ram|zram|fd|sr)\d")


def _slurp(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def whole_disks() -> frozenset[str]:
    """Names of block devices that are no partitions, of disks that can carry a file system."""
    try:
        return frozenset(name for name in os.listdir("/sys/block") if not _NO_DISK.match(name))
    except OSError:
        return frozenset()


def cpu_seconds(stat: str) -> tuple[dict[str, float], int]:
    """Cumulative seconds over all CPUs and the number of CPUs, from /proc/stat."""
    lines = stat.splitlines()
    ticks = [int(n) for n in lines[0].split()[1:9]] if lines else []
    user, nice, system, idle, iowait, irq, softirq, steal = ticks + [0] * (8 - len(ticks))
    cores = sum(1 for line in lines[1:] if line.startswith("cpu"))
    seconds = {
        "user": (user + nice) / _TICKS,
        "system": (system + irq + softirq) / _TICKS,
        "iowait": iowait / _TICKS,
        "idle": idle / _TICKS,
        "steal": steal / _TICKS,
    }
    return seconds, cores


def memory_bytes(meminfo: str) -> tuple[int | None, int | None]:
    """Available and page-cache bytes, from /proc/meminfo."""
    values = {key: rest.split() for key, _, rest in (line.partition(":") for line in meminfo.splitlines())}
    found = [int(values[key][0]) * 1024 if key in values else None for key in ("MemAvailable", "Cached")]
    return found[0], found[1]


def disk_counters(diskstats: str, names: frozenset[str]) -> dict[str, dict[str, float]]:
    """Cumulative bytes, requests and busy seconds of devices that were ever used, from /proc/diskstats."""
    disks = {}
    for line in diskstats.splitlines():
        field = line.split()
        if len(field) >= _DISK_FIELDS and field[2] in names and (field[3] != "0" or field[7] != "0"):
            disks[field[2]] = {
                "read_bytes": int(field[5]) * _SECTOR,
                "write_bytes": int(field[9]) * _SECTOR,
                "reads": int(field[3]),
                "writes": int(field[7]),
                "io_s": int(field[12]) / 1000,
            }
    return disks


def nic_counters(net_dev: str) -> dict[str, dict[str, int]]:
    """Cumulative bytes of network devices but the loopback, from /proc/net/dev."""
    nics = {}
    for line in net_dev.splitlines()[2:]:
        name, _, rest = line.partition(":")
        field = rest.split()
        if len(field) >= _NIC_FIELDS and name.strip() != "lo":
            nics[name.strip()] = {"rx_bytes": int(field[0]), "tx_bytes": int(field[8])}
    return nics


def pressure() -> dict[str, dict[str, float]] | None:
    """Cumulative stalled seconds from /proc/pressure, None where the kernel has no PSI."""
    found: dict[str, dict[str, float]] = {}
    for resource in ("cpu", "memory", "io"):
        for line in _slurp(f"/proc/pressure/{resource}").splitlines():
            kind, *pairs = line.split()
            total = dict(pair.split("=") for pair in pairs).get("total")
            if total is not None:
                found.setdefault(resource, {})[kind] = int(total) / 1e6
    return found or None


def sample(step: str, names: frozenset[str]) -> dict[str, Any]:
    """One line of samples.jsonl."""
    cpu, cores = cpu_seconds(_slurp("/proc/stat"))
    available, cached = memory_bytes(_slurp("/proc/meminfo"))
    load = _slurp("/proc/loadavg").split()
    return {
        "t": round(time.time(), 3),
        "step": step,
        "cpu": cpu,
        "cores": cores,
        "mem_available": available,
        "mem_cached": cached,
        "load1": float(load[0]) if load else None,
        "disks": disk_counters(_slurp("/proc/diskstats"), names),
        "nics": nic_counters(_slurp("/proc/net/dev")),
        "psi": pressure(),
    }


class Sampler(threading.Thread):
    """Samples into the file of the current attempt; ``beat`` is called at least every two seconds."""

    def __init__(self, interval_s: float, beat: Callable[[], None]) -> None:
        super().__init__(name="sampler", daemon=True)
        self._interval_s = max(0.1, interval_s)
        self._beat = beat
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._step = ""
        self._disks = whole_disks()

    def open(self, path: str) -> None:
        """Write the samples of an attempt from now on to ``path``; a full disk costs samples, not the cell."""
        self.close()
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with self._lock:
                self._fd, self._disks = fd, whole_disks()

    def step(self, name: str) -> None:
        """Label the samples from now on, and take one: every step has its counters before and after."""
        self._step = name
        self._take()

    def close(self) -> None:
        """Take a last sample of the attempt and stop writing."""
        self._take()
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
            self._fd, self._step = None, ""

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        self.join()

    def run(self) -> None:
        """Sample at the interval and beat in between."""
        due = time.monotonic() + self._interval_s
        while not self._end.wait(max(0.0, min(due - time.monotonic(), 1.5))):
            if time.monotonic() >= due:
                self._take()
                due = max(due + self._interval_s, time.monotonic())
            self._beat()

    def _take(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._fd is not None:
                os.write(self._fd, files.dump(sample(self._step, self._disks)))
