"""Draws the pictures of docs/ again: `make pictures`.

1. architecture.svg and who_holds_what.svg, each from its .dot.
2. event_time.svg, the rows, watermarks and windows of a recorded trace.
3. flights.svg, join.svg and sessions.svg, as notebooks of the course have them.
4. two_clocks.svg, the flights of one day: when each left and when it should have left, and the watermark.
5. growth.svg, the time of each of 1,000 batches from files to files, as bench_growth measured it (growth.json).
6. step_dark.png and step_phone.png: the HTML page of a recorded trace in the dark and on a phone. They are photographed in a
   headless Chromium; without one they stay as they are.
7. live.png, what `live` shows at the end of a query, as a notebook of the course has it, in the same way.
8. tour.webp, the moving picture of the README (tour.py), in the same way.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from datetime import date, timedelta
from itertools import accumulate
from pathlib import Path
from statistics import quantiles

import matplotlib.dates as mdates
import nbformat
from matplotlib.figure import Figure
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from docs.tour import make_tour
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.measure import settings
from minispark_stream.lens.view.sheet import CELL, INK, legend_above, svg_of
from minispark_stream.tools.flights import read_departures

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TRACE = ROOT / "tests" / "golden" / "trace_windows.json"
OF_NOTEBOOKS = (  # file, notebook, what is in the code of the cell whose first output it is
    ("flights.svg", "06_watermark.ipynb", "flights.model.trace.event_time()"),
    ("join.svg", "09_joins.ipynb", "comparison.model.trace.join()"),
    ("sessions.svg", "10_sessions.ipynb", "comparison.model.trace.sessions()"),
)
LIVE = ("live.png", "18_operations.ipynb", "live(query, every_s=0.3)")  # the same
LATE_ROW = 74  # stateOperator of a batch with a late row
PHOTOGRAPHS = (("step_dark.png", 1280, 720, True), ("step_phone.png", 390, 844, False))  # file, width, height, dark


def main() -> None:
    for name in ("architecture", "who_holds_what"):
        subprocess.run(["dot", "-Tsvg", IMAGES / f"{name}.dot", "-o", IMAGES / f"{name}.svg"], check=True)
    Trace.load(TRACE).event_time().save(IMAGES / "event_time.svg")
    for name, notebook, source in OF_NOTEBOOKS:
        (IMAGES / name).write_text(shown(notebook, source)["image/svg+xml"], encoding="utf-8")
    two_clocks(IMAGES / "two_clocks.svg")
    growth(IMAGES / "growth.svg")
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
            photograph(tab, IMAGES / name)
        name, notebook, source = LIVE
        tab = chromium.new_page(viewport={"width": 1160, "height": 100})
        tab.set_content(shown(notebook, source)["text/html"])
        photograph(tab, IMAGES / name, full_page=True)
        make_tour(chromium)
        chromium.close()


def shown(notebook: str, source: str) -> dict[str, str]:
    """What the cell of a notebook with this in its code has saved first, by MIME type."""
    cells = nbformat.read(ROOT / "notebooks" / notebook, as_version=4).cells
    (cell,) = (cell for cell in cells if cell.cell_type == "code" and source in cell.source)
    return dict(cell.outputs[0].data)


def photograph(tab: Page, file: Path, full_page: bool = False) -> None:
    tab.screenshot(path=file, full_page=full_page)
    Image.open(file).quantize(200).save(file, optimize=True)  # half the size


def growth(file: Path, compacts_every: int = 10) -> None:
    """The time of each batch of a long run, on both engines, and apart from the others those that compact the logs."""
    measured = json.loads((ROOT / "docs" / "growth.json").read_text(encoding="utf-8"))
    with settings():
        figure = Figure(figsize=(8.5, 3.8), layout="constrained")
        both = figure.subplots(1, 2, sharey=True)
        for ax, (engine, title) in zip(both, (("spark", "Spark"), ("model", "the model"))):
            ms = measured[engine]["ms"]
            kinds = ((False, "#9fb4c7", "a batch"), (True, "#c62828", "a batch that compacts the logs"))
            for is_compact, colour, label in kinds:
                batches = [b for b in range(len(ms)) if ((b + 1) % compacts_every == 0) == is_compact]
                ax.scatter(batches, [ms[b] for b in batches], s=4, color=colour, label=label, rasterized=True)
            ax.set_title(title, fontsize=10, loc="left", color=INK)
            ax.set_xlabel("batch", fontsize=9)
            ax.set_ylim(0, 1.6 * quantiles(measured["spark"]["ms"], n=50)[-1])  # the first batches of a session are off the top
        both[0].set_ylabel("ms", fontsize=9)
        legend_above(figure, both[0].get_legend_handles_labels()[0], CELL)
    file.write_text(svg_of(figure, {}, "growth"), encoding="utf-8")


def two_clocks(file: Path, delay: timedelta = timedelta(hours=1)) -> None:
    """Event time against arrival: rows without any delay would lie on the diagonal."""
    flights = read_departures(date(2013, 1, 9))
    arrival, event = [f.departed for f in flights], [f.scheduled for f in flights]
    watermark = [newest - delay for newest in accumulate(event, max)]
    ends = [e.replace(minute=0) + timedelta(hours=1) for e in event]  # of the windows of one hour in which the flights are
    late = [i for i in range(1, len(flights)) if ends[i] <= watermark[i - 1]]
    on_time = sorted(set(range(len(flights))) - set(late))
    with settings():
        figure = Figure(figsize=(8.5, 5.2), layout="constrained")
        ax = figure.subplots()
        xs, stair = mdates.date2num(arrival), mdates.date2num(watermark)
        ax.plot(xs, xs, color=INK, linewidth=1, linestyle=":", label="no delay at all: the two clocks agree")
        label = "watermark: the newest event time so far, less one hour"
        ax.plot(xs, stair, color="#c62828", linewidth=2, drawstyle="steps-post", label=label)
        too_late = "a flight whose hour had ended by the watermark: dropped as late"
        for which, marker, colour, size, label in (
            (on_time, "o", "#245482", 7, "a flight"), (late, "X", "#c62828", 40, too_late),
        ):
            xs, ys = (mdates.date2num([times[i] for i in which]) for times in (arrival, event))
            ax.scatter(xs, ys, s=size, marker=marker, color=colour, linewidth=0, label=label, zorder=3)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(mdates.HourLocator(byhour=range(0, 24, 6)))
            axis.set_major_formatter(mdates.DateFormatter("%d Jan %H:%M"))
        ax.set_xlabel("arrival: when it left (UTC)")
        ax.set_ylabel("event time: when it should have left (UTC)")
        legend_above(figure, ax.get_legend_handles_labels()[0], CELL)
    file.write_text(svg_of(figure, {}, "two-clocks"), encoding="utf-8")


if __name__ == "__main__":
    main()
