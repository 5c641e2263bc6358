"""What a host really is: the JSON form of labctl.lab.facts.HostFacts. Reads only."""

from __future__ import annotations

import contextlib
import ctypes
import getpass
import glob
import os
import platform
import pwd
import re
import shutil
import subprocess
import time
from typing import Any, Iterable

from . import SCHEMA, paths, tools
from .files import boot_id, read_text

_TICKS = os.sysconf("SC_CLK_TCK")
_BUSY_CORES = 0.1
_CAP_SYS_ADMIN = 21
_STA_UNSYNC = 0x40
_TIME_DAEMONS = ("chronyd", "ntpd", "systemd-timesyn", "openntpd", "ptp4l", "phc2sys", "ntpsec")
_DMI_VENDORS = (
    ("VMware", "vmware"),
    ("innotek", "oracle"),
    ("Xen", "xen"),
    ("Amazon EC2", "amazon"),
    ("Google", "google"),
    ("KVM", "kvm"),
    ("QEMU", "kvm"),
    ("OpenStack", "kvm"),
    ("Red Hat", "kvm"),
    ("Virtual Machine", "microsoft"),
    ("Parallels", "parallels"),
)


def gather(path_list: Iterable[str], tool_names: Iterable[str], interval_s: float = 0.3) -> dict[str, Any]:
    """All facts of this host; the processes are watched for ``interval_s`` seconds."""
    return {**fixed(tool_names), **moving(path_list, interval_s)}


def fixed(tool_names: Iterable[str]) -> dict[str, Any]:
    """The facts that do not change while the agent runs; some of them need other programs."""
    return {
        "schema": SCHEMA,
        "host": host(),
        "user": user(),
        "tools": tools.describe_all(tool_names),
        "loop": loop(),
        "systemd": systemd(),
    }


def moving(path_list: Iterable[str], interval_s: float) -> dict[str, Any]:
    """The facts of the moment: everything from /proc and /sys, no other program."""
    return {
        "cpu": cpu(),
        "memory": memory(),
        "load": load(interval_s),
        "time": clock(),
        "paths": {path: paths.describe(path) for path in path_list},
    }


def run_quietly(*argv: str) -> tuple[int, str] | None:
    """Exit code and output of a small helper program, None where it is missing or hangs."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def os_release(text: str) -> dict[str, str]:
    """OsFacts from the content of /etc/os-release (os-release(5))."""
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    values = {key: value.strip().strip("\"'") for key, value in pairs.items()}
    return {
        "id": values.get("ID", ""),
        "version": values.get("VERSION_ID", ""),
        "pretty": values.get("PRETTY_NAME", ""),
    }


def host() -> dict[str, Any]:
    """HostInfo."""
    uptime = (read_text("/proc/uptime") or "").split()
    return {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "os": os_release(read_text("/etc/os-release") or read_text("/usr/lib/os-release") or ""),
        "arch": platform.machine(),
        "python": platform.python_version(),
        "boot_id": boot_id(),
        "uptime_s": float(uptime[0]) if uptime else None,
        "virtualization": virtualization(),
        "container": container(),
    }


def virtualization() -> str | None:
    """The hypervisor by systemd-detect-virt's names, ``vm`` where only the CPU tells, None on bare metal."""
    told = run_quietly("systemd-detect-virt", "--vm")
    if told is not None and told[1]:
        return None if told[1] == "none" else told[1]
    return hypervisor_by_hardware()


def hypervisor_by_hardware() -> str | None:
    """The hypervisor by DMI, sysfs and the CPU's flags, for hosts without systemd."""
    if read_text("/sys/hypervisor/type") == "xen":
        return "xen"
    if "hypervisor" not in cpu_flags(read_text("/proc/cpuinfo") or ""):
        return None
    dmi = " ".join(read_text(f"/sys/class/dmi/id/{key}") or "" for key in ("sys_vendor", "product_name", "bios_vendor"))
    return next((name for word, name in _DMI_VENDORS if word in dmi), "vm")


