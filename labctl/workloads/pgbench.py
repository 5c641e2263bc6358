"""pgbench against a PostgreSQL that a cell starts on the arm's storage and stops again.

The cluster itself is made once by the ``bench_postgresql`` role (``initdb``); it listens on a Unix socket only.
Each cell makes its own database, loads it, checkpoints, runs, drops it and stops the server, whatever happened in
between. No user is named: the superuser of the cluster is the operating system's user that ran ``initdb`` and runs
these steps.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from labctl.parsers.base import Metric
from labctl.plan.models import PlanFinding, Step
from labctl.workloads.base import (
    MARGIN_S,
    MEAN,
    SLOWEST_RATE,
    Estimate,
    Given,
    Parameters,
    Site,
    Surroundings,
    Tool,
    finding,
)
from labctl.workloads.units import Duration

_MIB = 1024**2
_BYTES_PER_SCALE = 16 * _MIB  # 100,000 accounts with index: 15 MiB, PostgreSQL documentation of pgbench -i -s
_CLUSTER_BYTES = 64 * _MIB  # a fresh initdb with its first WAL segments
_DEFAULT_MAX_WAL = 1024 * _MIB  # PostgreSQL's default max_wal_size
_LOAD_S_PER_SCALE = 0.4
_SERVER_S = 3.0  # start, create, checkpoint, drop, stop
_LOAD_FACTOR = 2.5  # heap and index, and both again in the WAL
_TRANSACTION_BYTES = 8192 * 3
_NOMINAL_TPS = 2000
_SHORT_TIME_S = 60.0
_PORT = "5432"
_DATABASE = "bench"
_PG_UNITS = {"kB": 1024, "MB": _MIB, "GB": 1024 * _MIB}

SettingName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.]*$")]
# The value goes through the shell of pg_ctl -o, hence no quotes, spaces or dollars.
SettingValue = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.,:/+-]+$")]


class PgbenchParameters(Parameters):
    """Parameters of a pgbench point; names are those of the long options."""

    scale: int = Field(10, ge=1, le=100_000, description="100,000 accounts (about 16 MiB) each.")
    builtin: Literal["tpcb-like", "simple-update", "select-only"] = "tpcb-like"
    clients: int = Field(4, ge=1, le=10_000)
    jobs: int = Field(1, ge=1, le=1024, description="Threads of pgbench; not more than clients.")
    time: Duration = Field(60.0, ge=1, le=7 * 86400)
    protocol: Literal["simple", "extended", "prepared"] = "prepared"
    fillfactor: int = Field(100, ge=10, le=100)
    settings: dict[SettingName, SettingValue] = Field(
        default_factory=dict, description="Server settings such as shared_buffers: 256MB; the same in every arm."
    )


class Pgbench(Tool[PgbenchParameters]):
    """See the module."""

    name = "pgbench"
    parameters = PgbenchParameters
    package = "postgresql"
    binaries = ("pgbench", "pg_ctl", "initdb", "psql", "createdb", "dropdb")
    min_version = (13,)
    postgresql = True

    def gives(self, params: PgbenchParameters) -> Given:  # noqa: ARG002  the same for all
        """Transactions a second and their latency; pgbench prints no percentiles."""
        return {(Metric.TRANSACTIONS_RATE, ""): MEAN, (Metric.LATENCY, ""): frozenset({"mean", "stddev"})}

    def lint(self, params: PgbenchParameters, around: Surroundings) -> list[PlanFinding]:  # noqa: ARG002
        """Threads, contention, length, whole seconds."""
        found: list[PlanFinding] = []
        if params.jobs > params.clients:
            found.append(finding("pgbench-jobs", "error", f"{params.jobs} jobs for {params.clients} clients"))
        if params.time != int(params.time):
            found.append(finding("pgbench-time", "error", f"pgbench takes whole seconds, not {params.time:g}"))
        if params.clients > params.scale and params.builtin == "tpcb-like":
            message = f"{params.clients} clients on scale {params.scale} wait for the same branch rows"
            found.append(finding("pgbench-contention", "warning", f"{message}: use a scale of at least the clients"))
        if params.time < _SHORT_TIME_S:
            message = f"time {params.time:g} s is short: checkpoints and autovacuum fall out of it"
            found.append(finding("short-runtime", "warning", message))
        return found

    def estimate(self, params: PgbenchParameters) -> Estimate:
        """The database is made for each cell; the cluster and its WAL stay in the arm."""
        load = params.scale * _BYTES_PER_SCALE
        run_bytes = 0 if params.builtin == "select-only" else int(_NOMINAL_TPS * _TRANSACTION_BYTES * params.time)
        return Estimate(
            run_s=params.time + 0.5,
            prepare_s=_SERVER_S + params.scale * _LOAD_S_PER_SCALE,
            run_bytes=run_bytes,
            prepare_bytes=int(load * _LOAD_FACTOR),
            layout="postgresql",
            kept_bytes=_CLUSTER_BYTES + _max_wal(params.settings),
            passing_bytes=int(load * 1.5),
        )

    def render(self, params: PgbenchParameters, site: Site) -> tuple[Step, ...]:
        """Stop leftovers, start, fresh database, load, checkpoint, run, drop, stop."""
        data = ("-D", site.postgresql_dir)
        at = ("-h", site.socket_dir, "-p", _PORT)
        settings = "".join(f" -c {name}={value}" for name, value in sorted(params.settings.items()))
        server = f"-k {site.socket_dir} -p {_PORT} -c listen_addresses={settings}"
        loading = params.scale * _BYTES_PER_SCALE * _LOAD_FACTOR / SLOWEST_RATE + MARGIN_S
        return (
            # An agent that died leaves its server behind; return code 1 is "no server runs", the usual case.
            _step("pg-stop-leftover", "setup", ("pg_ctl", *data, "-m", "fast", "-w", "stop"), ok_codes=(0, 1)),
            _step(
                "pg-start", "setup", ("pg_ctl", *data, "-w", "-t", "60", "-l", "pg.log", "-o", server, "start"), 90.0
            ),
            _step("pg-drop", "setup", ("dropdb", *at, "--if-exists", _DATABASE)),
            _step("pg-create", "setup", ("createdb", *at, _DATABASE)),
            _step(
                "pgbench-load",
                "load",
                ("pgbench", *at, "-i", "-q", "-s", str(params.scale), f"--fillfactor={params.fillfactor}", _DATABASE),
                loading,
                outputs=("stderr",),
            ),
            _step("pg-checkpoint", "setup", ("psql", "-X", *at, "-c", "CHECKPOINT", _DATABASE), loading),
            _step(
                "pgbench-run",
                "run",
                (
                    "pgbench",
                    *at,
                    "-n",
                    f"--builtin={params.builtin}",
                    f"--client={params.clients}",
                    f"--jobs={params.jobs}",
                    f"--time={params.time:g}",
                    f"--protocol={params.protocol}",
                    "--progress=1",
                    "-r",
                    f"--random-seed={site.seed}",
                    _DATABASE,
                ),
                2 * params.time + MARGIN_S,
                outputs=("stdout", "stderr"),
            ),
            _step("pg-drop-after", "cleanup", ("dropdb", *at, "--if-exists", _DATABASE), always=True, ok_codes=(0, 1)),
            _step(
                "pg-stop",
                "cleanup",
                ("pg_ctl", *data, "-m", "fast", "-w", "stop"),
                always=True,
                ok_codes=(0, 1),
            ),
        )


def _step(
    name: str,
    phase: Literal["setup", "load", "run", "cleanup"],
    argv: tuple[str, ...],
    timeout_s: float = MARGIN_S,
    *,
    ok_codes: tuple[int, ...] = (0,),
    outputs: tuple[str, ...] = (),
    always: bool = False,
) -> Step:
    # LC_ALL: the parsers read English.
    return Step(
        name=name,
        phase=phase,
        argv=argv,
        timeout_s=timeout_s,
        env={"LC_ALL": "C"},
        ok_codes=ok_codes,
        outputs=outputs,
        always=always,
        database_user=True,
    )


def _max_wal(settings: dict[str, str]) -> int:
    match = re.fullmatch(r"(\d+)(kB|MB|GB)?", settings.get("max_wal_size", ""))
    if match is None:
        return _DEFAULT_MAX_WAL
    # Without a unit PostgreSQL counts max_wal_size in MB.
    return int(match[1]) * _PG_UNITS[match[2] or "MB"]


PGBENCH = Pgbench()
