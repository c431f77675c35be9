"""Spark's batch table for Kafka, from which the source reads and to which the sink writes.

Models: KafkaTable of the connector (spark-sql-kafka-0-10), as a DataSourceV2Relation.

    kafka_table(session, {"kafka.bootstrap.servers": ..., "subscribe": "clicks"})   a plan that reads
    append(session, kafka_table(session, {..., "topic": "clicks"}), df)             a job that writes

They do what `spark.read.format("kafka").options(...).load()` and `df.write.format("kafka").options(...).save()` do. But these
two would use the older V1 classes (`spark.sql.sources.useV1SourceList`), which do not count rows.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from minispark_stream.engine.jvm.builders import case_insensitive
from minispark_stream.engine.jvm.errors import JavaError
from minispark_stream.engine.jvm.plans import analyzed
from minispark_stream.engine.jvm.scala import JavaObject, java_class, java_map, none
from minispark_stream.extras.jvm.contract import EXTRAS


class KafkaException(PySparkException):
    """Something that Kafka or the connector reports, under the message that Spark gives."""

    def __str__(self) -> str:
        return self._message

    @classmethod
    def of(cls, error: JavaError) -> KafkaException:
        """The error that Java code raised, without Java's stack trace."""
        found = cls(message=str(error.java_exception.getMessage()))
        found.__cause__ = error
        return found


def kafka_table(session: SparkSession, options: Mapping[str, str]) -> JavaObject:
    """The table as a logical plan; nothing is asked of Kafka yet."""
    given = case_insensitive(session, options)
    table = java_class(session, EXTRAS["KafkaSourceProvider"])().getTable(given)
    relation = java_class(session, EXTRAS["DataSourceV2Relation"])
    return relation.create(table, none(session), none(session), given, none(session))


def append(session: SparkSession, table: JavaObject, data: DataFrame) -> int:
    """Write all rows of `data` to the table; returns how many there were.

    Raises:
        KafkaException: Kafka does not accept a row, or the options of the table are incomplete.
        AnalysisException, IllegalArgumentException: the columns or options are not what the connector requires.
    """
    plans = java_class(session, EXTRAS["AppendData"])
    plan = plans.byName(table, analyzed(data), java_map(session, {}), False)
    unexecuted = java_class(session, EXTRAS["CommandExecutionMode"]).SKIP()
    write = session._jsparkSession.sessionState().executePlan(plan, unexecuted).executedPlan()
    write.metrics()  # lazy; if the results of the tasks needed it first, two lazy values would wait for each other for ever
    try:
        write.executeCollect()
    except JavaError as e:
        raise KafkaException.of(e) from e
    return int(write.commitProgress().get().numOutputRows())
