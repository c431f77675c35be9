"""The flow of a batch as a graph: the steps, what they read and write, and the step that is highlighted.

The picture is the same for every batch of every query, so that a learner recognises it. Only the captions, the steps that
happened, and the highlighted step differ.

1. Every step of a query in batches is a box with its number in the execution flow document, its name and a caption
   (captions.py); a step that contains others (trigger, runBatch) is a frame around them.
2. Beside the steps is what outlives a batch: source, offset log, state store, sink, commit log.
3. A solid arrow leads from one step to the next, a dashed arrow is data.
4. A step that did not happen in this batch is pale: a batch without data has no getBatch.

    startQuery -> populateStartOffsets -> trigger [ construct [ latestOffset -> constructNextBatch -> walCommit ... ]
                                                    -> runBatch [ getBatch -> queryPlanning ... ] -> finishTrigger ]

With two engines, a caption without a name belongs to both; the line below the picture says so.

All places are given (flow_layout.py), and graphviz only draws them (`layout=nop2`), so every version draws the same picture.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from html import escape

import graphviz

from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.trace.steps import STEPS
from minispark_stream.lens.view import flow_layout as layout
from minispark_stream.lens.view.captions import caption_lines, captions_of
from minispark_stream.lens.view.walk import failed
from minispark_stream.lens.view.words import clip, perhaps

Captions = Mapping[str, Mapping[str, str]]  # engine -> step -> caption

FRAMES = ("trigger", "runBatch")
COLOURS = {  # look -> (fill, border, text)
    "step": ("#ffffff", "#5b6b7f", "#1d2733"),
    "pale": ("#ffffff", "#d5dbe1", "#98a2ad"),
    "lit": ("#ffd873", "#8a5600", "#1d2733"),
    "failed": ("#ffd9d6", "#b3261e", "#1d2733"),
    "differs": ("#ffd9d6", "#b3261e", "#1d2733"),
    "frame": ("#f6f8fa", "#c3ccd6", "#1d2733"),
    "store": ("#e8f1fb", "#4a7fb5", "#1d2733"),
}


def draw(
    recordings: Mapping[str, Recording], batch: int | None = None, step: str | None = None,
    differing: Collection[int | None] | None = None,
) -> graphviz.Digraph:
    """The flow of one batch on each engine. Captions on which the engines differ are red.

    Args:
        recordings: engine -> what was recorded of it.
        batch: a batch id; None means the last batch.
        step: the step to highlight.
        differing: the batches on which the engines disagree; only their captions are red. None if they were not compared.

    Raises:
        ValueError: no such batch, or no such step.
    """
    if step is not None and step not in STEPS:
        raise ValueError(f"there is no step {step!r}{perhaps(step, STEPS)}; steps: {', '.join(STEPS)}")
    chosen = {engine: _batch(recording.batches, batch) for engine, recording in recordings.items()}
    captions = {engine: captions_of(b.events if b else ()) for engine, b in chosen.items()}
    agree = differing is not None and not {b.batch_id for b in chosen.values() if b} & set(differing)
    looks = {name: _look(name, captions, step, agree) for name in STEPS}
    wrong = [e.step for b in chosen.values() if b for e in b.events if failed(e)]
    return _digraph(captions, {**looks, **dict.fromkeys(wrong, "failed")})


def _batch(batches: Sequence[Batch], batch_id: int | None) -> Batch | None:
    found = [b for b in batches if batch_id is None or b.batch_id == batch_id]
    if not found and batch_id is not None:
        ids = ", ".join(str(b.batch_id) for b in batches)
        raise ValueError(f"the trace has no batch {batch_id}; batches: {ids or 'none'}")
    return found[-1] if found else None


def _look(name: str, captions: Captions, lit: str | None, agree: bool) -> str:
    if name == lit:
        return "lit"
    lines = caption_lines(name, captions)
    return ("pale", "step", "step" if agree else "differs")[min(len(lines), 2)]  # (4)


def _digraph(captions: Captions, looks: Mapping[str, str]) -> graphviz.Digraph:
    height, pitch = 26 + 13 * len(captions), 40 + 13 * len(captions)
    both = f"{' and '.join(captions)}: one line says what both did" if len(captions) > 1 else ""
    graph = graphviz.Digraph(
        "flow",
        graph_attr={"layout": "nop2", "splines": "line", "bgcolor": "white", "pad": "0.05"},
        node_attr={"fontname": "Helvetica,Arial,sans-serif", "fontsize": "13", "fixedsize": "true", "style": "filled"},
        edge_attr={"arrowsize": "0.6", "color": "#5b6b7f"},
    )

    def node(name: str, centre: layout.Point, width: float, depth: float, kind: str, **shape: str) -> None:
        own = "frame" if kind == "around" else kind or "step"
        look = looks.get(name, own)
        look = "frame" if own == "frame" and look == "step" else look
        fill, border, text = COLOURS[look]
        dashed = {"style": "filled,rounded,dashed"} if look == "pale" else {}
        graph.node(
            name, pos=f"{centre[0]},{centre[1]}", width=f"{width / 72:.4f}", height=f"{depth / 72:.4f}", fillcolor=fill,
            color=border, fontcolor=text, **{**shape, **dashed},
        )

    rounded = {"shape": "box", "style": "filled,rounded"}
    at = layout.places(pitch)
    for name, (left, top, width, depth) in layout.frames(at, pitch).items():  # (1)
        label = _label(name, captions) if name in STEPS else ""
        node(name, (left + width / 2, top - depth / 2), width, depth, "around", labelloc="t", label=label, **rounded)
    for name, centre in at.items():
        if name in STEPS:
            node(name, centre, layout.BOX, height, "", label=_label(name, captions), **rounded)
        else:  # (2)
            shape = "folder" if name in ("source", "sink") else "cylinder"
            node(name, centre, layout.STORE, 38, "store", shape=shape, label=name)
    for tail, head, points in layout.control(at, pitch, height):  # (3)
        graph.edge(tail, head, pos=points)
    for (tail, head), points in layout.data(at, height).items():
        graph.edge(tail, head, pos=points, style="dashed")
    if both:
        graph.node("engines", both, pos=layout.below(at, pitch), shape="plaintext", style="", fixedsize="false")
    return graph


def _label(name: str, captions: Captions) -> str:
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
