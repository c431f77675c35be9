"""Plan a query on the shadow of a checkpoint, with all that Spark would check before its first batch reads anything.

1. The query is built in a session of its own, which has the confs of the deployment. It is a session of the model, whose
   engine can be stopped before rows are read. What a function has built with real Spark is translated if its sources are files.
2. `start()` checks operations, output mode, sink and `metadata`, and returns an execution instead of running it.
3. The execution creates its sources, finds out where to begin, and asks sources of files for their last batch once more.
4. The plan is optimised as if every source had new rows, and operators and schemas are compared with those of the shadow.

The first error is what Spark would say. Before (3) it comes from `start()`, afterwards from the first batch.

    groupBy("k", "u") on a state by k    ->    Planned(error=[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE], when="first batch")

No source is told that a batch is done, so `cleanSource` removes nothing, and no sink gets rows.

Models: MicroBatchExecution up to the first batch (engine/runtime/populate_start_offsets.py, engine/runtime/query_planner.py).
Differs from Spark: a function that reads rows while it builds the query (schema inference, collect) reads them here, too.
Shown by tests/spark/test_check.py::test_foretold_is_what_spark_did.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter as SparkDataStreamWriter

from minispark_stream.engine.jvm import plans, sessions
from minispark_stream.engine.jvm.errors import JavaError
from minispark_stream.engine.observer import Observer
from minispark_stream.engine.operators.batch_context import StateVariables
from minispark_stream.engine.plan.streaming_relation import model_session_of
from minispark_stream.engine.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.engine.runtime.template import Template
from minispark_stream.engine.runtime.unsupported_confs import check_confs
from minispark_stream.engine.runtime.write_to_stream import WriteToStream, resolve_write_to_stream
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.engine.sources.file import FILE_FORMATS
from minispark_stream.engine.sources.table import with_tables_of_files
from minispark_stream.readwriter import DataStreamWriter
from minispark_stream.session import MiniSparkSession
from minispark_stream.streaming_query import StreamingQuery
from minispark_stream.streaming_query_manager import StreamingQueryManager
from minispark_stream.tools.operations.check.answer import FIRST, START, Refused

T = TypeVar("T")
Builder = Callable[[Any], Any]


class CannotPlan(ValueError):
    """The function returned nothing that can be planned."""


class _Held(Exception):
    """Carries an execution out of `start()`, which shall not run it."""

    def __init__(self, write: WriteToStream, execution: MicroBatchExecution):
        self.write, self.execution = write, execution


class _PlanningManager(StreamingQueryManager):
    """Lets `start()` make its checks on a shadow, and ends it there.

    A function that starts its query itself is held in the same way: the query that it starts is the one that is planned.
    """

    shadow: Path

    def _start_query(self, df: DataFrame, sink: Sink, **asked: Any) -> StreamingQuery:
        asked["options"] = {**asked["options"], "checkpointlocation": str(self.shadow)}
        write = resolve_write_to_stream(self._session, analyzed=plans.analyzed(df), sink=sink, **asked)
        check_confs(self._session)
        execution = self._create_execution(write, Observer())
        if not isinstance(execution, MicroBatchExecution):
            raise CannotPlan("a query with a continuous trigger is planned by the tasks that run it")
        raise _Held(write, execution)


@dataclass(frozen=True)
class Planned:
    """A query on a shadow. `write`, `execution` and `template` are None if it was refused before there was one."""

    write: WriteToStream | None = None
    execution: MicroBatchExecution | None = None
    template: Template | None = None
    variables: Mapping[int, StateVariables] = field(default_factory=dict)
    refused: Refused | None = None


@dataclass(frozen=True)
class Deployment:
    """What a query is started with besides its code.

    `output_mode` is that of the query even if its writer has another one; `mode_of_frame` and `sink` are those of a query
    of which only the DataFrame is known.
    """

    confs: Mapping[str, str] = field(default_factory=dict)
    output_mode: str | None = None
    mode_of_frame: str | None = None
    sink: str | None = None


def held(spark: SparkSession, build: Builder, checkpoint: Path, how: Deployment) -> tuple[WriteToStream, MicroBatchExecution]:
    """What `start()` would run on a checkpoint of one's own, after its checks.

    Raises:
        CannotPlan: this is not a query that can be planned.
        PySparkException, JavaError: Spark refuses the query, when it is built or at `start()`.
    """
    session = _session(spark, checkpoint, how.confs)
    try:
        _start(build(session), session, how)  # (1), (2)
    except _Held as one:
        return one.write, one.execution
    raise CannotPlan("the query has not been planned: its writer belongs to another session")


def planned(spark: SparkSession, build: Builder, shadow: Path, how: Deployment) -> Planned:
    """Plan the query that `build` makes. Raises CannotPlan."""
    try:
        write, execution = held(spark, build, shadow, how)
    except (PySparkException, JavaError) as e:
        return Planned(refused=refused(e, START))
    return on_its_thread(execution, lambda: _begun(write, execution))


def _session(spark: SparkSession, shadow: Path, confs: Mapping[str, str]) -> MiniSparkSession:
    """A session with the confs of the deployment, whose queries are held."""
    model = spark if isinstance(spark, MiniSparkSession) else MiniSparkSession(spark, trace="off")
    session = model._cloneSession()
    for key, value in confs.items():
        session.conf.set(key, value)
    manager = _PlanningManager(session, session._cloneSession, "off", model._clock)
    manager.shadow = shadow
    session.streams = manager
    return session


def _start(built: Any, session: MiniSparkSession, how: Deployment) -> None:
    if isinstance(built, DataFrame):
        if not built.isStreaming:
            raise CannotPlan("the function returned a DataFrame that is not a stream")
        stream = built if model_session_of(built) is not None else with_tables_of_files(session, built)
        writer = _to_sink(stream.writeStream, how.sink)
    elif isinstance(built, SparkDataStreamWriter):
        writer = built
    else:
        raise CannotPlan(f"the function returned a {type(built).__name__} instead of a DataFrame or a DataStreamWriter")
    if not isinstance(writer, DataStreamWriter):
        raise CannotPlan(
            "the query was built with another session than the one that the function was given: use the argument to read"
        )
    mode = how.output_mode or (how.mode_of_frame if isinstance(built, DataFrame) else None)
    writer = writer if mode is None else writer.outputMode(mode)
    if writer._jwrite.state.get("format") in FILE_FORMATS and "path" not in writer._jwrite.state["options"]:
        if how.sink is None:
            raise CannotPlan("the folder of the file sink is not known: give it to the writer as an option, or name the sink")
        writer = writer.option("path", how.sink)
    writer.start()


def _to_sink(writer: Any, sink: str | None) -> Any:
    """The sink of a query of which only the DataFrame is known: the name of a format, or the folder of a file sink."""
    if sink in (None, "foreachBatch"):
        return writer.foreachBatch(_nothing)
    if sink == "foreach":
        return writer.foreach(print)
    if sink in ("noop", "console", "kafka", "delta"):
        return writer.format(sink)
    if sink == "memory":
        return writer.format(sink).queryName("checked")
    return writer.format("json").option("path", sink)


def _nothing(data: DataFrame, batch_id: int) -> None:
    """Stands for the function of a foreachBatch sink; it is never called."""


def on_its_thread(execution: MicroBatchExecution, work: Callable[[], T]) -> T:
    """Do some of a query's work on a thread of its own, as a query does: it sets the confs of all jobs of the thread."""
    found: list[T] = []

    def run() -> None:
        sessions.set_active_session(execution.session)
        found.append(work())

    thread = InheritableThread(target=run, name="check")
    thread.start()
    thread.join()
    return found[0]


def _begun(write: WriteToStream, execution: MicroBatchExecution) -> Planned:
    template = None
    try:
        execution.begin()  # (3)
        context = execution.context
        metadata = replace(context.metadata, batch_timestamp_ms=execution.clock.get_time_millis())
        context = replace(context, metadata=metadata)
        template = execution.planner.whole_template(context)
        variables = execution.planner.check(context)  # (4)
    except Exception as e:  # what ends the query's thread ends it with StreamingQueryException, whatever it is
        return Planned(write, execution, template, refused=refused(e, FIRST))
    finally:
        execution.release()
        execution.planner.stop()
    return Planned(write, execution, template, variables)


def refused(error: Exception, when: str) -> Refused:
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    text = str(error).strip()
    said = re.findall(r"^((?:\w+\.)*\w*(?:Error|Exception)\b.*)$", text, re.M) if "Traceback" in text else []  # Python's own
    line = (said[-1:] or text.splitlines() or [type(error).__name__])[0]
    return Refused(when, condition, line.removeprefix(f"[{condition}] "))
