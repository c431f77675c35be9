"""Spark's own plans: how to look at their nodes, replace a leaf, and make a DataFrame of the result.

The model leaves analysis, optimisation and execution of *batch* plans to Spark SQL. What it must do itself is what
MicroBatchExecution does with a plan (From query to the plan).

    of_rows(session, plan)              a logical plan as a DataFrame
    as_leaf(df)                         the rows of a DataFrame as a plan of one leaf, which is never planned again
    rename(session, plan, attributes)   the same rows under the attributes (names and expression ids) of another plan

These are calls of Spark SQL's own methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, scala
from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.engine.jvm.scala import JavaObject


def of_rows(session: SparkSession, plan: JavaObject) -> DataFrame:
    """The DataFrame of a logical plan (Dataset.ofRows)."""
    dataset = scala.java_class(session, "Dataset")
    return DataFrame(dataset.ofRows(session._jsparkSession, plan), session)


def as_leaf(df: DataFrame) -> DataFrame:
    """The rows of a DataFrame as a plan of one leaf, which counts them when they are read; no job runs yet."""
    execution = df._jdf.queryExecution()
    return rdd_frame(df.sparkSession, execution.toRdd(), execution.analyzed().schema())


def parsed(df: DataFrame) -> JavaObject:
    """The plan as the user has built it, which is not analysed."""
    return df._jdf.queryExecution().logical()


def analyzed(df: DataFrame) -> JavaObject:
    return df._jdf.queryExecution().analyzed()


def with_cached_data(session: SparkSession, plan: JavaObject) -> JavaObject:
    """`plan`, in which every part that is cached is read from the cache (QueryExecution.withCachedData)."""
    manager = session._jsparkSession.sharedState().cacheManager()
    return manager.useCachedData(plan, getattr(manager, "useCachedData$default$2")())


def cache(df: DataFrame) -> JavaObject:
    """Cache `df`, and return a plan that reads the cache.

    A `persist` or `unpersist` of a DataFrame of this plan has no effect on the cache of `df`.
    """
    return with_cached_data(df.sparkSession, analyzed(df.persist()))


def is_filled(cached: JavaObject) -> bool:
    """Whether all rows of a plan from `cache` have been computed."""
    return bool(cached.cacheBuilder().isCachedColumnBuffersLoaded())


def internal_rows(session: SparkSession) -> JavaObject:
    """The class of the elements of an RDD of rows, as Scala wants to know it (a ClassTag)."""
    return _class_tag(scala.jvm(session), "InternalRow")


@lru_cache(maxsize=8)
def _class_tag(view: Any, name: str) -> JavaObject:
    return view.scala.reflect.ClassTag.apply(view.java.lang.Class.forName(ENGINE[name]))


def one_row_each(session: SparkSession, row: JavaObject, partitions: int) -> JavaObject:
    """An RDD with `row` in each partition."""
    rows = scala.jvm(session).java.util.ArrayList([row] * partitions)
    return session.sparkContext._jsc.parallelize(rows, partitions).rdd()


def empty_rows(session: SparkSession) -> JavaObject:
    """An RDD without rows."""
    return session.sparkContext._jsc.sc().emptyRDD(internal_rows(session))


def rdd_frame(session: SparkSession, rdd: JavaObject, schema: JavaObject, streaming: bool = False) -> DataFrame:
    """A DataFrame over an RDD of Spark's internal rows; `schema` is a Java StructType."""
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rdd, schema, streaming), session)


def frame_of_slices(session: SparkSession, slices: Sequence[Sequence[tuple[Any, ...]]], schema: StructType) -> DataFrame:
    """A DataFrame with a partition for each slice of rows; no Python worker repacks them, as one does for `createDataFrame`."""
    pickler, unpack = CPickleSerializer(), scala.java_class(session, "SerDeUtil")
    packed = [pickler.dumps([schema.toInternal(row) for row in rows]) for rows in slices]
    batches = session.sparkContext._jsc.parallelize(scala.jvm(session).java.util.ArrayList(packed), len(packed))
    rows = unpack.toJavaArray(unpack.pythonToJava(batches, True))
    return DataFrame(session._jsparkSession.applySchemaToPythonRDD(rows.rdd(), schema.json()), session)


