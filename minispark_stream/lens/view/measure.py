"""How wide words are in a picture, how they become lines, and which times are round.

    wrapped("a delta has only the changes", 60.0, 9)     -> ["a delta has", "only the", "changes"]
    clipped("offsets/1204", 40.0, 9)                     -> "offsets…"
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from minispark_stream.lens.view.words import time_words

FONT = "DejaVu Sans"
STEPS_MS = [s * 1000 for s in (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 2 * 86_400, 7 * 86_400, 30 * 86_400,
    365 * 86_400, 3650 * 86_400,
)]


@contextmanager
def settings() -> Iterator[None]:
    """The settings of matplotlib that the pictures need."""
    import matplotlib

    chosen: Any = {
        "svg.hashsalt": "minispark_stream", "svg.fonttype": "none", "font.family": [FONT],
        "axes.spines.top": False, "axes.spines.right": False,
    }
    with matplotlib.rc_context(chosen), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)  # a browser has other fonts
        yield


@lru_cache(maxsize=4096)
def text_width(words: str, size: float, bold: bool = False) -> float:
    """The width of a line in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(family=FONT, size=size, weight="bold" if bold else "normal")
    with settings():
        width, _, _ = TextToPath().get_text_width_height_descent(printable(words), font, ismath=False)
    return float(width)


def printable(words: str) -> str:
    """Words on one line, and without characters that are not allowed in SVG."""
    return "".join(c if c.isprintable() else " " for c in words)


def clipped(words: str, width: float, size: float) -> str:
    """As much of a line as fits."""
    if text_width(words, size) <= width:
        return words
    for end in range(len(words) - 1, 0, -1):
        if text_width(words[:end] + "…", size) <= width:
            return words[:end] + "…"
    return ""


def wrapped(words: str, width: float, size: float, bold: bool = False) -> list[str]:
    """A paragraph as lines. A word that is longer than a line goes on in the next one."""
    lines = [""]
    for word in words.split():
        if lines[-1] and text_width(f"{lines[-1]} {word}", size, bold) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
        while text_width(line := lines[-1], size, bold) > width:
            end = next(end for end in range(len(line) - 1, 0, -1) if end == 1 or text_width(line[:end], size, bold) <= width)
            lines[-1:] = line[:end], line[end:]
    return lines


def round_times(low: float, high: float, most: int = 10) -> tuple[list[float], list[str]]:
    """At most `most` round times, and how they are written: with the date if the day has changed."""
    step = next((s for s in STEPS_MS if (high - low) / s <= most), (high - low) / 8)
    first = -(-low // step) * step
    at = [first + i * step for i in range(int((high - first) // step) + 1)]
    labels, day = [], ""
    for ms in at:
        date, _, clock = time_words(ms or 1).partition(" ")
        clock = clock.removesuffix(":00")
        labels.append(clock if date == day or not clock else f"{date}\n{clock}")
        day = date
    return at, labels
