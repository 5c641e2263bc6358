"""Charts of a report: one quantity, one axis, every sample.

Matplotlib without pyplot, so nothing global is touched but the settings inside :func:`_settings`.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from labctl.report.panels import quantile
from labctl.report.svg import ARM_COLOURS, GRID, INK, MUTED, PAPER, SHADE, clean_svg
from labctl.report.units import DASH, Scale, scale_for, significant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from labctl.report.model import Distribution, DistributionPanel, Figure, SeriesPanel

#: CSS pixels; matplotlib's SVG has 72 units an inch.
_WIDTH = 340
_INCH = 72.0
_LEFT, _RIGHT = 6, 12
_BAND, _LABEL = 26, 20
#: Line styles beside colours, so that arms can be told apart without colours.
DASHES = ("solid", (0, (5, 2)), (0, (2, 1.3)), (0, (7, 2, 1.5, 2)))
#: Tails of the latency chart: the axis is -log10(1 - q).
_TAILS = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_LONGEST = 44


@dataclass(frozen=True, slots=True)
class Chart:
    """One drawing: ``svg`` goes into the page as it is."""

    title: str
    description: str
    svg: str


def sample_chart(figure: Figure, arm_names: Sequence[str], chart: str, title: str) -> Chart:
    """Every sample as a dot in the order of its repeats, the median as a bar from zero, arms below each other.

    Args:
        figure: what to draw; values in the canonical unit.
        arm_names: all arms of the record, so that an arm has the same colour in every chart.
        chart: identifier of the chart in the page.
        title: heading of the chart, unit without.
    """
    values = [sample.value for arm in figure.arms for sample in arm.samples if sample.value is not None]
    scale = scale_for(values, figure.unit, figure.metric)
    hover: dict[str, str] = {}
    height = 30 + (_BAND + _LABEL) * len(figure.arms)
    with _settings(chart):
        canvas = Canvas(figsize=(_WIDTH / _INCH, height / _INCH))
        axes = canvas.add_axes((_LEFT / _WIDTH, 26 / height, 1 - (_LEFT + _RIGHT) / _WIDTH, 1 - 28 / height))
        _quantity_axis(axes, max(values, default=0.0) / scale.factor)
        for row, arm in enumerate(figure.arms):
            colour = arm_colour(arm.arm, arm_names)
            top = row * (_BAND + _LABEL) + _LABEL
            summary = f"median {scale.text(arm.summary.median)}" if arm.summary else f"{DASH} {arm.reason}"
            left, right = axes.get_xlim()
            name = _words(_short(arm.arm, 26))
            axes.text(left, top - 4, name, color=INK, fontsize=11, va="baseline")
            axes.text(right, top - 4, _words(_short(summary, 30)), color=MUTED, fontsize=11, va="baseline", ha="right")
            if arm.summary is not None:
                median = arm.summary.median / scale.factor
                axes.barh(top + _BAND / 2, median, _BAND, color=colour, alpha=0.22, linewidth=0)
                axes.plot([median, median], [top, top + _BAND], color=colour, linewidth=2, solid_capstyle="butt")
            for position, sample in enumerate(arm.samples):
                if sample.value is None:
                    continue
                gid = f"mark-{row}-{position}"
                y = top + _BAND * (position + 0.5) / len(arm.samples)
                face = colour if sample.counted else PAPER
                axes.plot(
                    [sample.value / scale.factor],
                    [y],
                    marker="o",
                    markersize=6,
                    markerfacecolor=face,
                    markeredgecolor=PAPER if sample.counted else colour,
                    markeredgewidth=0.8,
                    linestyle="none",
                    gid=gid,
                    clip_on=False,
                )
                note = f", {sample.note}" if sample.note else ""
                hover[gid] = _words(
                    f"{arm.arm}, sample {sample.number}: {scale.text(sample.value)} (cell {sample.order}{note})"
                )
        axes.set_ylim((_BAND + _LABEL) * len(figure.arms) + 4, 0)
        description = "; ".join(
            f"{arm.arm}: {_described(arm.summary.median, [s.value for s in arm.samples], scale)}"
            if arm.summary
            else f"{arm.arm}: no value"
            for arm in figure.arms
        )
        heading = f"{title}, {scale.label}" if scale.label else title
        return _finish(canvas, chart, heading, description, hover)


def series_chart(panel: SeriesPanel, arm_names: Sequence[str], chart: str) -> Chart:
    """Samples as thin lines over the time of the run; the ramp, where known, is shaded."""
    values = [value for line in panel.lines for value in line.y if not math.isnan(value)]
    scale = scale_for(values, panel.unit, panel.metric)
    hover: dict[str, str] = {}
    height = 150
    with _settings(chart):
        canvas = Canvas(figsize=(_WIDTH / _INCH, height / _INCH))
        axes = canvas.add_axes((46 / _WIDTH, 32 / height, 1 - 58 / _WIDTH, 1 - 40 / height))
        _frame(axes)
        top = max(values, default=0.0) / scale.factor
        end = max((line.t[-1] for line in panel.lines if line.t), default=1.0)
        axes.set_xlim(0, end or 1.0)
        axes.set_ylim(0, top * 1.06 or 1.0)
        if panel.ramp_s is not None:
            axes.axvspan(0, min(panel.ramp_s, end), color=SHADE, linewidth=0)
        for index, line in enumerate(panel.lines):
            gid = f"line-{index}"
            axes.plot(
                line.t,
                np.asarray(line.y) / scale.factor,
                color=arm_colour(line.arm, arm_names),
                linestyle=_dash(line.arm, arm_names),
                linewidth=1.1,
                gid=gid,
                marker="o" if len(line.t) == 1 else None,
                markersize=3,
            )
            hover[gid] = _words(f"{line.arm}, sample {line.sample}")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=end >= 5))  # noqa: PLR2004 - five ticks
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
        axes.grid(axis="y", color=GRID, linewidth=0.7)
        axes.set_xlabel("seconds since the start", color=MUTED, fontsize=10, labelpad=2)
        samples = f"{len(panel.lines)} lines, one a sample, over {significant(end, 3)} s"
        spread = f"; from {scale.text(min(values))} to {scale.text(max(values))}" if values else ""
        heading = f"{panel.title}, {scale.label}" if scale.label else panel.title
        return _finish(canvas, chart, heading, samples + spread, hover)


def latency_chart(panel: DistributionPanel, arm_names: Sequence[str], chart: str) -> Chart:
    """Latency by percentile, both axes logarithmic towards the tail; merged samples thick, single ones thin.

    A curve ends where fewer than one operation is left above it: beyond that a histogram knows nothing.
    """
    merged = [item for item in panel.merged if item.counts]
    low = min((item.bins[0] for item in merged), default=1e-6)
    high = max((item.bins[-1] for item in merged), default=1.0)
    height = 210
    hover: dict[str, str] = {}
    with _settings(chart):
        canvas = Canvas(figsize=(_WIDTH / _INCH, height / _INCH))
        axes = canvas.add_axes((50 / _WIDTH, 36 / height, 1 - 62 / _WIDTH, 1 - 44 / height))
        _frame(axes)
        axes.set_yscale("log")
        longest = 1.0
        for index, item in enumerate((*panel.single, *merged)):
            x, y = _percentile_curve(item)
            longest = max(longest, x[-1] if x else 0.0)
            thick = item.sample == 0
            axes.plot(
                x,
                y,
                color=arm_colour(item.arm, arm_names),
                linestyle=_dash(item.arm, arm_names) if thick else "solid",
                linewidth=2 if thick else 0.7,
                alpha=1 if thick else 0.55,
                gid=f"line-{index}",
            )
            name = "all samples together" if thick else f"sample {item.sample}"
            hover[f"line-{index}"] = _words(f"{item.arm}, {name}")
        axes.set_xlim(0, longest)
        axes.set_ylim(max(low, 1e-9) / 1.5, high * 1.5)
        tails = [tail for tail in _TAILS if -math.log10(1 - tail) <= longest + 1e-9]
        axes.xaxis.set_major_locator(FixedLocator([-math.log10(1 - tail) for tail in tails]))
        axes.set_xticklabels([_percentile_name(tail) for tail in tails])
        ticks = _decades(low / 1.5, high * 1.5)
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_yticklabels([_time_tick(value) for value in ticks])
        axes.grid(color=GRID, linewidth=0.7)
        axes.set_xlabel("percentile", color=MUTED, fontsize=10, labelpad=2)
        description = "; ".join(f"{item.arm}: {_percentiles(item)}" for item in merged)
        return _finish(canvas, chart, f"{panel.title} by percentile", description, hover)


def arm_colour(arm: str, arm_names: Sequence[str]) -> str:
    """Placeholder colour of an arm; the same in every chart of a report."""
    return ARM_COLOURS[arm_index(arm, arm_names)]


def arm_index(arm: str, arm_names: Sequence[str]) -> int:
    """Which of the colours an arm has; they repeat when there are more arms than colours."""
    return arm_names.index(arm) % len(ARM_COLOURS)


def _dash(arm: str, arm_names: Sequence[str]) -> str | tuple[int, tuple[float, ...]]:
    return DASHES[arm_names.index(arm) % len(DASHES)]


@contextmanager
def _settings(chart: str) -> Iterator[None]:
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": chart,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 10,
        "text.parse_math": False,
        "path.simplify": True,
        "path.simplify_threshold": 0.4,
        "axes.unicode_minus": False,
        "text.usetex": False,
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # The reader's browser has the glyphs; matplotlib only measures with its own font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _finish(canvas: Canvas, chart: str, title: str, description: str, hover: dict[str, str]) -> Chart:
    canvas.patch.set_visible(False)
    buffer = io.StringIO()
    FigureCanvasSVG(canvas)
    canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    title, description = _words(title), _words(description)
    svg = clean_svg(buffer.getvalue(), chart=chart, title=title, description=description, hover=hover)
    return Chart(title, description, svg)


def _frame(axes: Axes) -> None:
    axes.patch.set_visible(False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.spines["bottom"].set_linewidth(0.8)
    axes.tick_params(colors=MUTED, labelsize=10, length=3, width=0.8, pad=3)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)


def _quantity_axis(axes: Axes, largest: float) -> None:
    """A horizontal axis from zero: a bar shows magnitude only if it begins there."""
    _frame(axes)
    axes.set_xlim(0, largest * 1.04 or 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axes.yaxis.set_major_locator(NullLocator())
    axes.grid(axis="x", color=GRID, linewidth=0.7)


def _tick(value: float) -> str:
    return f"{value:,.10g}" if abs(value) < 1e6 else f"{value:.3g}"  # noqa: PLR2004 - below a million in full


def _time_tick(value: float) -> str:
    scale = scale_for([value * 1.0000001], "s")
    return f"{value / scale.factor:.3g}\u00a0{scale.label}"


def _decades(low: float, high: float) -> list[float]:
    """1, 10, 100 … between the limits, with 2 and 5 between where these are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(ticks) > 2:  # noqa: PLR2004 - enough labels
        return ticks
    finer = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    return [tick for tick in finer if low <= tick <= high]