def cpu_flags(cpuinfo: str) -> list[str]:
    """The flags of the first CPU of /proc/cpuinfo."""
    return next((line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith("flags")), [])


def container() -> str | None:
    """The container runtime by systemd-detect-virt's names, None outside containers."""
    told = run_quietly("systemd-detect-virt", "--container")
    if told is not None and told[1]:
        return None if told[1] == "none" else told[1]
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if os.path.exists("/.dockerenv"):
        return "docker"
    marked = re.search(r"(?:^|\0)container=([^\0]+)", read_text("/proc/1/environ") or "")
    if marked:
        return marked.group(1)
    return "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else None


def topology(cpuinfo: str) -> tuple[str | None, int | None, int | None]:
    """Model name, sockets and physical cores from /proc/cpuinfo; None where it does not tell (most of ARM)."""
    model = None
    sockets: set[str] = set()
    cores: set[tuple[str, str]] = set()
    for block in cpuinfo.split("\n\n"):
        value = {key.strip(): rest.strip() for key, _, rest in (line.partition(":") for line in block.splitlines())}
        model = model or value.get("model name") or value.get("cpu model") or value.get("Model")
        if "physical id" in value and "core id" in value:
            sockets.add(value["physical id"])
            cores.add((value["physical id"], value["core id"]))
    return model, len(sockets) or None, len(cores) or None


def cpu() -> dict[str, Any]:
    """CpuFacts; several governors are joined with a comma."""
    base = "/sys/devices/system/cpu"
    governors = {read_text(path) for path in glob.glob(f"{base}/cpu[0-9]*/cpufreq/scaling_governor")}
    khz = read_text(f"{base}/cpu0/cpufreq/cpuinfo_max_freq")
    smt = read_text(f"{base}/smt/active")
    model, sockets, cores = topology(read_text("/proc/cpuinfo") or "")
    return {
        "model": model,
        "sockets": sockets,
        "cores": cores,
        "threads": os.cpu_count() or 1,
        "governor": ",".join(sorted(g for g in governors if g)) or None,
        "freq_max_hz": float(khz) * 1000 if khz and khz.isdigit() else None,
        "smt": smt == "1" if smt in ("0", "1") else None,
        "numa_nodes": len(glob.glob("/sys/devices/system/node/node[0-9]*")) or None,
    }


def memory() -> dict[str, Any]:
    """MemoryFacts."""
    lines = (read_text("/proc/meminfo") or "").splitlines()
    kib = {key: int(rest.split()[0]) for key, _, rest in (line.partition(":") for line in lines) if rest.split()}
    total = kib.get("MemTotal", 0) * 1024
    return {
        "total_bytes": total,
        "available_bytes": kib["MemAvailable"] * 1024 if "MemAvailable" in kib else None,
        "swap_total_bytes": kib.get("SwapTotal", 0) * 1024,
        "cgroup_limit_bytes": cgroup_limit(read_text("/proc/self/cgroup") or "", total),
    }


def cgroup_limit(membership: str, total: int, root: str = "/sys/fs/cgroup") -> int | None:
    """The lowest memory limit on the way up from this process's cgroup (v1 or v2), None if not below ``total``."""
    limits: list[int] = []
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            places, name = [root, f"{root}/unified"], "memory.max"
        elif "memory" in controllers.split(","):
            places, name = [f"{root}/memory"], "memory.limit_in_bytes"
        else:
            continue
        while True:
            texts = [read_text(f"{place}{path.rstrip('/')}/{name}") for place in places]
            limits.extend(int(text) for text in texts if text and text.isdigit())
            if path in ("", "/"):
                break
            path = os.path.dirname(path)
    below = [limit for limit in limits if limit < total]
    return min(below) if below else None


