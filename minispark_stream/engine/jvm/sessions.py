"""Sessions: their confs, copies of them, the session that is active on a thread; and how jobs and accumulators are ended.

These are calls of Spark's own methods. A duration in a conf or an option is a text:

    "10s" -> 10000 ms        "7d" -> 604800000 ms        "250" -> 250 ms

Models: JavaUtils.timeStringAs.
Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.accumulators import Accumulator, _accumulatorRegistry
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.errors import illegal_argument
from minispark_stream.engine.jvm.scala import JavaObject

ROWS_AS_OBJECTS = "spark.sql.cartesianProductExec.buffer.in.memory.threshold"
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


def is_stopped(session: SparkSession) -> bool:
    """Whether the SparkContext of a session has been stopped, through this session or another one."""
    return session.sparkContext._jsc is None


def is_stopping(session: SparkSession) -> bool:
    """Whether the SparkContext of a session has been stopped, or is being stopped."""
    return is_stopped(session) or bool(session.sparkContext._jsc.sc().isStopped())


def conf(session: SparkSession, key: str) -> str | None:
    """A conf or its registered default (`session.conf.get(key, None)` would hide the default)."""
    value = session._jsparkSession.conf().getOption(key)
    return str(value.get()) if value.isDefined() else None


def flag(session: SparkSession, key: str) -> bool:
    """A conf that is true or false; spaces around it and its case do not count, as in Spark."""
    return str(session.conf.get(key)).strip().lower() == "true"


def compaction_confs(session: SparkSession, log: str) -> tuple[int, int, bool, int]:
    """The confs of a compactible log ("fileSource" or "fileSink").

    Returns:
        how many batches there are from one compaction to the next, after how many ms a file may be deleted, whether files
        are deleted at all, and how many batches must be kept.

    Raises:
        IllegalArgumentException: the number of batches from one compaction to the next is not positive.
    """
    of_log = f"spark.sql.streaming.{log}.log"
    interval = int(str(conf(session, f"{of_log}.compactInterval")))
    if interval <= 0:
        words = f"Please set {of_log}.compactInterval (was {interval}) to a positive value."
        raise illegal_argument(f"requirement failed: {words}")
    return (
        interval,
        conf_ms(session, f"{of_log}.cleanupDelay"),
        flag(session, f"{of_log}.deletion"),
        int(str(conf(session, "spark.sql.streaming.minBatchesToRetain"))),
    )


def of_spark(session: SparkSession) -> SparkSession:
    """A session in PySpark's own class: its streams are those of real Structured Streaming."""
    return session if type(session) is SparkSession else SparkSession(session.sparkContext, session._jsparkSession)


def cloned(session: SparkSession) -> SparkSession:
    """A session of its own, with the confs, views and functions that `session` has now (SparkSession.cloneSession)."""
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())


def new(session: SparkSession) -> SparkSession:
    """A session of its own, with confs, views and functions as they are at the beginning (SparkSession.newSession)."""
    return SparkSession(session.sparkContext, session._jsparkSession.newSession())


def set_active_session(session: SparkSession) -> None:
    """Physical plans belong to the session that is active on the thread that makes them."""
    scala.java_class(session, "SparkSession").setActiveSession(session._jsparkSession)


def propagate_confs(session: SparkSession) -> None:
    """Let the tasks of every job that this thread starts see the session's confs (SQLExecution.withSQLConfPropagated).

    An action of Spark SQL does so by itself, but Spark may collect the rows that a join broadcasts while it still plans a
    batch. The confs come in one answer; `session.conf.getAll` asks for each of them and takes ten times as long.
    """
    mapper = scala.java_class(session, "com.fasterxml.jackson.databind.ObjectMapper")()
    confs = json.loads(mapper.writeValueAsString(session._jsparkSession.conf().getAllAsJava()))
    for key, value in confs.items():
        if key.startswith("spark"):
            session.sparkContext.setLocalProperty(key, value)


