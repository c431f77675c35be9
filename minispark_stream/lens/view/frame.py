"""A page in a cell of a notebook: a frame that may run its script and nothing else, and needs neither a kernel nor a network.

So it also works in a saved notebook, and on a page that nbconvert has made from one.
"""

from __future__ import annotations

from html import escape

HEIGHT = "min(720px, 80vh)"  # four fifths of a small window, so that all of it can be seen at once


def frame(page: str, title: str) -> str:
    """The HTML of a frame that contains this page."""
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts" allow="fullscreen" srcdoc="{escape(page, quote=True)}" '
        f'style="width:100%;height:{HEIGHT};border:0;border-radius:10px"></iframe>'
    )
