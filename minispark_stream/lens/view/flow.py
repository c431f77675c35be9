"""The flow of a batch as a graph: what happens one after the other, what is read and written, and the step that is highlighted.

The picture is the same for every batch of every query, so that a learner recognises it. Only the captions, the steps that
happened, and the highlighted step differ. There are two: a brief one with five boxes, and one with every step.

1. Every box has its name and the captions of its steps (sentences.py). The brief picture says in a few words what a box does;
   in the whole one, a box is a step, under its number in the execution flow document.
2. Beside the boxes is what outlives a batch: source and sink, and the checkpoint with offset log, state store and commit log.
3. A solid arrow leads from one box to the next, and back to the trigger; a dashed arrow is data.
4. A box none of whose steps happened in this batch is pale: a batch without data has no getBatch.
5. Graphviz decides on all places (`dot`). A line that leads back has a column of its own, to the right of everything else: it
   runs from one invisible point to the other, because graphviz does not draw a line through a point that stands in a row.

    start -> trigger -> what is new? -> run the batch [ read -> state -> write ] -> done -> wait -> trigger

With two engines, a caption without a name belongs to both; the line below the picture says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from itertools import pairwise

import graphviz

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.view.flow_layout import BRIEF, CHECKPOINT, DATA, WHOLE, Box, Diagram
from minispark_stream.lens.view.sentences import caption_lines, captions_of
from minispark_stream.lens.view.walk import failed
from minispark_stream.lens.view.words import clip, perhaps

Captions = Mapping[str, Mapping[str, str]]  # engine -> step -> caption

FONT = "Helvetica,Arial,sans-serif"
WIDTH, NAME, CAPTION, STORE = 398, 216, 168, 84  # points: a box, the two halves of it, a store
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
    differing: Collection[int | None] | None = None, every_step: bool = False,
) -> graphviz.Digraph:
    """The flow of one batch on each engine. Captions on which the engines differ are red.

    Args:
        recordings: engine -> what was recorded of it.
        batch: a batch id; None means the last batch.
        step: the step to highlight, or the box that stands for it.
        differing: the batches on which the engines disagree; only their captions are red. None if they were not compared.
        every_step: a box for each step; otherwise five boxes.

    Raises:
        ValueError: no such batch, or no such step.
    """
    if step is not None and step not in STEPS:
        raise ValueError(f"there is no step {step!r}{perhaps(step, STEPS)}; steps: {', '.join(STEPS)}")
    chosen = {engine: _batch(recording.batches, batch) for engine, recording in recordings.items()}
    captions = {engine: captions_of(b.events if b else ()) for engine, b in chosen.items()}
    agree = differing is not None and not {b.batch_id for b in chosen.values() if b} & set(differing)
    wrong = {e.step for b in chosen.values() if b for e in b.events if failed(e)}
    return _Drawing(WHOLE if every_step else BRIEF, captions, step, wrong, agree).graph


def _batch(batches: Sequence[Batch], batch_id: int | None) -> Batch | None:
    found = [b for b in batches if batch_id is None or b.batch_id == batch_id]
    if not found and batch_id is not None:
        ids = ", ".join(str(b.batch_id) for b in batches)
        raise ValueError(f"the trace has no batch {batch_id}; batches: {ids or 'none'}")
    return found[-1] if found else None


class _Drawing:
    """A diagram that is being drawn into `graph`."""

    def __init__(self, diagram: Diagram, captions: Captions, lit: str | None, wrong: set[str], agree: bool):
        self.captions, self.lit, self.wrong, self.agree = captions, lit, wrong, agree
        self.graph = graphviz.Digraph(
            "flow",
            graph_attr={
                "newrank": "true", "nodesep": "0.3", "ranksep": "0.2", "bgcolor": "white", "pad": "0.05", "fontname": FONT,
                "fontsize": "12", "size": "8.5,100",  # as wide as a cell of JupyterLab
            },
            node_attr={
                "fontname": FONT, "fontsize": "13", "style": "filled", "shape": "box", "margin": "0.08,0.03", "height": "0.3",
            },
            edge_attr={"arrowsize": "0.6", "color": "#5b6b7f"},
        )
        for title, boxes in diagram.parts:
            self._part(title, boxes)
        self._chain([box.name for _, boxes in diagram.parts for box in boxes], style="solid")  # (3)
        self._stores(diagram)
        self._last: dict[str, str] = {}  # a box or store -> the point that is farthest to the right in its row
        if diagram.restart:
            self._back(["offset log", "commit log"], diagram.restart, "dashed")
        self._back([diagram.loop[0]], diagram.loop[1], "solid", past=CHECKPOINT)
        if len(captions) > 1:
            self.graph.attr(label=f"{' and '.join(captions)}: one line says what both did", labelloc="b")

    def _part(self, title: str, boxes: Sequence[Box]) -> None:
        if not title:
            for box in boxes:
                self._box(self.graph, box)
            return
        fill, border, text = COLOURS["frame"]
        with self.graph.subgraph(name=f"cluster_{title}") as frame:
            frame.attr(
                label=f"<<B>{escape(title)}</B>>", labeljust="l", style="filled,rounded", fillcolor=fill, color=border,
                fontcolor=text,
            )
            for box in boxes:
                self._box(frame, box)

    def _box(self, graph: graphviz.Digraph, box: Box, width: int = WIDTH) -> None:  # (1)
        look = self._look(box)
        fill, border, text = COLOURS[look]
        told = [line for step in box.told for line in caption_lines(step, self.captions) if line]
        graph.node(
            box.name, label=_table(box, told) if width == WIDTH else f"<<B>{title(box.name)}</B>{_small(told)}>",
            width=f"{width / 72:.2f}", style="filled,rounded,dashed" if look == "pale" else "filled,rounded",
            fillcolor=fill, color=border, fontcolor=text,
        )

    def _look(self, box: Box) -> str:
        if self.lit in box.steps:
            return "lit"
        if self.wrong & set(box.steps):
            return "failed"
        most = max(len(caption_lines(step, self.captions)) for step in box.steps)
        return ("pale", "step", "step" if self.agree else "differs")[min(most, 2)]  # (4)

    def _stores(self, diagram: Diagram) -> None:  # (2)
        fill, border, text = COLOURS["store"]
        for store, (box, way) in diagram.beside.items():
            said = caption_lines(diagram.caption_of[store], self.captions) if store in diagram.caption_of else []
            self.graph.node(
                store, label=f"<{store}{_small(said)}>", shape="folder" if store in DATA else "cylinder",
                width=f"{STORE / 72:.2f}", fillcolor=fill, color=border, fontcolor=text,
            )
            self._row(box, store)
            self.graph.edge(box, store, style="dashed", dir={"to": "forward", "from": "back", "both": "both"}[way])
        for store, box in diagram.also:
            self.graph.edge(store, box, style="dashed", constraint="false")
        right = list(CHECKPOINT)
        if diagram.background is not None:
            self._box(self.graph, diagram.background, STORE)
            self.graph.edge("state store", diagram.background.name, style="dashed", dir="back", weight="100")
            right.insert(right.index("state store") + 1, diagram.background.name)
        for column in (DATA, right):
            self._chain(column, style="invis")

    def _row(self, *names: str) -> None:
        with self.graph.subgraph() as row:
            row.attr(rank="same")
            for name in names:
                row.node(name)

    def _chain(self, names: Sequence[str], style: str) -> None:
        for tail, head in pairwise(names):
            self.graph.edge(tail, head, style=style, weight="100")

    def _back(self, tails: Sequence[str], head: str, style: str, past: Sequence[str] = ()) -> None:  # (5)
        points = {name: f"{head} {name}" for name in (head, *past, *tails)}
        for name, point in points.items():
            self.graph.node(point, shape="point", width="0", style="invis")
            self._row(name, point)
            drawn = {"style": "invis"} if name in past else {"style": style, "dir": "back" if name == head else "none"}
            self.graph.edge(self._last.get(name, name), point, **drawn)
            self._last[name] = point
        for upper, lower in pairwise(points.values()):
            self.graph.edge(upper, lower, style=style, dir="none", weight="100")


def _table(box: Box, told: Sequence[str]) -> str:
    """A table without lines: the name of a box on the left, what its steps say on the right."""
    name = f"<B>{escape(title(box.name))}</B>"
    says = f'<BR ALIGN="LEFT"/><FONT POINT-SIZE="10">{escape(box.says)}</FONT><BR ALIGN="LEFT"/>' if box.says else ""
    lines = [part for line in told for part in line.split(" | ")]
    said = '<BR ALIGN="LEFT"/>'.join(escape(clip(line, 34)) for line in lines)
    right = f'<FONT POINT-SIZE="11">{said}<BR ALIGN="LEFT"/></FONT>' if said else " "
    return (
        '<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1"><TR>'
        f'<TD ALIGN="LEFT" BALIGN="LEFT" WIDTH="{NAME}">{name}{says}</TD>'
        f'<TD ALIGN="LEFT" BALIGN="LEFT" WIDTH="{CAPTION}">{right}</TD></TR></TABLE>>'
    )


def _small(lines: Sequence[str]) -> str:
    return "".join(f'<BR/><FONT POINT-SIZE="11">{escape(clip(line, 20))}</FONT>' for line in lines)


def title(step: str) -> str:
    """`walCommit` -> "(3) walCommit", numbered as in the execution flow document; what is no step has no number."""
    document = STEPS[step].document if step in STEPS else ""
    numbers = re.findall(r"\d+", document) if document.startswith("Execution flow (") else []
    between = "-" if " to " in document else ", "
    return f"({between.join(numbers)}) {step}" if numbers else step
