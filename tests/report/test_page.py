import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from chromium import chromium, program
from observations import config, flipped, make_observations
from proctor.analysis import Estimate, ParetoPoint, breakdown, compare, pareto_results, run_row
from proctor.core.errors import UsageError
from proctor.core.published_result import PublishedResult
from proctor.report.breakdown import breakdown_document
from proctor.report.charts import flips_chart, pareto_chart, render_svg
from proctor.report.comparison import RunComparison, comparison_document
from proctor.report.document import Document, document_markdown
from proctor.report.page import document_html, write_page
from proctor.report.runs import runs_document

HOSTILE = "<script>alert(1)</script>"
MARKS = {"a": "+", "b": "-", "c": "+", "d": "-"}


class ParsedPage(HTMLParser):
    """The tags, attributes and words of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    rows = [run_row(config(run_id=name), make_observations(**MARKS)) for name in ("run-001", HOSTILE)]
    published = PublishedResult(benchmark="b", agent=HOSTILE, model="m", date="2026", source="x", rate=0.5)
    comparison = compare(*flipped(2, 1, 5), names=("run-001", HOSTILE))
    groups = breakdown(HOSTILE, {"run-001": make_observations(**MARKS)}, {"a": HOSTILE, "b": "&amp;"}.get)
    return [
        runs_document("core Results", rows, (published,)),
        comparison_document(rows, [RunComparison(comparison=comparison, differences=())]),
        breakdown_document(HOSTILE, [groups]),
    ]


def test_a_page_makes_no_requests(documents: list[Document]) -> None:
    for document in documents:
        page = document_html(document)
        parsed = ParsedPage(page)
        assert not {"script", "link", "img", "iframe", "object", "image", "use", "a"} & set(parsed.tags)
        assert not [
            name for name, _ in parsed.attributes if name in {"src", "href", "xlink:href"} or name.startswith("on")
        ]
        assert not re.findall(r"url\(|@import|@font-face", page)
        assert "default-src 'none'" in page
        assert "svg" in parsed.tags


def test_names_are_escaped(documents: list[Document]) -> None:
    for document in documents:
        page = document_html(document)
        assert HOSTILE not in page
        assert HOSTILE in ParsedPage(page).words
        assert HOSTILE not in document_markdown(document)


def test_charts_take_their_colours_from_the_page(documents: list[Document]) -> None:
    page = document_html(documents[0])
    used = set(re.findall(r"var\((--\w+)\)", page))
    light, dark = re.findall(r":root \{([^}]*)\}", page)
    assert used <= set(re.findall(r"(--\w+):", light))
    assert set(re.findall(r"(--\w+):", light)) == set(re.findall(r"(--\w+):", dark))
    drawn = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawn) == 3
    assert not [colour for one in drawn for colour in re.findall(r'(?:fill|stroke)="(#[^"]*|black|white)"', one)]


def test_every_table_is_in_the_page(documents: list[Document]) -> None:
    words = ParsedPage(document_html(documents[0])).words
    assert "2/4" in words
    assert "Published result" in words
    assert "tests failed" in words


def test_a_chart_shows_its_data() -> None:
    picture = render_svg(flips_chart([compare(*flipped(7, 3, 5), names=("old", "new"))]))
    assert [words for words in re.findall(r'aria-label="([^"]*)"', picture) if "flip: " in words] == [
        "tasks lost and gained compared with old: +7; run: new; flip: gained",
        "tasks lost and gained compared with old: \N{MINUS SIGN}3; run: new; flip: lost",
    ]


def crowded(runs: int) -> str:
    """A chart of runs of which most cost about the same and resolve about as much."""

    def point(number: int) -> ParetoPoint:
        rate, cost = 0.5 + 0.004 * (number % 5), 1.0 + 0.003 * number
        if number >= runs - 3:
            rate, cost = 0.55 + 0.1 * (number - runs + 3), 1.02 + 0.4 * (number - runs + 3)
        interval = Estimate(value=rate, low=rate - 0.1, high=rate + 0.1)
        return ParetoPoint(run=f"a-run-with-a-name-{number:02}", rate=interval, cost=Estimate(value=cost), seconds=None)

    points = [point(number) for number in range(runs)]
    return render_svg(pareto_chart(pareto_results(points, {}, objectives=("rate", "cost"))))


def test_of_many_runs_those_on_the_frontier_have_labels_first() -> None:
    picture = crowded(14)
    named = set(re.findall(r">a-run-with-a-name-(\d\d)</text>", picture))
    assert {"11", "12", "13"} <= named
    assert len(named) < 14  # there is no space for all
    few = set(re.findall(r">a-run-with-a-name-(\d\d)</text>", crowded(5)))
    assert few == {"00", "01", "02", "03", "04"}


def test_without_the_rendering_library_a_page_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, documents: list[Document]
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError, match=r"pip install 'proctor\[charts\]'"):
        write_page(documents[0], tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, documents: list[Document]) -> None:
    write_page(documents[0], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().endswith("</html>\n")
    with pytest.raises(Exception, match="the page cannot be written"):
        write_page(documents[0], tmp_path / "missing" / "page.html")


def test_without_graded_trials_there_is_still_a_page() -> None:
    rows = [run_row(config(), make_observations(a="e"))]
    assert "0/0" in document_html(runs_document("x", rows))
    several = [msgspec.structs.replace(rows[0], run_id=f"run-{n}") for n in range(9)]
    assert "error: provider\\_error" in document_markdown(runs_document("x", several))


OVERLAPS = """
(() => {
  const texts = [...document.querySelectorAll('svg text')];
  const boxes = texts.filter(one => one.textContent.trim() && one.checkVisibility())
    .map(one => [one.textContent, one.getBoundingClientRect()]).filter(([_, box]) => box.width > 0);
  const found = [];
  boxes.forEach(([a, one], i) => boxes.slice(i + 1).forEach(([b, other]) => {
    const apart = one.left >= other.right - 1 || other.left >= one.right - 1;
    if (!apart && one.top < other.bottom - 1 && other.top < one.bottom - 1) found.push(a + ' / ' + b);
  }));
  return [boxes.length, found];
})()
"""


async def test_labels_in_charts_do_not_overlap(tmp_path: Path) -> None:
    if program() is None:
        pytest.skip("there is no chromium on this machine")
    async with chromium() as browser:
        page = await browser.page()
        await page.looks(width=900, height=700)
        many = render_svg(flips_chart([compare(*flipped(500, 200), names=("old", "new"), resamples=1)]))
        for number, picture in enumerate([crowded(5), crowded(14), crowded(40), many]):
            (file := tmp_path / f"{number}.html").write_text(f"<!doctype html><meta charset=utf-8>{picture}")
            await page.go(file.as_uri())
            count, overlapping = await page.value(OVERLAPS)
            assert count > 5
            assert overlapping == [], number


async def test_a_page_fits_a_phone_the_dark_and_paper(tmp_path: Path) -> None:
    if program() is None:
        pytest.skip("there is no chromium on this machine")
    long = compare(*flipped(40, 10, 50), names=("run-001", "run-002"))
    rows = [run_row(config(run_id=name), make_observations(**MARKS)) for name in ("run-001", "run-002")]
    file = tmp_path / "page.html"
    write_page(comparison_document(rows, [RunComparison(comparison=long, differences=())]), file)
    background = "getComputedStyle(document.body).backgroundColor"
    line = "getComputedStyle(document.querySelector('svg .mark-rule line[stroke-width=\\'2\\']')).stroke"
    row_is_visible = (
        "[...document.querySelectorAll('td')].filter(cell => cell.textContent == 'g7')[0].checkVisibility()"
    )
    async with chromium() as browser:
        page = await browser.page()
        colours = {}
        for dark in (False, True):
            await page.looks(width=360, height=740, dark=dark)
            await page.go(file.as_uri())
            assert await page.value("document.documentElement.scrollWidth") <= 360
            assert await page.value("document.querySelector('svg').getBoundingClientRect().width") <= 360
            colours[dark] = await page.value(background), await page.value(line)
        assert colours == {
            False: ("rgb(255, 255, 255)", "rgb(13, 116, 206)"),
            True: ("rgb(17, 19, 21)", "rgb(112, 184, 255)"),
        }
        assert await page.value(row_is_visible) is False  # folded away
        await page.call("Emulation.setEmulatedMedia", media="print")
        assert await page.value(background) == "rgb(255, 255, 255)"
        assert await page.value(row_is_visible) is True
        assert (set(page.asked), page.troubles) == ({file.as_uri()}, [])
