"""A sheet of paper for the pictures: boxes, lines and words at given places, drawn by matplotlib.

1. Every sheet begins with its title, its caption and its legend. One point is one unit; x goes to the right and y down.
2. The width of a sheet is given, and its height is that of its content. Where there is less room, a sheet keeps its size and is
   scrolled sideways, under the names at its left (pictures.js). No line of a sentence is wider than `READ`: a phone shows it.
3. The sheet becomes SVG, in which text stays text. Its ids are the same in every run, and it has no date.
4. A thing with a tooltip gets an id when it is drawn, and afterwards a `<title>` under this id, which browsers show.
5. What a picture shows of a batch has a cover, which is hidden. A page that goes from step to step shows the covers of the
   batches that are still to come.

    sheet = Sheet("logs", 400, "The logs", "An entry above without one below is a batch that has to run again.")
    sheet.box(10, sheet.top, 80, 20, "offsets/0", NEW, tip="...")
    sheet.svg()
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from minispark_stream.lens.view.words import time_words

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"
INK, GREY, PALE = "#1d2733", "#5b6875", "#d9dfe5"
COVER = "-cover-"  # before the number of a batch, in the id of what hides it
FONT = "DejaVu Sans"
POINTS = 72  # to an inch
MARGIN, ROUND = 14.0, 2.5
READ = 250.0  # the width that a phone shows of a sheet, without the margin
CELL = 612.0  # the width that a cell of JupyterLab shows of it, on a laptop
STEPS_MS = [s * 1000 for s in (
    1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 2 * 86_400, 7 * 86_400, 30 * 86_400,
    365 * 86_400, 3650 * 86_400,
)]


@dataclass(frozen=True)
class Look:
    """The colours of a box and of the words on it, and the style of its frame."""

    fill: str
    edge: str
    ink: str = INK
    dashed: bool = False
    thick: bool = False


NEW = Look("#cfe3f5", "#4a7fb5")  # the same things have the same colours in all pictures
HELD = Look("#eef3f8", "#9fb4c7")
OUT = Look("#cfe8d5", "#2d6e42")
GONE = Look("#f4f5f7", "#aab2bb", "#5f6872", dashed=True)
MARKED = Look("#ffe6a8", "#8a5600", thick=True)
WRONG = Look("#fbdad7", "#c62828", "#8e1b1b")
VIOLET = Look("#e6ddf3", "#6a3fa0")


# An entry of the legend: a box or a line of this colour, what it means, and whether the picture contains one.
Shown = tuple[Look | str, str, bool]
Stays = tuple[float, float, float]  # what is left of x, between two heights, stays in view while a picture is scrolled sideways


class Sheet:
    """A picture that is being drawn. `top`: where the next thing goes; `kind`: its class, with which ids of tooltips begin."""

    def __init__(self, kind: str, width: float, title: str, caption: str, legend: Sequence[Shown] = ()):
        from matplotlib.figure import Figure

        self.kind, self.width, self.top, self._tips = kind, max(width, READ + 2 * MARGIN), MARGIN, dict[str, str]()
        self.stays: Stays | None = None
        with settings():
            self._figure = Figure()
            self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.axis("off")
        self._paragraph(title, 14, bold=True)  # (1)
        self.top += 6
        self._paragraph(caption, 10, ink=GREY)
        self._legend(legend)

    def _legend(self, legend: Sequence[Shown]) -> None:
        x, entries = MARGIN, [(look, says) for look, says, is_there in legend if is_there]
        self.top += 4
        for look, says in entries:
            lines = wrapped(says, READ - 21, 9)
            wide = 21 + max(text_width(line, 9) for line in lines)
            if x > MARGIN and x + wide > MARGIN + READ:
                x, self.top = MARGIN, self.top + 17
            if isinstance(look, Look):
                self.box(x, self.top + 2, 16, 11, "", look)
            else:
                self.line([x, x + 16], [self.top + 7.5] * 2, look, 2)
            for number, line in enumerate(lines):
                self.words(x + 21, self.top + 7.5 + 13 * number, line, size=9)
            self.top += 13 * (len(lines) - 1)
            x += wide + 21
        self.top += (20 if entries else 0) + 10

    def _paragraph(self, words: str, size: float, *, ink: str = INK, bold: bool = False) -> None:
        for line in wrapped(words, READ, size, bold):  # (2)
            self.words(MARGIN, self.top + 0.6 * size, line, size=size, ink=ink, bold=bold)
            self.top += size + 4

    # -- what can be drawn on it ------------------------------------------------------------------------------

    def words(
        self, x: float, y: float, words: str, *, size: float = 9, ink: str = INK, align: str = "left", bold: bool = False
    ) -> None:
        """One line of text, whose middle is at height `y`; `align` says which end of it is at `x`."""
        self._axes.text(
            x, y, printable(words), fontsize=size, color=ink, ha=align, va="center_baseline", parse_math=False, zorder=8,
            fontweight="bold" if bold else "normal",
        )

    def box(
        self, x: float, y: float, width: float, height: float, words: str | Sequence[str], look: Look, *, tip: str = "",
        size: float = 9,
    ) -> None:
        """A box with its upper left corner at (x, y), and lines in it. Too long a line is clipped, and is in the tooltip."""
        from matplotlib.patches import FancyBboxPatch

        lines = [words] if isinstance(words, str) else words
        fitting = [clipped(line, width - 6, size) for line in lines]
        patch = FancyBboxPatch(
            (x + ROUND, y + ROUND), width - 2 * ROUND, height - 2 * ROUND, facecolor=look.fill, edgecolor=look.edge,
            boxstyle=f"round,pad={ROUND}", linewidth=1.8 if look.thick else 0.9, linestyle="--" if look.dashed else "-",
            zorder=4,
        )
        self._axes.add_patch(patch)
        patch.set_gid(self._tip(tip or ("\n".join(lines) if fitting != list(lines) else "")))
        first = y + height / 2 - (len(lines) - 1) * (size + 2) / 2
        for number, line in enumerate(fitting):
            self.words(x + width / 2, first + number * (size + 2), line, size=size, ink=look.ink, align="center")

    def line(
        self, xs: Sequence[float], ys: Sequence[float], colour: str, width: float = 1.0, *, tip: str = "", layer: int = 3,
        ends: str = "",
    ) -> None:
        """A line through points; `ends` is a matplotlib marker for each of its points."""
        (drawn,) = self._axes.plot(
            xs, ys, color=colour, linewidth=width, zorder=layer, solid_capstyle="butt", marker=ends or None, markersize=5,
        )
        drawn.set_gid(self._tip(tip))

    def cover(self, batch_id: int, x: float, y: float, width: float, height: float) -> None:
        """What hides a place of a batch until the batch has happened."""
        from matplotlib.patches import Rectangle

        gid = f"{self.kind}-{x:.0f}-{y:.0f}{COVER}{batch_id}"
        self._axes.add_patch(Rectangle((x, y), width, height, facecolor="white", edgecolor="none", zorder=9, gid=gid))

    def arrow(self, start: tuple[float, float], end: tuple[float, float], colour: str = GREY) -> None:
        self._axes.annotate(
            "", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0},
            zorder=5,
        )

    def mark(self, x: float, y: float, kind: str, colour: str, *, size: float = 34, tip: str = "") -> None:
        """A dot, or another marker of matplotlib's."""
        self._axes.scatter(
            [x], [y], s=size, marker=kind, facecolor=colour, edgecolor="white", linewidth=0.8, zorder=7, gid=self._tip(tip)
        )

    def heading(self, words: str) -> None:
        """A line above a part of the picture."""
        self._paragraph(words, 11, bold=True)
        self.top += 7

    def note(self, words: str) -> None:
        """A sentence below everything else, which says what is left out."""
        self.top += 2
        self._paragraph(words, 9, ink=GREY)

    def _tip(self, tip: str) -> str | None:
        if not tip:
            return None
        name = f"{self.kind}-{len(self._tips)}"
        self._tips[name] = tip
        return name

    # -- what becomes of it --------------------------------------------------------------------------------

    def svg(self) -> str:
        """The sheet as SVG."""
        height = self.top + MARGIN  # (2)
        self._figure.set_size_inches(self.width / POINTS, height / POINTS)
        self._axes.set_xlim(0, self.width)
        self._axes.set_ylim(height, 0)
        return svg_of(self._figure, self._tips, self.kind, self.stays)


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


