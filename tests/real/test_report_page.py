"""The page in headless Chromium: loads nothing, fits a phone, reads well in dark and light, runs no foreign word."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from labctl.record.ledger import CellState
from labctl.report.write import write_report
from tests.conftest import find_program
from tests.report_records import Lab, build_record

pytestmark = [pytest.mark.real(what="chromium", where="localhost"), pytest.mark.needs("chromium")]

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
REPEATS: dict[int, CellState] = {1: "done", 2: "failed", 3: "planned"}
RECORDS = {
    "whole": Lab(),
    "partial": Lab(status=lambda cell: REPEATS[cell.repeat]),
    "interrupted": Lab(status=lambda cell: "done" if cell.repeat == 1 else "interrupted", tools=("fio",)),
    "empty": Lab(status=lambda _cell: "planned"),
    "only-failed": Lab(status=lambda _cell: "failed"),
    "one-sample": Lab(repeats=1, tools=("fio", "pgbench"), block_sizes=("4k",)),
    "two-hosts": Lab(hosts=("node1", "node2"), tools=("fio",), block_sizes=("4k",)),
    "many-arms": Lab(arms=tuple(f"arm-{n}" for n in range(10)), tools=("pgbench",), repeats=2),
    "hostile": Lab(
        arms=("a", "b"),
        arm_title=HOSTILE,
        title=HOSTILE,
        question=HOSTILE,
        error=HOSTILE,
        status=lambda cell: "failed" if cell.repeat == 2 else "done",
        tools=("fio",),
    ),
    "long-words": Lab(arms=("a" * 63, "b" * 63), title="t" * 300, question="q" * 500, error="e" * 900, tools=("fio",)),
}

#: Text that is painted on its nearest opaque background: the lowest contrast ratio of the page, by WCAG 2.2.
CONTRAST = """() => {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const rgb = s => (s.match(/[\\d.]+/g) || []).map(Number);
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255];
  };
  let worst = [99, ''];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ['STYLE', 'TITLE', 'title', 'desc'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const a = light(rgb(element instanceof SVGElement ? style.fill : style.color)), b = light(ground(element));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, walker.currentNode.data];
  }
  return worst;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=str(find_program("chromium", "chromium-browser", "google-chrome")),
            args=["--disable-gpu", "--disable-quic", *(["--no-sandbox"] if os.geteuid() == 0 else [])],
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Name of a record → its page; each is written once, when it is first asked for."""
    root = tmp_path_factory.mktemp("records")
    written = {}

    def page_of(name: str):
        if name not in written:
            written[name] = write_report(build_record(root / name, RECORDS[name]), formats=("html",))[0]
        return written[name]

    return page_of


Scheme = Literal["light", "dark"]


@contextmanager
def opened(browser: Browser, path, *, width: int = 1400, scheme: Scheme = "light") -> Iterator[tuple[Page, list[str]]]:
    """The page, and everything that went wrong: console, exceptions, requests beyond the file itself."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if request.url != path.as_uri() else None)
    try:
        page.goto(path.as_uri())
        yield page, wrong
    finally:
        context.close()


@pytest.mark.parametrize("name", list(RECORDS))
def test_page_loads_nothing_complains_of_nothing_and_fits_a_phone(browser, pages, name):
    with opened(browser, pages(name), width=390) as (page, wrong):
        for element in page.query_selector_all("details > summary"):
            element.evaluate("e => { e.parentElement.open = true }")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["whole", "partial", "many-arms"])
def test_contrast_is_aa(browser, pages, name, scheme):
    with opened(browser, pages(name), scheme=scheme) as (page, _):
        page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
        ratio, text = page.evaluate(CONTRAST)
        assert ratio >= 4.5, text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_of_every_arm_stand_out(browser, pages, scheme):
    script = """() => {
      const rgb = s => s.match(/[\\d.]+/g).map(Number);
      const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
      const weigh = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
      const light = s => weigh(rgb(s));
      const ground = light(getComputedStyle(document.querySelector('.card')).backgroundColor) + 0.05;
      const found = {};
      for (const use of document.querySelectorAll('figure .mark use')) {
        const fill = getComputedStyle(use).fill, mark = light(fill) + 0.05;
        found[fill] = Math.max(mark, ground) / Math.min(mark, ground);
      }
      return found;
    }"""
    with opened(browser, pages("many-arms"), scheme=scheme) as (page, _):
        found = page.evaluate(script)
    assert len(found) == 8, "eight colours, then they repeat"
    assert min(found.values()) >= 3


