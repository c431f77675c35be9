"""The command `play`: the page to play with, in the browser. Neither Spark nor a network is needed.

    python -m minispark_stream play                       opens the example of windows
    python -m minispark_stream play "join;delay=5"        opens this case
    python -m minispark_stream play sessions --out p.html writes the page, for a machine without a browser
"""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from pathlib import Path

from minispark_stream.lens.view.play import play


def open_play(case: str, out: Path | None = None) -> int:
    """Write the page, and open it unless `out` says where to write it. Returns the exit code."""
    try:
        page = play(case)
        file = page.to_html(out or Path(tempfile.gettempdir()) / "minispark_stream_play.html")
    except (ValueError, OSError) as e:
        print(f"play: {e}", file=sys.stderr)
        return 1
    opened = out is None and webbrowser.open(file.resolve().as_uri())
    print(f"{'opened' if opened else 'open in a browser'}: {file}")
    return 0
