"""Spark's own plans, seen from Python: the handful of py4j calls that the rest of the package needs.

The model leaves analysis, optimisation and execution of *batch* plans to Spark SQL. What it must do itself is what
MicroBatchExecution does with a plan: look at its nodes, swap a leaf, and hand the result back (From query to the plan).

    items(seq)                   a Scala Seq as a Python list
    of_rows(session, plan)       a logical plan as a DataFrame
    optimize(session, plan)      what Spark's optimizer makes of it
    rename(plan, attributes)     the same rows under the attributes (names and expression ids) of another plan

Nothing here knows about streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

JavaObject = Any


def jvm(session: SparkSession) -> Any:
    return session.sparkContext._jvm


def gateway(session: SparkSession) -> Any:
    return session.sparkContext._gateway


@lru_cache(maxsize=256)
def _java_class(view: Any, name: str) -> Any:
    found = view
    for part in name.split("."):
        found = getattr(found, part)
    return found


def java_class(session: SparkSession, name: str) -> Any:
    """A Java class by its full name. Each look-up asks the JVM, so the answer is kept."""
    return _java_class(jvm(session), name)


@lru_cache(maxsize=8)
def _nil(view: Any) -> JavaObject:
    return _java_class(view, "scala.jdk.javaapi.CollectionConverters").asScala(view.java.util.ArrayList()).toList()


def items(seq: JavaObject) -> list[JavaObject]:
    """A Scala collection as a list."""
    return [seq.apply(i) for i in range(seq.size())]


def seq(session: SparkSession, values: Iterable[JavaObject]) -> JavaObject:
    """A Scala (immutable) Seq: a List, built from its end, one call to the JVM for each element."""
    result = _nil(jvm(session))
    for value in reversed(list(values)):
        result = getattr(result, "$colon$colon")(value)
    return result


def class_name(node: JavaObject) -> str:
    """The simple Scala class name of a plan node or expression: "Aggregate", "LogicalRDD", ..."""
    return str(node.getClass().getSimpleName())


def companion(session: SparkSession, name: str) -> JavaObject:
    """The Scala object `name` (a companion without static forwarders cannot be reached by its plain name)."""
    return getattr(java_class(session, name + "$"), "MODULE$")


@lru_cache(maxsize=8)
def _none(view: Any) -> JavaObject:
    return view.scala.Option.empty()


def none(session: SparkSession) -> JavaObject:
    return _none(jvm(session))


def conf(session: SparkSession, key: str) -> str | None:
    """A conf or its registered default (`session.conf.get(key, None)` would hide the default)."""
    value = session._jsparkSession.conf().getOption(key)
    return str(value.get()) if value.isDefined() else None


def set_active_session(session: SparkSession) -> None:
    """Physical plans belong to the session that is active on the thread that makes them."""
    java_class(session, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session._jsparkSession)


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """The same for a while, on a thread that is not ours."""
    sessions = java_class(session, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def of_rows(session: SparkSession, plan: JavaObject) -> DataFrame:
    """The DataFrame of a logical plan (Dataset.ofRows)."""
    return DataFrame(java_class(session, "org.apache.spark.sql.classic.Dataset").ofRows(session._jsparkSession, plan), session)


def analyzed(df: DataFrame) -> JavaObject:
    return df._jdf.queryExecution().analyzed()


def optimize(session: SparkSession, plan: JavaObject) -> JavaObject:
    """Spark's optimizer on an analysed plan, streaming or not (QueryExecution.optimizedPlan refuses streaming ones)."""
    return session._jsparkSession.sessionState().optimizer().execute(plan)


@contextmanager
def without_rule(session: SparkSession, rule: str) -> Iterator[None]:
    """Leave a rule of Spark's optimizer out for a while."""
    key = "spark.sql.optimizer.excludedRules"
    before = session.conf.get(key, None)
    session.conf.set(key, f"{before},{rule}" if before else rule)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, before)


def physical(session: SparkSession, plan: JavaObject) -> JavaObject:
    """The physical plan of a batch plan, before exchanges and code generation are put in (QueryExecution.sparkPlan)."""
    mode = java_class(session, "org.apache.spark.sql.execution.CommandExecutionMode").ALL()
    return session._jsparkSession.sessionState().executePlan(plan, mode).sparkPlan()


def prepared(session: SparkSession, plan: JavaObject) -> JavaObject:
    """A physical plan made executable: exchanges, code generation (QueryExecution.prepareExecutedPlan)."""
    execution = java_class(session, "org.apache.spark.sql.execution.QueryExecution")
    return execution.prepareExecutedPlan(session._jsparkSession, plan)