def end_arrow_batches_by_rows(session: SparkSession, plan: JavaObject) -> None:
    """Let the jobs of this thread send a task its rows in batches that end at `arrow.maxRecordsPerBatch` rows alone.

    By default, a batch also ends at 64 MB, and Spark adds up the bytes of its columns after each row. An aggregation by session
    spent almost a third of the JVM's processor time on that, for nothing: a task puts the batches together again. The limit
    stays as it is if the plan contains a Python function of the user, which sees the batches; and a limit that the user has set
    goes before this one, because `propagate_confs` comes after it.
    """
    patterns = scala.java_class(session, "TreePattern")
    if not plan.containsPattern(patterns.PYTHON_UDF()):
        session.sparkContext.setLocalProperty(ARROW_BYTES, str(2**31 - 1))  # for Spark, this number is no limit


def tune_session(session: SparkSession) -> None:
    """Settings of a query's session that make its batches fast, and do not change what they do.

    Spark's operators say what they do with a partition by an object instead of a closure. Spark takes every closure apart to
    find out what it refers to, for which it reads the class in which it was written. With objects, a trigger of `windows` took
    108 ms instead of 119.

    Up to 20,000 rows are gathered (physical.gathered) as objects, unless the user has chosen another number. By default, more
    than 4,096 go to a page of up to 64 MB, even if they take 1 MB.
    """
    session.conf.set("spark.sql.execution.usePartitionEvaluator", "true")
    if session.conf.get(ROWS_AS_OBJECTS, None) is None:
        session.conf.set(ROWS_AS_OBJECTS, "20000")


def use_worker_daemon(session: SparkSession, module: str) -> None:
    """Let `module` be the parent of the Python workers that start from now on, unless the user has chosen a parent.

    It is a setting of the whole Spark, for all Python functions, which a local Spark reads each time that it needs a worker.
    """
    confs = session.sparkContext._jsc.sc().conf()
    if not confs.contains("spark.python.daemon.module"):
        confs.set("spark.python.daemon.module", module)


def folder_and_python_path(session: SparkSession) -> tuple[str, str | None]:
    """Where a local Spark starts its Python workers: its current folder, and the PYTHONPATH that it was started with."""
    system = scala.jvm(session).java.lang.System
    return str(system.getProperty("user.dir")), system.getenv("PYTHONPATH")


def cancel_jobs(session: SparkSession, group: str) -> None:
    """Cancel the jobs of a job group, and every job that is started in it from now on."""
    session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)


def forget_accumulator(accumulator: Accumulator[Any]) -> None:
    """Let PySpark forget an accumulator, which it would otherwise keep until the process ends. Its value can still be read."""
    _accumulatorRegistry.pop(accumulator.aid, None)


def conf_ms(session: SparkSession, key: str) -> int:
    """A conf that is a time ("60s", "200ms"), in milliseconds."""
    return time_string_as_ms(session, str(session.conf.get(key)))


def conf_bytes(session: SparkSession, key: str) -> int:
    """A conf that is a number of bytes ("64MB", "1000")."""
    return int(scala.java_class(session, "JavaUtils").byteStringAsBytes(str(conf(session, key))))


def driver_host(session: SparkSession) -> str:
    """The address under which the tasks find the driver."""
    context = session.sparkContext
    return "127.0.0.1" if str(context.master).startswith("local") else str(context.getConf().get("spark.driver.host"))


def time_string_as_ms(session: SparkSession, text: str) -> int:
    """A duration such as "10s" in milliseconds; a bare number is a number of milliseconds.

    Raises:
        NumberFormatException: the text is not a duration (an IllegalArgumentException in Python).
    """
    return int(scala.java_class(session, "JavaUtils").timeStringAsMs(text))


def time_string_as_sec(session: SparkSession, text: str) -> int:
    """A duration such as "10s" in whole seconds; a bare number is a number of seconds."""
    return int(scala.java_class(session, "JavaUtils").timeStringAsSec(text))
