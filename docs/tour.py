"""Makes the tour of the README, images/tour.webp: ninety seconds of a recorded trace, a line to each picture (`make pictures`).

The page of the trace is shown in a headless Chromium, step after step, and photographed; Pillow puts the photographs together.
"""

from __future__ import annotations

import io
import tempfile
from html import escape
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from minispark_stream.lens.trace.trace import Trace

ROOT = Path(__file__).parents[1]
TRACE = ROOT / "tests" / "golden" / "trace_windows.json"
TOUR = ROOT / "docs" / "images" / "tour.webp"
WIDTH, HEIGHT = 1280, 780  # pixels
SCENES = (  # number of the step, seconds, words
    (1, 5, "A streaming count: how many rows in each five minutes? Late rows are waited for, ten minutes long."),
    (4, 4, "Batch 0. What is new? A file with two rows."),
    (6, 4, "Before anything is read, it is written down what will be read: offsets/0."),
    (8, 4, "The source gives a plan for the rows of this batch. Nothing is read yet."),
    (10, 4, "Only now does Spark run a job: the sink has asked for rows."),
    (11, 4, "The counts go into the state, version 1. No window is final, so nothing comes out."),
    (13, 4, "The newest row is of 12:07. Less ten minutes: the watermark will be 11:57, from the next batch on."),
    (14, 4, "Done, says the commit log: commits/0."),
    (27, 4, "Batch 1 brings a row of 12:14, and the watermark moves to 12:04."),
    (36, 4, "Batch 2 has a row of 12:04. It is behind, but not too late: its window is still open."),
    (39, 4, "So it is counted, and the state goes from version 2 to version 3."),
    (47, 4, "Batch 3 is planned and written down ..."),
    (52, 5, "... and fails in the sink: no space left on the device. The query ends."),
    (54, 5, "After the restart, two logs are compared. Offsets: 3. Commits: 2. So batch 3 is run again."),
    (57, 4, "The very same rows, because the offsets were written down."),
    (60, 5, "The watermark has passed 12:10, so two windows are final: they leave the state, in version 4."),
    (61, 4, "Their counts come out, once and for all, as if nothing had happened."),
    (63, 3, "commits/3: now the batch is done."),
    (74, 5, "Batch 4 has a row of 12:05. Its window ended at 12:10, and that is past: the row is dropped."),
    (87, 5, "A batch without data: the watermark has moved, so there may be windows to emit."),
    (91, 5, "Every step of every batch, of this engine and of real Spark: forward, back, and into the code."),
)
FRAME = """<!doctype html><meta charset="utf-8"><style>
body { margin: 0; display: flex; flex-direction: column; height: 100vh }
iframe { flex: 1; border: 0 }
p { display: flex; align-items: center; margin: 0; padding: 0 20px; height: 60px }
p { font: 600 20px/30px sans-serif; color: #fff; background: #1d2733 }
</style>"""


def make_tour(chromium: Browser) -> None:
    """Writes the tour."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace.load(TRACE).to_html(Path(folder) / "trace.html")
        pictures = [photograph(chromium, trace, step, words) for step, _, words in SCENES]
    times = [round(1000 * seconds) for _, seconds, _ in SCENES]
    pictures[0].save(TOUR, save_all=True, append_images=pictures[1:], duration=times, loop=0, quality=70)


def photograph(chromium: Browser, trace: Path, step: int, words: str) -> Image.Image:
    frame = trace.with_name("frame.html")
    frame.write_text(f'{FRAME}<iframe src="{trace.name}#{step}"></iframe><p>{escape(words)}</p>', encoding="utf-8")
    tab = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce")
    tab.goto(frame.as_uri())
    picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    tab.close()
    return picture
