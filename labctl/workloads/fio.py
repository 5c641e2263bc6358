"""fio: one job file per cell, prefilled files, JSON+ output, logs beside it in the evidence.

Facts behind the rules: https://fio.readthedocs.io/en/latest/fio_doc.html (``ioengine``: "Linux may only support queued
behavior with non-buffered I/O"; ``iodepth``: "even async engines may impose OS restrictions").
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from labctl.parsers.base import Metric
from labctl.plan.models import PlanFinding, Step
from labctl.words import shown
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
from labctl.workloads.units import MAX_SIZE, Duration, Size, parse_size

_MIB = 1024**2
_DIRECT_AUTO_SIZE = 1024 * _MIB
_SHORT_RUNTIME_S = 30.0
SYNC_ENGINES = frozenset({"sync", "psync", "pvsync", "pvsync2", "vsync"})


def _auto_size(value: object) -> object:
    """``auto`` or bytes; a file of no bytes measures nothing."""
    if value == "auto":
        return value
    size = parse_size(value)
    if not 0 < size <= MAX_SIZE:
        raise ValueError(f"expected auto or a size above 0 and at most {MAX_SIZE // 2**40}TiB, got {shown(value)}")
    return size


AutoSize = Annotated[
    int | Literal["auto"],
    BeforeValidator(_auto_size),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": ["integer", "string"]}]}),
]


class FioParameters(Parameters):
    """Parameters of a fio point; names are fio's own unless their unit or meaning would be unclear."""

    rw: Literal["read", "write", "randread", "randwrite", "rw", "randrw"] = "randread"
    bs: Size = 4096
    size: AutoSize = Field("auto", description="Bytes of each job's own file; auto: 1 GiB with direct, else 2 x RAM.")
    iodepth: int = Field(1, ge=1, le=65536)
    numjobs: int = Field(1, ge=1, le=1024)
    ioengine: Literal["libaio", "io_uring", "posixaio", "sync", "psync", "pvsync", "pvsync2", "vsync"] = "libaio"
    direct: bool = True
    runtime: Duration = Field(30.0, ge=1, le=7 * 86400, description="Measured time after the ramp.")
    ramp: Duration = Field(2.0, le=3600, description="Time before measuring starts; not in the figures.")
    fsync: int = Field(0, ge=0, description="fsync after this many writes; 0: never.")
    rwmixread: int = Field(50, ge=0, le=100, description="Percent of reads in rw and randrw.")
    rate: Size | None = Field(None, description="Limit in bytes/s of each job and direction.")
    rate_iops: int | None = Field(None, ge=1, description="Limit in operations/s of each job and direction.")
    percentiles: tuple[Annotated[float, Field(gt=0, le=100)], ...] = Field(
        (50.0, 90.0, 95.0, 99.0, 99.9, 99.99), min_length=1, max_length=20
    )
    group_reporting: bool = Field(
        default=True, description="One result with histograms merged by fio over all jobs; false: one a job."
    )
    log_interval: Duration = Field(0.5, ge=0.01, le=3600, description="Averaging of bandwidth, IOPS, latency logs.")
    refill_buffers: bool = Field(default=False, description="New random data for each write, at the cost of CPU.")
    compressible: int | None = Field(None, ge=0, le=100, description="Percent of each buffer that compresses.")

    @property
    def writes(self) -> bool:
        """Whether the run writes at all."""
        return self.rw not in {"read", "randread"}

    @property
    def file_size(self) -> int:
        """Bytes of each job's file, once ``auto`` is resolved."""
        if self.size == "auto":
            raise ValueError("size is still auto: resolve the parameters first")
        return self.size

    @property
    def layout(self) -> str:
        """Names the prepared files: what must be equal for two points to share them."""
        return f"fio-{self.file_size}x{self.numjobs}-{'direct' if self.direct else 'buffered'}"


