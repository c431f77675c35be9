"""The order in which the steps of a trace are shown.

Events are recorded when a step *ends*, so a step comes after the steps inside it. But a reader wants to see a batch in the
order in which it makes sense:

1. Rebuild the tree from `depth`: a step contains the deeper ones that ended before it.
2. Walk it. `startQuery`, `trigger`, `runBatch` and `walCommit` are shown before what happens inside them.
   `constructNextBatch` is shown when it decides: after the sources have answered, before anything is written down.
   `addBatch` is shown twice: when the sink asks for its rows, about which nothing is known by then, and when it has them.
   Between the two are the stateful operators, from the lowest to the highest. Every other step is shown when it ends.

    recorded   latestOffset, walCommit, constructNextBatch, getBatch, stateOperator, addBatch, runBatch, trigger
    walked     trigger, latestOffset, constructNextBatch, walCommit, runBatch, getBatch, addBatch, stateOperator, addBatch

Maintenance runs on a thread of its own, so it is not inside any step, and no step is inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recording import is_rerun

BEGINS = -1

Key = tuple[int | None, int, str, int]


@dataclass(frozen=True)
class Moment:
    """One step on the walk through a trace.

    `batch_id` is that of the trigger. `attempt` distinguishes a batch that is run again after a restart from the first try, and
    `occurrence` the second `latestOffset` of a batch from the first (`BEGINS`: the step only begins here). `within` are the
    steps around this one, from the outside in. `run` counts the starts of the query from 1. The event of a step that begins
    has no outputs; `begun` is the complete event.
    """

    event: Event
    run: int
    batch_id: int | None
    attempt: int
    within: tuple[str, ...]
    occurrence: int
    begun: Event | None = None

    @property
    def key(self) -> Key:
        """What identifies this moment in the trace of another engine, too, which may not have the start of the query."""
        return (self.batch_id, self.attempt, self.event.step, self.occurrence)


def failed(event: Event) -> bool:
    """Whether something went wrong in this step itself, and not in a step inside it."""
    return event.error is not None and not STEPS[event.step].frame


@dataclass(frozen=True)
class _Node:
    event: Event
    children: tuple[_Node, ...] = ()


def moments(events: Sequence[Event]) -> tuple[Moment, ...]:
    """The events in the order in which they make sense."""
    walk: list[Moment] = []
    run = 0
    attempts: Counter[int | None] = Counter()
    for _, group in groupby(events, key=lambda e: e.trigger):
        of_trigger = list(group)
        batch_id = next((e.batch_id for e in of_trigger if e.step in ("runBatch", "trigger")), None)
        if batch_id is None or any(map(is_rerun, of_trigger)):
            attempts[batch_id] += 1
        seen: Counter[str] = Counter()
        for event, within, begun in (one for node in _tree(of_trigger) for one in _walk(node)):
            run += event.step == "startQuery"
            occurrence = seen[event.step] if begun is None else BEGINS
            walk.append(Moment(event, max(run, 1), batch_id, attempts[batch_id], within, occurrence, begun))
            seen[event.step] += begun is None
    return tuple(walk)


def _tree(events: Iterable[Event]) -> list[_Node]:  # (1)
    roots: list[_Node] = []
    apart: list[_Node] = []
    for event in events:
        if event.step == "maintenance":
            apart.append(_Node(event))
            continue
        first = len(roots)
        while first > 0 and roots[first - 1].event.depth > event.depth:
            first -= 1
        roots[first:] = [_Node(event, tuple(roots[first:]))]
    return roots + apart


def _walk(node: _Node, within: tuple[str, ...] = ()) -> Iterator[tuple[Event, tuple[str, ...], Event | None]]:  # (2)
    step = node.event.step
    inside = (*within, step)
    before: list[_Node]
    after: list[_Node]
    if STEPS[step].frame:
        before, after = [], list(node.children)
    elif step == "addBatch" and node.children:
        yield replace(node.event, outputs={}, duration_ms=0, error=None), within, node.event
        before, after = sorted(node.children, key=lambda child: -(child.event.inputs.get("operatorId") or 0)), []
    elif step == "constructNextBatch":
        before = [c for c in node.children if c.event.step == "latestOffset"]
        after = [c for c in node.children if c.event.step != "latestOffset"]
    else:
        before, after = list(node.children), []
    for child in before:
        yield from _walk(child, inside)
    yield node.event, within, None
    for child in after:
        yield from _walk(child, inside)
