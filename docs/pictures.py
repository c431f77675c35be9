"""Draws the pictures of docs/ again: `make pictures`.

1. architecture.svg, from architecture.dot.
2. event_time.svg, the rows, watermarks and windows of a recorded trace.
3. step.png, the picture of the README: the HTML page of a recorded trace, at the step where batch 3, which was not finished
   before a restart, is handed to the sink. It is photographed by a headless Chromium; without one it stays as it is.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from minispark_stream.trace.trace import Trace

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
TRACE = ROOT / "tests" / "golden" / "trace_windows.json"
STEP = 56  # addBatch of the batch that runs again


def main() -> None:
    subprocess.run(["dot", "-Tsvg", IMAGES / "architecture.dot", "-o", IMAGES / "architecture.svg"], check=True)
    Trace.load(TRACE).event_time().save(IMAGES / "event_time.svg")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("step.png was not drawn: it needs Chromium")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        Trace.load(TRACE).to_html(page)
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,985",
             "--force-device-scale-factor=0.8", f"--screenshot={IMAGES / 'step.png'}", f"{page.as_uri()}#{STEP}"],
            check=True, capture_output=True,
        )


if __name__ == "__main__":
    main()
