"""What was really there: the typed form of what the ``labctl.lab.probe`` module measures on a host.

The JSON form is the contract between the collection (which must run on Python 3.9 without libraries) and labctl.
Unknown keys are kept out silently on purpose: an older labctl can read the facts of a newer probe.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class BlockDevice(_Facts):
    """The whole-disk block device below a mount; None fields could not be read."""

    name: str
    model: str | None = None
    size_bytes: int | None = None
    rotational: bool | None = None
    scheduler: str | None = None
    queue_depth: int | None = None
    logical_block_size: int | None = None
    write_cache: str | None = None


class PathFacts(_Facts):
    """A directory that the plan wants to use. It need not exist: then the nearest existing parent was looked at."""

    requested: str
    existing_parent: str
    mount_point: str | None = None
    fs_type: str | None = None
    mount_options: str | None = None
    device: str | None = None
    size_bytes: int | None = None
    free_bytes: int | None = None
    writable: bool = False
    direct_io: bool | None = None
    block_device: BlockDevice | None = None


class ToolFacts(_Facts):
    """A benchmark tool as found on the target's PATH (and the usual private directories of PostgreSQL)."""

    path: str
    version: str | None = None
    raw: str = ""


class OsFacts(_Facts):
    """From /etc/os-release."""

    id: str = ""
    version: str = ""
    pretty: str = ""


class HostInfo(_Facts):
    """Kernel, operating system, and what kind of machine this is."""

    hostname: str = ""
    kernel: str = ""
    os: OsFacts = OsFacts()
    arch: str = ""
    python: str = ""
    boot_id: str = ""
    uptime_s: float | None = None
    virtualization: str | None = None
    container: str | None = None


class CpuFacts(_Facts):
    """From /proc/cpuinfo and sysfs."""

    model: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int = 1
    governor: str | None = None
    freq_max_hz: float | None = None
    smt: bool | None = None
    numa_nodes: int | None = None


class MemoryFacts(_Facts):
    """From /proc/meminfo; ``cgroup_limit_bytes`` where the process is limited below the machine."""

    total_bytes: int = 0
    available_bytes: int | None = None
    swap_total_bytes: int | None = None
    cgroup_limit_bytes: int | None = None

    @property
    def usable_bytes(self) -> int:
        """The smaller of RAM and the cgroup's limit: what a page cache can grow to."""
        return min(self.total_bytes, self.cgroup_limit_bytes or self.total_bytes)


class Process(_Facts):
    """A busy process seen while probing."""

    pid: int
    command: str
    cpu: float


class LoadFacts(_Facts):
    """Load averages, and the processes that used more than a tenth of a core while the probe looked."""

    load1: float | None = None
    load5: float | None = None
    load15: float | None = None
    busy: list[Process] = Field(default_factory=list)


class TimeFacts(_Facts):
    """The host's clock when probed, and whether something keeps it in step."""

    epoch_s: float
    synchronised: bool | None = None
    source: str | None = None


class UserFacts(_Facts):
    """Who Ansible logs in as; ``sudo`` tells whether it becomes root without a password."""

    name: str = ""
    uid: int = -1
    home: str = ""
    sudo: bool = False

    @property
    def can_be_root(self) -> bool:
        """Root already, or root by sudo."""
        return self.uid == 0 or self.sudo


class LoopFacts(_Facts):
    """Whether loop devices can be had (containers often cannot)."""

    available: bool = False
    reason: str | None = None


class SystemdFacts(_Facts):
    """Whether systemd runs the host, and whether it keeps the user's processes after logout."""

    running: bool = False
    user_linger: bool = False


class HostFacts(_Facts):
    """One probe of one host."""

    schema_version: int = Field(1, alias="schema")
    host: HostInfo
    cpu: CpuFacts
    memory: MemoryFacts
    load: LoadFacts
    time: TimeFacts
    user: UserFacts
    tools: dict[str, ToolFacts | None] = Field(default_factory=dict)
    paths: dict[str, PathFacts] = Field(default_factory=dict)
    loop: LoopFacts = LoopFacts()
    systemd: SystemdFacts = SystemdFacts()
