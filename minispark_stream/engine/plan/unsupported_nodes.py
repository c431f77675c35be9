"""The nodes that the plan of a streaming query may not contain. NODE_CHECKS has a check for each kind of node.

Models: the node by node part of UnsupportedOperationChecker.checkForStreaming, and checkForStreamStreamJoinWatermark.

A check gets the query (session, root node, output mode) and one node (checked_plan.py), and either returns or refuses the node.

    Offset 1                              NODE_CHECKS["Offset"] refuses it wherever it is
    Limit 3      mode "Update"            refused: a row that was among the first three might have to be taken back
    Join LeftAnti, a stream on the right  refused: a row without a match today may have one tomorrow

Spark SQL's own StreamingJoinHelper says whether a range condition limits how long a row of an outer join waits for a match.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minispark_stream.engine.jvm import scala, tables
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.checked_plan import (
    CheckedNode,
    Query,
    has_event_time,
    has_event_time_timeout,
    refuse,
)

STREAM = "a streaming DataFrame/Dataset"

NodeCheck = Callable[[Query, CheckedNode], None]


# -- joins ----------------------------------------------------------------------------------------------------


def _check_join(query: Query, node: CheckedNode) -> None:
    join_type = str(node.plan.joinType().toString())
    left, right = (child.streaming for child in node.children)
    if left and right:
        _check_stream_stream_join(query, node, join_type)
    elif left or right:
        _check_stream_static_join(query, node, join_type, stream_side="left" if left else "right")


def _check_stream_static_join(query: Query, node: CheckedNode, join_type: str, stream_side: str) -> None:
    """Refuse joins in which a row of the table waits for a match: only the end of the stream could show that none comes."""
    table_side = "right" if stream_side == "left" else "left"
    if join_type == "FullOuter":
        refuse(
            query, node,
            f"FullOuter joins with streaming DataFrames/Datasets on the {stream_side} and a static DataFrame/Dataset "
            f"on the {table_side} is not supported",
        )
    if join_type == "LeftAnti" and stream_side == "right":
        refuse(query, node, f"LeftAnti joins with {STREAM} on the right are not supported")
    if join_type in ("LeftOuter", "LeftSemi") and stream_side == "right":
        refuse(
            query, node,
            f"{join_type} join with {STREAM} on the right and a static DataFrame/Dataset on the left is not supported",
        )
    if join_type == "RightOuter" and stream_side == "left":
        refuse(
            query, node, f"RightOuter join with {STREAM} on the left and a static DataFrame/DataSet on the right not supported"
        )


def _check_stream_stream_join(query: Query, node: CheckedNode, join_type: str) -> None:
    mode = f"{join_type} join between two streaming DataFrames/Datasets is not supported in {query.mode} output mode"
    if join_type == "LeftAnti":
        refuse(query, node, f"LeftAnti joins with {STREAM} on the right are not supported")
    if join_type in ("LeftOuter", "RightOuter", "FullOuter") and query.mode != "Append":
        refuse(query, node, f"{mode}, only in Append output mode")
    if query.mode == "Complete":
        refuse(query, node, f"{mode}, only in Append and Update output modes")
    if join_type not in ("Inner", "Cross") and not _wait_for_a_match_ends(query, node.plan, join_type):
        refuse(
            query, node,
            f"Stream-stream {join_type} join between two streaming DataFrame/Datasets is not supported without a "
            "watermark in the join keys, or a watermark on the nullable side and an appropriate range condition",
        )


def _wait_for_a_match_ends(query: Query, join: JavaObject, join_type: str) -> bool:
    """Whether there is a watermark on a join key, or on the other side with a range condition that applies it to this side."""
    helper = scala.companion(query.session, "StreamingJoinHelper")
    if helper.isWatermarkInJoinKeys(join):
        return True
    left, right = join.left().outputSet(), join.right().outputSet()
    waiting_and_awaited = {
        "LeftOuter": [(left, right)], "LeftSemi": [(left, right)], "RightOuter": [(right, left)],
        "FullOuter": [(left, right), (right, left)],
    }
    # The value of the watermark does not matter; this one is so large that py4j passes a Java long, not an int.
    watermark = scala.some(query.session, 1 << 40)
    return any(
        helper.getStateValueWatermark(waiting, awaited, join.condition(), watermark).isDefined()
        for waiting, awaited in waiting_and_awaited[join_type]
    )


# -- aggregations and other operators with state --------------------------------------------------------------


def _check_aggregate(query: Query, node: CheckedNode) -> None:
    if node.children[0].streaming and _has_distinct_aggregate(query, node.plan):
        refuse(
            query, node,
            "Distinct aggregations are not supported on streaming DataFrames/Datasets. Consider using "
            "approx_count_distinct() instead.",
        )


def _has_distinct_aggregate(query: Query, aggregate: JavaObject) -> bool:
    patterns = scala.java_class(query.session, "TreePattern")
    pattern = patterns.AGGREGATE_EXPRESSION()

    def is_or_holds_one(expression: JavaObject) -> bool:
        if not expression.containsPattern(pattern):
            return False
        if scala.class_name(expression) == "AggregateExpression":
            return bool(expression.isDistinct())
        return any(is_or_holds_one(child) for child in scala.items(expression.children()))

    return any(is_or_holds_one(e) for e in scala.items(aggregate.aggregateExpressions()))


def _check_apply_in_pandas_with_state(query: Query, node: CheckedNode) -> None:
    if not node.streaming:
        return
    mode = str(node.plan.outputMode().toString())
    operator = f"applyInPandasWithState in {mode.lower()} mode is not supported"
    if not query.root.aggregations():
        if mode != query.mode:
            refuse(query, node, f"{operator} with {query.mode} output mode on {STREAM}")
    elif mode == "Update":
        refuse(query, node, f"{operator} with aggregation on {STREAM}")
    elif node.aggregations():
        refuse(query, node, f"{operator} after aggregation on {STREAM}")
    if has_event_time_timeout(node) and not has_event_time(node.children[0].plan.output()):
        refuse(
            query, query.root,
            "Watermark must be specified in the query using '[Dataset/DataFrame].withWatermark()' for using event-time "
            "timeout in a applyInPandasWithState. Event-time timeout not supported without watermark.",
        )


def _check_deduplicate_within_watermark(query: Query, node: CheckedNode) -> None:
    if node.streaming and not has_event_time(node.children[0].plan.output()):
        refuse(
            query, query.root,
            "dropDuplicatesWithinWatermark is not supported on streaming DataFrames/DataSets without watermark",
        )


# -- nodes that would need the whole stream -------------------------------------------------------------------


def _check_sort(query: Query, node: CheckedNode) -> None:
    # A Distinct does not count here, although in `complete` mode it is accepted as the aggregation.
    complete = query.mode == "Complete" and any(n.name == "Aggregate" for n in node.aggregations())
    if node.streaming and not complete:
        refuse(
            query, node,
            "Sorting is not supported on streaming DataFrames/Datasets, unless it is on aggregated DataFrame/Dataset "
            "in Complete output mode",
        )


def _check_window(query: Query, node: CheckedNode) -> None:
    if not node.children[0].streaming:
        return
    found = [
        (str(window.windowFunction().toString()).upper(), tables.quoted(column.name()), str(window.windowSpec().sql()).upper())
        for column in scala.items(node.plan.windowExpressions())
        for window in expressions_named(column, "WindowExpression")
    ]
    functions, columns, specifications = (",".join(texts) for texts in zip(*found))
    raise analysis_error(
        query.session, "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING", node.plan.origin(), windowFunc=functions,
        columnName=columns, windowSpec=specifications,
    )


def expressions_named(expression: JavaObject, name: str) -> Iterator[JavaObject]:
    """All expressions of a class in an expression tree."""
    if scala.class_name(expression) == name:
        yield expression
    for child in scala.items(expression.children()):
        yield from expressions_named(child, name)


def check_expressions(query: Query, node: CheckedNode) -> None:
    """Refuse ids that count the rows of a partition: in a stream, they would begin at 0 again in each batch."""
    for expression in scala.items(node.plan.expressions()):
        if not expression.deterministic() and any(expressions_named(expression, "MonotonicallyIncreasingID")):
            refuse(
                query, node,
                "Expression(s): monotonically_increasing_id() is not supported with streaming DataFrames/Datasets",
            )


def _refuse_if(condition: Callable[[Query, CheckedNode], bool], message: str) -> NodeCheck:
    """A check that refuses a node if a condition is true."""

    def check(query: Query, node: CheckedNode) -> None:
        if condition(query, node):
            refuse(query, node, message)

    return check


_check_limit = _refuse_if(
    lambda query, node: node.streaming and query.mode == "Update",
    "Limits are not supported on streaming DataFrames/Datasets in Update output mode",
)

NODE_CHECKS: dict[str, NodeCheck] = {
    "Aggregate": _check_aggregate,
    "FlatMapGroupsInPandasWithState": _check_apply_in_pandas_with_state,
    "AsOfJoin": _refuse_if(
        lambda _, node: node.children[1].streaming, f"ASOF join with {STREAM} on the right is not supported"
    ),
    "Join": _check_join,
    "DeduplicateWithinWatermark": _check_deduplicate_within_watermark,
    "Union": _refuse_if(
        lambda _, node: len({child.streaming for child in node.children}) == 2,
        "Union between streaming and batch DataFrames/Datasets is not supported",
    ),
    "Except": _refuse_if(
        lambda _, node: node.children[1].streaming, f"Except on {STREAM} on the right is not supported"
    ),
    "Intersect": _refuse_if(
        lambda _, node: node.streaming, "Intersect of streaming DataFrames/Datasets is not supported"
    ),
    "GlobalLimit": _check_limit,
    "LocalLimit": _check_limit,
    "Offset": _refuse_if(lambda *_: True, "Offset is not supported on streaming DataFrames/Datasets"),
    "Sort": _check_sort,
    "Sample": _refuse_if(lambda _, node: node.streaming, "Sampling is not supported on streaming DataFrames/Datasets"),
    "Window": _check_window,
}
