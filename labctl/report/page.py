"""Report → one self-contained HTML page: no script, no request, charts inline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from labctl import __version__
from labctl.report import units, words
from labctl.report.figures import DISTRIBUTION_QUANTILES
from labctl.report.panels import quantile
from labctl.report.plots import DASHES, Chart, arm_index, latency_chart, sample_chart, series_chart
from labctl.report.results import figure_title, scale_of
from labctl.report.stats import summarise

if TYPE_CHECKING:
    from labctl.report.model import (
        ArmFigure,
        DistributionPanel,
        Figure,
        HostResults,
        Report,
        SeriesPanel,
        Workload,
    )

#: Characters of charts in a page; beyond it charts are left out (and the page says so), tables never are.
CHART_BUDGET = 1_500_000


@dataclass(frozen=True, slots=True)
class TableOfChart:
    """The numbers of a chart."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ChartView:
    """A chart with its numbers; ``svg`` is markup of ours, in which foreign words are escaped."""

    title: str
    svg: Markup
    numbers: TableOfChart


@dataclass(frozen=True, slots=True)
class HostCharts:
    """All charts of one point on one host; ``left_out`` counts those that the budget did not allow."""

    samples: tuple[ChartView, ...] = ()
    distributions: tuple[ChartView, ...] = ()
    series: tuple[ChartView, ...] = ()
    left_out: int = 0


@dataclass(slots=True)
class _Budget:
    left: int = CHART_BUDGET
    number: int = 0
    refused: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def name(self) -> str:
        self.number += 1
        return f"c{self.number}"

    def take(self, chart: Chart, place: tuple[str, str, str]) -> bool:
        if len(chart.svg) > self.left:
            self.refused[place] = self.refused.get(place, 0) + 1
            return False
        self.left -= len(chart.svg)
        return True


def render_page(report: Report, to_record: str) -> str:
    """The page.

    Args:
        report: what to say.
        to_record: URL of the record relative to the page, quoted; links to raw files begin with it.
    """
    environment = Environment(
        loader=PackageLoader("labctl.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        percent=units.percent,
        times=units.times,
        duration=units.duration,
        instant=units.instant,
        figure_title=figure_title,
    )
    style = resources.files("labctl.report").joinpath("templates", "style.css").read_text(encoding="utf-8")
    return environment.get_template("report.html.j2").render(
        report=report,
        words=words,
        units=units,
        style=Markup(style),  # noqa: S704 - our own file
        charts=_charts(report),
        scale_of=scale_of,
        raw=partial(words.raw_url, to_record),
        arm_class=partial(_arm_class, report),
        dash_of=partial(_dash_of, report),
        version=__version__,
    )


def _arm_class(report: Report, arm: str) -> str:
    return f"arm-{arm_index(arm, report.arm_names) + 1}"


def _dash_of(report: Report, arm: str) -> str:
    """The arm's line style as SVG writes it."""
    dash = DASHES[report.arm_names.index(arm) % len(DASHES)]
    return "" if isinstance(dash, str) else " ".join(f"{part * 1.5:g}" for part in dash[1])


def _charts(report: Report) -> dict[tuple[str, str, str], HostCharts]:
    """Charts by (workload, point, host). Samples come first, series last, because the budget may end."""
    budget = _Budget()
    names = report.arm_names
    places = list(_places(report))
    samples: dict[tuple[str, str, str], list[ChartView]] = {place: [] for place, _, _ in places}
    distributions: dict[tuple[str, str, str], list[ChartView]] = {place: [] for place, _, _ in places}
    series: dict[tuple[str, str, str], list[ChartView]] = {place: [] for place, _, _ in places}
    for place, _, host in places:
        for figure in host.figures:
            if figure.plotted:
                chart = sample_chart(figure, names, budget.name(), figure_title(figure))
                _keep(budget, chart, place, samples[place], _sample_numbers(figure))
    for place, _, host in places:
        for distribution in host.distributions:
            chart = latency_chart(distribution, names, budget.name())
            _keep(budget, chart, place, distributions[place], _distribution_numbers(distribution))
    for place, _, host in places:
        for panel in host.series:
            if budget.left <= 0 or budget.refused:
                # Once the budget is spent, drawing more is only time.
                budget.refused[place] = budget.refused.get(place, 0) + 1
                continue
            chart = series_chart(panel, names, budget.name())
            _keep(budget, chart, place, series[place], _series_numbers(panel))
    return {
        place: HostCharts(
            tuple(samples[place]), tuple(distributions[place]), tuple(series[place]), budget.refused.get(place, 0)
        )
        for place, _, _ in places
    }


def _keep(
    budget: _Budget, chart: Chart, place: tuple[str, str, str], views: list[ChartView], numbers: TableOfChart
) -> None:
    if budget.take(chart, place):
        views.append(ChartView(chart.title, Markup(chart.svg), numbers))  # noqa: S704 - made and escaped by ElementTree


def _places(report: Report) -> Iterator[tuple[tuple[str, str, str], Workload, HostResults]]:
    for workload in report.workloads:
        for point in workload.points:
            for host in point.hosts:
                yield (workload.name, point.name, host.host), workload, host


def _sample_numbers(figure: Figure) -> TableOfChart:
    scale = scale_of(figure)

    def row(arm: ArmFigure) -> tuple[str, ...]:
        return (
            arm.arm,
            scale.text(arm.summary.median) if arm.summary else units.DASH,
            ", ".join(words.sample_text(sample, scale) for sample in arm.samples),
            ", ".join(str(sample.order) for sample in arm.samples),
        )

    return TableOfChart(("Arm", "Median", "Samples", "Cells in order of execution"), tuple(map(row, figure.arms)))


def _distribution_numbers(panel: DistributionPanel) -> TableOfChart:
    header = ("Arm", "Operations", *(f"p{q * 100:.6g}" for q in DISTRIBUTION_QUANTILES))
    rows = []
    for item in panel.merged:
        values = [
            quantile(item.bins, item.counts, q) if sum(item.counts) * (1 - q) >= 1 else None
            for q in DISTRIBUTION_QUANTILES
        ]
        cells = (units.scale_for([value], "s").text(value) for value in values)
        rows.append((item.arm, f"{sum(item.counts):,}", *cells))
    return TableOfChart(header, tuple(rows))


def _series_numbers(panel: SeriesPanel) -> TableOfChart:
    present = {id(line): [value for value in line.y if value == value] for line in panel.lines}  # noqa: PLR0124 - NaN
    scale = units.scale_for((value for values in present.values() for value in values), panel.unit, panel.metric)
    rows = []
    for line in panel.lines:
        described = summarise(present[id(line)])
        numbers = (described.minimum, described.median, described.maximum) if described else (None, None, None)
        rows.append((line.arm, str(line.sample), str(len(line.t)), *(scale.text(number) for number in numbers)))
    return TableOfChart(("Arm", "Sample", "Points drawn", "Lowest", "Median", "Highest"), tuple(rows))