def empty_rows(session: SparkSession) -> JavaObject:
    """An RDD without rows."""
    j = jvm(session)
    tag = j.scala.reflect.ClassTag.apply(j.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow"))
    return session.sparkContext._jsc.sc().emptyRDD(tag)


def rdd_frame(session: SparkSession, rdd: JavaObject, schema: JavaObject, streaming: bool = False) -> DataFrame:
    """A DataFrame over an RDD of Spark's internal rows; `schema` is a Java StructType."""
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rdd, schema, streaming), session)


def local_frame(session: SparkSession, attributes: JavaObject, rows: JavaObject) -> DataFrame:
    """A DataFrame over rows that lie in the driver's JVM; `rows` is a Scala Seq of internal rows."""
    relation = java_class(session, "org.apache.spark.sql.catalyst.plans.logical.LocalRelation")
    return of_rows(session, relation(attributes, rows, False, none(session)))


def collect_rows(df: DataFrame) -> JavaObject:
    """Run a DataFrame and bring its rows to the driver's JVM, as a Scala Seq of internal rows."""
    rows = df._jdf.queryExecution().executedPlan().executeCollect()
    return java_class(df.sparkSession, "scala.collection.immutable.ArraySeq").unsafeWrapArray(rows)


def java_schema(session: SparkSession, schema: StructType) -> JavaObject:
    return session._jsparkSession.parseDataType(schema.json())


