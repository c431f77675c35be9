"""Sinks written in Python: a class registered by `spark.dataSource.register(...)` that has a `streamWriter`.

Models: PythonStreamingWrite, WriteToDataSourceV2 (Sink document: write, commit, abort). For each batch:

1. Each task passes the rows of its partition to `write(rows)`, which returns a commit message.
2. When all tasks are done, the driver calls `commit(messages, batch_id)`.
3. When a task or `commit` fails, it calls `abort(messages, batch_id)`, with None for the tasks that have no message; then the
   query ends.

    batch 7    write(rows 0) -> "file-a"   write(rows 1) -> "file-b"   commit(["file-a", "file-b"], 7)

A batch that was committed but is not in the commit log is written and committed again under the same id.

For each batch, two writers are made: one for the tasks, and one for the driver. So a writer does not remember in `commit` what
it did in the batch before, or in `write`; the messages are all that it is told. When `abort` fails, too, its error is logged,
and the query ends with "Writing job failed.", which has the first error as its cause.

Differs from Spark: `commit` and `abort` run in the driver's Python; Spark gives them a process of their own.
Shown by tests/spark/test_differences.py::test_python_data_sources_run_in_the_drivers_python.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.errors import PySparkAssertionError, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.errors import illegal_argument, spark_exception
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.extras.python_data_source.source import attempt, run

logger = logging.getLogger(__name__)

Messages = dict[int, tuple[Any, int]]


class _Collected(AccumulatorParam[Messages]):
    """Commit messages and row counts of the tasks, by partition."""

    def zero(self, value: Messages) -> Messages:
        return {}

    def addInPlace(self, value1: Messages, value2: Messages) -> Messages:
        return {**value1, **value2}


class PythonDataSourceSink(Sink):
    """The sink of one query.

    Args:
        source: the class of the data source.
        options: those of `writeStream`.
        schema: the schema of the rows.
    """

    writer = "PythonStreamingWrite"

    def __init__(
        self, session: SparkSession, source: type[DataSource], options: Mapping[str, str], schema: StructType, output_mode: str
    ):
        self._session, self._source, self._options, self._schema = session, source, options, schema
        self._output_mode = output_mode
        self.description = f"PythonTable[{source.name()}]"

    @property
    def spark_name(self) -> str:
        return self._source.name()

    def _writer_of_tasks(self) -> DataSourceStreamWriter | DataSourceStreamArrowWriter:
        source = self._new_source()
        writer: Any = source.streamWriter(self._schema, self._overwrites)
        if not isinstance(writer, (DataSourceStreamWriter, DataSourceStreamArrowWriter)):
            expected = "an instance of DataSourceStreamWriter or DataSourceStreamArrowWriter"
            told = {"expected": expected, "actual": f"'{type(writer).__name__}'"}
            raise PySparkAssertionError(errorClass="DATA_SOURCE_TYPE_MISMATCH", messageParameters=told)
        return writer

    def _writer_of_driver(self) -> DataSourceStreamWriter | DataSourceStreamArrowWriter:
        source: DataSource = cloudpickle.loads(self._pickled)
        return source.streamWriter(schema=self._schema, overwrite=self._overwrites)

    @cached_property
    def _pickled(self) -> bytes:
        """The source whose writers commit. It is made once."""
        pickled: bytes = cloudpickle.dumps(self._new_source())
        return pickled

    def _new_source(self) -> DataSource:
        return self._source(CaseInsensitiveDict(self._options))

    @property
    def _overwrites(self) -> bool:
        return self._output_mode == "complete"

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        if self._output_mode == "update":  # refused where Spark refuses it: when the first batch is planned
            raise illegal_argument(f"requirement failed: {self.spark_name} does not support Update mode.")
        session, context = data.sparkSession, data.sparkSession.sparkContext
        writer = attempt(self._session, "initialize", "writer", self._writer_of_tasks)
        collected = context.accumulator(Messages(), _Collected())
        if not data.rdd.getNumPartitions():  # as in Spark, a batch without partitions is written by one task
            data = session.createDataFrame(context.parallelize([], 1), data.schema)
        partitions = data.rdd.getNumPartitions()
        try:
            task = _Write(writer, collected)  # (1)
            if isinstance(writer, DataSourceStreamArrowWriter):
                data.mapInArrow(task, "done boolean").collect()
            else:
                data.rdd.foreachPartition(task)
            messages = self._messages(collected.value, partitions)
            run(session, "commit", lambda: self._writer_of_driver().commit(messages, batch_id))  # (2)
        except Exception as e:
            try:
                self._writer_of_driver().abort(self._messages(collected.value, partitions), batch_id)  # (3)
            except Exception:
                logger.error("Batch %d could not be aborted", batch_id, exc_info=True)
                raise spark_exception(session, "_LEGACY_ERROR_TEMP_2070") from e  # "Writing job failed."
            raise
        finally:
            sessions.forget_accumulator(collected)
        return sum(count for _, count in collected.value.values())

    def _messages(self, collected: Messages, partitions: int) -> list[WriterCommitMessage | None]:
        return [collected.get(i, (None, 0))[0] for i in range(partitions)]


@dataclass(frozen=True)
class _Write:
    """The task half. It emits nothing."""

    writer: DataSourceStreamWriter
    collected: Accumulator[Messages]

    def __call__(self, given: Iterable[Any]) -> Any:
        counted = _Counted(given)
        message = self.writer.write(iter(counted))
        partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
        self.collected.add({partition: (_checked(message), counted.count)})
        return iter(())


class _Counted:
    """Rows, or record batches; it knows how many rows have been taken from it."""

    def __init__(self, given: Iterable[Any]):
        self._given = given
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        for one in self._given:
            self.count += one.num_rows if isinstance(one, pa.RecordBatch) else 1
            yield one


def _checked(message: Any) -> Any:
    if isinstance(message, WriterCommitMessage):
        return message
    raise PySparkRuntimeError(
        errorClass="DATA_SOURCE_TYPE_MISMATCH",
        messageParameters={
            "expected": "'WriterCommitMessage' as the return type of the `write` method", "actual": type(message).__name__
        },
    )
