"""A page to play with: rows to drag between files, sliders for delay and windows, a crash, and the picture follows at once.

It needs neither a kernel nor a network. The rules are a few lines of JavaScript (play_rules.js): what windows, deduplication,
joins and sessions do with their rows, batch by batch. play_picture.js draws the picture.

    play("windows")              in a notebook: the page, which begins with the example of this operator
    play("windows;delay=10;size=5;rows=a12:02|a12:21|a12:04")      and with this case (play_case.js)
    trace.play()                 and with the rows and the knobs of a recorded query (played.py)
    python -m minispark_stream play        in the browser

A case is a text: the operator, its knobs, and the rows of each file. It is also the fragment of the page's address, so that a
link carries the case. For any other query, use `what_if`, which runs the query itself.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from minispark_stream.lens.view.frame import frame
from minispark_stream.lens.view.style import CSS, file_beside

TITLE = "Which rows come out, and when?"
OPERATORS = ("windows", "dedup", "join", "sessions")
SCRIPTS = (
    "play_rules.js", "durations.js", "play_case.js", "play.js", "player.js", "play_time.js", "play_picture.js", "play_begin.js",
)


class Play:
    """The page with one case, which a notebook shows in the cell. `case` is its text.

    Args:
        case: what the page begins with. What it does not say is as in the example of its operator.
        more: of a recorded query, the facts that the page compares with what it comes to (played.py), and a note; or "cards",
            questions of which each has a case (docs/cards.py).
        title: the heading of the page.
    """

    def __init__(self, case: str, more: dict[str, Any] | None = None, title: str = TITLE):
        self.case, self.title = case, title
        self._given = {"case": case, **(more or {})}

    def to_html(self, path: str | Path) -> Path:
        """Write one file that opens in any browser. Returns the path."""
        Path(path).write_text(self.page(), encoding="utf-8")
        return Path(path)

    def page(self) -> str:
        """The whole file."""
        return Template(file_beside(__file__, "play.html")).substitute(
            title=escape(self.title), css=CSS + file_beside(__file__, "play.css"),
            given=json.dumps(self._given, ensure_ascii=False).replace("<", "\\u003c"),
            script="".join(file_beside(__file__, name) for name in SCRIPTS),
        )

    def _repr_html_(self) -> str:
        return frame(self.page(), self.title)

    def __repr__(self) -> str:
        return f"play({self.case!r})"


def play(case: str = "windows") -> Play:
    """The page to play with, for Jupyter: rows to drag, sliders, a crash. It needs neither a kernel nor a network.

    Args:
        case: an operator ("windows", "dedup", "join" or "sessions"), or a case as the page's button "copy case" copies it. For
            the rows of a query of yours, use `trace.play()`.

    Raises:
        ValueError: the case begins with another word.
    """
    if not isinstance(case, str) or case.split(";")[0] not in OPERATORS:
        begins = f"a case begins with one of {', '.join(OPERATORS)}, not {case!r}"
        raise ValueError(f"{begins}; trace.play() plays the rows of a query")
    return Play(case)
