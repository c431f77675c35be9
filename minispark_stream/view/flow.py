"""The flow of a batch as a graph: the steps, what they read and write, and the step that is lit.

One picture for every batch of every query, so that a learner recognises it: only the captions, which steps happened,
and the lit step differ.

1. Every step of `STEPS` is a box with its number in the execution flow document, its name and a caption (narrate.py);
   a step that contains others (trigger, runBatch) is a frame around them.
2. Beside the steps stands what outlives a batch: source, offset log, state store, sink, commit log.
3. Arrows: solid where one step follows another, dashed where data goes.
4. A step that did not happen in this batch is pale: a batch without data has no getBatch.

    startQuery -> trigger [ populateStartOffsets -> constructNextBatch [ latestOffset, decide, walCommit ... ]
                            -> runBatch [ getBatch, queryPlanning, stateOperator, addBatch ... ] -> finishTrigger ]

Two forms: `draw` is a finished graph of one batch; `template` is the same picture as SVG in which captions and classes
are left open, as `@caption-walCommit-0@` and `@look-walCommit@`, and `fill` writes them in, for every step of the walk.

Places are given in points and graphviz only draws them (`layout=nop2`): every version of it gives the same picture.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

import graphviz

from minispark_stream.trace.events import STEPS, Event
from minispark_stream.view.sentences import caption, failed
from minispark_stream.view.words import clip

if TYPE_CHECKING:
    from minispark_stream.trace.trace import Batch, Trace

# Sizes and the centres of the four columns, in points. A caption takes one line per engine.
BOX, STORE, GAP = 198, 80, 25
LEFT = 0
MIDDLE = LEFT + BOX // 2 + 10 + GAP + STORE // 2
RIGHT = MIDDLE + STORE // 2 + GAP + 10 + BOX // 2
FAR = RIGHT + BOX // 2 + 10 + 12 + GAP + STORE // 2
FRAMES = ("trigger", "runBatch")
LEFT_STEPS = ("latestOffset", "constructNextBatch", "walCommit", "commitSource", "purge")
RIGHT_STEPS = ("getBatch", "queryPlanning", "stateOperator", "addBatch", "updateWatermark", "commitOffsets")
COLOURS = {  # look -> (fill, border, text)
    "step": ("#ffffff", "#5b6b7f", "#1d2733"),
    "done": ("#e9f5ec", "#4d8a5f", "#1d2733"),
    "lit": ("#ffd873", "#a86a00", "#1d2733"),
    "todo": ("#ffffff", "#aab4bf", "#5b6b7f"),
    "pale": ("#ffffff", "#d5dbe1", "#98a2ad"),
    "store": ("#e8f1fb", "#4a7fb5", "#1d2733"),
    "frame": ("#f6f8fa", "#c3ccd6", "#1d2733"),
    "failed": ("#ffd9d6", "#b3261e", "#1d2733"),
    "differs": ("#ffd9d6", "#b3261e", "#1d2733"),
}
DATA = (  # who hands data to whom
    ("source", "latestOffset"), ("source", "getBatch"), ("walCommit", "offset log"), ("commitSource", "source"),
    ("commitOffsets", "commit log"), ("offset log", "populateStartOffsets"), ("commit log", "populateStartOffsets"),
    ("stateOperator", "state store"), ("state store", "stateOperator"), ("addBatch", "sink"),
    ("maintenance", "state store"),
)


def draw(traces: Mapping[str, Trace], batch: int | None = None, step: str | None = None) -> graphviz.Digraph:
    """The flow of one batch on each engine. Captions on which the engines differ are red.

    Args:
        traces: engine -> trace.
        batch: a batch id; None is the last batch.
        step: the step to light.

    Raises:
        ValueError: no such batch, or no such step.
    """
    if step is not None and step not in STEPS:
        raise ValueError(f"there is no step {step!r}; steps: {', '.join(STEPS)}")
    chosen = {engine: _batch(trace, batch) for engine, trace in traces.items()}
    captions = {engine: captions_of(b.events if b else ()) for engine, b in chosen.items()}
    looks = {name: _look(name, captions, step) for name in STEPS}
    wrong = [e.step for b in chosen.values() if b for e in b.events if failed(e)]
    return digraph(captions, {**looks, **dict.fromkeys(wrong, "failed")})


def captions_of(events: Iterable[Event]) -> dict[str, str]:
    """Step -> caption, for the steps that happened; several events of one step (two sources) share a caption."""
    found: dict[str, list[str]] = {}
    for event in events:
        found.setdefault(event.step, []).append(caption(event))
    return {step: " | ".join(dict.fromkeys(words)) for step, words in found.items()}


def caption_lines(step: str, captions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """One line if the engines agree (or one says nothing), else one per engine; none if the step did not happen."""
    said = {engine: words[step] for engine, words in captions.items() if step in words}
    if len({words for words in said.values() if words}) > 1:
        return [f"{engine}: {words}" for engine, words in said.items()]
    return [max(said.values(), key=len)] if said else []


def _batch(trace: Trace, batch: int | None) -> Batch | None:
    batches = [b for b in trace.batches if batch is None or b.batch_id == batch]
    if not batches and batch is not None:
        ids = ", ".join(str(b.batch_id) for b in trace.batches)
        raise ValueError(f"the trace has no batch {batch}; batches: {ids or 'none'}")
    return batches[-1] if batches else None


def _look(name: str, captions: Mapping[str, Mapping[str, str]], lit: str | None) -> str:
    if name == lit:
        return "lit"
    lines = caption_lines(name, captions)
    return ("pale", "step", "differs")[min(len(lines), 2)]


def digraph(captions: Mapping[str, Mapping[str, str]], looks: Mapping[str, str] | None) -> graphviz.Digraph:
    """The graph; without `looks`, with places left open for captions and classes."""
    lines = len(captions)
    height, pitch = 26 + 13 * lines, 40 + 13 * lines
    graph = graphviz.Digraph(
        "flow",
        graph_attr={"layout": "nop2", "splines": "line", "bgcolor": "white" if looks else "transparent", "pad": "0.05"},
        node_attr={"fontname": "Helvetica,Arial,sans-serif", "fontsize": "13", "fixedsize": "true", "style": "filled"},
        edge_attr={"arrowsize": "0.6", "color": "#5b6b7f"},
    )

    def node(
        name: str, x: float, y: float, width: float, depth: float, plain_look: str, kind: str = "", **shape: str
    ) -> None:
        look = "frame" if name in FRAMES and plain_look == "step" else plain_look
        fill, border, text = COLOURS[look]
        dashed = {"style": "filled,rounded,dashed"} if look == "pale" else {}
        graph.node(
            name, pos=f"{x},{y}", width=f"{width / 72:.4f}", height=f"{depth / 72:.4f}", fillcolor=fill, color=border,
            fontcolor=text, id="node-" + _ident(name),
            **{"class": f"{kind} @look-{_ident(name)}@" if looks is None else look},
            **{**shape, **dashed},
        )

    places = _places(pitch)
    for name, (left, top, width, depth) in _frames(places, pitch).items():  # (1)
        look = looks.get(name, "frame") if looks else "frame"
        label = "" if name not in STEPS else _label(name, captions, looks is None)
        node(name, left + width / 2, top - depth / 2, width, depth, look, "around", shape="box", style="filled,rounded",
             labelloc="t", label=label)
    for name, (x, y) in places.items():
        if name in STEPS:
            node(name, x, y, BOX, height, looks.get(name, "step") if looks else "step", shape="box",
                 style="filled,rounded", label=_label(name, captions, looks is None))
        else:  # (2)
            shape = "folder" if name in ("source", "sink") else "cylinder"
            node(name, x, y, STORE, 38, "store", "store", shape=shape, label=name)
    for tail, head, points in _control(places, pitch, height):  # (3)
        graph.edge(tail, head, pos=points)
    curves = _data(places)
    for tail, head in DATA:
        ident = f"edge-{_ident(tail)}-{_ident(head)}"
        graph.edge(tail, head, pos=curves[tail, head], style="dashed", id=ident,
                   **({"class": f"@look-{ident}@"} if looks is None else {}))
    return graph


def _places(pitch: int) -> dict[str, tuple[int, int]]:
    """The centre of every box and store: two columns of steps, stores between and beside them."""
    steps = {"startQuery": (LEFT, 0), "maintenance": (RIGHT, 0), "populateStartOffsets": (LEFT, -56 - pitch)}
    first = -56 - pitch - pitch - 14
    for i, name in enumerate(LEFT_STEPS):
        steps[name] = (LEFT, first - i * pitch)
    last = steps["purge"][1]
    for i, name in enumerate(reversed(RIGHT_STEPS)):
        steps[name] = (RIGHT, last + i * pitch)
    steps["finishTrigger"] = (RIGHT, last - pitch - 12)
    steps["terminate"] = (LEFT, steps["finishTrigger"][1] - pitch - 10)
    stores = {
        "source": (MIDDLE, steps["latestOffset"][1]), "offset log": (MIDDLE, steps["walCommit"][1]),
        "commit log": (MIDDLE, last), "state store": (FAR, steps["stateOperator"][1]), "sink": (FAR, steps["addBatch"][1]),
    }
    return {**steps, **stores}


def _frames(places: Mapping[str, tuple[int, int]], pitch: int) -> dict[str, tuple[int, int, int, int]]:
    """Left, top, width and height of the frames, the outer one first."""
    half = BOX // 2 + 10
    bottom = places["purge"][1] - pitch // 2 - 2
    top = places["latestOffset"][1] + pitch // 2 + 2
    right_top = places["getBatch"][1] + pitch // 2 + 14 + pitch // 3
    trigger_top = places["startQuery"][1] - pitch // 2 - 10
    trigger_bottom = places["finishTrigger"][1] - pitch // 2 - 2
    return {
        "trigger": (LEFT - half - 10, trigger_top, RIGHT - LEFT + 2 * half + 20, trigger_top - trigger_bottom),
        "construct": (LEFT - half, top, 2 * half, top - bottom),
        "runBatch": (RIGHT - half, right_top, 2 * half, right_top - bottom),
    }


def _control(places: Mapping[str, tuple[int, int]], pitch: int, height: int) -> Iterator[tuple[str, str, str]]:
    """Which step follows which, and the line between them."""
    frames = _frames(places, pitch)
    y = {name: place[1] for name, place in places.items()}
    for column in (LEFT_STEPS, (*RIGHT_STEPS, "finishTrigger")):
        for tail, head in zip(column, column[1:]):
            x = places[tail][0]
            yield tail, head, _line((x, y[tail] - height / 2), (x, y[head] + height / 2))
    yield "startQuery", "trigger", _line((LEFT, -height / 2), (LEFT, frames["trigger"][1]))
    below = y["populateStartOffsets"] - height / 2
    yield "populateStartOffsets", "construct", _line((LEFT, below), (LEFT, frames["construct"][1]))
    decided = y["constructNextBatch"]
    yield "construct", "runBatch", _line((LEFT + BOX / 2 + 10, decided), (frames["runBatch"][0], decided))
    _, top, _, depth = frames["trigger"]
    yield "trigger", "terminate", _line((LEFT, top - depth), (LEFT, y["terminate"] + height / 2))


def _data(places: Mapping[str, tuple[int, int]]) -> dict[tuple[str, str], str]:
    """The curves of the arrows between steps and stores."""
    y = {name: place[1] for name, place in places.items()}
    inner, outer, near, far = LEFT + BOX / 2, RIGHT - BOX / 2, MIDDLE - STORE / 2, MIDDLE + STORE / 2
    edge, store = RIGHT + BOX / 2, FAR - STORE / 2

    def restart(log: str, bend: float) -> str:
        low, high = y[log] + 8, y["populateStartOffsets"]
        return _curve((near, low), (bend, low), (bend + 4, high), (inner, high))

    return {
        ("source", "latestOffset"): _line((near, y["source"]), (inner, y["latestOffset"])),
        ("source", "getBatch"): _curve(
            (far, y["source"]), (far + 26, y["source"]), (outer - 26, y["getBatch"]), (outer, y["getBatch"])),
        ("walCommit", "offset log"): _line((inner, y["walCommit"]), (near, y["offset log"])),
        ("commitSource", "source"): _curve(
            (inner, y["commitSource"]), (near + 18, y["commitSource"]), (near - 6, y["source"] - 70),
            (MIDDLE - 20, y["source"] - 19)),
        ("commitOffsets", "commit log"): _line((outer, y["commitOffsets"]), (far, y["commit log"])),
        ("offset log", "populateStartOffsets"): restart("offset log", near - 10),
        ("commit log", "populateStartOffsets"): restart("commit log", near - 18),
        ("stateOperator", "state store"): _line((edge, y["stateOperator"] + 6), (store, y["state store"] + 6)),
        ("state store", "stateOperator"): _line((store, y["state store"] - 6), (edge, y["stateOperator"] - 6)),
        ("addBatch", "sink"): _line((edge, y["addBatch"]), (store, y["sink"])),
        ("maintenance", "state store"): _curve((edge, 0), (FAR, 0), (FAR, -40), (FAR, y["state store"] + 19)),
    }


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    third = ((end[0] - start[0]) / 3, (end[1] - start[1]) / 3)
    return _curve(start, (start[0] + third[0], start[1] + third[1]), (end[0] - third[0], end[1] - third[1]), end)


def _curve(*points: tuple[float, float]) -> str:
    """A Bézier curve whose last 7 points are the arrow head."""
    (x, y), (cx, cy) = points[3], points[2]
    length = max(((x - cx) ** 2 + (y - cy) ** 2) ** 0.5, 1)
    end = (x - 7 * (x - cx) / length, y - 7 * (y - cy) / length)
    return f"e,{x},{y} " + " ".join(f"{px:.1f},{py:.1f}" for px, py in (*points[:3], end))


def _label(name: str, captions: Mapping[str, Mapping[str, str]], left_open: bool) -> str:
    if left_open:
        return "\n".join([title(name), *(f"@caption-{name}-{i}@" for i in range(len(captions)))])
    lines = caption_lines(name, captions) or [" "]
    small = "".join(f'<BR/><FONT POINT-SIZE="11">{escape(clip(line, 32)) or " "}</FONT>' for line in lines)
    drop = '<FONT POINT-SIZE="4"> <BR/></FONT>' if name in FRAMES else ""
    return f"<{drop}<B>{escape(title(name))}</B>{small}>"


def title(step: str) -> str:
    """`walCommit` -> "(3) walCommit", numbered as in the execution flow document."""
    document = STEPS[step].document
    numbers = re.findall(r"\d+", document) if document.startswith("Execution flow (") else []
    between = "-" if " to " in document else ", "
    return f"({between.join(numbers)}) {step}" if numbers else step


def _ident(name: str) -> str:
    return name.replace(" ", "-")


# -- the picture of a page ---------------------------------------------------------------------------------

@lru_cache(maxsize=4)
def template(lines: int) -> str | None:
    """The picture with `lines` captions a step left open, as SVG; None without graphviz's `dot`."""
    graph = digraph({str(i): {} for i in range(lines)}, None)
    try:
        text: str = graph.pipe(format="svg", encoding="utf-8", quiet=True)
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
        return None
    text = text.replace("&#45;", "-")
    text = re.sub(r"<title>.*?</title>\n|<!--.*?-->\n", "", text[text.index("<svg"):], flags=re.DOTALL)
    return re.sub(r'<svg width="\S+" height="\S+"', '<svg class="flow"', text, count=1)


def places_to_fill(captions: Mapping[str, Mapping[str, str]], looks: Mapping[str, str]) -> dict[str, str]:
    """What to write into the template: its name -> a caption or a class. Data arrows and stores shine with their step."""
    filled = {f"look-{step}": looks.get(step, "pale") for step in STEPS}
    for tail, head in DATA:
        if "lit" in (looks.get(tail), looks.get(head)):
            store = head if tail in STEPS else tail
            filled |= {f"look-edge-{_ident(tail)}-{_ident(head)}": "lit", f"look-{_ident(store)}": "lit"}
    for step in looks:
        for i, line in enumerate(caption_lines(step, captions)):
            filled[f"caption-{step}-{i}"] = clip(line, 32)
    return filled


def fill(svg: str, places: Mapping[str, str]) -> str:
    """The picture of one step."""
    return re.sub(r"@([\w-]+)@", lambda m: escape(places.get(m[1], "")), svg)