def test_hostile_words_are_text(browser, pages):
    with opened(browser, pages("hostile")) as (page, wrong):
        assert wrong == []
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.title().startswith(HOSTILE)
        assert page.locator("script, img, iframe, object, link[rel=stylesheet]").count() == 0
        assert page.locator("[onerror], [onload], [onclick]").count() == 0


def test_policy_forbids_everything_but_styles(browser, pages):
    with opened(browser, pages("whole")) as (page, wrong):
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('img'), {src: 'https://labctl.invalid/x.png'}))"
        )
        page.wait_for_function("document.images[0].complete")
        assert any("Content Security Policy" in text for text in wrong)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("partial", "This report is partial: 12 of 36 cells done; 12 failed, 12 planned."),
        ("empty", "No cell of the plan was done yet, so there is no result."),
        ("only-failed", "No cell of the plan was done, so there is no result."),
    ],
)
def test_partial_records_say_so_at_the_top(browser, pages, name, words):
    with opened(browser, pages(name)) as (page, _):
        assert page.locator("header .partial").inner_text().startswith(words)


def test_whole_record_is_not_called_partial(browser, pages):
    with opened(browser, pages("whole")) as (page, _):
        assert page.locator("header .partial").count() == 0
        assert "No statistical verdict is given; n = 3." in page.locator("header").inner_text()


def test_failures_show_the_tools_words_and_link_to_the_raw_file(browser, pages):
    with opened(browser, pages("only-failed")) as (page, _):
        row = page.locator("section[aria-labelledby=findings] tbody tr").first
        assert "No space left on device" in row.inner_text()
        target = row.locator("a").first.evaluate("a => a.href")
        response = page.goto(target)
        assert response is not None
        assert response.ok


def test_one_sample_has_no_spread(browser, pages):
    with opened(browser, pages("one-sample")) as (page, _):
        results = page.locator("#results article").first.inner_text()
        assert "CV" not in results
        assert "it has no spread" in page.locator("header .warn").inner_text()


def test_every_chart_has_an_alternative_and_its_numbers(browser, pages):
    with opened(browser, pages("whole")) as (page, _):
        charts = page.locator("figure svg[role=img]")
        assert charts.count() > 0
        assert charts.count() == page.locator("figure details table").count()
        names = charts.evaluate_all(
            "all => all.map(e => e.getAttribute('aria-labelledby').split(' ')"
            ".map(i => document.getElementById(i).textContent))"
        )
        assert all(len(parts) == 2 and all(parts) for parts in names)
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


def test_headings_are_in_order_and_tables_have_scopes(browser, pages):
    with opened(browser, pages("whole")) as (page, _):
        levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(e => Number(e.tagName[1]))")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        assert page.locator("th:not([scope])").count() == 0


def test_print_shows_what_is_folded_and_wastes_no_ink(browser, pages):
    with opened(browser, pages("whole"), scheme="dark") as (page, _):
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator("nav").first.is_hidden()
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_thousand_cells_stay_below_three_megabytes(browser, tmp_path):
    sizes = tuple(f"{number}k" for number in range(1, 51))
    lab = Lab(arms=("a", "b", "c", "d"), repeats=5, tools=("fio",), block_sizes=sizes, series_points=8)
    page_file = write_report(build_record(tmp_path / "r", lab), formats=("html",))[0]
    assert page_file.stat().st_size < 3_000_000
    with opened(browser, page_file, width=390) as (page, wrong):
        assert wrong == []
        assert page.locator("article.card").count() == 50
        assert "charts left out to keep this page small" in page.locator("#results").inner_text()
