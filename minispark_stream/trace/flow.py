"""The flow of a batch as a graph: the steps, what they read and write, and the step that is lit.

One picture for every batch of every query, so that a learner recognises it: only the captions, which steps happened, and
the lit step differ.

1. Every step of `STEPS` is a box with its number in the execution flow document, its name and a caption (narrate.py);
   a step that contains others (trigger, runBatch) is a frame around them.
2. Beside the steps stands what outlives a batch: source, offset log, state store, sink, commit log.
3. Arrows: solid where one step follows another, dashed where data goes.
4. A step that did not happen in this batch is pale: a batch without data has no getBatch.

    startQuery -> trigger [ populateStartOffsets -> constructNextBatch [ latestOffset, decide, walCommit ... ]
                            -> runBatch [ getBatch, queryPlanning, stateOperator, addBatch ... ] -> finishTrigger ]

Places are given in points and graphviz only draws them (`layout=nop2`), so the picture is the same for every version of it.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import graphviz

from minispark_stream.trace.events import STEPS, Event
from minispark_stream.trace.narrate import caption

if TYPE_CHECKING:
    from minispark_stream.trace.trace import Batch, Trace

# Columns and sizes, in points. A caption takes one line per engine.
LEFT, MIDDLE, RIGHT, FAR = 0, 205, 410, 584
BOX_WIDTH, STORE_WIDTH = 176, 84
FRAMES = ("trigger", "runBatch")
COLOURS = {  # (fill, border, text)
    "step": ("#ffffff", "#5b6b7f", "#1d2733"),
    "lit": ("#ffd873", "#b06f00", "#1d2733"),
    "pale": ("#ffffff", "#cfd6de", "#a3adb8"),
    "store": ("#e8f1fb", "#4a7fb5", "#1d2733"),
    "frame": ("#f6f8fa", "#c3ccd6", "#1d2733"),
    "failed": ("#ffd9d6", "#b3261e", "#1d2733"),
    "differs": ("#ffd9d6", "#b3261e", "#1d2733"),
}


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
    kinds = {name: _kind(name, captions, step) for name in STEPS}
    failed = {e.step for b in chosen.values() if b for e in b.events if e.error is not None}
    return digraph(captions, {**kinds, **dict.fromkeys(failed, "failed")})


def captions_of(events: Iterable[Event]) -> dict[str, str]:
    """Step -> caption, for the steps that happened; several events of one step (two sources) share a caption."""
    found: dict[str, list[str]] = {}
    for event in events:
        found.setdefault(event.step, []).append(caption(event))
    return {step: " | ".join(dict.fromkeys(words)) for step, words in found.items()}


def _batch(trace: Trace, batch: int | None) -> Batch | None:
    batches = [b for b in trace.batches if batch is None or b.batch_id == batch]
    if not batches and batch is not None:
        ids = ", ".join(str(b.batch_id) for b in trace.batches)
        raise ValueError(f"the trace has no batch {batch}; batches: {ids or 'none'}")
    return batches[-1] if batches else None


def _kind(name: str, captions: Mapping[str, Mapping[str, str]], lit: str | None) -> str:
    if name == lit:
        return "lit"
    said = [c.get(name) for c in captions.values()]
    if all(words is None for words in said):
        return "pale"
    return "step" if all(words == said[0] for words in said) else "differs"


def digraph(captions: Mapping[str, Mapping[str, str]], kinds: Mapping[str, str], page: bool = False) -> graphviz.Digraph:
    """The graph. For a page, every node keeps a caption line per engine, which a script fills in."""
    lines = len(captions)
    height, pitch = 28 + 12 * lines, 42 + 12 * lines
    graph = graphviz.Digraph(
        "flow",
        graph_attr={"layout": "nop2", "splines": "line", "bgcolor": "transparent" if page else "white", "pad": "0.1"},
        node_attr={"fontname": "Helvetica,Arial,sans-serif", "fontsize": "12", "fixedsize": "true", "style": "filled,rounded"},
        edge_attr={"arrowsize": "0.6", "color": "#5b6b7f"},
    )
    places = _places(pitch)
    for name, (left, top, width, depth) in _frames(places, pitch).items():  # (1)
        label = _label(name, captions, page) if name in STEPS else ""
        graph.node(
            name, label=label, pos=f"{left + width / 2},{top - depth / 2}", width=_inches(width), height=_inches(depth),
            labelloc="t", **_look(name, "frame" if kinds.get(name) in (None, "step") else kinds[name]), shape="box",
        )
    for name, (x, y) in places.items():
        if name in STEPS:
            graph.node(
                name, label=_label(name, captions, page), pos=f"{x},{y}", width=_inches(BOX_WIDTH), height=_inches(height),
                shape="box", **_look(name, kinds.get(name, "step")),
            )
        else:  # (2)
            graph.node(
                name, label=name, pos=f"{x},{y}", width=_inches(STORE_WIDTH), height=_inches(40),
                shape="folder" if name in ("source", "sink") else "cylinder", **_look(name, "store"),
            )
    for tail, head, kind, points in _arrows(places, pitch, height):  # (3)
        graph.edge(tail, head, pos=points, style="dashed" if kind == "data" else "solid", **{"class": kind})
    return graph


def _places(pitch: int) -> dict[str, tuple[int, int]]:
    """The centre of every box and store: two columns of steps, stores between and beside them."""
    steps = {"startQuery": (LEFT, 0), "populateStartOffsets": (LEFT, -40 - pitch)}
    first = -40 - pitch - pitch - 16
    for i, name in enumerate(("latestOffset", "constructNextBatch", "walCommit", "commitSource", "purge")):
        steps[name] = (LEFT, first - i * pitch)
    last = steps["purge"][1]
    right = ("getBatch", "queryPlanning", "stateOperator", "addBatch", "updateWatermark", "commitOffsets")
    for i, name in enumerate(reversed(right)):
        steps[name] = (RIGHT, last + i * pitch)
    steps["finishTrigger"] = (RIGHT, last - pitch - 16)
    steps["terminate"] = (LEFT, steps["finishTrigger"][1] - pitch - 14)
    steps["maintenance"] = (RIGHT, 0)
    stores = {
        "source": (MIDDLE, steps["latestOffset"][1]), "offset log": (MIDDLE, steps["walCommit"][1]),
        "commit log": (MIDDLE, last), "state store": (FAR, steps["stateOperator"][1]), "sink": (FAR, steps["addBatch"][1]),
    }
    return {**steps, **stores}


def _frames(places: Mapping[str, tuple[int, int]], pitch: int) -> dict[str, tuple[int, int, int, int]]:
    """Left, top, width and height of the frames, the outer one first."""
    half = BOX_WIDTH // 2 + 10
    bottom = places["purge"][1] - pitch // 2 - 4
    top = places["latestOffset"][1] + pitch // 2 + 4
    right_top = places["getBatch"][1] + pitch // 2 + 16 + pitch // 3
    trigger_top = places["startQuery"][1] - pitch // 2 - 10
    trigger_bottom = places["finishTrigger"][1] - pitch // 2 - 2
    return {
        "trigger": (LEFT - half - 12, trigger_top, RIGHT - LEFT + 2 * half + 24, trigger_top - trigger_bottom),
        "construct": (LEFT - half, top, 2 * half, top - bottom),
        "runBatch": (RIGHT - half, right_top, 2 * half, right_top - bottom),
    }


def _arrows(places: Mapping[str, tuple[int, int]], pitch: int, height: int) -> Iterable[tuple[str, str, str, str]]:
    """Tail, head, "control" or "data", and the curve of each arrow."""
    half, store = BOX_WIDTH // 2, STORE_WIDTH // 2
    y = {name: place[1] for name, place in places.items()}
    frames = _frames(places, pitch)
    for column in (("latestOffset", "constructNextBatch", "walCommit", "commitSource", "purge"),
                   ("getBatch", "queryPlanning", "stateOperator", "addBatch", "updateWatermark", "commitOffsets", "finishTrigger")):
        for tail, head in zip(column, column[1:]):
            yield tail, head, "control", _line(places[tail][0], y[tail] - height // 2, places[head][0], y[head] + height // 2)
    yield "startQuery", "trigger", "control", _line(LEFT, -height // 2, LEFT, frames["trigger"][1])
    yield "populateStartOffsets", "construct", "control", _line(
        LEFT, y["populateStartOffsets"] - height // 2, LEFT, frames["construct"][1])
    yield "trigger", "terminate", "control", _line(
        LEFT, y["finishTrigger"] - pitch // 2 - 2, LEFT, y["terminate"] + height // 2)
    yield "construct", "runBatch", "control", _line(
        LEFT + half + 10, y["constructNextBatch"], frames["runBatch"][0], y["constructNextBatch"])
    # data
    yield "source", "latestOffset", "data", _line(MIDDLE - store, y["source"], half, y["latestOffset"])
    yield "source", "getBatch", "data", _curve((MIDDLE + store, y["source"]), (300, y["source"]), (270, y["getBatch"]), (RIGHT - half, y["getBatch"]))
    yield "walCommit", "offset log", "data", _line(half, y["walCommit"], MIDDLE - store, y["offset log"])
    yield "commitSource", "source", "data", _curve((half, y["commitSource"]), (150, y["commitSource"]), (136, y["source"] - 70), (MIDDLE - 24, y["source"] - 20))
    yield "commitOffsets", "commit log", "data", _line(RIGHT - half, y["commitOffsets"], MIDDLE + store, y["commit log"])
    for log, x in (("offset log", 112), ("commit log", 104)):
        yield log, "populateStartOffsets", "data", _curve((MIDDLE - store, y[log] + 8), (x, y[log] + 8), (x + 24, y["populateStartOffsets"]), (half, y["populateStartOffsets"]))
    yield "stateOperator", "state store", "data", _line(RIGHT + half, y["stateOperator"] + 6, FAR - store, y["state store"] + 6)
    yield "state store", "stateOperator", "data", _line(FAR - store, y["state store"] - 6, RIGHT + half, y["stateOperator"] - 6)
    yield "addBatch", "sink", "data", _line(RIGHT + half, y["addBatch"], FAR - store, y["sink"])
    yield "maintenance", "state store", "data", _curve((RIGHT + half, 0), (FAR, 0), (FAR, -40), (FAR, y["state store"] + 20))


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    third = ((x2 - x1) / 3, (y2 - y1) / 3)
    return _curve((x1, y1), (x1 + third[0], y1 + third[1]), (x2 - third[0], y2 - third[1]), (x2, y2))


def _curve(*points: tuple[float, float]) -> str:
    """A Bézier curve whose last 7 points are the arrow head."""
    (x, y), (cx, cy) = points[3], points[2]
    length = max(((x - cx) ** 2 + (y - cy) ** 2) ** 0.5, 1)
    end = (x - 7 * (x - cx) / length, y - 7 * (y - cy) / length)
    return f"e,{x},{y} " + " ".join(f"{px:.1f},{py:.1f}" for px, py in (*points[:3], end))


def _label(name: str, captions: Mapping[str, Mapping[str, str]], page: bool) -> str:
    said = {engine: words[name] for engine, words in captions.items() if name in words}
    if page:
        lines = [f"@{name}@{i}@" for i in range(len(captions))]
    elif len(captions) > 1 and len(set(said.values())) + (len(said) < len(captions)) > 1 and said:
        lines = [f"{engine}: {said.get(engine, 'did not happen')}" for engine in captions]
    else:
        lines = list(said.values())[:1]
    small = "".join(f'<BR/><FONT POINT-SIZE="10">{escape(clip(line)) or " "}</FONT>' for line in lines)
    drop = '<FONT POINT-SIZE="4"> <BR/></FONT>' if name in FRAMES else ""
    return f"<{drop}<B>{escape(title(name))}</B>{small}>"


def clip(words: str, width: int = 32) -> str:
    return words if len(words) <= width else words[: width - 1] + "…"


def title(step: str) -> str:
    """`walCommit` -> "(3) walCommit", numbered as in the execution flow document."""
    numbers = re.findall(r"\d+", STEPS[step].document) if STEPS[step].document.startswith("Execution flow (") else []
    between = "-" if " to " in STEPS[step].document else ", "
    return f"({between.join(numbers)}) {step}" if numbers else step


def _look(name: str, kind: str) -> dict[str, str]:
    fill, border, text = COLOURS[kind]
    ident = "node-" + name.replace(" ", "-")
    pale = {"style": "filled,rounded,dashed"} if kind == "pale" else {}
    return {"fillcolor": fill, "color": border, "fontcolor": text, "id": ident, "class": f"{kind}", **pale}


def _inches(points: float) -> str:
    return f"{points / 72:.4f}"


def svg(engines: Sequence[str]) -> str | None:
    """The empty picture for a page; None without graphviz's `dot`. The text for a caption has `data-caption="<step> <engine no>"`."""
    graph = digraph(dict.fromkeys(engines, {}), {}, page=True)
    try:
        text = graph.pipe(format="svg", encoding="utf-8", quiet=True)
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
        return None
    text = re.sub(r"<title>.*?</title>\n|<!--.*?-->\n", "", text[text.index("<svg"):], flags=re.DOTALL)
    places = {**_places(0), "trigger": ((LEFT + RIGHT) // 2, 0), "runBatch": (RIGHT, 0)}

    def centred(match: re.Match[str]) -> str:
        middle = places[match[2]][0] - LEFT + BOX_WIDTH // 2 + 22
        attributes = re.sub(r'text-anchor="\w+" x="[^"]+"', f'text-anchor="middle" x="{middle}"', match[1])
        return f'{attributes} data-caption="{match[2]} {match[3]}"><'

    return re.sub(r"(<text [^>]*)>@(\w+)@(\d)@<", centred, text)
