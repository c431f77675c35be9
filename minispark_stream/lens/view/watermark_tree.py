"""How a watermark rises through the plan: what each operator sees and promises, batch by batch.

1. The tree is the plan without the nodes that only pass a watermark on: sources and `withWatermark` below, operators above.
2. The query has one watermark: the least (or greatest, by the policy) of what its `withWatermark` nodes have measured. It
   enters the plan at each of them.
3. An operator drops rows by the watermark that it saw in the batch before, evicts by the one that it sees now, and promises
   that its output is not older than a certain time: this is the watermark that the operator above it sees.
4. Of a long trace, the newest `MOST` batches are shown.

                              batch 3
    stateStoreSave            evicts up to 12:19:59     an aggregation above the join sees what the join promises
      symmetricHashJoin       evicts up to 12:30, promises 12:19:59
        withWatermark ta      12:30

Real Spark does not report the watermarks of its operators, so only the model's traces have this picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.lens.trace.measured import measured
from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.trace.values import at_least_0
from minispark_stream.lens.view.measure import text_width
from minispark_stream.lens.view.sheet import GREY, HELD, MARGIN, NEW, PALE, VIOLET, Sheet, columns_wide
from minispark_stream.lens.view.words import delay_words, short, short_clock

MOST, DEEPEST = 10, 20
TREE, INDENT, WORDS = 310.0, 18.0, 60.0  # the tree at most, a step to the right in it, and the words at its right
NARROW, WIDE = 46.0, 84.0  # columns
DROPS, EVICTS, PROMISES = "#c62828", "#8a5600", "#6a3fa0"
LINES = [("drops", DROPS), ("evicts", EVICTS), ("promises", PROMISES)]
HEIGHTS = {"operator": 50.0, "watermark": 24.0, "source": 24.0}


@dataclass(frozen=True)
class Cell:
    """An operator in a batch: rows up to `drops_ms` are late, state up to `evicts_ms` is evicted; it promises `promises_ms`.

    A `withWatermark` has only the last: what it has measured after the batch. 0 and None mean nothing yet.
    """

    drops_ms: int | None
    evicts_ms: int | None
    promises_ms: int | None


@dataclass(frozen=True)
class TreeNode:
    """A line of the tree; `depth` 0 is the operator next to the sink. There is a cell (or None) for each batch."""

    kind: str
    label: str
    depth: int
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Tree:
    """The plan from the sink down, and the watermark of the query in each batch."""

    nodes: tuple[TreeNode, ...]
    batch_ids: tuple[int, ...]
    watermarks: tuple[int | None, ...]
    policy: str
    batches: int


def tree(recording: Recording) -> Tree | None:
    """The tree of the newest batches; None if no plan with a watermark was recorded."""
    planned = [(batch, plan) for batch in recording.batches if (plan := _plan(batch)) and not batch.error]
    shown = planned[-MOST:]  # (4)
    if not shown:
        return None
    nodes = tuple(_nodes(shown[-1][1], 0, [batch for batch, _ in shown], {}))
    if not any(node.kind == "watermark" for node in nodes):
        return None
    tracked = [_events(batch, "updateWatermark") for batch, _ in shown]
    return Tree(
        nodes, tuple(batch.batch_id for batch, _ in shown), tuple(ins.get("watermark") for ins, _ in tracked),
        str(tracked[-1][0].get("policy") or "min"), len(planned),
    )


def _plan(batch: Batch) -> Mapping[str, Any]:
    return _events(batch, "queryPlanning")[1].get("tree") or {}


def _events(batch: Batch, step: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    found = next((event for event in batch.events if event.step == step), None)
    return ({}, {}) if found is None else (found.inputs, found.outputs)


def _nodes(plan: Mapping[str, Any], depth: int, batches: Sequence[Batch], counted: dict[str, int]) -> Iterator[TreeNode]:
    """(1) Depth first; `counted` numbers the `withWatermark` nodes of the same column."""
    if depth > DEEPEST:
        return
    if "operator" in plan:
        number = plan.get("operatorId")
        yield TreeNode("operator", f"{number}: {plan['operator']}", depth, tuple(_operator(batch, number) for batch in batches))
    elif "watermark" in plan:
        column, delay = str(plan["watermark"]), plan.get("delayMs") or 0
        place = counted[column] = counted.get(column, -1) + 1
        cells = tuple(_measured(batch, column, place) for batch in batches)
        yield TreeNode("watermark", f"withWatermark {column}, {delay_words(delay)}", depth, cells)
    elif "source" in plan:
        yield TreeNode("source", f"source {short(str(plan['source']))}", depth, ())
    else:
        depth -= 1  # a node with several children, such as a union
    for child in plan.get("below", ()):
        yield from _nodes(child, depth + 1, batches, counted)


def _operator(batch: Batch, number: int | None) -> Cell | None:
    """(3) What an operator drops, evicts and promises in a batch; None if it did not run in it."""
    ins = next((e.inputs for e in batch.events if e.step == "stateOperator" and e.inputs.get("operatorId") == number), None)
    if ins is None:
        return None
    promises = _output(_plan(batch), number, 0)
    decides = ins.get("decides", {})  # a trace of older times has the watermarks only
    late, eviction = decides.get("late_ms", ins.get("watermarkLate")), ins.get("watermarkEviction")
    evicts = any(ms is not None for ms in decides.get("leaves_ms", [eviction]))
    return Cell(at_least_0(late), at_least_0(eviction) if evicts else None, promises)


def _output(plan: Mapping[str, Any], number: int | None, depth: int) -> int | None:
    if "operator" in plan and plan.get("operatorId") == number:
        return plan.get("output")
    children = plan.get("below", ()) if depth <= DEEPEST else ()
    found = (_output(child, number, depth + 1) for child in children)
    return next((ms for ms in found if ms is not None), None)


def _measured(batch: Batch, column: str, place: int) -> Cell | None:
    """(2) What a `withWatermark` node measured in a batch; `place` counts those of the same column."""
    same = [one for one in measured(_events(batch, "updateWatermark")[1]) if one.node == column]
    return Cell(None, None, same[place].watermark_ms) if place < len(same) else None


# -- the drawing -------------------------------------------------------------------------------------------

CAPTION = (
    "Read a column from the bottom up. Each withWatermark measures the newest event time less its delay; {which} of them is "
    "the watermark of the query from the next batch on. An operator sees what the one below it promises."
)


def svg(found: Tree | None) -> str | None:
    """The picture of a tree, if there is one."""
    if found is None:
        return None
    which = "the greatest" if found.policy == "max" else "the smallest"
    labels = max(INDENT * node.depth + text_width(node.label, 9) for node in found.nodes)
    first = MARGIN + min(labels + WORDS + 24, TREE)
    said = [*map(_clock, found.watermarks), *(one for node in found.nodes for cell in node.cells for one in _words(node, cell))]
    longest = max(text_width(one, 9, bold=True) for one in said)
    column = columns_wide(len(found.batch_ids), first + MARGIN, max(longest + 6, NARROW), WIDE)
    lines = [first + column * n for n in range(len(found.batch_ids) + 1)]
    middles = [line + column / 2 for line in lines[:-1]]
    sheet = Sheet("watermarks", lines[-1] + MARGIN, "The watermark on its way up the plan", CAPTION.format(which=which), [
        (DROPS, "drops rows up to (what it saw in the batch before)", True), (EVICTS, "evicts state up to", True),
        (PROMISES, "promises to the operator above", True),
    ])
    top = sheet.top
    sheet.words(MARGIN, top + 27, "watermark of the query", bold=True, size=9.5)
    for x, batch_id, ms in zip(middles, found.batch_ids, found.watermarks):
        sheet.words(x, top + 6, f"batch {batch_id}", size=9, bold=True, align="center")
        sheet.words(x, top + 27, _clock(ms), size=9, bold=True, align="center")
    sheet.top = top + 44
    centres: list[tuple[int, float]] = []  # depth and height of the nodes above
    for node in found.nodes:
        tall = HEIGHTS[node.kind]
        y, x = sheet.top, MARGIN + INDENT * node.depth
        look = {"operator": NEW, "watermark": VIOLET, "source": HELD}[node.kind]
        sheet.box(x, y + 2, first - WORDS - 8 - x, tall - 6, node.label, look)
        lines_of = LINES if node.kind == "operator" else [("measures", PROMISES)] if node.kind == "watermark" else []
        for line, (name, colour) in enumerate(lines_of):
            middle = y + tall / 2 - 1 + 14 * (line - (len(lines_of) - 1) / 2)
            sheet.words(first - 8, middle, name, ink=colour, size=8.5, align="right")
            for x_of_batch, cell in zip(middles, node.cells):
                for one in _words(node, cell)[line:line + 1]:
                    sheet.words(x_of_batch, middle, one, ink=colour, size=8.5, align="center")
        parent = next((height for depth, height in reversed(centres) if depth < node.depth), None)
        if parent is not None:
            sheet.line([x - INDENT / 2, x - INDENT / 2, x], [parent, y + tall / 2 - 1, y + tall / 2 - 1], GREY, 1.1)
        centres.append((node.depth, y + tall - 4))
        sheet.line([MARGIN, sheet.width - MARGIN], [y - 1] * 2, PALE, 0.6, layer=1)
        sheet.top += tall + 2
    for x in lines:
        sheet.line([x] * 2, [top, sheet.top], PALE, 0.7, layer=1)
    sheet.top += 6
    if len(found.batch_ids) < found.batches:
        sheet.note(f"The newest {len(found.batch_ids)} of {found.batches} batches.")
    return sheet.svg()


def _words(node: TreeNode, cell: Cell | None) -> list[str]:
    """What is written in a cell, from top to bottom."""
    if cell is None:
        return []
    if node.kind == "watermark":
        return [_clock(cell.promises_ms) if cell.promises_ms else "no row"]
    return [_clock(cell.drops_ms), _clock(cell.evicts_ms), "none" if cell.promises_ms is None else _clock(cell.promises_ms)]


def _clock(ms: int | None) -> str:
    return short_clock(ms) if ms and ms > 0 else "–"
