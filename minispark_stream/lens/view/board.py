"""The board: what the page shows at one stop of the walk, as a fragment of HTML for each of its places.

1. With two engines, a panel that is equal on both is shown once, and any other one in two columns. What only one engine tells
   is not a difference: the other's world is completed with it.
2. If the runs were compared, a panel is marked as different only in a batch on which they disagree.

    +--------------------------------------------------+
    | steps   |  what, said       |  why, code, recorded
    |         |  logs      | watermark  | sources
    |         |  rows-in   | state      | rows-out
    +--------------------------------------------------+
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from html import escape
from typing import Any

from minispark_stream.lens.view.merged_walk import Stop, completed
from minispark_stream.lens.view.panels import PANELS
from minispark_stream.lens.view.row_fates import RowFates
from minispark_stream.lens.view.row_panels import NEW, rows_in
from minispark_stream.lens.view.step_panel import code, recorded, said
from minispark_stream.lens.view.world import World


class Board:
    """Writes the fragments of one stop after the other; a panel that has not changed is not written again.

    `differing` are the batches on which two compared runs disagree; None if they were not compared.
    """

    def __init__(self, fates: RowFates | None = None, differing: Collection[int | None] | None = None):
        self._differing = differing
        self._renders = {name: panel.render for name, panel in PANELS.items()} | {"rows-in": partial(rows_in, fates=fates)}
        self._last: dict[str, tuple[Any, str]] = {}  # panel -> what it looked at, and its fragment

    def fragments(self, stop: Stop) -> dict[str, str]:
        """Place -> HTML, for every place of the board that changes from stop to stop."""
        return {"said": said(stop), "recorded": recorded(stop), "code": code(stop), **self.panels(stop)}

    def panels(self, stop: Stop) -> dict[str, str]:
        """Panel name -> HTML, for every panel."""
        worlds = {engine: _told(stop, engine) for engine in stop.worlds}
        found = {}
        for name, panel in PANELS.items():
            marks = len(stop.here) == len(worlds) and may_differ(stop, self._differing)
            looked_at = [(marks, panel.looks_at(world)) for world in worlds.values()]
            if name not in self._last or self._last[name][0] != looked_at:
                bodies = {engine: self._renders[name](world) for engine, world in worlds.items()}
                self._last[name] = (looked_at, _panel(panel.heading, bodies, marks))
            found[name] = self._last[name][1]
        return found


def may_differ(stop: Stop, differing: Collection[int | None] | None) -> bool:  # (2)
    """Whether two engines can differ at this stop."""
    return differing is None or stop.moment.batch_id in differing


def _panel(heading: str, bodies: Mapping[str, str], marks: bool) -> str:  # (1)
    if len({_without_marks(body) for body in bodies.values()}) == 1:
        equal = f" <small title='equal on {' and '.join(map(escape, bodies))}'>equal</small>" if len(bodies) > 1 else ""
        return f"<h3>{heading}{equal}</h3>{next(iter(bodies.values()))}"
    columns = "".join(f"<div><h4>{escape(engine)}</h4>{html}</div>" for engine, html in bodies.items())
    head = f"<h3 class='differs'>{heading} <small>different</small></h3>" if marks else f"<h3>{heading}</h3>"
    return f"{head}<div class='both'>{columns}</div>"


def _told(stop: Stop, engine: str) -> World:
    """The world of one engine, completed with what only the others tell."""
    world = stop.worlds[engine]
    for name, other in stop.worlds.items():
        world = world if name == engine else completed(world, other)
    return world


def _without_marks(html: str) -> str:
    return html.replace(NEW, "").replace("<mark>", "").replace("</mark>", "")