def local_frame(session: SparkSession, attributes: JavaObject, rows: JavaObject) -> DataFrame:
    """A DataFrame over rows that are in the driver's JVM; `rows` is a Scala Seq of internal rows."""
    return of_rows(session, _local_relation(session, attributes, rows, streaming=False))


def empty_stream(session: SparkSession, attributes: JavaObject) -> JavaObject:
    """What a stream is to the optimizer in a batch without rows of it; `attributes` is a Scala Seq."""
    return _local_relation(session, attributes, scala.seq(session, ()), streaming=True)


def temporary_view(session: SparkSession, name: str) -> JavaObject:
    """The temporary view of this name, with its plan (an Option)."""
    return session._jsparkSession.sessionState().catalog().getRawTempView(name)


def _local_relation(session: SparkSession, attributes: JavaObject, rows: JavaObject, streaming: bool) -> JavaObject:
    relation = scala.java_class(session, "LocalRelation")
    return relation(attributes, rows, streaming, scala.none(session))


def count_rows(df: DataFrame) -> int:
    """Compute every row and column of a DataFrame, and only count the rows (`df.count()` would compute fewer columns).

    If the plan is no more than an RDD, as that of a batch is, its rows are counted as they are; Spark would plan it and copy
    each row.
    """
    plan = analyzed(df)
    rows = plan.rdd() if scala.class_name(plan) == "LogicalRDD" else df._jdf.queryExecution().executedPlan().execute()
    return count_rdd(df.sparkSession, rows)


def count_rdd(session: SparkSession, rows: JavaObject) -> int:
    """Compute all rows of an RDD of Spark's internal rows, and count them.

    Before a job starts, Spark reads the class in which its closure was written, to find out what the closure needs. That of
    `RDD.count` is RDD itself, and to read it takes 6 ms; that of `countAsync` is a small one.
    """
    return counted(session, start_to_count(session, rows))


def start_to_count(session: SparkSession, rows: JavaObject) -> JavaObject:
    """Start the job of `count_rdd`; it `isCompleted()` or not."""
    return scala.java_class(session, "RDD").rddToAsyncRDDActions(rows, internal_rows(session)).countAsync()


def counted(session: SparkSession, job: JavaObject) -> int:
    """Wait for such a job."""
    forever = scala.companion(session, "scala.concurrent.duration.Duration").Inf()
    scala.java_class(session, "ThreadUtils").awaitReady(job, forever)
    return int(job.value().get().get())  # the job's own error, which `job.get()` would wrap


def collect_rows(df: DataFrame) -> JavaObject:
    """Run a DataFrame and bring its rows to the driver's JVM, as a Scala Seq of internal rows."""
    rows = df._jdf.queryExecution().executedPlan().executeCollect()
    return scala.java_class(df.sparkSession, "scala.collection.immutable.ArraySeq").unsafeWrapArray(rows)


def show_string(df: DataFrame, rows: int, truncate: int) -> str:
    """What `df.show()` prints: at most `rows` rows, in cells of at most `truncate` characters (0: no limit)."""
    return str(df._jdf.showString(rows, truncate, False))


def project(session: SparkSession, expressions: Iterable[JavaObject], child: JavaObject) -> JavaObject:
    """A Project on top of `child`. `expressions` may also be a Scala Seq."""
    made = expressions if hasattr(expressions, "_target_id") else scala.seq(session, expressions)
    return scala.java_class(session, "Project")(made, child)


def no_rows(session: SparkSession, attributes: JavaObject) -> JavaObject:
    """A relation without rows, and known to have none, under the very same `attributes` (a Scala Seq)."""
    nothing = statistics_of_nothing(session, attributes)
    return leaf_over(session, empty_rows(session), attributes, streaming=False, statistics=nothing)


def leaf_over(
    session: SparkSession, rdd: JavaObject, attributes: JavaObject, streaming: bool, partitioning: JavaObject = None,
    statistics: JavaObject = None,
) -> JavaObject:
    """A relation over an RDD of Spark's internal rows, under the very same `attributes` (a Scala Seq).

    Rows whose `partitioning` is known are not shuffled again where Spark needs just this. Without `statistics`, Spark takes the
    size that it assumes for any relation of unknown size.
    """
    none = scala.none(session)
    if partitioning is None:
        partitioning = scala.java_class(session, "UnknownPartitioning")(0)
    return scala.call(
        scala.java_class(session, "LogicalRDD"), output=attributes, rdd=rdd,
        outputPartitioning=partitioning, outputOrdering=scala.seq(session, []), isStreaming=streaming, stream=none,
        session=session._jsparkSession, originStats=none if statistics is None else scala.some(session, statistics),
        originConstraints=none, fromCheckpoint=False,
    )


