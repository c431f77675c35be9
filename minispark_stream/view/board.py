"""The board: the step, the flow diagram and all panels of one stop of the walk, in their places.

1. With two engines a panel that is equal on both is shown once, and one that differs in two columns. What only one engine
   tells is no difference: the other's world is completed with it.
2. `board` puts everything into its slot. The page (page.py) and the stepper (stepper.py) show this board.

    +---------------------------------------+
    | now                                   |
    | flow              | logs              |
    |                   | watermark         |
    |                   | sources           |
    | rows-in   | state         | rows-out  |
    +---------------------------------------+

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from minispark_stream.view.merged_walk import Stop, completed
from minispark_stream.view.panels import NEW, PANELS
from minispark_stream.view.step_panel import step_panel
from minispark_stream.view.style import card
from minispark_stream.view.world import World


def fragments(stop: Stop) -> dict[str, str]:
    """Slot -> HTML, for every slot of the board but the diagram."""
    return {"now": step_panel(stop), **panels(stop)}


def panels(stop: Stop) -> dict[str, str]:
    """Panel name -> HTML, for every panel."""
    return {name: _panel(stop, heading, render) for name, (heading, render) in PANELS.items()}


def _panel(stop: Stop, heading: str, render: Callable[[World], str]) -> str:  # (1)
    bodies = {engine: render(_told(stop, engine)) for engine in stop.worlds}
    if len({_without_marks(body) for body in bodies.values()}) == 1:
        equal = f" <small>equal on {' and '.join(map(escape, bodies))}</small>" if len(bodies) > 1 else ""
        return card(heading + equal, next(iter(bodies.values())))
    columns = "".join(f"<div><h4>{escape(engine)}</h4>{html}</div>" for engine, html in bodies.items())
    body = f"<div class='both'>{columns}</div>"
    if len(stop.here) == len(stop.worlds):
        return card(f"{heading} <small>different</small>", body, "differs")
    return card(heading, body)


def _told(stop: Stop, engine: str) -> World:
    """The world of one engine, with what only the others tell."""
    world = stop.worlds[engine]
    for name, other in stop.worlds.items():
        world = world if name == engine else completed(world, other)
    return world


def _without_marks(html: str) -> str:
    return html.replace(NEW, "").replace("<mark>", "").replace("</mark>", "")


def board(slots: Mapping[str, str]) -> str:  # (2)
    """Diagram and panels in their places: "now", "flow" and the names of PANELS."""

    def slot(name: str) -> str:
        return f"<div class='slot' data-slot='{name}'>{slots.get(name, '')}</div>"

    side, below = "".join(map(slot, ("logs", "watermark", "sources"))), "".join(map(slot, ("rows-in", "state", "rows-out")))
    return f"{slot('now')}<div class='main'>{slot('flow')}<div>{side}</div></div><div class='below'>{below}</div>"
