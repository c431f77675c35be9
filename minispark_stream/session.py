"""The entry point: a Spark session whose streams run on this engine.

Models: SparkSession (`readStream`, `streams`).

    mini = MiniSparkSession(spark)          or MiniSparkSession.builder.getOrCreate()
    mini.readStream ... .writeStream ... .start()      # this engine
    mini.read ... , mini.table("counts"), mini.sql     # Spark SQL, as always; this engine reads FROM STREAM t

It is PySpark's own class around the same JVM session, so it shares confs, views and tables with `spark`. The sessions that it
leads to (`df.sparkSession`, `newSession()`, the session of a foreachBatch function) are sessions of the model, too.

Differs from Spark: when there are two model sessions around one Spark session, each knows only its own queries.
Shown by tests/spark/test_differences.py::test_two_sessions_around_one_spark.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, ClassVar

from pyspark.errors import PySparkRuntimeError, PySparkTypeError, PySparkValueError
from pyspark.sql import DataFrame, SparkSession

from minispark_stream.dataframe import let_data_frames_choose_their_engine
from minispark_stream.engine.clock import Clock, SystemClock
from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.sources.table import with_tables_of_files
from minispark_stream.engine.spark_versions import refuse_connect
from minispark_stream.readwriter import DataStreamReader
from minispark_stream.streaming_query_manager import StreamingQueryManager
from minispark_stream.workers import let_workers_run_tasks


def started(start: Callable[[], SparkSession]) -> SparkSession:
    """The Spark that `start` starts.

    Raises:
        PySparkRuntimeError: it has not started; the message is one line that names the cause.
    """
    try:
        return start()
    except Exception as e:
        from minispark_stream.tools.cause import of_start

        told = of_start(e)
        if told is None:
            raise
        raise PySparkRuntimeError(message=told) from None


class MiniSparkSession(SparkSession):
    """`readStream` and `streams` are the model's; everything else is Spark's.

    Args:
        spark: a classic (not Connect) SparkSession.
        trace: what queries record: "steps" (default), "rows" (with previews of rows and state; costs extra jobs), "code" (the
            steps, and the code of this package that ran in each; makes the query slower) or "off". The last 1,000 batches of
            each query are kept, or fewer, if these have more than 64 million characters of text.
        clock: the clock of the engine; tests pass a ManualClock.

    Raises:
        PySparkTypeError: `spark` is not a classic session.
        PySparkValueError: an unknown trace level.
        PySparkRuntimeError: Spark's workers on this machine cannot run the Python that they are told to run.
    """

    streams: StreamingQueryManager

    _made_first: ClassVar[MiniSparkSession | None] = None
    _one_at_a_time: ClassVar[RLock] = RLock()  # several threads may ask for the first session at once

    def __init__(self, spark: SparkSession, trace: str = "steps", clock: Clock | None = None):
        if trace not in ("off", "steps", "rows", "code"):
            raise PySparkValueError(
                errorClass="VALUE_NOT_ALLOWED",
                messageParameters={"arg_name": "trace", "allowed_values": "['off', 'steps', 'rows', 'code']"},
            )
        refuse_connect("MiniSparkSession", "spark", spark)
        if not isinstance(spark, SparkSession):
            raise PySparkTypeError(
                errorClass="NOT_EXPECTED_TYPE",
                messageParameters={
                    "arg_name": "spark", "expected_type": "a classic SparkSession", "arg_type": type(spark).__qualname__,
                },
            )
        vars(self).update(vars(spark))  # the same session in the JVM, with its confs, views and profiles
        self._trace = trace
        self._clock = clock or SystemClock()
        self.streams = StreamingQueryManager(self, self._cloneSession, trace, self._clock)
        with MiniSparkSession._one_at_a_time:
            if MiniSparkSession._first() is None:
                let_data_frames_choose_their_engine()
                let_workers_run_tasks(spark)
                MiniSparkSession._made_first = self

    class Builder(SparkSession.Builder):
        """`MiniSparkSession.builder`: Spark's builder, with a model session around the session that it returns."""

        def getOrCreate(self) -> MiniSparkSession:
            return MiniSparkSession._of(started(super().getOrCreate))

        def create(self) -> MiniSparkSession:
            return MiniSparkSession(started(super().create))

    @classmethod
    def getActiveSession(cls) -> MiniSparkSession | None:
        """The model session of the Spark that is active on this thread, or None; as in PySpark, the one that was made first."""
        spark = SparkSession.getActiveSession()
        return None if spark is None else cls._of(spark)

    @classmethod
    def active(cls) -> MiniSparkSession:
        """The model session of the Spark that is active on this thread, or else of the default session.

        Raises:
            PySparkRuntimeError: no Spark is running.
        """
        return cls._of(SparkSession.active())

    @classmethod
    def _of(cls, spark: SparkSession) -> MiniSparkSession:
        with cls._one_at_a_time:
            return cls._first() or cls(spark)

    @classmethod
    def _first(cls) -> MiniSparkSession | None:
        return None if cls._made_first is None or sessions.is_stopped(cls._made_first) else cls._made_first

    @property
    def readStream(self) -> DataStreamReader:
        """A new DataStreamReader with PySpark's methods, whose streams are read by this engine."""
        return DataStreamReader(self, self._clock)

    def sql(self, *arguments: Any, **named: Any) -> DataFrame:
        """Spark SQL; this engine reads what stands after `FROM STREAM`."""
        return with_tables_of_files(self, super().sql(*arguments, **named))

    def table(self, tableName: str) -> DataFrame:
        """A table or view, as in Spark; this engine reads the streams of a view."""
        return with_tables_of_files(self, super().table(tableName))

    def newSession(self) -> MiniSparkSession:
        """A model session with its own confs, views, functions and queries."""
        return MiniSparkSession(sessions.new(self), self._trace, self._clock)

    def _cloneSession(self) -> MiniSparkSession:
        """A model session that begins with the confs, views and functions that this one has now."""
        return MiniSparkSession(sessions.cloned(self), self._trace, self._clock)