def statistics_of_nothing(session: SparkSession, attributes: JavaObject) -> JavaObject:
    """The statistics of a relation without rows."""
    return empty_stream(session, attributes).stats()


class Renaming:
    """The rows of a plan under the (name, expression id) pairs of another plan's attributes, column by column.

    An id may be None, for a new one, unless the rows are a relation of files.

    A relation of files takes the ids itself, and other plans get a Project on top: Spark's optimizer would remove a Project
    that only renames the columns of files. A source mostly has the same columns in each batch; then the new attributes are
    reused.
    """

    def __init__(self, session: SparkSession, attributes: Iterable[tuple[str, JavaObject]]):
        self._session, self._attributes = session, list(attributes)
        self._columns: JavaObject = None
        self._of_relation = False
        self._renamed: JavaObject = None

    def of(self, plan: JavaObject) -> JavaObject:
        """`plan`, renamed. Raises ValueError if it has more columns than there are attributes, or fewer."""
        output, is_relation = plan.output(), scala.class_name(plan) == "LogicalRelation"
        if self._columns is None or self._of_relation != is_relation or not output.equals(self._columns):
            columns = scala.items(output)
            if len(columns) != len(self._attributes):
                raise ValueError(f"Invalid batch: {len(self._attributes)} columns expected, {len(columns)} found")
            pairs = zip(columns, self._attributes)
            if is_relation:
                to = scala.seq(self._session, (column.withExprId(expr_id) for column, (_, expr_id) in pairs))
                attribute_map = scala.companion(self._session, "AttributeMap")
                self._renamed = attribute_map.apply(output.zip(to))
            else:
                renamed = [expressions.alias(self._session, column, name, expr_id) for column, (name, expr_id) in pairs]
                self._renamed = scala.seq(self._session, renamed)
            self._columns, self._of_relation = output, is_relation
        return plan.rewriteAttrs(self._renamed) if is_relation else project(self._session, self._renamed, plan)


def rename(session: SparkSession, plan: JavaObject, attributes: Iterable[tuple[str, JavaObject]]) -> JavaObject:
    """`plan` under the attributes of another plan; for more than one plan, use a `Renaming`."""
    return Renaming(session, attributes).of(plan)


def relation_id(session: SparkSession, leaf: JavaObject) -> int | None:
    """The identity of the relation behind a leaf, logical or physical, as a negative number; None if it has none.

    For a relation of files, this is the identity of the list of its files: the optimizer may copy the relation, so that it
    reads fewer columns, but it does not copy that list.
    """
    name = scala.class_name(leaf)
    if name in ("LogicalRelation", "FileSourceScanExec"):
        relation = leaf.relation()
        if scala.class_name(relation) == "HadoopFsRelation":
            relation = relation.location()
    elif name in ("LogicalRDD", "RDDScanExec"):
        relation = leaf.rdd()
    elif name in ("DataSourceV2Relation", "BatchScanExec"):
        relation = leaf.table()
    else:
        return None
    return -int(scala.java_class(session, "java.lang.System").identityHashCode(relation)) - 1


def with_children(session: SparkSession, node: JavaObject, children: Iterable[JavaObject]) -> JavaObject:
    return node.withNewChildren(scala.seq(session, children))


def with_leaves(session: SparkSession, plan: JavaObject, by: Callable[[JavaObject], JavaObject]) -> JavaObject:
    """A plan, in which each streaming leaf is replaced by what `by` makes of it, which may be the leaf itself."""
    if not plan.isStreaming():
        return plan
    if children := scala.items(plan.children()):
        return with_children(session, plan, [with_leaves(session, child, by) for child in children])
    return by(plan)


def watermark_nodes(plan: JavaObject) -> list[str]:
    """The node ids of all EventTimeWatermark nodes of a plan, from the top."""
    own = [plan.nodeId().toString()] if scala.class_name(plan) == "EventTimeWatermark" else []
    return own + [n for child in scala.items(plan.children()) for n in watermark_nodes(child)]
