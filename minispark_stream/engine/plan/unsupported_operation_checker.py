"""What may not run as a stream, and in which output mode.

Models: UnsupportedOperationChecker.checkForStreaming and checkForContinuous (SIGMOD'18 paper, section 5.1: "the query must be
incrementalizable"). The checks of single nodes are in unsupported_nodes.py.

1. The plan must have a streaming source.
2. It may have at most one applyInPandasWithState. Most stateful operators are refused if the state is to be written in Avro.
3. The output mode must suit the topmost aggregation. `complete` writes the whole result in each batch, so there must be an
   aggregation. `append` writes a row only once, so a grouping column needs a watermark, which makes rows final. `update` is
   refused for session windows, because a session may still grow into another one.
4. Then every node is checked, children before parents. Refused are nodes that would need the whole stream (sort, offset, window
   functions, distinct aggregates, ...); nodes whose rows would never be final without a watermark (outer joins, deduplication
   within the watermark, event-time timeouts); and what the output mode cannot express (some joins, limits).
5. If one stateful operator follows another, the first one must not emit rows that the second one drops because they are late.
6. A continuous query handles each row by itself, so only projections and filters are accepted. The current time is refused,
   because there is no batch whose time it could be.

    groupBy("k").count()                            append    (3) refused: without a watermark, no row is ever final
    withWatermark("ts", ..).groupBy(window("ts"))   append    accepted: a window is final when the watermark passes its end
    ... and groupBy(window("window")) once more     append    accepted;  update: (5) refused, an update may be late
    left.join(right, "k", "left")                   append    (4) refused: nobody knows which left rows will never match

There are no checks for nodes that a PySpark DataFrame cannot contain (Scala's [flatMap|map]GroupsWithState and CoGroup,
commands, ReturnAnswer, unresolved grouping sets, change data capture), nor for queries with a real-time trigger, which are
refused altogether. The error for an aggregation without a watermark has a note with a hint; its text and condition are Spark's.

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
from typing import NoReturn

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import expressions, query_execution, scala, sessions
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.checked_plan import (
    AGGREGATIONS,
    CheckedNode,
    Query,
    has_event_time,
    has_event_time_timeout,
    is_stream_stream_join,
    read,
    refuse,
)
from minispark_stream.engine.plan.streaming_relation import streaming_leaf
from minispark_stream.engine.plan.unsupported_nodes import NODE_CHECKS, check_expressions

logger = logging.getLogger(__name__)

CORRECTNESS_CHECK = "spark.sql.streaming.statefulOperator.checkCorrectness.enabled"
STATE_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
SESSION_WINDOW = "spark.sessionWindow"  # in the metadata of a session window's column
MAP_LIKE = ("Project", "Filter", "SubqueryAlias")
STATEFUL = (
    *AGGREGATIONS, "FlatMapGroupsInPandasWithState", "DeduplicateWithinWatermark", "TransformWithState",
    "TransformWithStateInPySpark",
)
WITHOUT_AVRO = {
    "Aggregate": "aggregation", "Distinct": "distinct", "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "Deduplicate": "dropDuplicates", "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
}


def check_for_streaming(session: SparkSession, plan: JavaObject, output_mode: str) -> None:
    """Refuse the queries that Spark refuses, with Spark's condition and text.

    Args:
        plan: an analysed Catalyst plan.
        output_mode: "append", "update" or "complete".

    Raises:
        AnalysisException: the plan or the combination with the output mode is not supported.
    """
    query = Query(session, read(plan), output_mode.capitalize())
    if not query.root.streaming:  # (1)
        refuse(query, query.root, "Queries without streaming sources cannot be executed with writeStream.start()")
    _check_number_of_pandas_operators(query)  # (2)
    _check_state_encoding(query)
    _check_output_mode(query)  # (3)
    deterministic = plan.deterministic()
    for node in query.root.up():  # (4)
        if node.name in NODE_CHECKS:
            NODE_CHECKS[node.name](query, node)
        if not deterministic:
            check_expressions(query, node)
    _check_chained_operators(query)  # (5)


def check_for_continuous(session: SparkSession, plan: JavaObject, output_mode: str) -> None:  # (6)
    """Refuse the queries that Spark refuses to run in the continuous engine, with Spark's condition and text."""
    check_for_streaming(session, plan, output_mode)
    query = Query(session, read(plan), output_mode.capitalize())
    for node in query.root.up():
        stream = streaming_leaf(session, node.plan)
        if stream is not None and stream.relation.file_format is not None:
            refuse(query, node, "Continuous processing does not support StreamingRelation operations.")
        if stream is None and node.name not in MAP_LIKE and not _is_temporary_view(node):
            refuse(query, node, f"Continuous processing does not support {node.name} operations.")
        if any(query_execution.asks_for_current_time(session, one) for one in scala.items(node.plan.expressions())):
            refuse(query, node, "Continuous processing does not support current time operations.")


