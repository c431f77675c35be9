"""Draws the pictures of docs/ again: `make pictures`.

1. architecture.svg and who_holds_what.svg, each from its .dot.
2. event_time.svg, the rows, watermarks and windows of a recorded trace.
3. flights.svg, join.svg and sessions.svg, as notebooks of the course have them.
4. step_dark.png and step_phone.png: the HTML page of a recorded trace in the dark and on a phone. They are photographed in a
   headless Chromium; without one they stay as they are.
5. tour.webp, the moving picture of the README (tour.py), in the same way.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import sync_playwright

from docs.tour import make_tour
from minispark_stream.lens.trace.trace import Trace

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TRACE = ROOT / "tests" / "golden" / "trace_windows.json"
OF_NOTEBOOKS = (  # file, notebook, the cell whose picture it is
    ("flights.svg", "06_watermark.ipynb", "flights.model.trace.event_time()"),
    ("join.svg", "09_joins.ipynb", "comparison.model.trace.join()"),
    ("sessions.svg", "10_sessions.ipynb", "comparison.model.trace.sessions()"),
)
LATE_ROW = 74  # stateOperator of a batch with a late row
PHOTOGRAPHS = (("step_dark.png", 1280, 720, True), ("step_phone.png", 390, 844, False))  # file, width, height, dark


def main() -> None:
    for name in ("architecture", "who_holds_what"):
        subprocess.run(["dot", "-Tsvg", IMAGES / f"{name}.dot", "-o", IMAGES / f"{name}.svg"], check=True)
    Trace.load(TRACE).event_time().save(IMAGES / "event_time.svg")
    for name, notebook, source in OF_NOTEBOOKS:
        cells = nbformat.read(ROOT / "notebooks" / notebook, as_version=4).cells
        (cell,) = (cell for cell in cells if cell.source == source)
        (IMAGES / name).write_text(cell.outputs[0].data["image/svg+xml"], encoding="utf-8")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("the page was not photographed: it needs Chromium")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Trace.load(TRACE).to_html(Path(folder) / "page.html")
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        for name, width, height, dark in PHOTOGRAPHS:
            tab = chromium.new_page(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
            tab.goto(f"{page.as_uri()}#{LATE_ROW}")
            tab.screenshot(path=IMAGES / name)
            Image.open(IMAGES / name).quantize(200).save(IMAGES / name, optimize=True)  # half the size
        make_tour(chromium)
        chromium.close()


if __name__ == "__main__":
    main()
