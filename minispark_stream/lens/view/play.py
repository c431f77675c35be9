"""A page to play with: rows to drag between files, sliders for delay and windows, a crash, and the picture follows at once.

It needs neither a kernel nor a network. The rules are a few lines of JavaScript (play_rules.js): what windows, deduplication,
joins and sessions do with their rows, batch by batch. play.js draws the picture.

    play_page("windows;delay=10;size=5;rows=a12:02|a12:21|a12:04")    the page, which begins with this case

A case is a text: the operator, its knobs, and the rows of each file. It is also the fragment of the page's address, so that a
link carries the case. For any other query, use `what_if`, which runs the query itself.
"""

from __future__ import annotations

from html import escape
from string import Template

from minispark_stream.lens.view.style import CSS, file_beside


def play_page(case: str = "windows") -> str:
    """The whole file. What the case does not say is as in the example of its operator."""
    return Template(file_beside(__file__, "play.html")).substitute(
        case=escape(case), css=CSS + file_beside(__file__, "play.css"),
        script="".join(file_beside(__file__, name) for name in ("play_rules.js", "play_case.js", "play.js")),
    )
