"""The few nodes of a compiled query.

Models: what IncrementalExecution distinguishes in a logical plan (From query to the plan).

Everything that needs no state stays a Catalyst plan and is only given new children; what is incremental is a node of its own.

       Stateless(Project)                         Project [window, count]
         StreamingAggregation(operator 0)         Aggregate [window], [window, count(1)]
           Stateless(Project)                     Project [window(ts, 5 minutes)]
             Watermark(delay 10 min)              EventTimeWatermark ts, 10 minutes
               SourceLeaf(0)                      LogicalRDD [ts, k], streaming

The stateful operators are nodes as well (engine/operators/base.py): a node is whatever has `children`.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

from minispark_stream.engine.jvm.plans import Renaming
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.streaming_relation import StreamingRelation

Result = TypeVar("Result")


@dataclass(frozen=True)
class SourceLeaf:
    """A place in the plan where the new rows of source `ordinal` go, renamed."""

    ordinal: int
    relation: StreamingRelation
    attributes: tuple[tuple[str, JavaObject], ...]
    empty: JavaObject = field(repr=False, compare=False)
    renamed: Renaming = field(repr=False, compare=False)
    children: tuple[Node, ...] = ()

    @property
    def is_of_files(self) -> bool:
        """Whether the new rows are a relation over files, with at most a Project above it, which may pad a `char(3)`."""
        return self.relation.file_format is not None

    @property
    def asks_for_metadata(self) -> bool:
        """Whether the query uses `_metadata`, of a source of files."""
        return len(self.attributes) > len(self.relation.schema)


@dataclass(frozen=True)
class Stateless:
    """A Catalyst node that needs no state: it runs on each batch alone."""

    plan: JavaObject
    children: tuple[Node, ...]


@dataclass(frozen=True)
class Watermark:
    """`withWatermark(column, delay)`: measures the event times that pass through, under an observed metric."""

    node_id: str
    column: str
    delay_ms: int
    observation: str
    plan: JavaObject = field(repr=False, compare=False)
    children: tuple[Node, ...]


@dataclass(frozen=True)
class Static:
    """A subtree without streams. Its rows may be others in each batch, so it is only known by the way there: which child of the
    top of the optimised plan it is in, which child of that one, and so on."""

    way: tuple[int, ...]
    children: tuple[Node, ...] = ()

    def plan_in(self, optimized: JavaObject) -> JavaObject:
        """The subtree in the optimised plan of a batch."""
        return reduce(lambda plan, i: plan.children().apply(i), self.way, optimized)


def fold(node: Node, of: Callable[[Any, list[Result]], Result]) -> Result:
    """Go up a tree from its leaves: `of` is given a node, and what it has returned for each of the nodes below."""
    return of(node, [fold(child, of) for child in node.children])


Node = SourceLeaf | Stateless | Watermark | Static | Any  # Any: a StatefulOperator
