"""What a query in real-time mode, `trigger(realTime=...)`, may contain; everything else is refused, in Spark's words.

Models: RealTimeModeAllowlist, UnsupportedOperationChecker.checkAdditionalRealTimeModeConstraints, MicroBatchExecution (in no
document: real-time mode is newer).

The rules are checked in this order, (1) to (5) by `start()`, the others on the query's thread:

1. The sink must write row by row: console, foreach and Kafka do. `realTimeMode.allowlistCheck` turns the check off.
2. A batch must last at least `realTimeMode.minBatchDuration`.
3. The state must be in RocksDB and in checkpoint format 2, and rows must not be sorted before a repartition. A session that
   does not say otherwise gets these settings.
4. The output mode must be Update.
5. No stateful operator may be below a union. Like (4), this is checked before the rules for any stream, and not at all if
   `spark.sql.streaming.unsupportedOperationCheck` is off.
6. Each source must be able to read until a batch's time is over: Kafka's and LowLatencyMemoryStream are. No source may be read
   twice.
7. If the check of (1) is off, the sink must write row by row all the same.
8. If there are commits, they must be of checkpoint format 2, even without state, unless the session has
   `realTimeMode.dangerouslyAllowCheckpointV1.enabled`: the files of a batch that was cut off could not be told from others.
9. Each operator above a source must be in Spark's list, unless the check is off. This is checked in the first batch, because
   only then there is a physical plan.

    rate to noop, "5 seconds"           start(): OPERATOR_OR_SINK_NOT_IN_ALLOWLIST                  (1)
    rate to console, "1 second"         start(): INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL  (2)
    files to console, "5 seconds"       the query ends: INPUT_STREAM_NOT_SUPPORTED                  (6)
    a Python UDF, "5 seconds"           the query ends: OPERATOR_OR_SINK_NOT_IN_ALLOWLIST           (9)

Differs from Spark: a Python data source that writes is refused as a sink by (7), too; Spark would run it if the check of (1) is
off.
Shown by tests/conformance/test_real_time_mode.py::test_what_is_refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import expressions, scala, sessions
from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.engine.jvm.errors import analysis_error, illegal_state, spark_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.checked_plan import AGGREGATIONS, CheckedNode, is_stream_stream_join, read
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.trigger_executor import RealTimeTrigger
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.engine.sources.base import Source, SupportsRealTimeMode
from minispark_stream.engine.state.state_store import CHECKPOINT_FORMAT, PROVIDER_CLASS, ROCKS_DB_PROVIDER

_CONFS = "spark.sql.streaming.realTimeMode"
_MODE = "STREAMING_REAL_TIME_MODE"
_ALLOWED_SINKS = ("ConsoleSink", "ForeachSink", "KafkaSink")
_JAVA_CLASSES = {  # by the names that the classes have here
    "DeltaSink": "org.apache.spark.sql.delta.sources.DeltaSink",  # of a connector that is not used
    "NoopSink": ENGINE["NoopTable$"],
    "PythonDataSourceSink": ENGINE["PythonTable"],
    "RateStream": ENGINE["RateStreamMicroBatchStream"],
    "TextSocketStream": ENGINE["TextSocketMicroBatchStream"],
    **{name: ENGINE[name] for name in (
        "MemorySink", "ForeachBatchSink", "FileStreamSink", "FileStreamSource", "RatePerMicroBatchStream",
        "PythonMicroBatchStream", "PythonMicroBatchStreamWithAdmissionControl",
    )},
}
_ALLOWED_OPERATORS = frozenset(
    ENGINE[name] for name in (
        "CollectMetricsExec", "ColumnarToRowExec", "ExpandExec", "FilterExec", "GenerateExec", "InputAdapter", "ProjectExec",
        "UnionExec", "WholeStageCodegenExec", "ShuffleExchangeExec", "BroadcastHashJoinExec",
        "HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec",
    )
)
_WITH_STATE = {  # physical operators that are not in the list, by the names of Catalyst's nodes
    "DeduplicateWithinWatermark": [ENGINE["StreamingDeduplicateWithinWatermarkExec"]],
    "Join": [ENGINE["StreamingSymmetricHashJoinExec"]],
    "FlatMapGroupsInPandasWithState": [ENGINE["SortExec"], ENGINE["FlatMapGroupsInPandasWithStateExec"]],
}
_IN_RANGES = " in ranges"  # a shuffle by ranges would first have to see all rows
_STATEFUL = (
    *AGGREGATIONS, "Deduplicate", "DeduplicateWithinWatermark", "FlatMapGroupsInPandasWithState", "TransformWithState",
    "TransformWithStateInPySpark",
)
_SORT = "spark.sql.execution.sortBeforeRepartition"
_SOFT_DEFAULTS = {
    PROVIDER_CLASS: ROCKS_DB_PROVIDER, CHECKPOINT_FORMAT: "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true", _SORT: "false",
}


def is_stateful(plan: JavaObject) -> bool:
    """Whether an analysed plan keeps state."""
    return any(map(_keeps_state, read(plan).down()))


def _keeps_state(node: CheckedNode) -> bool:
    return node.streaming and (node.name in _STATEFUL or is_stream_stream_join(node))


# -- start() ----------------------------------------------------------------------------------------------------


def check_sink_and_interval(session: SparkSession, trigger: RealTimeTrigger, sink: Sink) -> None:
    """(1), (2)

    Raises:
        IllegalArgumentException: the sink cannot be used, or batches would be too short.
    """
    if sessions.flag(session, f"{_CONFS}.allowlistCheck") and type(sink).__name__ not in _ALLOWED_SINKS:
        condition = f"{_MODE}.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"
        raise spark_error(session, IllegalArgumentException, condition, errorType="sink", message=f"{_java_class(sink)} is")
    if trigger.batch_ms < (least_ms := sessions.conf_ms(session, f"{_CONFS}.minBatchDuration")):
        condition = "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL"
        numbers = {"interval": str(trigger.batch_ms), "minBatchDuration": str(least_ms)}
        raise spark_error(session, IllegalArgumentException, condition, **numbers)


def check_confs(session: SparkSession) -> None:
    """(3)

    Raises:
        IllegalArgumentException: the session has settings with which real-time mode does not work.
    """
    wrong = []
    if _is_set(session, CHECKPOINT_FORMAT) and int(str(session.conf.get(CHECKPOINT_FORMAT))) < 2:
        if not sessions.flag(session, f"{_CONFS}.dangerouslyAllowCheckpointV1.enabled"):
            wrong.append(f"{CHECKPOINT_FORMAT} must be 2 or above")
    if _is_set(session, PROVIDER_CLASS) and session.conf.get(PROVIDER_CLASS) != ROCKS_DB_PROVIDER:
        wrong.append(f"{PROVIDER_CLASS} must be {ROCKS_DB_PROVIDER}")
    if _is_set(session, _SORT) and sessions.flag(session, _SORT):
        wrong.append(f"{_SORT} must be false")
    if wrong:
        confs = "; ".join(f"{i}. {one}" for i, one in enumerate(wrong, 1))
        raise spark_error(session, IllegalArgumentException, f"{_MODE}.SQL_CONFIGURATION_NOT_SUPPORTED", invalidReasons=confs)


def set_soft_defaults(session: SparkSession) -> None:
    """(3) `session` is that of a query."""
    for key, value in _SOFT_DEFAULTS.items():
        if not _is_set(session, key):
            session.conf.set(key, value)


def _is_set(session: SparkSession, key: str) -> bool:
    return session.conf.get(key, None) is not None


def check_query(session: SparkSession, plan: JavaObject, output_mode: str) -> None:
    """(4), (5)

    Raises:
        AnalysisException: the output mode is not Update, or the rows of a stateful operator flow into a union.
    """
    if output_mode != "update":
        raise analysis_error(session, f"{_MODE}.OUTPUT_MODE_NOT_SUPPORTED", outputMode=output_mode.capitalize())
    for node in read(plan).down():
        if node.name == "Union" and any(_keeps_state(below) for below in node.down()):
            raise analysis_error(session, f"{_MODE}.STATEFUL_OPERATORS_BEFORE_UNION_NOT_SUPPORTED")


def tracks_progress_async(session: SparkSession, plan: JavaObject) -> bool:
    """Whether a query that says nothing of it does not wait for its logs."""
    return sessions.flag(session, f"{_CONFS}.asyncProgressTrackingByDefault.enabled") and not is_stateful(plan)


# -- the query's thread -----------------------------------------------------------------------------------------


def check_sources(session: SparkSession, sources: Iterable[Source], leaves: Iterable[Source]) -> None:
    """(6)

    Args:
        leaves: for each place in the plan that reads a source, that source.

    Raises:
        IllegalArgumentException: a source cannot be read in this mode.
        JavaError: SparkIllegalStateException, a source is read twice.
    """
    for source in sources:
        if not isinstance(source, SupportsRealTimeMode):
            raise spark_error(
                session, IllegalArgumentException, f"{_MODE}.INPUT_STREAM_NOT_SUPPORTED", className=_java_class(source)
            )
        source.prepare_for_real_time_mode()
    read_by = list(leaves)
    if len({id(source) for source in read_by}) < len(read_by):
        names = ", ".join(source.description for source in read_by)
        raise illegal_state(session, f"{_MODE}.IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED", sources=names)


def check_sink_on_thread(session: SparkSession, sink: Sink) -> None:
    """(7) Raises IllegalArgumentException: the sink cannot write row by row."""
    if not sink.supports_continuous:
        raise spark_error(session, IllegalArgumentException, f"{_MODE}.SINK_NOT_SUPPORTED", className=_java_class(sink))


def check_checkpoint_format(session: SparkSession) -> None:
    """(8) `session` has the format of the last commit. Raises IllegalArgumentException: it is format 1."""
    allowed = f"{_CONFS}.dangerouslyAllowCheckpointV1.enabled"
    if session.conf.get(CHECKPOINT_FORMAT) == "1" and not sessions.flag(session, allowed):
        raise spark_error(session, IllegalArgumentException, f"{_MODE}.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED", config=allowed)


def check_operators(session: SparkSession, execution: IncrementalExecution) -> None:
    """(9) Raises IllegalArgumentException: there is an operator that is not in the list."""
    if not sessions.flag(session, f"{_CONFS}.allowlistCheck"):
        return
    with_state = [operator.plan for operator in execution.template.operators]
    columns = frozenset(
        number for plan in (*execution.new_data.values(), *with_state) for number in expressions.expression_ids(session, plan)
    )
    above = {name for plan in with_state for name in _WITH_STATE.get(scala.class_name(plan), ())}
    for plan in execution.batch.executed:
        _add_operators_above(session, plan, columns, above)
    if unknown := sorted(above - _ALLOWED_OPERATORS):
        message = f"{', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'}".replace(_IN_RANGES, "")
        condition = f"{_MODE}.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"
        raise spark_error(session, IllegalArgumentException, condition, errorType="operator", message=message)


def _add_operators_above(session: SparkSession, plan: JavaObject, columns: frozenset[int], above: set[str]) -> bool:
    """Add the classes of all operators above a reader or a task with state, which have these columns; returns whether there is
    one."""
    if scala.class_name(plan) in ("MapInArrowExec", "RDDScanExec") and columns & set(expressions.expression_ids(session, plan)):
        return True
    below = [_add_operators_above(session, child, columns, above) for child in scala.items(plan.children())]
    if any(below):
        above.add(str(plan.getClass().getName()) + (_IN_RANGES if _is_range_partitioning(plan) else ""))
    return any(below)


def _is_range_partitioning(plan: JavaObject) -> bool:
    is_shuffle = scala.class_name(plan) == "ShuffleExchangeExec"
    return is_shuffle and scala.class_name(plan.outputPartitioning()) == "RangePartitioning"


def _java_class(one: object) -> str:
    return _JAVA_CLASSES.get(type(one).__name__, f"{type(one).__module__}.{type(one).__qualname__}")