def process_seconds() -> dict[int, tuple[str, float]]:
    """Command name and CPU seconds of every process."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as stream:
                    head, _, rest = stream.read().rpartition(b")")
                field = rest.split()
                command = head.partition(b"(")[2].decode("utf-8", "replace")
                table[int(name)] = (command, (int(field[11]) + int(field[12])) / _TICKS)
    return table


def load(interval_s: float) -> dict[str, Any]:
    """LoadFacts; this process and its ancestors (sshd, Ansible) are the observer and do not count."""
    averages = (read_text("/proc/loadavg") or "").split()[:3]
    before, begin = process_seconds(), time.monotonic()
    time.sleep(interval_s)
    after, span = process_seconds(), time.monotonic() - begin
    observers = ancestors()
    busy: list[dict[str, Any]] = [
        {"pid": pid, "command": command, "cpu": round((seconds - before[pid][1]) / span, 2)}
        for pid, (command, seconds) in after.items()
        if pid in before and pid not in observers and (seconds - before[pid][1]) / span > _BUSY_CORES
    ]
    busy.sort(key=lambda process: -process["cpu"])
    values = [float(value) for value in averages] + [None] * (3 - len(averages))
    return {"load1": values[0], "load5": values[1], "load15": values[2], "busy": busy}


def ancestors() -> set[int]:
    """This process and all above it."""
    found, pid = set(), os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        parent = re.search(r"^PPid:\s*(\d+)", read_text(f"/proc/{pid}/status") or "", re.MULTILINE)
        pid = int(parent.group(1)) if parent else 0
    return found


class _Timex(ctypes.Structure):
    """``struct timex`` of adjtimex(2), as far as it is read; the rest is room for the kernel."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def clock() -> dict[str, Any]:
    """TimeFacts: the kernel itself says whether something disciplines its clock."""
    timex = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    running = {command for command, _ in process_seconds().values()}
    return {
        "epoch_s": time.time(),
        "synchronised": None if state < 0 else not timex.status & _STA_UNSYNC,
        "source": next((daemon for daemon in _TIME_DAEMONS if daemon in running), None),
    }


def user() -> dict[str, Any]:
    """UserFacts; sudo is only asked when we are not root already."""
    uid = os.getuid()
    try:
        name, home = pwd.getpwuid(uid).pw_name, pwd.getpwuid(uid).pw_dir
    except KeyError:
        name, home = os.environ.get("USER", str(uid)), os.environ.get("HOME", "/")
    told = run_quietly("sudo", "-n", "true") if uid != 0 else None
    return {"name": name, "uid": uid, "home": home, "sudo": told is not None and told[0] == 0}


def loop() -> dict[str, Any]:
    """LoopFacts: what can be seen without making one."""
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", read_text("/proc/self/status") or "", re.MULTILINE)
    if os.getuid() == 0 and effective and not int(effective.group(1), 16) >> _CAP_SYS_ADMIN & 1:
        return {"available": False, "reason": "root without CAP_SYS_ADMIN (unprivileged container)"}
    if shutil.which("losetup", path=tools.search_path()) is None:
        return {"available": False, "reason": "losetup is not installed"}
    if os.path.exists("/dev/loop-control"):
        if os.path.exists("/run/.containerenv") and not glob.glob("/dev/loop[0-9]*"):
            return {"available": False, "reason": "container without loop device nodes"}
        return {"available": True, "reason": None}
    if container() is None and _loop_module():
        return {"available": True, "reason": "kernel module loop is not loaded yet"}
    return {"available": False, "reason": "no /dev/loop-control"}


def _loop_module() -> bool:
    base = f"/lib/modules/{platform.release()}"
    return any("/loop.ko" in (read_text(f"{base}/{name}") or "") for name in ("modules.dep", "modules.builtin"))


def systemd() -> dict[str, Any]:
    """SystemdFacts."""
    running = os.path.isdir("/run/systemd/system")
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return {"running": running, "user_linger": running and os.path.exists(f"/var/lib/systemd/linger/{name}")}
