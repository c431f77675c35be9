"""The plan of a query whose rows go through Spark one by one: control rows pass all of its operators untouched.

Models: IncrementalExecution of a continuous query, ContinuousDataSourceRDD (Continuous processing); RealTimeStreamScanExec.

Between reader and writer there is one iterator of rows. What else the reader has to say is a row, too: the end of an epoch, and
PUSH (queued_data_reader.py). Such a row has nulls, and what it says is in the last column, which is null for data. In the
analysed plan,

1. the streaming leaf becomes the rows of the reader, with that column;
2. a projection keeps the column, and computes nothing for a control row (for Python UDFs, see python_udfs.py);
3. a filter lets every control row pass;
4. a join with a table lets it pass without a match, `explode` makes one row of it, and `observe` does not see it;
5. the names of views and aliases are removed, because the columns are known by their ids;
6. the column is one more key of an aggregation, whose functions see nothing of a control row.

    Project [upper(k) AS u]          Project [if (isnull(control)) upper(k) else null AS u, control]
      Filter (v > 1)          ->       Filter (isnotnull(control) OR v > 1)
        LogicalRDD [k, v]                Project [_0 AS k, _1 AS v, control]
                                           MapInArrow read, [_0, _1, control]

In Spark, the iterator of the rows ends at the end of an epoch, and no buffer stands between two operators.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from minispark_stream.engine.jvm import control_rows, expressions, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.streaming_relation import streaming_leaf
from minispark_stream.extras.continuous.python_udfs import without_markers


class NoWayThrough(Exception):
    """A control row cannot pass this operator."""


def with_epoch_markers(session: SparkSession, analyzed: JavaObject, read: DataFrame) -> DataFrame:
    """The query over the rows and markers of `read`, whose last column is that of the markers.

    Raises:
        AnalysisException: the query has a Python UDF that cannot be called row by row.
    """
    source = plans.analyzed(read)

    def reader(leaf: JavaObject) -> JavaObject:  # (1)
        columns = zip(scala.items(source.output()), scala.items(leaf.output()))
        renamed = [expressions.alias(session, read, named.name(), named.exprId()) for read, named in columns]
        return plans.project(session, [*renamed, source.output().last()], source)

    return plans.of_rows(session, with_control_rows(session, analyzed, reader, without_markers))


def with_control_rows(
    session: SparkSession,
    analyzed: JavaObject,
    reader: Callable[[JavaObject], JavaObject],
    computed: Callable[[SparkSession, JavaObject, JavaObject], JavaObject],
) -> JavaObject:
    """An analysed plan, in which every operator has the column of the control rows as its last one.

    Args:
        reader: makes the rows of a streaming leaf, with one more column.
        computed: is called with an expression and the column of the control rows, and returns the expression to compute.

    Raises:
        NoWayThrough: there is an operator that a control row cannot pass.
    """
    return _WithControlRows(session, reader, computed).of(analyzed)


class _WithControlRows:
    def __init__(
        self,
        session: SparkSession,
        reader: Callable[[JavaObject], JavaObject],
        computed: Callable[[SparkSession, JavaObject, JavaObject], JavaObject],
    ):
        self._session, self._reader, self._computed = session, reader, computed

    def of(self, plan: JavaObject) -> JavaObject:
        """The plan over control rows; its columns are those of `plan`, in their order, and that of the control rows."""
        if streaming_leaf(self._session, plan) is not None:
            return self._reader(plan)
        children = scala.items(plan.children())
        below = [self.of(child) if child.isStreaming() else child for child in children]
        stream = next(made for made, child in zip(below, children) if child.isStreaming())
        control = stream.output().last()
        match scala.class_name(plan):
            case "Project":  # (2)
                columns = [self._for_data(column, control) for column in scala.items(plan.projectList())]
                return plans.project(self._session, [*columns, control], stream)
            case "Filter":  # (3)
                condition = self._computed(self._session, plan.condition(), control)
                return control_rows.filtered(self._session, condition, control, stream)
            case "Generate":  # (4)
                made = control_rows.generate(self._session, plan, control, stream)
            case "Join":
                made = control_rows.join(self._session, plan, below, control)
            case "Aggregate":  # (6)
                return control_rows.aggregate(self._session, plan, control, stream)
            case "Distinct":
                return control_rows.distinct(self._session, plan, control, stream)
            case "Expand":
                return control_rows.expand(self._session, plan, control, stream)
            case "CollectMetrics":
                return control_rows.observe(self._session, plan, control, stream)
            case "Union" | "EventTimeWatermark" | "ResolvedHint":
                return plans.with_children(self._session, plan, below)
            case "Deduplicate":  # the column is none of its keys
                return plan.copy(plan.keys(), stream, scala.none(self._session))
            case "SubqueryAlias" | "View":  # (5)
                return stream
            case name:
                raise NoWayThrough(name)
        return plans.project(self._session, [*scala.items(plan.output()), control], made)

    def _for_data(self, column: JavaObject, control: JavaObject) -> JavaObject:
        if scala.class_name(column) != "Alias" or expressions.is_column(column.child()):
            return column
        value = control_rows.for_data(self._session, self._computed(self._session, column.child(), control), control)
        return column.withNewChildren(scala.seq(self._session, [value]))
