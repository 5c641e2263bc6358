"""sysbench cpu: prime numbers. Touches no storage, so it is the control that must not differ between storage arms."""

from pydantic import Field

from labctl.parsers.base import Metric
from labctl.plan.models import PlanFinding, Step
from labctl.workloads.base import MARGIN_S, MEAN, Estimate, Given, Parameters, Site, Surroundings, Tool
from labctl.workloads.units import Duration


class SysbenchCpuParameters(Parameters):
    """Parameters of a cpu point."""

    threads: int = Field(1, ge=1, le=4096)
    max_prime: int = Field(10000, ge=3, le=10**8, description="Upper limit of the primes of one event.")
    time: Duration = Field(10.0, ge=1, le=7 * 86400)
    percentile: int = Field(99, ge=1, le=100)


class SysbenchCpu(Tool[SysbenchCpuParameters]):
    """See the module."""

    name = "sysbench-cpu"
    parameters = SysbenchCpuParameters
    package = "sysbench"
    binaries = ("sysbench",)
    min_version = (1, 0)
    uses_storage = False

    def gives(self, params: SysbenchCpuParameters) -> Given:
        """Events a second and the latency of an event."""
        latency = frozenset({"mean", "min", "max", f"p{params.percentile}"})
        return {(Metric.EVENTS_RATE, ""): MEAN, (Metric.LATENCY, ""): latency}

    def lint(self, params: SysbenchCpuParameters, around: Surroundings) -> list[PlanFinding]:  # noqa: ARG002
        """The bounds of the model are all that can be wrong."""
        return []

    def estimate(self, params: SysbenchCpuParameters) -> Estimate:
        """Nothing is written."""
        return Estimate(run_s=params.time + 0.3)

    def render(self, params: SysbenchCpuParameters, site: Site) -> tuple[Step, ...]:
        """One step."""
        argv = (
            "sysbench",
            "cpu",
            f"--threads={params.threads}",
            f"--cpu-max-prime={params.max_prime}",
            f"--time={params.time:g}",
            "--events=0",
            f"--rand-seed={site.seed}",
            "--report-interval=1",
            f"--percentile={params.percentile}",
            "run",
        )
        return (Step(name="cpu-run", phase="run", argv=argv, timeout_s=2 * params.time + MARGIN_S),)


SYSBENCH_CPU = SysbenchCpu()
