"""A sheet of paper for the pictures: boxes, lines and words at given places, drawn by matplotlib.

1. Every sheet begins with its title, its caption and its legend. One point is one unit; x goes to the right and y down.
2. The width of a sheet is given, and its height is that of its content. Where there is less room, a sheet keeps its size and is
   scrolled sideways, under the names at its left (pictures.js). So that a phone shows whole sentences all the same, what stands
   above the drawing, and what is too long in it, is in the SVG as data, too (`data-said`); there, a page shows it as text.
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
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from minispark_stream.lens.view.measure import clipped, printable, settings, text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"
INK, GREY, PALE = "#1d2733", "#5b6875", "#d9dfe5"
COVER = "-cover-"  # before the number of a batch, in the id of what hides it
POINTS = 72  # to an inch
MARGIN, ROUND = 14.0, 2.5
READ, WIDE = 250.0, 520.0  # the width of a line, without the margin: on a phone, and where there is room
SAMPLE, APART = 24.0, 20.0  # in the legend of charts: the sample before an entry, the space between two
CELL = 612.0  # the width that a cell of JupyterLab shows of it, on a laptop


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
        self._wide = min(self.width - 2 * MARGIN, WIDE)
        with settings():
            self._figure = Figure()
            self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.axis("off")
        self._paragraph(title, 14, bold=True)  # (1)
        self.top += 6
        if self.width > CELL + 1:
            caption += " Where this is wider than its place, scroll it sideways."
        self._paragraph(caption, 10, ink=GREY)
        entries = [(look, says) for look, says, is_there in legend if is_there]
        self._legend(entries)
        shown = [(look, look) if isinstance(look, str) else (look.fill, look.edge) for look, _ in entries]
        legend_said = [[*colours, says] for colours, (_, says) in zip(shown, entries)]
        self._head, self._long = self.top, list[str]()
        self._said = [title, caption, legend_said, self._long]

    def _legend(self, entries: Sequence[tuple[Look | str, str]]) -> None:
        x = MARGIN
        self.top += 4
        for look, says in entries:
            lines = wrapped(says, self._wide - 21, 9)
            wide = 21 + max(text_width(line, 9) for line in lines)
            if x > MARGIN and x + wide > MARGIN + self._wide:
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
        for line in wrapped(words, self._wide, size, bold):
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
        self._sentence(words, 11, bold=True)
        self.top += 7

    def note(self, words: str) -> None:
        """A sentence below everything else, which says what is left out."""
        self.top += 2
        self._sentence(words, 9, ink=GREY)

    def _sentence(self, words: str, size: float, ink: str = INK, bold: bool = False) -> None:
        if text_width(words, size, bold) > READ:
            self._long.append(words)
        self._paragraph(words, size, ink=ink, bold=bold)

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
        said = {"data-said": json.dumps(self._said), "style": f"--head: {self._head:.0f}pt"}
        return svg_of(self._figure, self._tips, self.kind, self.stays, said)


def columns_wide(count: int, beside: float, least: float, most: float) -> float:
    """How wide each column is: with what is beside them, all fit into a cell of JupyterLab if the bounds allow it."""
    return min(max((CELL - beside) / count, least), most)


def legend_above(figure: Figure, handles: Sequence[Artist], room: float = READ) -> None:
    """The legend of charts, above them, in as many columns as there is room for. No entry is wider than `READ`."""
    lines = [wrapped(str(handle.get_label()), READ - SAMPLE, 9) for handle in handles]
    for handle, label in zip(handles, lines):
        handle.set_label("\n".join(label))
    widest = SAMPLE + max((text_width(line, 9) for label in lines for line in label), default=0.0)
    across = max(min(int(room / (widest + APART)), len(handles)), 1)
    figure.legend(handles=handles, loc="outside upper left", frameon=False, fontsize=9, borderpad=0, ncols=across)


def svg_of(  # (3)
    figure: Figure, tips: Mapping[str, str], kind: str, stays: Stays | None = None, said: Mapping[str, str] | None = None
) -> str:
    """A figure as SVG of the class `kind`. `tips`: id -> tooltip; `said`: its words as attributes, see `said_html`."""
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
    root.attrib.update({"class": kind, **(said or {})})
    if stays:
        root.set("data-stays", " ".join(f"{number:.0f}" for number in stays))
    return ElementTree.tostring(root, encoding="unicode")


def said_html(svg: str) -> str:
    """(2) The sentences of a sheet as HTML for a phone; nothing for other pictures."""
    said = re.search(' data-said="([^"]*)"', svg.partition(">")[0])
    if said is None:
        return ""
    title, caption, legend, long = json.loads(unescape(said[1]))
    entries = "".join(
        f"<li><i style='background:{escape(fill)};border-color:{escape(edge)}'></i>{escape(says)}</li>"
        for fill, edge, says in legend
    )
    others = "".join(f"<p>{escape(one)}</p>" for one in long)
    return f"<div class='said'><h3>{escape(title)}</h3><p>{escape(caption)}</p><ul>{entries}</ul>{others}</div>"
