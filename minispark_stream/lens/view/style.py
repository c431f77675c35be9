"""The look of every page: one style sheet, and the table and the card that it is made for.

The page of a trace, the stepper and the page of a checkpoint share it. What is put into a table or a card is already HTML, so a
user's values must be escaped before.

    table(("batch", "rows"), [(" class='new'", ("2", "7"))])    -> <table>... <tr class='new'><td>2</td><td>7</td></tr> ...

Style sheets, scripts and pages are files of their own, beside the modules that read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from minispark_stream.lens.view.words import plain


def file_beside(module: str, name: str) -> str:
    """A file of the package, without the comment at its top, which is for readers of the source.

    Args:
        module: `__file__` of the module beside which the file is.
        name: the name of the file.
    """
    text = Path(module).with_name(name).read_text(encoding="utf-8")
    return re.sub(r"\A(/\*.*?\*/|<!--.*?-->)\s*", "", text, flags=re.DOTALL)


_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
CSS = file_beside(__file__, "style.css")


def table(head: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A table of (attributes of the row, its cells)."""
    heads = "".join(f"<th>{cell}</th>" if cell else "<td></td>" for cell in head)
    lines = "".join(f"<tr{attributes}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for attributes, cells in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def card(heading: str, body: str, look: str = "") -> str:
    """A part of a page, with a frame around it."""
    looks = f"card {look}" if look else "card"
    return f"<section class='{looks}'><h3>{heading}</h3>{body}</section>"


def say(value: Any) -> str:
    """Any value of a trace as HTML that a person can read, escaped; a date is not broken at its hyphens."""
    return _DATE.sub(r"<span class='whole'>\g<0></span>", escape(plain(value)))


def breakable(name: str) -> str:
    """A name or a path as HTML, escaped: it may be broken after its dots, slashes and brackets."""
    return re.sub(r"(?<=[./\[,])(?=.)", "<wbr>", escape(name))
