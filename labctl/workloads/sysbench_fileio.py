"""sysbench fileio: prepare, run and cleanup with the same file options.

sysbench writes ``test_file.N`` into its working directory, so every step runs in the arm's data directory; its output
still goes to the step's directory in the bundle.
"""

from typing import Literal

from pydantic import Field

from labctl.parsers.base import Metric
from labctl.plan.models import PlanFinding, Step
from labctl.workloads.base import (
    MARGIN_S,
    MEAN,
    PREFILL_RATE,
    SLOWEST_RATE,
    WRITE_RATE,
    Estimate,
    Given,
    Parameters,
    Site,
    Surroundings,
    Tool,
    finding,
    page_cache,
)
from labctl.workloads.units import Duration, Size

_SHORT_TIME_S = 30.0


class SysbenchFileioParameters(Parameters):
    """Parameters of a fileio point; names are sysbench's without ``file-``, with ``_`` for ``-``."""

    test_mode: Literal["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"] = "rndrw"
    num: int = Field(16, ge=1, le=10000, description="Number of files.")
    total_size: Size = Field(1024**3, description="Bytes of all files together.")
    block_size: Size = 16384
    io_mode: Literal["sync", "async", "mmap"] = "sync"
    async_backlog: int = Field(128, ge=1, le=65536, description="Requests in flight of a thread with io_mode async.")
    extra_flags: Literal["", "sync", "dsync", "direct"] = Field("direct", description="Flags of open(2).")
    fsync_freq: int = Field(100, ge=0, description="fsync after this many requests; 0: never in between.")
    fsync_all: bool = Field(default=False, description="fsync after each write.")
    fsync_end: bool = Field(default=True, description="fsync at the end.")
    fsync_mode: Literal["fsync", "fdatasync"] = "fsync"
    rw_ratio: float = Field(1.5, gt=0, le=1000, description="Reads for one write in rndrw.")
    threads: int = Field(1, ge=1, le=4096)
    time: Duration = Field(30.0, ge=1, le=7 * 86400)
    percentile: int = Field(99, ge=1, le=100)

    @property
    def writes(self) -> bool:
        """Whether the run writes at all."""
        return self.test_mode not in {"seqrd", "rndrd"}


class SysbenchFileio(Tool[SysbenchFileioParameters]):
    """See the module."""

    name = "sysbench-fileio"
    parameters = SysbenchFileioParameters
    package = "sysbench"
    binaries = ("sysbench",)
    min_version = (1, 0)

    def gives(self, params: SysbenchFileioParameters) -> Given:
        """Rates of each direction and of fsync; one latency over all operations, as sysbench reports it."""
        operations = {"seqrd": ["read"], "rndrd": ["read"], "rndrw": ["read", "write"]}.get(params.test_mode, ["write"])
        given: Given = {(metric, op): MEAN for op in operations for metric in (Metric.IOPS, Metric.BANDWIDTH)}
        if params.writes:
            given[Metric.IOPS, "sync"] = MEAN
        given[Metric.LATENCY, ""] = frozenset({"mean", "min", "max", f"p{params.percentile}"})
        return given

    def lint(self, params: SysbenchFileioParameters, around: Surroundings) -> list[PlanFinding]:
        """Page cache, direct I/O, whole blocks, length."""
        found: list[PlanFinding] = []
        direct = params.extra_flags == "direct"
        if not direct and params.total_size < 2 * around.ram_bytes:
            found.append(page_cache(params.total_size, around.ram_bytes, "extra_flags: direct, or a larger total_size"))
        if direct and around.direct_io is False:
            message = f"{around.storage} does not take direct I/O (O_DIRECT)"
            found.append(finding("no-direct-io", "error", message))
        if direct and params.io_mode == "mmap":
            message = "io_mode mmap goes through the page cache, extra_flags direct has no effect"
            found.append(finding("sysbench-mmap-direct", "error", message))
        if params.io_mode == "async" and not direct:
            message = "io_mode async without extra_flags direct submits synchronously on Linux"
            found.append(finding("sysbench-async-buffered", "error", message))
        if params.total_size % (params.num * params.block_size):
            message = f"total_size {params.total_size} is not num {params.num} x whole blocks of {params.block_size}"
            found.append(finding("sysbench-size-blocks", "error", message))
        if params.time < _SHORT_TIME_S:
            message = f"time {params.time:g} s is short: below {_SHORT_TIME_S:g} s caches and bursts dominate"
            found.append(finding("short-runtime", "warning", message))
        return found

    def estimate(self, params: SysbenchFileioParameters) -> Estimate:
        """Each cell prepares its own files and removes them."""
        share = 1 / (1 + params.rw_ratio) if params.test_mode == "rndrw" else 1.0
        return Estimate(
            run_s=params.time + 0.5,
            prepare_s=params.total_size / PREFILL_RATE + 0.5,
            run_bytes=int(WRITE_RATE * params.time * share) if params.writes else 0,
            prepare_bytes=params.total_size,
            passing_bytes=params.total_size,
        )

    def render(self, params: SysbenchFileioParameters, site: Site) -> tuple[Step, ...]:
        """Prepare, run, cleanup; ``--rand-seed`` makes random offsets the same in every arm."""
        base = ("sysbench", "fileio", *_file_options(params))
        preparing = params.total_size / SLOWEST_RATE + MARGIN_S
        run = (
            *base,
            f"--threads={params.threads}",
            f"--time={params.time:g}",
            "--events=0",
            f"--rand-seed={site.seed}",
            "--report-interval=1",
            f"--percentile={params.percentile}",
            "run",
        )
        at = site.data_dir
        return (
            Step(
                name="fileio-prepare", phase="prefill", argv=(*base, "prepare"), timeout_s=preparing, cwd=at, outputs=()
            ),
            Step(name="fileio-run", phase="run", argv=run, timeout_s=2 * params.time + MARGIN_S, cwd=at),
            Step(
                name="fileio-cleanup",
                phase="cleanup",
                argv=(*base, "cleanup"),
                timeout_s=MARGIN_S,
                always=True,
                cwd=at,
                outputs=(),
            ),
        )


def _file_options(params: SysbenchFileioParameters) -> tuple[str, ...]:
    flags = (f"--file-extra-flags={params.extra_flags}",) if params.extra_flags else ()
    return (
        f"--file-num={params.num}",
        f"--file-total-size={params.total_size}",
        f"--file-block-size={params.block_size}",
        f"--file-test-mode={params.test_mode}",
        f"--file-io-mode={params.io_mode}",
        f"--file-async-backlog={params.async_backlog}",
        *flags,
        f"--file-fsync-freq={params.fsync_freq}",
        f"--file-fsync-all={'on' if params.fsync_all else 'off'}",
        f"--file-fsync-end={'on' if params.fsync_end else 'off'}",
        f"--file-fsync-mode={params.fsync_mode}",
        f"--file-rw-ratio={params.rw_ratio:g}",
    )


SYSBENCH_FILEIO = SysbenchFileio()
