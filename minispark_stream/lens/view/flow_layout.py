"""Where everything is in the flow diagram, in points: boxes, stores, frames and the lines between them.

    LEFT                        MIDDLE        RIGHT                  FAR
    startQuery                                maintenance
    populateStartOffsets
    + trigger ---------------------------------------------------+
    |                                         + runBatch ------+ |
    | + construct ----------+                 |                | |
    | | latestOffset        |   source        | getBatch       | |
    | | constructNextBatch  |                 | queryPlanning  | |
    | | walCommit           |   offset log    | addBatch       | |   sink
    | | commitSource        |                 | stateOperator  | |   state store
    | | purge               |                 | updateWatermark| |
    | +---------------------+   commit log    | commitOffsets  | |
    |                                         +----------------+ |
    |                                           finishTrigger    |
    +------------------------------------------------------------+

y grows upwards, as in graphviz. `pitch` is the distance from one step to the next, `height` that of a box; both depend on
how many engines have a caption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, takewhile

from minispark_stream.lens.trace.steps import inside

Point = tuple[float, float]

# Sizes, and the centres of the four columns.
BOX, STORE, GAP, MARGIN = 198, 80, 25, 10
LEFT = 0
MIDDLE = LEFT + BOX // 2 + MARGIN + GAP + STORE // 2
RIGHT = MIDDLE + STORE // 2 + GAP + MARGIN + BOX // 2
FAR = RIGHT + BOX // 2 + 2 * MARGIN + 2 + GAP + STORE // 2
LEFT_STEPS = tuple(takewhile(lambda name: name != "runBatch", inside("trigger")))
RIGHT_STEPS = tuple(inside("runBatch"))


def places(pitch: int) -> dict[str, tuple[int, int]]:
    """The centre of every box and store."""
    steps = {"startQuery": (LEFT, 0), "maintenance": (RIGHT, 0), "populateStartOffsets": (LEFT, -pitch)}
    first = _trigger_top(pitch) - (pitch - 8) - _title(pitch) - pitch // 2
    for x, column in ((LEFT, LEFT_STEPS), (RIGHT, RIGHT_STEPS)):
        steps |= {name: (x, first - i * pitch) for i, name in enumerate(column)}
    last = steps["commitOffsets"][1]
    steps["finishTrigger"] = (RIGHT, last - pitch - 12)
    stores = {
        "source": (MIDDLE, first), "offset log": (MIDDLE, steps["walCommit"][1]), "commit log": (MIDDLE, last),
        "state store": (FAR, steps["stateOperator"][1]), "sink": (FAR, steps["addBatch"][1]),
    }
    return {**steps, **stores}


def _trigger_top(pitch: int) -> int:
    return -pitch - pitch // 2 - MARGIN


def _title(pitch: int) -> int:
    """How much room the title of runBatch needs."""
    return 16 + pitch // 3


def frames(at: Mapping[str, tuple[int, int]], pitch: int) -> dict[str, tuple[int, int, int, int]]:
    """Left, top, width and height of the frames, the outer one first."""
    half = BOX // 2 + MARGIN

    def frame(left: int, right: int, top: int, last_step: str) -> tuple[int, int, int, int]:
        return left, top, right - left, top - (at[last_step][1] - pitch // 2 - 2)

    above_first = at["latestOffset"][1] + pitch // 2
    return {
        "trigger": frame(LEFT - half - MARGIN, RIGHT + half + MARGIN, _trigger_top(pitch), "finishTrigger"),
        "construct": frame(LEFT - half, LEFT + half, above_first + 2, "purge"),
        "runBatch": frame(RIGHT - half, RIGHT + half, above_first + _title(pitch), "commitOffsets"),
    }


def below(at: Mapping[str, tuple[int, int]], pitch: int) -> str:
    """The place of a line of words below the picture."""
    return f"{MIDDLE},{at['finishTrigger'][1] - pitch // 2 - 20}"


def control(at: Mapping[str, tuple[int, int]], pitch: int, height: int) -> Iterator[tuple[str, str, str]]:
    """Which step follows which, and the line between them."""
    for column in (("startQuery", "populateStartOffsets"), LEFT_STEPS, (*RIGHT_STEPS, "finishTrigger")):
        for tail, head in pairwise(column):
            x = at[tail][0]
            yield tail, head, _line((x, at[tail][1] - height / 2), (x, at[head][1] + height / 2))
    framed = frames(at, pitch)
    top = framed["trigger"][1]
    yield "populateStartOffsets", "trigger", _line((LEFT, at["populateStartOffsets"][1] - height / 2), (LEFT, top))
    yield "trigger", "construct", _line((LEFT, top), (LEFT, framed["construct"][1]))
    decided = at["constructNextBatch"][1]
    yield "construct", "runBatch", _line((LEFT + BOX / 2 + MARGIN, decided), (framed["runBatch"][0], decided))


def data(at: Mapping[str, tuple[int, int]], height: int) -> dict[tuple[str, str], str]:
    """The curves of the arrows between steps and stores."""
    y = {name: place[1] for name, place in at.items()}
    inner, outer, near, far = LEFT + BOX / 2, RIGHT - BOX / 2, MIDDLE - STORE / 2, MIDDLE + STORE / 2
    edge, store = RIGHT + BOX / 2, FAR - STORE / 2

    def restart(log: str, bend: float, end: float) -> str:
        low, high = y[log] + 8, y["populateStartOffsets"] - height / 2
        return _curve((near, low), (bend, low), (bend, high - 34), (end, high))

    return {
        ("source", "latestOffset"): _line((near, y["source"]), (inner, y["latestOffset"])),
        ("source", "getBatch"): _line((far, y["source"]), (outer, y["getBatch"])),
        ("walCommit", "offset log"): _line((inner, y["walCommit"]), (near, y["offset log"])),
        ("commitSource", "source"): _curve(
            (inner, y["commitSource"]), (near + 18, y["commitSource"]), (near - 6, y["source"] - 70),
            (MIDDLE - 20, y["source"] - 19)),
        ("commitOffsets", "commit log"): _line((outer, y["commitOffsets"]), (far, y["commit log"])),
        ("offset log", "populateStartOffsets"): restart("offset log", near - 12, inner - 12),
        ("commit log", "populateStartOffsets"): restart("commit log", near - 19, inner - 26),
        ("stateOperator", "state store"): _line((edge, y["stateOperator"] + 6), (store, y["state store"] + 6)),
        ("state store", "stateOperator"): _line((store, y["state store"] - 6), (edge, y["stateOperator"] - 6)),
        ("addBatch", "sink"): _line((edge, y["addBatch"]), (store, y["sink"])),
        ("maintenance", "state store"): _curve(
            (edge, 0), (FAR + STORE, 0), (FAR + STORE, y["state store"]), (FAR + STORE / 2, y["state store"])),
    }


def _line(start: Point, end: Point) -> str:
    third = ((end[0] - start[0]) / 3, (end[1] - start[1]) / 3)
    return _curve(start, (start[0] + third[0], start[1] + third[1]), (end[0] - third[0], end[1] - third[1]), end)


def _curve(*points: Point) -> str:
    """A Bézier curve whose last 7 points are the arrow head."""
    (x, y), (cx, cy) = points[3], points[2]
    length = max(((x - cx) ** 2 + (y - cy) ** 2) ** 0.5, 1)
    end = (x - 7 * (x - cx) / length, y - 7 * (y - cy) / length)
    return f"e,{x},{y} " + " ".join(f"{px:.1f},{py:.1f}" for px, py in (*points[:3], end))
