"""The template plan of a query: what is compiled once, so that every batch only has to fill it in.

Models: the `logicalPlan` of MicroBatchExecution and the strategies that give IncrementalExecution its stateful
operators (From query to the plan; SIGMOD'18 paper, section 5: analysis, incrementalization, optimization).

1. Spark analyses the user's DataFrame. Each distinct streaming leaf of the analysed plan becomes one source,
   numbered in the order in which a walk from the top meets them.
2. Spark's optimizer rewrites the plan: filters and columns move below the stateful operators, so state holds no more
   than the query needs.
3. The optimised plan is compiled into the few nodes of engine/plan/nodes.py, which has an example.

Operators are numbered from the sink upward, 0 first, as Spark numbers their state folders.

Spark optimises every batch anew; the shape does not depend on the data, so once is enough. Only a plan with the current time or
random numbers is compiled per batch, because the batch's time and new seeds are part of it (engine/jvm/of_batch.py).

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minispark_stream.engine.jvm import expressions, of_batch, plans, scala, sessions
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.base import ALLOW_MULTIPLE, StatefulOperator
from minispark_stream.engine.operators.flat_map_groups_with_state import compile_flat_map_groups_with_state
from minispark_stream.engine.operators.stateful_aggregation_strategy import compile_aggregate
from minispark_stream.engine.operators.streaming_deduplicate import compile_deduplicate
from minispark_stream.engine.operators.streaming_global_limit import compile_global_limit
from minispark_stream.engine.operators.symmetric_hash_join import compile_symmetric_hash_join
from minispark_stream.engine.plan.nodes import Node, SourceLeaf, Stateless, Static, Watermark
from minispark_stream.engine.plan.streaming_relation import (
    StreamingLeaf,
    described,
    leaf_key,
    streaming_leaf,
    streaming_sources,
    without_file_relations,
)

# Which Catalyst nodes keep state, and what makes an operator of one; `register_stateful_operator` adds to them.
STATEFUL: dict[str, Callable[..., StatefulOperator]] = {
    "Aggregate": compile_aggregate,
    "Deduplicate": compile_deduplicate,
    "DeduplicateWithinWatermark": compile_deduplicate,
    "FlatMapGroupsInPandasWithState": compile_flat_map_groups_with_state,
}
UNKNOWN_STATEFUL = ("FlatMapGroupsWithState", "TransformWithState", "TransformWithStateInPySpark")


def register_stateful_operator(name: str, compile_operator: Callable[..., StatefulOperator]) -> None:
    """Let `compile_operator` make an operator of each Catalyst node of the class `name`."""
    STATEFUL[name] = compile_operator


@dataclass(frozen=True)
class Template:
    """A compiled query: its root node, and the watermarks and stateful operators found on the way.

    `redefined` is what the query ends with when its watermark moves: a watermark is above another one.
    """

    root: Node
    watermarks: tuple[Watermark, ...]
    operators: tuple[StatefulOperator, ...]
    text: str
    redefined: AnalysisException | None = None


def compile_template(
    session: SparkSession, analyzed: JavaObject, timestamp_ms: int | None = None, output_mode: str = "append"
) -> Template:
    """Compile an analysed streaming plan.

    Args:
        session: the query's own session; its confs decide how Spark optimises and plans.
        analyzed: the analysed logical plan of the user's DataFrame.
        timestamp_ms: the batch timestamp that current_timestamp() and its kin stand for.
        output_mode: of the query, which says whether a limit is one of the stream or of an answer.

    Raises:
        AnalysisException: an operator, or a format of its state, that the model does not have.
    """
    source_keys = list(dict(streaming_sources(session, analyzed)))  # (1)
    analyzed = without_file_relations(session, analyzed)
    if timestamp_ms is not None:
        analyzed = of_batch.plan_of_batch(session, analyzed, timestamp_ms)
    optimized = plans.optimize(session, plans.with_cached_data(session, analyzed))  # (2)
    compiler = _Compiler(session, source_keys, output_mode)
    root = compiler.compile(optimized)
    return Template(
        root=root,
        watermarks=tuple(watermark for _, watermark in sorted(compiler.watermarks.items())),
        operators=tuple(operator for _, operator in sorted(compiler.operators.items())),
        text=described(session, optimized),
        redefined=_redefined_watermark(session, compiler.watermarks.values()),
    )


class _Compiler:
    """(3) One walk over the optimised plan, from the top; operator ids count up on the way down."""

    def __init__(self, session: SparkSession, source_keys: list[tuple[Any, ...]], output_mode: str):
        self.session = session
        self.output_mode = output_mode
        self.source_keys = source_keys
        self.watermarks: dict[int, Watermark] = {}
        self.operators: dict[int, StatefulOperator] = {}
        self._watermark_ids, self._operator_ids = count(), count()

    def compile(self, plan: JavaObject) -> Node:
        if not plan.isStreaming():
            return Static(plan)
        stream = streaming_leaf(self.session, plan)
        if stream is not None:
            return self._source(plan, stream)
        name = scala.class_name(plan)
        children = scala.items(plan.children())
        if name == "LocalRelation":  # what the optimizer makes of a branch that has no rows (`where false`, `limit 0`)
            return Static(plan.copy(plan.output(), plan.data(), False, plan.stream()))
        if name == "EventTimeWatermark":
            return self._watermark(plan)
        if name in STATEFUL:
            return self._stateful(STATEFUL[name], plan, children)
        if name == "UpdateEventTimeWatermarkColumn":
            return self._event_time_of_output(plan)
        if name == "GlobalLimit" and self._is_of_all_rows(children[0]):
            return self._stateful(compile_global_limit, plan, children)
        if name == "LocalLimit" and not _is_sorted(plan.child()):
            return self._local_limit(plan)
        if name == "Join" and all(child.isStreaming() for child in children):
            return self._stateful(compile_symmetric_hash_join, plan, children)
        if name in UNKNOWN_STATEFUL:
            raise AnalysisException(message=f"minispark_stream has no stateful operator for {name}.")
        return Stateless(plan, tuple(self.compile(child) for child in children))

    def _stateful(
        self, compile_operator: Callable[..., StatefulOperator], plan: JavaObject, below: list[JavaObject]
    ) -> StatefulOperator:
        operator_id = next(self._operator_ids)  # before the operators below take theirs
        children = tuple(self.compile(child) for child in below)
        empty = plans.with_children(self.session, plan, [empty_plan(self.session, child) for child in children])
        operator = compile_operator(self.session, plan, operator_id, children, empty)
        self.operators[operator_id] = operator
        return operator

    def _event_time_of_output(self, plan: JavaObject) -> Node:
        """transformWithState with an `eventTimeColumnName`: the operator itself sees to it that its rows are not late."""
        below = plan.child()
        compile_operator = partial(STATEFUL[scala.class_name(below)], output_event_time=plan.eventTime())
        operator = self._stateful(compile_operator, below, scala.items(below.children()))
        return Stateless(plans.project(self.session, scala.items(plan.output()), below), (operator,))

    def _is_of_all_rows(self, below: JavaObject) -> bool:
        """Whether a limit is one of all rows that ever come. Above an aggregation in complete mode, it is one of an answer."""
        return self.output_mode == "append" or self.output_mode == "complete" and not _has_aggregation(below)

    def _local_limit(self, plan: JavaObject) -> Node:
        """The limit of each partition is for speed only. It stops reading early, which operators below must not suffer."""
        child = self.compile(plan.child())
        return child if has_operator(child) else Stateless(plan, (child,))

    def _source(self, leaf: JavaObject, stream: StreamingLeaf) -> SourceLeaf:
        attributes = tuple((a.name(), a.exprId()) for a in scala.items(leaf.output()))
        ordinal = self.source_keys.index(leaf_key(leaf, stream))
        no_rows = plans.leaf_over(self.session, plans.empty_rows(self.session), leaf.output(), streaming=False)
        return SourceLeaf(ordinal, stream.relation, attributes, no_rows)

    def _watermark(self, plan: JavaObject) -> Watermark:
        """EventTimeWatermark as Spark's own observed metrics: max, min, avg (ms) and count of the event times.

        A null event time counts as 0, as in Spark, where an empty slot of a row reads as 0. The two sides of a stream that is
        joined with itself are observed under one name, so that Spark can see that they are the same rows.
        """
        index, node_id = next(self._watermark_ids), plan.nodeId().toString()
        child = self.compile(plan.child())
        same = [w for w in self.watermarks.values() if w.node_id == node_id and w.plan.child().sameResult(plan.child())]
        observation = same[0].observation if same else f"eventTimeStats:{index}"
        event_time = expressions.column(self.session, plan.eventTime())
        ms = F.coalesce(F.unix_millis(event_time), F.lit(0))
        observed = plans.analyzed(plans.of_rows(self.session, plan.child()).observe(
            observation, F.max(ms).alias("max"), F.min(ms).alias("min"), F.avg(ms).alias("avg"), F.count(ms).alias("count")
        ))
        if same:
            observed = scala.call(
                observed.copy, name=observation, metrics=observed.metrics(), child=observed.child(),
                dataframeId=same[0].plan.dataframeId(),
            )
        delay_ms = plan.getDelayMs(plan.delay())
        node = Watermark(node_id, plan.eventTime().name(), delay_ms, observation, observed, (child,))
        self.watermarks[index] = node
        return node


def _is_sorted(plan: JavaObject) -> bool:
    """Whether the rows below a limit come from a sort, which reads all of its input before the first row leaves."""
    name = scala.class_name(plan)
    return name == "Sort" or name == "Project" and _is_sorted(plan.child())


def _has_aggregation(plan: JavaObject) -> bool:
    is_one = scala.class_name(plan) == "Aggregate" and plan.isStreaming()
    return is_one or any(map(_has_aggregation, scala.items(plan.children())))


def _redefined_watermark(session: SparkSession, watermarks: Iterable[Watermark]) -> AnalysisException | None:
    if not sessions.flag(session, ALLOW_MULTIPLE) or not any(map(is_above_a_watermark, watermarks)):
        return None
    return analysis_error(session, "_LEGACY_ERROR_TEMP_3076", config=ALLOW_MULTIPLE)


def is_above_a_watermark(node: Node) -> bool:
    """Whether the rows that a node gets have a watermark already; a function of the user's takes it away."""
    return any(map(_has_watermark, node.children))


def _has_watermark(node: Node) -> bool:
    match node:
        case Watermark():
            return True
        case SourceLeaf() | Static() | Stateless():
            return is_above_a_watermark(node)
        case operator:
            return is_above_a_watermark(node) and operator.output_watermark(0) is not None


def has_operator(node: Node) -> bool:
    return isinstance(node, StatefulOperator) or any(map(has_operator, node.children))


def empty_plan(session: SparkSession, node: Node) -> JavaObject:
    """A node as a batch plan over no rows, to ask Spark how it would plan what is above it."""
    match node:
        case Static(plan):
            return plan
        case Stateless() | Watermark():
            return plans.with_children(session, node.plan, [empty_plan(session, child) for child in node.children])
        case _:
            return node.empty
