"""A headless Chromium for the tests of pages: one for each module of tests, which are skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
AXE_OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


def opened(
    browser: Browser, html: str, folder: Path, *, width: int = 1280, height: int = 720, dark: bool = False, at: int = 1
) -> Page:
    """A page, opened from a file as its user opens it; what goes wrong in its script fails the test."""
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    page.set_default_timeout(10_000)

    def fail(error: object) -> None:
        raise AssertionError(error)

    page.on("pageerror", fail)
    page.on("dialog", fail)
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:", "about:")) else fail(request.url))
    page.goto(f"{file.as_uri()}#{at}")
    return page


def violations(page: Page) -> list[str]:
    """What axe finds wrong for those who do not see the page, or see little of it."""
    from axe_playwright_python.sync_playwright import Axe

    # It cannot tell on what the words in an SVG stand; test_pictures.py looks at the colours of the pictures.
    found = Axe().run(page, context={"exclude": [[".picture svg"]]}, options=AXE_OPTIONS).response["violations"]
    return [f"{v['id']}: {v['help']}: {[n['html'][:140] for n in v['nodes'][:4]]}" for v in found]
