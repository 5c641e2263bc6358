"""Foreign words in Markdown and in drawings."""

import re
from xml.etree import ElementTree as ET

import pytest

from labctl.report.build import build_report
from labctl.report.load import load_record
from labctl.report.markdown import block, code, escape
from labctl.report.plots import latency_chart, sample_chart, series_chart
from labctl.report.write import write_report
from tests.report_records import Lab, build_record

HOSTILE = "<script>alert(1)</script> | [x](javascript:1) `a` $x^2$ \x01 \N{PILE OF POO} \u4e2d"


def test_escaped_words_have_no_effect():
    assert escape("a|b\n# c") == "a\\|b \\# c"
    assert escape("<b>&amp;") == "\\<b\\>&amp;amp;"


@pytest.mark.parametrize(("text", "shown"), [("a", "`a`"), ("a`b", "``a`b``"), ("`", "`` ` ``")])
def test_inline_code_survives_backticks(text, shown):
    assert code(text) == shown


def test_code_block_survives_fences():
    assert block("```\nx").startswith("````\n")


def test_markdown_tables_have_equal_columns(tmp_path):
    lab = Lab(arms=("a", "b"), title=HOSTILE, question=HOSTILE, tools=("fio",), block_sizes=("4k",), error=HOSTILE)
    lab.arm_title = HOSTILE
    lab.status = lambda cell: "failed" if cell.repeat == 3 else "done"
    text = write_report(build_record(tmp_path / "r", lab), formats=("md",))[0].read_text()
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "\\<script\\>" in outside
    assert "<script>" not in outside
    widths: list[int] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            widths = []
            continue
        widths.append(line.replace("\\|", "").count("|"))
        assert len(set(widths)) == 1, line


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    lab = Lab(arms=("a", "b"), arm_title=HOSTILE, tools=("fio",), block_sizes=("4k",))
    record = build_record(tmp_path_factory.mktemp("x") / "r", lab)
    return build_report(load_record(record)).workloads[0].points[0].hosts[0]


def read(chart):
    return ET.fromstring(chart.svg)  # noqa: S314 - our own drawing


def charts(host):
    names = ("a", "b")
    yield sample_chart(host.figures[0], names, "c1", HOSTILE)
    yield latency_chart(host.distributions[0], names, "c2")
    yield series_chart(host.series[0], names, "c3")


def test_drawings_are_xml_with_text_alternative_and_theme_colours(host):
    for chart in charts(host):
        root = read(chart)
        assert root.get("role") == "img"
        labels = root.get("aria-labelledby").split()
        assert [root.find(f"*[@id='{label}']").text for label in labels] == [chart.title, chart.description]
        assert "var(--arm-2)" in chart.svg
        assert "#" not in chart.svg.replace('href="#', "").replace("&#", ""), "a colour that no theme can change"
        assert "script" not in {element.tag for element in root.iter()}
        assert root.findall(".//text"), "text must stay text"


def test_drawings_are_the_same_every_time(host):
    assert [chart.svg for chart in charts(host)] == [chart.svg for chart in charts(host)]


def test_ids_of_a_drawing_begin_with_its_name(host):
    for number, chart in enumerate(charts(host), 1):
        ids = [element.get("id") for element in read(chart).iter() if element.get("id")]
        assert ids
        assert all(name.startswith(f"c{number}-") for name in ids)
        assert len(ids) == len(set(ids))


def test_every_sample_has_its_own_mark_with_its_value(host):
    chart = next(charts(host))
    marks = [group for group in read(chart).iter("g") if group.get("class") == "mark"]
    titles = [mark.find("title").text for mark in marks]
    assert len(titles) == sum(len(arm.samples) for arm in host.figures[0].arms)
    assert all("IOPS" in title for title in titles)
