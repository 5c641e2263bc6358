"""Report → one self-contained HTML page: no script, no request, charts inline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
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
    )

#: Bytes of a page; when it is full, charts are left out (and the page says so), tables never are.
PAGE_BUDGET = 2_700_000


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


_STYLE = re.compile(r'style="([^"]*)"')
#: (workload, point, host).
_Place = tuple[str, str, str]


@dataclass(slots=True)
class _Gallery:
    """Draws charts until the budget is spent; from then on drawing more would only take time."""

    left: int
    number: int = 0
    styles: dict[str, str] = field(default_factory=dict)
    """Declarations → class: charts repeat a few styles thousands of times."""
    refused: Counter[_Place] = field(default_factory=Counter)

    def add(
        self, place: _Place, views: list[ChartView], draw: Callable[[str], Chart], numbers: Callable[[], TableOfChart]
    ) -> None:
        if self.left <= 0:
            self.refused[place] += 1
            return
        self.number += 1
        chart, table = draw(f"c{self.number}"), numbers()
        svg = _STYLE.sub(self._class, chart.svg)
        self.left -= len(svg.encode()) + sum(len(cell.encode()) + 24 for row in table.rows for cell in row) + 600
        if self.left < 0:
            self.refused[place] += 1
            return
        views.append(ChartView(chart.title, Markup(svg), table))  # noqa: S704 - made and escaped by ElementTree

    def _class(self, match: re.Match[str]) -> str:
        return f'class="{self.styles.setdefault(match.group(1), f"s{len(self.styles)}")}"'


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
    template = environment.get_template("report.html.j2")
    render = partial(
        template.render,
        report=report,
        words=words,
        units=units,
        style=Markup(style),  # noqa: S704 - our own file
        scale_of=scale_of,
        raw=partial(words.raw_url, to_record),
        arm_class=partial(_arm_class, report),
        dash_of=partial(_dash_of, report),
        version=__version__,
    )
    without = {place: HostCharts() for place, _ in _places(report)}
    text = len(render(charts=without, chart_style="").encode())
    gallery = _Gallery(PAGE_BUDGET - text)
    charts = _charts(report, gallery)
    rules = "".join(f".{name}{{{declarations}}}" for declarations, name in gallery.styles.items())
    return render(charts=charts, chart_style=Markup(rules))  # noqa: S704 - matplotlib's words, without foreign ones


def _arm_class(report: Report, arm: str) -> str:
    return f"arm-{arm_index(arm, report.arm_names) + 1}"


def _dash_of(report: Report, arm: str) -> str:
    """The arm's line style as SVG writes it."""
    dash = DASHES[report.arm_names.index(arm) % len(DASHES)]
    return "" if isinstance(dash, str) else " ".join(f"{part * 1.5:g}" for part in dash[1])


def _charts(report: Report, gallery: _Gallery) -> dict[_Place, HostCharts]:
    """Charts by place. Samples come first and series last, because the budget may end."""
    names = report.arm_names
    places = list(_places(report))
    samples: dict[_Place, list[ChartView]] = {place: [] for place, _ in places}
    distributions: dict[_Place, list[ChartView]] = {place: [] for place, _ in places}
    series: dict[_Place, list[ChartView]] = {place: [] for place, _ in places}
    for place, host in places:
        for figure in (figure for figure in host.figures if figure.plotted):
            title = figure_title(figure)
            draw = partial(sample_chart, figure, names, title=title)
            gallery.add(place, samples[place], draw, partial(_sample_numbers, figure))
    for place, host in places:
        for distribution in host.distributions:
            draw_distribution = partial(latency_chart, distribution, names)
            numbers = partial(_distribution_numbers, distribution)
            gallery.add(place, distributions[place], draw_distribution, numbers)
    for place, host in places:
        for panel in host.series:
            gallery.add(place, series[place], partial(series_chart, panel, names), partial(_series_numbers, panel))
    return {
        place: HostCharts(
            tuple(samples[place]), tuple(distributions[place]), tuple(series[place]), gallery.refused[place]
        )
        for place, _ in places
    }


def _places(report: Report) -> Iterator[tuple[_Place, HostResults]]:
    for workload in report.workloads:
        for point in workload.points:
            for host in point.hosts:
                yield (workload.name, point.name, host.host), host


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
