"""What the two flow diagrams contain: the boxes, the frames, what stands beside a box, and the lines.

    BRIEF                                        WHOLE
    start                                        startQuery, populateStartOffsets
    trigger <---------------------------+        trigger
    what is new? -----> offset log      |        latestOffset, constructNextBatch, walCommit, commitSource, purge
    + run the batch -+                  |        + runBatch -------+
    | read  <-----------source          |        | getBatch, queryPlanning
    | state <----> state store          |        | addBatch, stateOperator
    | write ------------> sink          |        |
    +----------------+                  |        | updateWatermark, commitOffsets
    done -------------> commit log      |        +-----------------+
    wait -------------------------------+        finishTrigger

Graphviz lays them out: boxes that follow each other are below each other, and a store has the height of its box. The data that
come and go (source, sink) are next to the boxes, and what lies in the checkpoint is to the right of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from minispark_stream.lens.steps import inside

DATA, CHECKPOINT = ("source", "sink"), ("offset log", "state store", "commit log")


@dataclass(frozen=True)
class Box:
    """A box, and the steps that it stands for. `says`: what it does, in a few words; `tells`: the steps whose captions it has.

    A box without `tells` has the captions of all of its steps.
    """

    name: str
    steps: tuple[str, ...]
    says: str = ""
    tells: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """The steps whose captions the box has."""
        return self.tells or self.steps


@dataclass(frozen=True)
class Diagram:
    """A flow diagram.

    parts: the title of a frame ("": no frame) and its boxes, from top to bottom.
    beside: store -> the box beside which it stands, and where the arrow between them leads: "to" the store, "from" it, "both".
    also: more arrows between a store and a box, from the first to the second.
    caption_of: store -> the step whose caption it has.
    loop: the box after which the next trigger comes, and the box of the trigger.
    restart: the box that reads both logs, if an arrow shall say so.
    background: a box that is below the state store.
    """

    parts: tuple[tuple[str, tuple[Box, ...]], ...]
    beside: dict[str, tuple[str, str]]
    also: tuple[tuple[str, str], ...]
    caption_of: dict[str, str]
    loop: tuple[str, str]
    restart: str | None = None
    background: Box | None = None

    def boxes(self) -> Iterator[Box]:
        """All boxes, those of the column from top to bottom."""
        for _, boxes in self.parts:
            yield from boxes
        if self.background is not None:
            yield self.background


def _each(names: tuple[str, ...]) -> tuple[Box, ...]:
    return tuple(Box(name, (name,)) for name in names)


_CONSTRUCT = tuple(takewhile(lambda name: name != "runBatch", inside("trigger")))
_RUN = tuple(inside("runBatch"))

BRIEF = Diagram(
    (
        ("", (
            Box(
                "start", ("startQuery", "populateStartOffsets"), "once: where did the last run end?",
                ("populateStartOffsets",),
            ),
            Box("trigger", ("trigger",), "it is time to look"),
            Box(
                "what is new?", _CONSTRUCT, "ask the sources, and write down what to read",
                ("constructNextBatch", "latestOffset"),
            ),
        )),
        ("run the batch", (
            Box("read", ("getBatch",), "the new rows"),
            Box("state", ("stateOperator",), "what is remembered from batch to batch"),
            Box("write", ("runBatch", "queryPlanning", "addBatch"), "compute, and hand the result to the sink", ("addBatch",)),
        )),
        ("", (
            Box("done", ("updateWatermark", "commitOffsets"), "write down that the batch is done", ("updateWatermark",)),
            Box("wait", ("finishTrigger", "maintenance"), "report, until it is time to look again", ("finishTrigger",)),
        )),
    ),
    beside={
        "offset log": ("what is new?", "to"), "source": ("read", "from"), "sink": ("write", "to"),
        "state store": ("state", "both"), "commit log": ("done", "to"),
    },
    also=(("source", "what is new?"),),
    caption_of={"offset log": "walCommit", "commit log": "commitOffsets"},
    loop=("wait", "trigger"),
)

WHOLE = Diagram(
    (
        ("", _each(("startQuery", "populateStartOffsets", "trigger"))),
        ("construct the next batch", _each(_CONSTRUCT)),
        ("run the batch", _each(_RUN)),
        ("", _each(("finishTrigger",))),
    ),
    beside={
        "offset log": ("walCommit", "to"), "source": ("commitSource", "to"), "sink": ("addBatch", "to"),
        "state store": ("stateOperator", "both"), "commit log": ("commitOffsets", "to"),
    },
    also=(("source", "latestOffset"), ("source", "getBatch")),
    caption_of={},
    loop=("finishTrigger", "trigger"),
    restart="populateStartOffsets",
    background=Box("maintenance", ("maintenance",)),
)