def _percentile_curve(item: Distribution) -> tuple[list[float], list[float]]:
    counts = np.asarray(item.counts, dtype=float)
    total = counts.sum()
    below = np.concatenate(([0.0], np.cumsum(counts)[:-1]))
    share = (below + counts) / total
    limit = 1 - 1 / total if total > 1 else 0.0
    x: list[float] = []
    y: list[float] = []
    for start, end, value in zip(below / total, share, item.bins, strict=True):
        if start > limit:
            break
        x += [-math.log10(1 - start), -math.log10(1 - min(end, limit))]
        y += [value, value]
    return x, y


def _percentile_name(tail: float) -> str:
    return f"{tail * 100:.6g}"


def _percentiles(item: Distribution) -> str:
    parts = []
    for q in (0.5, 0.99):
        value = quantile(item.bins, item.counts, q)
        parts.append(f"p{q * 100:g} {scale_for([value], 's').text(value)}")
    return ", ".join(parts)


def _described(median: float, values: Sequence[float | None], scale: Scale) -> str:
    present = [value for value in values if value is not None]
    return (
        f"median {scale.text(median)} of {len(present)}, from {scale.text(min(present))} to {scale.text(max(present))}"
    )


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _words(text: str) -> str:
    """Without characters that XML cannot hold; names come from users' files."""
    return _CONTROL.sub("\ufffd", text)
