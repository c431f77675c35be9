"""A logical plan as the checks of a query see it: its nodes, which are read once, and how one of them is refused.

Models: what UnsupportedOperationChecker asks of a LogicalPlan (`isStreaming`, `foreachUp`, `collect`, `throwError`).

1. The plan is read once into `CheckedNode`s, because every call to the JVM takes time.
2. The error for a refused node has Spark's text, and shows the plan from this node down.

    read(plan)                    Aggregate (streaming) -> Project (streaming) -> LogicalRDD (streaming)
    refuse(query, node, "...")    raises an error: "...;", and then the plan as `explain` prints it

Differs from Spark: for every source, the plan shows its name, its columns and the user's name for it, as Spark does for
files; for other sources, Spark prints Java objects, and for a table also its catalog.
Shown by tests/conformance/test_unsupported_operations.py::test_a_refusal_shows_the_plan_but_its_message_does_not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import expressions, scala
from minispark_stream.engine.jvm.errors import extended_analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.streaming_relation import with_sources

AGGREGATIONS = ("Aggregate", "Distinct")  # the optimizer turns a Distinct into an Aggregate


@dataclass(frozen=True, eq=False)
class CheckedNode:
    """A plan node, with the answers to the questions that are asked most often."""

    name: str
    plan: JavaObject
    streaming: bool
    children: tuple[CheckedNode, ...]

    def down(self) -> Iterator[CheckedNode]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.down()

    def up(self) -> Iterator[CheckedNode]:
        """This node and all below it, children first."""
        for child in self.children:
            yield from child.up()
        yield self

    def aggregations(self) -> list[CheckedNode]:
        return [node for node in self.down() if node.streaming and node.name in AGGREGATIONS]


@dataclass(frozen=True)
class Query:
    """The query that is checked: its plan, and its output mode as Spark prints it ("Append", "Update", "Complete")."""

    session: SparkSession
    root: CheckedNode
    mode: str


def read(plan: JavaObject) -> CheckedNode:  # (1)
    """The nodes of an analysed plan."""
    children = tuple(read(child) for child in scala.items(plan.children()))
    return CheckedNode(scala.class_name(plan), plan, bool(plan.isStreaming()), children)


def refuse(query: Query, node: CheckedNode, message: str) -> NoReturn:  # (2)
    error = extended_analysis_error(query.session, node.plan, "_LEGACY_ERROR_TEMP_3102", msg=message)
    error._desc = with_sources(query.session, node.plan, error._desc)  # type: ignore[attr-defined]
    raise error


def has_event_time(columns: JavaObject) -> bool:
    """Whether one of these columns has a watermark."""
    return any(map(expressions.has_watermark, scala.items(columns)))


def is_stream_stream_join(node: CheckedNode) -> bool:
    return node.name == "Join" and all(child.streaming for child in node.children)


def has_event_time_timeout(node: CheckedNode) -> bool:
    return str(node.plan.timeout().toString()) == "EventTimeTimeout"
