"""Text that a terminal can print, whatever the files have in them.

    printable(a text with a bell)        ->   the text with \\x07 in its place

A file is not trusted; the values of a row have a plain form before that (engine/checkpointing/unsafe_row/plain.py).
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text`, which may be JSON, without what a terminal would obey and what cannot be written as UTF-8."""
    shown = _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    return shown.encode("utf-8", "replace").decode("utf-8")
