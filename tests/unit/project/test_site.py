"""The site opens from disk: all pages are there, every link leads somewhere, and nothing is loaded from anywhere else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, sync_playwright

from minispark_stream.tools.course import LESSONS
from tests.unit.browser import CHROMIUM, QUIET

ROOT = Path(__file__).parents[3]
ANSWERED = 40  # of the 50 titles, that many at least have the right page among the first three results; 43 had when this was written
QUESTIONS = 36  # of the 40 questions, that many at least have the right entry there
ADDRESS = "https://example.org/course/"
IN_THE_DARK = ("00_start_here", "06_watermark", "09_joins", "18_operations", "21_folklore")  # each kind of output
TOO_LIGHT_OR_TOO_WIDE = """() => {
  const isLight = (colour) => {
    const [r, g, b, opaque = 1] = colour.match(/[\\d.]+/g).map(Number);
    return opaque > 0.5 && 0.299 * r + 0.587 * g + 0.114 * b > 140;
  };
  const isLarge = ({ width, height }) => width * height > 2000;
  const light = [...document.querySelectorAll("article *:not(svg, svg *, img, iframe, mark, button)")].filter(
    (e) => isLarge(e.getBoundingClientRect()) && isLight(getComputedStyle(e).backgroundColor));
  const cut = innerWidth < 1000 ? [] : [...document.querySelectorAll("article table")].filter((e) => e.scrollWidth > e.parentElement.clientWidth + 1);
  const wide = document.documentElement.scrollWidth > innerWidth ? [document.documentElement] : [];
  return [...light, ...cut, ...wide].map((e) => e.outerHTML.slice(0, 200));
}"""
TOO_SMALL = """() => [...document.querySelectorAll(".cell_output svg text")].filter((e) => {
  const { b, d } = e.getScreenCTM(), size = parseFloat(getComputedStyle(e).fontSize) * Math.hypot(b, d);
  return innerWidth < 700 && e.textContent.trim() && 0 < size && size < 8;
}).map((e) => e.textContent)"""
FRAME = re.compile(r' srcdoc="[^"]*"')
LOADED = re.compile(r'<(?:img|script|iframe|source|object|embed)\b[^>]*?\s(?:src|data)="([^"]+)"|<link\b(?![^>]*"canonical")[^>]*?\shref="([^"]+)"')
LINK = re.compile(r'<a\b[^>]*?\shref="([^"]*)"')
ID = re.compile(r'\s(?:id|name)="([^"]+)"')


def test_the_site_has_every_page_leads_nowhere_wrong_and_needs_no_network(tmp_path):
    """One test, because the site takes half a minute to build."""
    pytest.importorskip("myst_nb")
    site = built(tmp_path)
    framed = {*(site / "traces").iterdir(), *site.rglob("play.html")}  # their fragment is no place in them, but a step or a case
    pages = {path: FRAME.sub("", path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path not in framed}
    assert_every_page_is_there(site)
    assert_links_lead_somewhere(pages)
    assert_pages_know_their_address(site)
    for path, text in pages.items():
        for target in (unescape(a or b) for a, b in LOADED.findall(text)):
            assert not re.match(r"\w+:|//", target) or target.startswith("data:"), f"{path} loads {target}"
            assert target.startswith("data:") or (path.parent / target.partition("?")[0].partition("#")[0]).exists(), f"{path}: {target}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet
    if CHROMIUM is not None:
        assert_nothing_is_asked_of_the_network(site)


def built(folder: Path) -> Path:
    """The site as `make site` makes it; what Sphinx warns of is an error."""
    site = folder / "site"
    words = re.search(r"-m sphinx (.*?) -d ", (ROOT / "Makefile").read_text()).group(1).split()  # type: ignore[union-attr]
    assert "-W" in words
    command = [sys.executable, "-m", "sphinx", *words, "-d", folder / "doctrees", "-b", "html", ".", site]
    subprocess.run(command, check=True, cwd=ROOT, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "SITE_URL": ADDRESS})
    shutil.rmtree(folder / "doctrees")
    return site


def assert_every_page_is_there(site: Path) -> None:
    assert "docs/index.html" in (site / "index.html").read_text()
    for source in [*(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob(LESSONS)]:
        page = (site / source.relative_to(ROOT)).with_suffix(".html").read_text(encoding="utf-8")
        steppers = source.read_text(encoding="utf-8").count("srcdoc=") if source.suffix == ".ipynb" else 0
        assert len(FRAME.findall(page)) == steppers, f"{source.name}: the steppers that it has saved are not all on its page"
    traces = re.findall(r"^```{trace} \S+/(\w+)\.", (ROOT / "docs" / "gallery.md").read_text(), re.M)
    assert len(traces) > 5
    for trace in traces:
        assert "<script>" in (site / "traces" / f"{trace}.html").read_text(encoding="utf-8")


def assert_pages_know_their_address(site: Path) -> None:
    addresses = re.findall("<loc>(.*)</loc>", (site / "sitemap.xml").read_text())
    assert len(addresses) > 35
    for address in addresses:
        assert f'<meta property="og:url" content="{address}">' in (site / address.removeprefix(ADDRESS)).read_text(encoding="utf-8")
    assert (site / "_static" / "step_phone.png").is_file()


def assert_links_lead_somewhere(pages: dict[Path, str]) -> None:
    ids = {path.resolve(): set(map(unescape, ID.findall(text))) for path, text in pages.items()}
    for path, text in pages.items():
        for target in map(unescape, LINK.findall(text)):
            if re.match(r"https://|mailto:", target):
                continue
            file, _, anchor = unquote(target).partition("#")
            there = (path.parent / file).resolve() if file else path.resolve()
            assert there.is_file(), f"{path} links to {target}"
            assert not anchor or there not in ids or anchor in ids[there], f"{path} links to {target}"


def assert_nothing_is_asked_of_the_network(site: Path) -> None:
    wrong: list[str] = []

    def look(address: str) -> None:
        if not address.startswith(("file:", "data:", "about:")):
            wrong.append(address)

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        tab = chromium.new_page(viewport={"width": 1280, "height": 800})
        tab.on("request", lambda request: look(request.url))
        tab.on("requestfailed", lambda request: wrong.append(request.url))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        for page in ("index", "docs/gallery", "notebooks/06_watermark", "minispark_stream/engine/runtime/run_batch"):
            tab.goto((site / f"{page}.html").as_uri())
            tab.wait_for_load_state("networkidle")
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{page} is wider than its window"
        tab.goto((site / "docs/index.html").as_uri())
        frame = tab.frame_locator("iframe.trace")
        before = frame.locator("output").first.inner_text()
        frame.get_by_text("forward").first.click()
        assert frame.locator("output").first.inner_text() != before
        tab.goto((site / "search.html").as_uri() + "?q=how+many+times:+exactly-once,+in+xyzzy")
        tab.locator("#search-results li", has_text="15 Exactly once").first.wait_for()
        assert_the_search_answers_questions(tab)
        assert_the_search_finds_the_entry(tab)
        for width in (1280, 390):
            dark = chromium.new_page(viewport={"width": width, "height": 844}, color_scheme="dark")
            for name in ("docs/index", "docs/gallery", "docs/symptoms", *(f"notebooks/{n}" for n in IN_THE_DARK)):
                dark.goto((site / f"{name}.html").as_uri(), wait_until="domcontentloaded")
                assert not dark.evaluate(TOO_LIGHT_OR_TOO_WIDE), f"{name}, {width} pixels wide"
                assert not dark.evaluate(TOO_SMALL), f"{name}, {width} pixels wide"
        chromium.close()
    assert not wrong


def assert_the_search_answers_questions(tab: Page) -> None:
    """The titles are what people asked, and not there to be tuned to: where a page is not found, it may lack the words of a reader."""
    titles = tomllib.loads((Path(__file__).parent / "search_titles.toml").read_text(encoding="utf-8"))["title"]
    assert len(titles) == 50
    missed = []
    for title in titles:
        results = tab.evaluate("(text) => resultsFor(text).slice(0, 3).map(({ page }) => page)", title["text"])
        if not {page.rpartition("/")[2] for page in results} & set(title["pages"]):
            missed.append((title["text"], results))
    assert len(missed) <= len(titles) - ANSWERED, missed


def assert_the_search_finds_the_entry(tab: Page) -> None:
    """Ten results at most, each with an excerpt; and among the first three an entry that answers the question."""
    text = (Path(__file__).parent / "search_questions.toml").read_text(encoding="utf-8")
    questions = tomllib.loads(text)["questions"]
    every = set(tab.evaluate("lunrSections.map(([page, anchor]) => `${page.split('/').pop()}#${anchor}`)"))
    assert len(questions) == 40 and not {entry for right in questions.values() for entry in right} - every
    found = "(text) => resultsFor(text).slice(0, 3).map(({ page, anchor }) => `${page.split('/').pop()}#${anchor}`)"
    missed = {text: results for text, right in questions.items() if not {*(results := tab.evaluate(found, text))} & {*right}}
    assert len(missed) <= len(questions) - QUESTIONS, missed
    tab.goto(tab.url.partition("?")[0] + "?q=why+does+my+window+never+come+out")
    results = tab.locator("#search-results li")
    results.first.wait_for()
    assert results.count() == 10 and all(len(text) > 40 for text in results.locator("p").all_inner_texts())
