"""The plan of a continuous query: Spark's own operators, through which the markers of the epochs pass untouched.

Models: IncrementalExecution of a continuous query, ContinuousDataSourceRDD (Continuous processing).

Between reader and writer there is one endless iterator of rows, so the end of an epoch is a row, too. It has nulls, and its
number in a column of its own, which is null for data. In the analysed plan, which has only projections and filters,

1. the streaming leaf becomes the rows of the reader, with that column;
2. a projection keeps the column, and computes nothing for a marker (for Python UDFs, see python_udfs.py);
3. a filter lets every marker pass;
4. the names of views and aliases are removed, because the columns are known by their ids.

    Project [upper(k) AS u]          Project [if (isnull(epoch)) upper(k) else null AS u, epoch]
      Filter (v > 1)          ->       Filter (isnotnull(epoch) OR v > 1)
        LogicalRDD [k, v]                Project [_0 AS k, _1 AS v, epoch]
                                           MapInArrow read, [_0, _1, epoch]

In Spark, the iterator of the rows ends at the end of an epoch, and the plan is run again for the next one.

Differs from Spark: nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from minispark_stream.engine.jvm import expressions, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.streaming_relation import streaming_leaf
from minispark_stream.extras.continuous.python_udfs import without_markers

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


def with_epoch_markers(session: SparkSession, analyzed: JavaObject, read: DataFrame) -> DataFrame:
    """The query over the rows and markers of `read`, whose last column is that of the markers.

    Raises:
        AnalysisException: the query has a Python UDF that cannot be called row by row.
    """
    source = plans.analyzed(read)
    marker = source.output().last()
    plan = _Marking(session, source, marker).marked(analyzed)
    return plans.of_rows(session, plan)


class _Marking:
    def __init__(self, session: SparkSession, source: JavaObject, marker: JavaObject):
        self._session, self._source, self._marker = session, source, marker
        self._is_data = scala.java_class(session, f"{_EXPRESSIONS}.IsNull")(marker)
        self._is_marker = scala.java_class(session, f"{_EXPRESSIONS}.IsNotNull")(marker)

    def marked(self, plan: JavaObject) -> JavaObject:
        if streaming_leaf(self._session, plan) is not None:
            return self._reader(plan)
        child = self.marked(plan.children().head())
        match scala.class_name(plan):
            case "Project":
                columns = [self._for_data(column) for column in scala.items(plan.projectList())]
                return plans.project(self._session, [*columns, self._marker], child)
            case "Filter":  # (3)
                condition = without_markers(self._session, plan.condition(), self._marker)
                either = scala.java_class(self._session, f"{_EXPRESSIONS}.Or")(self._is_marker, condition)
                return scala.java_class(self._session, "org.apache.spark.sql.catalyst.plans.logical.Filter")(either, child)
            case _:  # (4)
                return child

    def _reader(self, leaf: JavaObject) -> JavaObject:  # (1)
        columns = zip(scala.items(self._source.output()), scala.items(leaf.output()))
        renamed = [expressions.alias(self._session, read, named.name(), named.exprId()) for read, named in columns]
        return plans.project(self._session, [*renamed, self._marker], self._source)

    def _for_data(self, column: JavaObject) -> JavaObject:  # (2)
        if scala.class_name(column) != "Alias":
            return column
        computed = without_markers(self._session, column.child(), self._marker)
        null = scala.java_class(self._session, f"{_EXPRESSIONS}.Literal")(None, column.dataType())
        value = scala.java_class(self._session, f"{_EXPRESSIONS}.If")(self._is_data, computed, null)
        return expressions.alias(self._session, value, column.name(), column.exprId())