class Fio(Tool[FioParameters]):
    """See the module."""

    name = "fio"
    parameters = FioParameters
    package = "fio"
    binaries = ("fio",)
    min_version = (3, 0)

    def gives(self, params: FioParameters) -> Given:
        """IOPS, bandwidth and latency of each direction that the job has."""
        operations = {"read": ("read",), "randread": ("read",), "write": ("write",), "randwrite": ("write",)}
        latency = frozenset({"mean", "min", "max", "stddev", *(f"p{p:g}" for p in params.percentiles)})
        metrics = {Metric.IOPS: MEAN, Metric.BANDWIDTH: MEAN, Metric.LATENCY: latency}
        return {(m, op): stats for m, stats in metrics.items() for op in operations.get(params.rw, ("read", "write"))}

    def resolve(self, params: FioParameters, around: Surroundings) -> FioParameters:
        """``auto``: 1 GiB a job with direct I/O; without it twice the RAM over all jobs, so that no cache holds it."""
        if params.size != "auto":
            return params
        step = max(_MIB, params.bs)
        wanted = _DIRECT_AUTO_SIZE if params.direct else -(-2 * around.ram_bytes // params.numjobs)
        # bs need not be a power of two: the size is rounded up to whole blocks of it.
        size = -(-wanted // step) * step
        return params.model_copy(update={"size": -(-size // params.bs) * params.bs})

    def lint(self, params: FioParameters, around: Surroundings) -> list[PlanFinding]:
        """See the module; sizes must be resolved."""
        found: list[PlanFinding] = []
        total = params.file_size * params.numjobs
        if params.ioengine in SYNC_ENGINES and params.iodepth > 1:
            message = (
                f"ioengine {params.ioengine} keeps one request in flight, iodepth {params.iodepth} cannot be reached"
            )
            found.append(finding("fio-sync-iodepth", "error", f"{message}: use libaio or io_uring, or iodepth 1"))
        if params.ioengine == "libaio" and not params.direct:
            message = "libaio without direct I/O submits synchronously on Linux"
            found.append(finding("fio-libaio-buffered", "error", f"{message}: use direct: true, io_uring or psync"))
        if not params.direct and total < 2 * around.ram_bytes:
            found.append(page_cache(total, around.ram_bytes, "size: auto or direct: true"))
        if params.direct and around.direct_io is False:
            message = f"{around.storage} does not take direct I/O (O_DIRECT)"
            found.append(finding("no-direct-io", "error", message))
        if params.file_size % params.bs:
            message = f"size {params.file_size} is not a multiple of bs {params.bs}"
            found.append(finding("fio-size-bs", "error", message))
        if params.runtime < _SHORT_RUNTIME_S:
            message = f"runtime {params.runtime:g} s is short: below {_SHORT_RUNTIME_S:g} s caches and bursts dominate"
            found.append(finding("short-runtime", "warning", message))
        return found

    def estimate(self, params: FioParameters) -> Estimate:
        """Start and end of fio cost about a second; written bytes are capped by ``rate``, else a nominal rate."""
        active = params.runtime + params.ramp
        total = params.file_size * params.numjobs
        rate = min([WRITE_RATE, *([params.rate * params.numjobs] if params.rate else [])])
        if params.rate_iops:
            rate = min(rate, params.rate_iops * params.bs * params.numjobs)
        share = 1 - params.rwmixread / 100 if params.rw in {"rw", "randrw"} else 1.0
        return Estimate(
            run_s=active + 1.0,
            prepare_s=total / PREFILL_RATE + 0.5,
            run_bytes=int(rate * active * share) if params.writes else 0,
            prepare_bytes=total,
            layout=params.layout,
            kept_bytes=total,
            prepare_once=True,
        )

    def render(self, params: FioParameters, site: Site) -> tuple[Step, ...]:
        """Prefill (skipped when the arm has this layout already), then the run.

        Reads need data that exist. Writes need it as well: an overwrite of allocated blocks is steady state, a first
        write measures the allocator.
        """
        total = params.file_size * params.numjobs
        argv = ("fio", "--output-format=json+", "--output=fio.json", "job.fio")
        return (
            Step(
                name="fio-prefill",
                phase="prefill",
                argv=argv,
                timeout_s=total / SLOWEST_RATE + MARGIN_S,
                files={"job.fio": _ini("prefill", _prefill_options(params, site))},
                creates=f"{site.data_dir}/.{params.layout}.filled",
                outputs=("fio.json",),
            ),
            Step(
                name="fio-run",
                phase="run",
                argv=argv,
                timeout_s=2 * (params.runtime + params.ramp) + MARGIN_S,
                files={"job.fio": _ini("run", _run_options(params, site))},
                outputs=("fio.json", *_logs(params)),
            ),
        )


def _logs(params: FioParameters) -> tuple[str, ...]:
    # per_job_logs: fio numbers the logs of a job's clones from 1.
    return tuple(f"fio_{kind}.{job}.log" for kind in ("bw", "iops", "lat") for job in range(1, params.numjobs + 1))


def _layout_options(params: FioParameters, site: Site) -> dict[str, str | int | float]:
    return {
        "directory": site.data_dir,
        "filename_format": f"{params.layout}.$jobnum",
        "size": params.file_size,
        "numjobs": params.numjobs,
        "direct": int(params.direct),
        "randseed": site.seed,
        "fallocate": "none",
    }


def _prefill_options(params: FioParameters, site: Site) -> dict[str, str | int | float]:
    return _layout_options(params, site) | {
        "rw": "write",
        "bs": _MIB if params.file_size % _MIB == 0 else params.bs,
        "ioengine": "psync",
        "end_fsync": 1,
        "group_reporting": 1,
        **_content_options(params),
    }


def _run_options(params: FioParameters, site: Site) -> dict[str, str | int | float]:
    options = _layout_options(params, site) | {
        "rw": params.rw,
        "bs": params.bs,
        "ioengine": params.ioengine,
        "iodepth": params.iodepth,
        "time_based": 1,
        "runtime": f"{round(params.runtime * 1000)}ms",
        "ramp_time": f"{round(params.ramp * 1000)}ms",
        "invalidate": 1,
        "clat_percentiles": 1,
        "lat_percentiles": 1,
        "percentile_list": ":".join(f"{p:g}" for p in params.percentiles),
        "log_avg_msec": round(params.log_interval * 1000),
        "per_job_logs": 1,
        "write_bw_log": "fio",
        "write_iops_log": "fio",
        "write_lat_log": "fio",
    }
    if params.writes:
        options |= {"overwrite": 1, "fsync": params.fsync, **_content_options(params)}
    if params.rw in {"rw", "randrw"}:
        options["rwmixread"] = params.rwmixread
    if params.rate is not None:
        options["rate"] = params.rate
    if params.rate_iops is not None:
        options["rate_iops"] = params.rate_iops
    if params.group_reporting:
        options["group_reporting"] = 1
    return options


def _content_options(params: FioParameters) -> dict[str, str | int | float]:
    # fio's own default data is random, hence incompressible; a compressible share must be asked for.
    options: dict[str, str | int | float] = {"refill_buffers": int(params.refill_buffers)}
    if params.compressible is not None:
        options["buffer_compress_percentage"] = params.compressible
    return options


def _ini(job: str, options: dict[str, str | int | float]) -> str:
    return "\n".join([f"[{job}]", *(f"{name}={value}" for name, value in options.items()), ""])


FIO = Fio()
