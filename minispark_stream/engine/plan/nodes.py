"""The few nodes of a compiled query.

Models: what IncrementalExecution distinguishes in a logical plan (From query to the plan).

A Catalyst node that needs no state is kept as it is, and only gets new children in each batch. Everything else is a node of its
own kind.

       Stateless(Project)                         Project [window, count]
         StreamingAggregation(operator 0)         Aggregate [window], [window, count(1)]
           Stateless(Project)                     Project [window(ts, 5 minutes)]
             Watermark(delay 10 min)              EventTimeWatermark ts, 10 minutes
               SourceLeaf(0)                      LogicalRDD [ts, k], streaming

The stateful operators are nodes as well (engine/operators/base.py): anything that has `children` is a node.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.plans import Renaming
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.streaming_relation import StreamingRelation

Folded = TypeVar("Folded")

CONTROL = "spark control row"  # in real-time mode, the column that says which rows are no data; no name that a user gives


@dataclass(frozen=True)
class SourceLeaf:
    """A place in the plan for the new rows of source `ordinal`, which are renamed to its attributes."""

    ordinal: int
    relation: StreamingRelation
    attributes: tuple[tuple[str, JavaObject], ...]
    empty: JavaObject = field(repr=False, compare=False)
    renamed: Renaming = field(repr=False, compare=False)
    children: tuple[Node, ...] = ()

    @property
    def is_of_files(self) -> bool:
        """Whether the new rows are a relation over files, or a Project above one (which pads a column of type `char(3)`)."""
        return self.relation.file_format is not None

    @property
    def asks_for_metadata(self) -> bool:
        """Whether the query uses `_metadata`, a column that only sources of files have."""
        return len(self.attributes) > len(self.relation.schema)


@dataclass(frozen=True)
class Stateless:
    """A Catalyst node that needs no state: what it does in a batch depends on the rows of that batch alone."""

    plan: JavaObject
    children: tuple[Node, ...]


@dataclass(frozen=True)
class Watermark:
    """`withWatermark(column, delay)`: an observed metric, `observation`, measures the event times that pass through it."""

    node_id: str
    column: str
    delay_ms: int
    observation: str
    plan: JavaObject = field(repr=False, compare=False)
    children: tuple[Node, ...]


@dataclass(frozen=True)
class Static:
    """A subtree without streams.

    It may be planned differently in each batch, so only its place is kept: `way` says in which child of the optimised plan it
    is, in which child of that child, and so on.
    """

    way: tuple[int, ...]
    children: tuple[Node, ...] = ()

    def plan_in(self, optimized: JavaObject) -> JavaObject:
        """The subtree in the optimised plan of a batch."""
        return reduce(lambda plan, i: plan.children().apply(i), self.way, optimized)


def control_of(plan: JavaObject) -> JavaObject | None:
    """The column of a plan that says which of its rows are no data, if it has one (real_time_leaf.py)."""
    return next((a for a in scala.items(plan.output()) if a.name() == CONTROL), None)


def fold(node: Node, of: Callable[[Any, list[Folded]], Folded]) -> Folded:
    """Go up a tree from its leaves: `of` is called with each node and with its own results for the node's children."""
    return of(node, [fold(child, of) for child in node.children])


Node = SourceLeaf | Stateless | Watermark | Static | Any  # Any: a StatefulOperator
