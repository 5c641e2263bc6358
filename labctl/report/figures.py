"""Which figures a report shows, in which order.

They are chosen by metric and statistic, not by tool, so that a new tool needs no change here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Phases whose measurements are the result; ``""`` is a file that labctl did not run itself.
RUN_PHASES = frozenset({"run", ""})
#: Rates of parts of one load add up; other statistics of parts cannot be combined.
ADDITIVE = frozenset({"iops", "bandwidth", "transactions_rate", "queries_rate", "events_rate"})
#: From this block size on, bandwidth says more than operations a second.
LARGE_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of figure; ``statistics`` and ``components`` in order of preference, the first present one is taken."""

    metric: str
    title: str
    statistics: tuple[str, ...]
    components: tuple[str, ...] = ("total",)
    load_phase: bool = False
    plotted: bool = True
    higher_is_better: bool = True


_LATENCY = ("total", "completion", "sync")

#: Operations of a load phase: the duration of its steps, else what the tool says of it.
LOAD_OPERATIONS = ("", "initialise")

KINDS: tuple[Kind, ...] = (
    Kind("iops", "IOPS", ("mean", "total")),
    Kind("bandwidth", "Bandwidth", ("mean", "total")),
    Kind("transactions_rate", "Transactions", ("mean", "total")),
    Kind("queries_rate", "Queries", ("mean", "total")),
    Kind("events_rate", "Events", ("mean", "total")),
    Kind("latency", "Latency, mean", ("mean",), _LATENCY, higher_is_better=False),
    Kind("latency", "Latency, median", ("p50",), _LATENCY, plotted=False, higher_is_better=False),
    Kind("latency", "Latency, p95", ("p95",), _LATENCY, plotted=False, higher_is_better=False),
    Kind("latency", "Latency, p99", ("p99",), _LATENCY, higher_is_better=False),
    Kind("runtime", "Load time", ("total", "mean"), load_phase=True, plotted=False, higher_is_better=False),
)


def kind_of(figure: dict[str, str]) -> Kind:
    """The kind of a figure that a study asks for: one of :data:`KINDS`, else one made for it."""
    metric, statistic = figure["metric"], figure.get("statistic", "mean")
    for kind in KINDS:
        if kind.metric == metric and statistic in kind.statistics and not kind.load_phase:
            return kind
    title = metric.replace("_", " ").capitalize()
    return Kind(
        metric,
        f"{title}, {statistic}",
        (statistic,),
        _LATENCY,
        higher_is_better=figure.get("higher_is_better", "True").lower() == "true",
    )


def telling_rate(parameters: Mapping[str, object]) -> str:
    """The rate that says more where a tool gives both: bandwidth for large blocks, operations for small ones."""
    return "bandwidth" if block_size(parameters) >= LARGE_BLOCK else "iops"


def block_size(parameters: Mapping[str, object]) -> int:
    """Bytes of ``bs``, ``block_size`` …; 0 where there is none or it cannot be read."""
    for name in ("bs", "block_size", "blocksize", "file_block_size"):
        text = str(parameters.get(name, "")).lower().removesuffix("b").removesuffix("i")
        number = text.rstrip("kmg")
        if number.isascii() and number.isdigit():
            suffix = text[len(number) :]
            return int(number) * {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}.get(suffix, 0)
    return 0


#: Percentiles shown of a distribution.
DISTRIBUTION_QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