def legend_above(figure: Figure, handles: Sequence[Artist]) -> None:
    """The legend of charts, above them, no wider than `READ`."""
    for handle in handles:
        handle.set_label("\n".join(wrapped(str(handle.get_label()), READ - 24, 9)))
    figure.legend(handles=handles, loc="outside upper left", frameon=False, fontsize=9, borderpad=0)


def svg_of(figure: Figure, tips: Mapping[str, str], kind: str, stays: Stays | None = None) -> str:  # (3)
    """A figure as SVG of the class `kind`. `tips`: id -> tooltip."""
    text = io.BytesIO()
    with settings():
        figure.savefig(text, format="svg", metadata={"Date": None})
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(text.getvalue())
    for element in root.iter(f"{{{SVG}}}g"):
        if (words := tips.get(element.get("id", ""))) is not None:  # (4)
            title = ElementTree.Element(f"{{{SVG}}}title")
            title.text = "\n".join(map(printable, words.split("\n")))
            element.insert(0, title)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for element in root.iter(f"{{{SVG}}}g"):
        if (batch := re.search(rf"{COVER}(\d+)", element.get("id", ""))) is not None:  # (5)
            element.attrib.update({"class": "cover", "data-batch": batch[1], "visibility": "hidden"})
    root.set("class", kind)
    if stays:
        root.set("data-stays", " ".join(f"{number:.0f}" for number in stays))
    return ElementTree.tostring(root, encoding="unicode")


# -- how wide words are, and which times are round ----------------------------------------------------------


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
    """The same words on one line, and without characters that are not allowed in SVG."""
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
