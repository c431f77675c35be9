"""The template plan of a query: Spark's optimised plan, compiled into what is incremental and what is not.

Models: the `logicalPlan` of MicroBatchExecution and the strategies that give IncrementalExecution its stateful
operators (From query to the plan; SIGMOD'18 paper, section 5: analysis, incrementalization, optimization).

1. Spark analyses the user's DataFrame when the query is built. Each different streaming leaf of the analysed plan becomes a
   source; they are numbered in the order in which a walk from the top finds them.
2. Spark's optimizer rewrites the plan: filters and projections move below the stateful operators, so the state contains no more
   than the query needs.
3. The optimised plan is compiled into the few nodes of engine/plan/nodes.py, which has an example.

Operators are numbered from 0, beginning at the sink, like their folders in the state.

Spark optimises the plan in every batch. The model does so only if the plan may change: if the query has a table or a
subquery, whose files, cache or result may change; the current time or random numbers (engine/jvm/query_execution.py); or a
semi join above an aggregation, whose place depends on the size of a stream (query_planner.py). Otherwise all leaves are
streams. A query with one source, or with a limit, has one plan. For any other, a plan is kept for each set of sources that
have new rows (the newest sixteen such plans), because to the optimizer, a stream without new rows is an empty relation:

    left.where("v > 5").join(right, "v")    both have rows       of the right rows, only those with v > 5 are joined and kept
                                            left has no rows     all right rows are kept

4. Most tables do not change the plan. If the optimizer ends with an equal plan, the compiled nodes are kept, and only the
   subtrees of the tables are taken from the new plan: two equal relations need not have the same files.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count

from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from minispark_stream.engine.jvm import expressions, plans, query_execution, scala
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.aggregation.stateful_aggregation_strategy import compile_aggregate
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.deduplication.streaming_deduplicate import compile_deduplicate
from minispark_stream.engine.operators.groups.flat_map_groups_with_state import compile_flat_map_groups_with_state
from minispark_stream.engine.operators.join.symmetric_hash_join import compile_symmetric_hash_join
from minispark_stream.engine.operators.limit.streaming_global_limit import compile_global_limit
from minispark_stream.engine.operators.registered_operator import NODE, compile_registered_operator, is_registered_operator
from minispark_stream.engine.plan import checked_plan
from minispark_stream.engine.plan.nodes import Node, SourceLeaf, Stateless, Static, Watermark, control_of, fold
from minispark_stream.engine.plan.streaming_relation import SourceKeys, StreamingLeaf, described, streaming_leaf

# The Catalyst nodes with state, and the function that makes an operator of each; `register_stateful_operator` adds to them.
STATEFUL: dict[str, Callable[..., StatefulOperator]] = {
    "Aggregate": compile_aggregate,
    "Deduplicate": compile_deduplicate,
    "DeduplicateWithinWatermark": compile_deduplicate,
    "FlatMapGroupsInPandasWithState": compile_flat_map_groups_with_state,
}
_NO_QUERY_OF_ITS_OWN = (
    "Queries with streaming sources must be executed with writeStream.start(), or from a streaming table or flow definition "
    "within a Spark Declarative Pipeline."
)
UNKNOWN_STATEFUL = ("FlatMapGroupsWithState", "TransformWithState", "TransformWithStateInPySpark")


def register_stateful_operator(name: str, compile_operator: Callable[..., StatefulOperator]) -> None:
    """Use `compile_operator` to make an operator of each Catalyst node of the class `name`."""
    STATEFUL[name] = compile_operator


@dataclass(frozen=True)
class Template:
    """A compiled query: its root node, and the watermarks and stateful operators below it.

    `optimized` is the plan that was compiled. `schema` is the Java schema of the analysed plan, with the names that the query
    gives its columns.
    """

    root: Node
    watermarks: tuple[Watermark, ...]
    operators: tuple[StatefulOperator, ...]
    session: SparkSession
    optimized: JavaObject
    schema: JavaObject

    @cached_property
    def reads_tables(self) -> bool:
        """Whether a part of the plan is no stream."""
        return fold(self.root, lambda node, below: isinstance(node, Static) or any(below))

    @cached_property
    def text(self) -> str:
        """The optimised plan, as Spark prints it."""
        return described(self.session, self.optimized)


def changes_with_batch(session: SparkSession, analyzed: JavaObject) -> bool:
    """Whether the plan may differ from batch to batch: not all leaves are streams, or it has subqueries, time or randomness."""
    only_streams = all(streaming_leaf(session, leaf) for leaf in scala.items(analyzed.collectLeaves()))
    if not only_streams or query_execution.has_subquery(session, analyzed):
        return True
    return query_execution.changes_with_batch(session, analyzed)


def compile_template(
    session: SparkSession, analyzed: JavaObject, sources: SourceKeys, timestamp_ms: int, output_mode: str,
    before: Template | None = None,
) -> Template:
    """Compile an analysed streaming plan.

    Args:
        session: the query's own session; its confs decide how Spark optimises and plans.
        analyzed: the analysed logical plan of the user's DataFrame, with leaves over RDDs.
        sources: knows which source each leaf belongs to.  # (1)
        timestamp_ms: the time of the batch, which current_timestamp() and the like return.
        output_mode: the mode of the query, which decides whether a limit limits the stream or a batch's result.
        before: the template of this plan in an earlier batch.

    Raises:
        AnalysisException: Spark's analyzer or optimizer refuses the plan; or it has an operator, or a format of state, that the
            model does not implement.
    """
    of_this_batch, optimized = query_execution.optimized(session, analyzed, timestamp_ms)  # (2)
    if before is not None and optimized.equals(before.optimized) and not query_execution.has_subquery(session, optimized):
        return replace(before, optimized=optimized)  # (4)
    compiler = _Compiler(session, sources, output_mode)
    root = compiler.compile(optimized)
    return Template(
        root=root,
        watermarks=tuple(watermark for _, watermark in sorted(compiler.watermarks.items())),
        operators=tuple(operator for _, operator in sorted(compiler.operators.items())),
        session=session,
        optimized=optimized,
        schema=of_this_batch.schema(),
    )


class _Compiler:
    """(3) One walk over the optimised plan, from the top; operator ids count up on the way down."""

    def __init__(self, session: SparkSession, sources: SourceKeys, output_mode: str):
        self.session = session
        self.output_mode = output_mode
        self.sources = sources
        self.watermarks: dict[int, Watermark] = {}
        self.operators: dict[int, StatefulOperator] = {}
        self._watermark_ids, self._operator_ids = count(), count()

    def compile(self, plan: JavaObject, way: tuple[int, ...] = ()) -> Node:
        """The node for `plan`; `way` says where `plan` is in the optimised plan (Static.way)."""
        if not plan.isStreaming():
            return Static(way)
        children = scala.items(plan.children())
        if not children and (stream := streaming_leaf(self.session, plan)) is not None:
            return self._source(plan, stream)
        name = scala.class_name(plan)
        if name == "LocalRelation":  # the optimizer's replacement for a branch that has no rows (`where false`, `limit 0`)
            return Stateless(plan.copy(plan.output(), plan.data(), False, plan.stream()), ())
        if name == "EventTimeWatermark":
            return self._watermark(plan, way)
        if name in STATEFUL:
            return self._stateful(STATEFUL[name], plan, way)
        if name == NODE and is_registered_operator(plan):
            return self._stateful(compile_registered_operator, plan, way)
        if name == "UpdateEventTimeWatermarkColumn":
            return self._event_time_of_output(plan, way)
        if name == "GlobalLimit" and self._is_of_all_rows(children[0]):
            return self._stateful(compile_global_limit, plan, way)
        if name == "LocalLimit" and not _is_sorted(plan.child()):
            return self._local_limit(plan, way)
        if name == "Join" and all(child.isStreaming() for child in children):
            return self._stateful(compile_symmetric_hash_join, plan, way)
        if name == "UnionLoop":  # each step of a recursion would be a batch query over the stream
            raise analysis_error(self.session, "_LEGACY_ERROR_TEMP_3102", msg=_NO_QUERY_OF_ITS_OWN)
        if name in UNKNOWN_STATEFUL:
            raise AnalysisException(message=f"minispark_stream has no stateful operator for {name}.")
        return Stateless(plan, self._below(plan, way))

    def _below(self, plan: JavaObject, way: tuple[int, ...]) -> tuple[Node, ...]:
        return tuple(self.compile(child, (*way, i)) for i, child in enumerate(scala.items(plan.children())))

    def _stateful(
        self, compile_operator: Callable[..., StatefulOperator], plan: JavaObject, way: tuple[int, ...]
    ) -> StatefulOperator:
        operator_id = next(self._operator_ids)  # before the operators below get theirs
        children = self._below(plan, way)
        operator = compile_operator(self.session, plan, operator_id, children)
        self.operators[operator_id] = operator
        return operator

    def _event_time_of_output(self, plan: JavaObject, way: tuple[int, ...]) -> Node:
        """transformWithState with an `eventTimeColumnName`: the operator itself checks that its rows are not late."""
        below = plan.child()
        compile_operator = partial(STATEFUL[scala.class_name(below)], output_event_time=plan.eventTime())
        operator = self._stateful(compile_operator, below, (*way, 0))
        return Stateless(plans.project(self.session, scala.items(plan.output()), below), (operator,))

    def _is_of_all_rows(self, below: JavaObject) -> bool:
        """Whether a limit limits the stream; above an aggregation in complete mode, it limits the result of each batch."""
        return self.output_mode == "append" or self.output_mode == "complete" and not checked_plan.read(below).aggregations()

    def _local_limit(self, plan: JavaObject, way: tuple[int, ...]) -> Node:
        """The limit within each partition, which is only an optimisation. It stops reading early, so it must not be above an
        operator, all of whose rows must be read."""
        [child] = self._below(plan, way)
        return child if has_operator(child) else Stateless(plan, (child,))

    def _source(self, leaf: JavaObject, stream: StreamingLeaf) -> SourceLeaf:
        attributes = tuple((a.name(), a.exprId()) for a in scala.items(leaf.output()))
        ordinal = self.sources.of(leaf, stream)
        empty, renamed = plans.no_rows(self.session, leaf.output()), plans.Renaming(self.session, attributes)
        return SourceLeaf(ordinal, stream.relation, attributes, empty, renamed)

    def _watermark(self, plan: JavaObject, way: tuple[int, ...]) -> Watermark:
        """EventTimeWatermark as Spark's own observed metrics: max, min, avg (ms) and count of the event times.

        A null event time counts as 0, as in Spark, which reads the empty slot of the row. If a stream is joined with itself,
        both sides are observed under the same name, so that Spark can recognise that they are the same rows.
        """
        index, node_id = next(self._watermark_ids), plan.nodeId().toString()
        [child] = self._below(plan, way)
        same = [w for w in self.watermarks.values() if w.node_id == node_id and w.plan.child().sameResult(plan.child())]
        observation = same[0].observation if same else f"eventTimeStats:{node_id}:{index}"  # no name that a user gives
        event_time = expressions.column(self.session, plan.eventTime())
        ms = F.coalesce(_millis(event_time, plan.eventTime()), F.lit(0))
        if (control := control_of(plan.child())) is not None:  # a row that is no data has no event time
            ms = F.when(expressions.column(self.session, control).isNull(), ms)
        rows = plans.of_rows(self.session, plans.no_rows(self.session, plan.child().output()))
        observed = plans.analyzed(rows.observe(
            observation, F.max(ms).alias("max"), F.min(ms).alias("min"), F.avg(ms).alias("avg"), F.count(ms).alias("count")
        ))
        observed = scala.call(
            observed.copy, name=observation, metrics=observed.metrics(), child=plan.child(),
            dataframeId=(same[0].plan if same else observed).dataframeId(),
        )
        delay_ms = plan.getDelayMs(plan.delay())
        node = Watermark(node_id, plan.eventTime().name(), delay_ms, observation, observed, (child,))
        self.watermarks[index] = node
        return node


def _millis(event_time: Column, attribute: JavaObject) -> Column:
    """An event time in ms since 1970.

    If it is a window, Spark does not read the window's end. It reads the word that says where in the row the window is (at byte
    16, 24 bytes long) as microseconds, which is a time on the first day of 1970.
    """
    if scala.class_name(attribute.dataType()) != "StructType":
        return F.unix_millis(event_time)
    return F.when(event_time.isNotNull(), F.lit((16 << 32 | 24) // 1000))


def _is_sorted(plan: JavaObject) -> bool:
    """Whether the rows below a limit come from a sort, which reads all of its input before it emits the first row."""
    name = scala.class_name(plan)
    return name == "Sort" or name == "Project" and _is_sorted(plan.child())


def has_operator(node: Node) -> bool:
    return fold(node, lambda one, below: isinstance(one, StatefulOperator) or any(below))