def struct_type(attributes: Iterable[JavaObject]) -> StructType:
    """The schema of a list of attributes, column metadata included."""
    import json

    fields = [
        {
            "name": a.name(),
            "type": json.loads(a.dataType().json()),
            "nullable": bool(a.nullable()),
            "metadata": json.loads(a.metadata().json()),
        }
        for a in attributes
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def alias(session: SparkSession, expression: JavaObject, name: str, expr_id: JavaObject) -> JavaObject:
    """`expression AS name`, under a given expression id."""
    make = java_class(session, "org.apache.spark.sql.catalyst.expressions.Alias")
    nil = _nil(jvm(session))
    return make(expression, name, expr_id, nil, none(session), nil)


def column(session: SparkSession, expression: JavaObject) -> Column:
    """A Catalyst expression as a PySpark column."""
    return Column(java_class(session, "org.apache.spark.sql.classic.ExpressionUtils").column(expression))


def project(session: SparkSession, expressions: Iterable[JavaObject], child: JavaObject) -> JavaObject:
    made = expressions if hasattr(expressions, "_target_id") else seq(session, expressions)
    return java_class(session, "org.apache.spark.sql.catalyst.plans.logical.Project")(made, child)


def batch_leaf(session: SparkSession, leaf: JavaObject) -> JavaObject:
    """A streaming LogicalRDD as a batch relation over no rows, with the very same attributes."""
    return leaf.copy(
        leaf.output(), empty_rows(session), leaf.outputPartitioning(), leaf.outputOrdering(), False, leaf.stream(),
        session._jsparkSession, none(session), none(session), False,
    )


def rename(session: SparkSession, plan: JavaObject, attributes: Iterable[tuple[str, JavaObject]]) -> JavaObject:
    """`plan` under the (name, expression id) pairs of another plan's attributes, column by column."""
    columns = items(plan.output())
    pairs = list(attributes)
    if len(columns) != len(pairs):
        raise ValueError(f"Invalid batch: {len(pairs)} columns expected, {len(columns)} found")
    return project(session, [alias(session, c, name, eid) for c, (name, eid) in zip(columns, pairs)], plan)


def map_in_arrow(df: DataFrame, task: Any, schema: StructType, output: JavaObject | None = None) -> JavaObject:
    """The plan of `df.mapInArrow(task, schema)`, under the attributes `output` (a Scala Seq) if they are given.

    `df` must not have columns with the ids of `output` (see `with_own_columns`): else the optimizer, which knows columns by
    their ids, would take columns away from the input that nobody above seems to need.
    """
    plan = analyzed(df.mapInArrow(task, schema))
    if output is None:
        return plan
    function, _, child, barrier, profile = (plan.productElement(i) for i in range(5))
    return plan.copy(function, output, child, barrier, profile)


def with_own_columns(df: DataFrame) -> DataFrame:
    """The same rows, in columns `row0`, `row1`, ... with expression ids of their own."""
    attributes = items(analyzed(df).output())
    return df.select(*(column(df.sparkSession, a).alias(f"row{i}") for i, a in enumerate(attributes)))


_EXPRESSION_ID = re.compile(r"#(\d+)L?(?:-T\d+ms)?(?=, |\)$)")


def expression_ids(node: JavaObject) -> list[int]:
    """The expression ids of a node's columns; read off its text in one call, because a wide table has many."""
    return [int(i) for i in _EXPRESSION_ID.findall(node.output().toString())]


def relation_id(session: SparkSession, leaf: JavaObject) -> int:
    """The identity of the relation behind a leaf, logical or physical, as a negative number; 0 when it has none."""
    name = class_name(leaf)
    if name in ("LogicalRelation", "FileSourceScanExec"):
        relation = leaf.relation()
    elif name in ("LogicalRDD", "RDDScanExec"):
        relation = leaf.rdd()
    else:
        return 0
    return -int(java_class(session, "java.lang.System").identityHashCode(relation)) - 1


def with_children(session: SparkSession, node: JavaObject, children: Iterable[JavaObject]) -> JavaObject:
    return node.withNewChildren(seq(session, children))


def replace_current_time(session: SparkSession, plan: JavaObject, timestamp_ms: int) -> JavaObject:
    """`plan` with current_timestamp(), current_date() and localtimestamp() fixed to one instant.

    A batch that is run again must see the time of its first run (MicroBatchExecution.runBatch does the same).
    """
    pattern = jvm(session).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return _replace_in_plan(session, plan, pattern, timestamp_ms) if plan.containsPattern(pattern) else plan


def asks_for_current_time(session: SparkSession, plan: JavaObject) -> bool:
    return bool(plan.containsPattern(jvm(session).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()))


def _replace_in_plan(session: SparkSession, node: JavaObject, pattern: JavaObject, timestamp_ms: int) -> JavaObject:
    if not node.containsPattern(pattern):
        return node
    children = [_replace_in_plan(session, c, pattern, timestamp_ms) for c in items(node.children())]
    node = with_children(session, node, children) if children else node
    j = jvm(session)
    expression_class = j.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.Expression")
    arguments = gateway(session).new_array(j.java.lang.Object, node.productArity())
    for i in range(node.productArity()):
        argument = node.productElement(i)
        if expression_class.isInstance(argument):
            argument = _replace_in_expression(session, argument, pattern, timestamp_ms)
        elif hasattr(argument, "getClass") and argument.getClass().getName().startswith("scala.collection.immutable"):
            elements = items(argument) if argument.getClass().getName() != "scala.collection.immutable.Map" else []
            if elements and all(expression_class.isInstance(e) for e in elements):
                argument = seq(session, [_replace_in_expression(session, e, pattern, timestamp_ms) for e in elements])
        arguments[i] = argument
    return node.makeCopy(arguments)


def _replace_in_expression(session: SparkSession, node: JavaObject, pattern: JavaObject, timestamp_ms: int) -> JavaObject:
    if not node.containsPattern(pattern):
        return node
    if class_name(node) in ("CurrentTimestamp", "CurrentDate", "LocalTimestamp"):
        j = jvm(session)
        zone = j.scala.Option.apply(session.conf.get("spark.sql.session.timeZone"))
        expressions = j.org.apache.spark.sql.catalyst.expressions
        return expressions.CurrentBatchTimestamp(timestamp_ms, node.dataType(), zone).toLiteral()
    children = [_replace_in_expression(session, c, pattern, timestamp_ms) for c in items(node.children())]
    return with_children(session, node, children) if children else node


def java_map(session: SparkSession, values: Mapping[str, str]) -> JavaObject:
    """An immutable Scala Map."""
    j = jvm(session)
    return j.org.apache.spark.api.python.PythonUtils.toScalaMap(j.java.util.HashMap(dict(values)))


def some(session: SparkSession, value: JavaObject) -> JavaObject:
    return jvm(session).scala.Option.apply(value)


def file_index(
    session: SparkSession, paths: JavaObject, options: Mapping[str, str], schema: JavaObject
) -> JavaObject:
    """Spark's batch listing of files below `paths` (a Scala Seq); `schema` may name the types of partition columns."""
    name = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
    no_cache = getattr(companion(session, name), "$lessinit$greater$default$5")()
    index = java_class(session, name)
    return index(
        session._jsparkSession, paths, java_map(session, options), some(session, schema), no_cache, none(session), none(session)
    )


def file_relation(
    session: SparkSession,
    file_format: str,
    paths: Iterable[str],
    schema: StructType,
    partition_columns: Iterable[str],
    options: Mapping[str, str],
) -> JavaObject:
    """The plan that reads some files, which need not exist any more (DataFrameReader.load would insist on it)."""
    sources = java_class(session, "org.apache.spark.sql.execution.datasources.DataSource")
    source = sources(
        session._jsparkSession, file_format, seq(session, paths), some(session, java_schema(session, schema)),
        seq(session, partition_columns), none(session), java_map(session, options), none(session), none(session),
    )
    relation = companion(session, "org.apache.spark.sql.execution.datasources.LogicalRelation")
    return relation.apply(source.resolveRelation(False, True, False), False)


def watermark_nodes(plan: JavaObject) -> list[str]:
    """The node ids of all EventTimeWatermark nodes of a plan, from the top."""
    own = [plan.nodeId().toString()] if class_name(plan) == "EventTimeWatermark" else []
    return own + [n for child in items(plan.children()) for n in watermark_nodes(child)]