def _is_temporary_view(node: CheckedNode) -> bool:
    return node.name == "View" and bool(node.plan.isTempViewStoringAnalyzedPlan())


# -- (2) ------------------------------------------------------------------------------------------------------


def _check_number_of_pandas_operators(query: Query) -> None:
    if sum(node.streaming and node.name == "FlatMapGroupsInPandasWithState" for node in query.root.down()) > 1:
        refuse(query, query.root, "Multiple applyInPandasWithStates are not supported on a streaming DataFrames/Datasets")


def _check_state_encoding(query: Query) -> None:
    if (sessions.conf(query.session, STATE_ENCODING) or "").lower() != "avro":
        return
    for node in query.root.down():
        operator = WITHOUT_AVRO.get(node.name) if node.streaming else None
        if operator or is_stream_stream_join(node):
            refuse(
                query, query.root,
                f"State store encoding format as avro is not supported for operator={operator or 'join'} used within "
                "the query",
            )


# -- (3) ------------------------------------------------------------------------------------------------------


def _check_output_mode(query: Query) -> None:
    aggregations = query.root.aggregations()
    if query.mode == "Complete" and not aggregations:
        _refuse_output_mode(query, "no streaming aggregations")
    if not aggregations:
        return
    keys = _grouping_keys(aggregations[0])
    if query.mode == "Append" and not has_event_time(keys):
        _refuse_output_mode(query, "streaming aggregations without watermark", _where_the_watermark_is(query, aggregations[0]))
    if query.mode == "Update" and any(_is_session_window(key) for key in scala.items(keys)):
        _refuse_output_mode(query, "session window streaming aggregations")


def _refuse_output_mode(query: Query, operation: str, hint: str | None = None) -> NoReturn:
    condition = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"
    error = analysis_error(query.session, condition, outputMode=query.mode.lower(), operation=operation)
    if hint is not None:
        error.add_note(hint)
    raise error


def _where_the_watermark_is(query: Query, aggregation: CheckedNode) -> str:
    """The hint below Spark's text, which does not say whether the watermark is missing or in the wrong place."""
    if any(node.name == "EventTimeWatermark" for node in aggregation.down()):
        return "Hint: the watermark is on a column that is not grouped by. Group by it, or by a window of it."
    if any(node.name == "EventTimeWatermark" for node in query.root.down()):
        return "Hint: withWatermark stands after groupBy, where it comes too late. Put it before groupBy."
    return "Hint: put withWatermark before groupBy and group by its column or a window of it, or use update or complete mode."


def _grouping_keys(aggregation: CheckedNode) -> JavaObject:
    if aggregation.name == "Distinct":
        return aggregation.children[0].plan.output()
    return aggregation.plan.groupingExpressions()


def _is_session_window(key: JavaObject) -> bool:
    if not expressions.is_column(key):
        return False
    metadata = key.metadata()
    return bool(metadata.contains(SESSION_WINDOW) and metadata.getBoolean(SESSION_WINDOW))


# -- (5) ------------------------------------------------------------------------------------------------------


def _check_chained_operators(query: Query) -> None:
    emitters = [node for node in query.root.down() if _may_emit_late_rows(query, node)]
    if not any(
        emitter is not node and emitter in node.down() and _is_stateful(node)
        for emitter in emitters
        for node in query.root.down()
    ):
        return
    message = (
        "Detected pattern of possible 'correctness' issue due to global watermark. The query contains stateful "
        "operation which can emit rows older than the current watermark plus allowed late record delay, which are "
        '"late rows" in downstream stateful operations and these rows can be discarded. Please refer the programming '
        "guide doc for more details. If you understand the possible risk of correctness issue and still need to run "
        f"the query, you can disable this check by setting the config `{CORRECTNESS_CHECK}` to false."
    )
    if not sessions.flag(query.session, CORRECTNESS_CHECK):
        logger.warning("%s;\n%s", message, query.root.plan.toString())
    else:
        refuse(query, query.root, message)


def _may_emit_late_rows(query: Query, node: CheckedNode) -> bool:
    if not node.streaming:
        return False
    if node.name == "FlatMapGroupsInPandasWithState":
        return has_event_time_timeout(node)
    return node.name in AGGREGATIONS and query.mode != "Append"


def _is_stateful(node: CheckedNode) -> bool:
    if node.name == "Deduplicate":  # without event time, it never takes a row for late
        return node.streaming and has_event_time(node.plan.keys())
    return is_stream_stream_join(node) or (node.streaming and node.name in STATEFUL)
