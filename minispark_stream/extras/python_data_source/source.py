"""Sources written in Python: a class registered by `spark.dataSource.register(...)` is read as a stream.

Models: PythonMicroBatchStream (Source document: a source is looked up by its short name). PySpark's own API is the way to
write a source for this engine, too: `DataSource.streamReader` or `simpleStreamReader`.

1. The class is looked up by the name that it was registered under, and created with the options of `readStream`.
2. On the driver: `initialOffset` as long as no batch is logged, `latestOffset` for each batch, `commit` when a batch is done.
   An offset is a dict, logged as JSON.
3. `partitions(start, end)` plans a batch; each partition is read by one task on the executors: `read(partition)`. The tasks
   have a reader of their own, which was made and pickled before any of its methods was called: they know nothing of what the
   driver's reader has seen, and that one may hold what cannot be pickled, such as a connection.
4. A *simple* reader has no partitions: its `read(start)` runs on the driver and returns rows together with the next offset.
   The rows are kept until the batch runs; after a restart, `readBetweenOffsets` reads them again.

    class Counter(DataSourceStreamReader):          batch 0   {"n": 2}   partitions 0, 1
        def latestOffset(self): ...                 batch 1   {"n": 4}   partitions 2, 3

Differs from Spark: the driver's half runs in the driver's Python; Spark gives it a process of its own.
Shown by tests/spark/test_differences.py::test_python_data_sources_run_in_the_drivers_python.
"""

from __future__ import annotations

import inspect
import json
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.datasource_internal import ReadLimitRegistry, _SimpleStreamReaderWrapper, _streamReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as ReaderSupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import plans
from minispark_stream.engine.jvm.builders import parse_struct, pickled_data_source
from minispark_stream.engine.jvm.errors import analysis_error, spark_error
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.sources.base import (
    ALL_AVAILABLE,
    Offset,
    ReadLimit,
    Source,
    SupportsAdmissionControl,
    SupportsTriggerAvailableNow,
)


def find_data_source(session: SparkSession, name: str) -> type[DataSource] | None:
    """(1) The class that was registered under `name`, or None."""
    pickled = pickled_data_source(session, name)  # PySpark's register() pickled it in this process
    found: type[DataSource] | None = None if pickled is None else cloudpickle.loads(pickled)
    return found


def python_relation(
    session: SparkSession, data_source: type[DataSource], schema: StructType | None, options: Mapping[str, str]
) -> StreamingRelation:
    """`readStream.format(name).options(options).load()`.

    Raises:
        AnalysisException: PYTHON_DATA_SOURCE_ERROR, if an instance cannot be created or has no schema.
    """
    source = created(session, data_source, options)
    resolved = _schema(session, source) if schema is None else schema
    pickled = attempt(session, "create", "instance", lambda: cloudpickle.dumps(source))
    return StreamingRelation(
        f"Python[{data_source.name()}]", resolved, lambda query_session, _: _stream(query_session, pickled, resolved)
    )


def _schema(session: SparkSession, source: DataSource) -> StructType:
    """The schema that a source has by itself, which it may give in SQL's words."""

    def asked() -> StructType | str:
        schema = source.schema()
        assert schema is not None
        return schema

    given: StructType | str = attempt(session, "create", "instance", asked)
    return parse_struct(session, given) if isinstance(given, str) else given


def created(session: SparkSession, data_source: type[DataSource], options: Mapping[str, str]) -> DataSource:
    """An instance of the class."""
    return attempt(session, "create", "instance", lambda: data_source(CaseInsensitiveDict(options)))


def attempt(session: SparkSession, action: str, what: str, make: Callable[[], Any]) -> Any:
    """What the user's code makes; its errors are Spark's PYTHON_DATA_SOURCE_ERROR."""
    try:
        return make()
    except Exception as e:
        raise analysis_error(session, "PYTHON_DATA_SOURCE_ERROR", action=action, type=what, msg=_told(e)) from e


def run(session: SparkSession, action: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the user's code while the query runs; its errors are Spark's PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR."""
    try:
        return function(*arguments)
    except Exception as e:
        condition = "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR"  # of a SparkException, for which PySpark has no class
        raise spark_error(session, PySparkException, condition, action=action, msg=_told(e)) from e


def _told(error: Exception) -> str:
    """What Spark receives of an error of the user's code."""
    return "".join(traceback.format_exception(error))


def _stream(session: SparkSession, pickled: bytes, schema: StructType) -> PythonMicroBatchStream:
    """The stream of one query over its own copy of the source, of the kind that the methods of the reader allow."""
    source = cloudpickle.loads(pickled)
    reader = attempt(session, "plan", "initialize source", lambda: _streamReader(source, schema))
    kind: type[PythonMicroBatchStream] = run(session, "checkSupportedFeatures", _kind_of, reader)
    return kind(session, pickled, schema, reader)


def _kind_of(reader: Any) -> type[PythonMicroBatchStream]:
    simple = isinstance(reader, _SimpleStreamReaderWrapper)
    takes_limit = simple or bool(inspect.signature(reader.latestOffset).parameters)
    if isinstance(reader.simple_reader if simple else reader, ReaderSupportsTriggerAvailableNow):
        return PythonMicroBatchStreamWithTriggerAvailableNow
    return PythonMicroBatchStreamWithAdmissionControl if takes_limit else PythonMicroBatchStream


class PythonMicroBatchStream(Source):
    """The stream of a reader whose `latestOffset()` takes no limit."""

    is_v1 = False

    def __init__(self, session: SparkSession, pickled: bytes, schema: StructType, reader: DataSourceStreamReader):
        self._session = session
        self._pickled = pickled
        self._schema = schema
        self._reader = reader
        self.description = f"{type(self).__name__}[{cloudpickle.loads(pickled).name()}]"

    @cached_property
    def _read(self) -> bytes:
        """The function of the tasks, pickled. Raises AnalysisException: the reader cannot be made or pickled."""
        return cast("bytes", attempt(self._session, "plan", "read", self._new_read))

    def _new_read(self) -> bytes:
        source = cloudpickle.loads(self._pickled)
        return cloudpickle.dumps(_Read(_streamReader(source, self._schema), source, self._schema))

    def get_offset(self) -> Offset | None:
        return self._offset("latestOffset", self._reader.latestOffset)

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:
        partitions, kept = self._call("planPartitions", self._planned, self._from(start), end)
        task = _ReadPartition(self._read, partitions)
        if kept is not None:  # (4)
            table = pa.Table.from_batches(kept, to_arrow_schema(self._schema, timezone="UTC"))
            return plans.as_leaf(self._session.createDataFrame(table, self._schema))
        numbers = self._session.range(0, len(partitions), 1, max(1, len(partitions)))
        return plans.as_leaf(numbers.mapInArrow(task, self._schema))

    def commit(self, end: Offset) -> None:
        self._call("commitSource", lambda: self._reader.commit(json.loads(end)))

    def stop(self) -> None:
        self._reader.stop()

    def _from(self, start: Offset | None) -> Offset:
        """The offset from which to read: `start`, or the initial one, for which the reader is asked again each time."""
        return self._offset("initialOffset", self._reader.initialOffset) if start is None else start

    def _offset(self, action: str, function: Callable[..., Any]) -> Offset:  # (2)
        offset: Offset = self._call(action, lambda: json.dumps(function()))
        return offset

    def _planned(self, start: Offset, end: Offset) -> tuple[list[bytes], list[pa.RecordBatch] | None]:
        """(3) The partitions of a batch, pickled, and the rows that a simple reader has kept of it."""
        between = json.loads(start), json.loads(end)
        partitions = self._reader.partitions(*between)
        number = len(partitions)  # which PySpark asks for, too: a generator is refused
        pickled = [cloudpickle.dumps(partition) for partition in islice(partitions, number)]
        kept = self._reader.getCache(*between) if isinstance(self._reader, _SimpleStreamReaderWrapper) else None
        return pickled, None if kept is None else list(_to_arrow(kept, self._schema, cloudpickle.loads(self._pickled)))

    def _call(self, action: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return run(self._session, action, function, *arguments)


class PythonMicroBatchStreamWithAdmissionControl(PythonMicroBatchStream, SupportsAdmissionControl):
    """The stream of a reader whose `latestOffset(start, limit)` takes a limit."""

    def default_read_limit(self) -> ReadLimit:
        """The limit of the reader, which must be one of PySpark's, because it goes to `latestOffset` by way of JSON."""
        limit: Any = self._call("getDefaultReadLimit", self._reader.getDefaultReadLimit)
        self._call("getDefaultReadLimit", lambda: json.dumps(asdict(limit)))
        return cast("ReadLimit", limit)

    def latest_offset(self, start: Offset | None, limit: ReadLimit = ALL_AVAILABLE) -> Offset | None:
        before = self._from(start)
        return self._offset("latestOffset", lambda: self._reader.latestOffset(json.loads(before), _of_pyspark(limit)))

    def report_latest_offset(self) -> Offset | None:
        if isinstance(self._reader, _SimpleStreamReaderWrapper):
            return None
        newest = self._offset("reportLatestOffset", self._reader.reportLatestOffset)
        return None if newest == "null" else newest


def _of_pyspark(limit: Any) -> ReadLimit:
    """`limit` as it comes out of JSON. Raises PySparkException: PySpark has no such limit."""
    passed: ReadLimit = ReadLimitRegistry().get({**asdict(limit), "_type": type(limit).__name__})
    return passed


class PythonMicroBatchStreamWithTriggerAvailableNow(PythonMicroBatchStreamWithAdmissionControl, SupportsTriggerAvailableNow):
    """The stream of a reader that is told when a run with the trigger availableNow begins."""

    def prepare_for_trigger_available_now(self) -> None:
        reader: Any = self._reader
        self._call("prepareForTriggerAvailableNow", getattr(reader, "simple_reader", reader).prepareForTriggerAvailableNow)


@dataclass(frozen=True)
class _ReadPartition:
    """The task half: row i of the input says to read partition i. `read` is a pickled `_Read`."""

    read: bytes
    partitions: list[bytes]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read: _Read = cloudpickle.loads(self.read)
        for batch in batches:
            for i in batch.column(0).to_pylist():
                yield from read.rows_of(cloudpickle.loads(self.partitions[i]))


@dataclass(frozen=True)
class _Read:
    """Reads partitions with the reader of the tasks."""

    reader: DataSourceStreamReader
    source: DataSource
    schema: StructType

    def rows_of(self, partition: Any) -> Iterable[pa.RecordBatch]:
        """What the reader reads of a partition, checked as PySpark checks it.

        Raises:
            AssertionError: `partitions` gave something else than partitions.
            PySparkRuntimeError: the reader returns no iterator (DATA_SOURCE_INVALID_RETURN_TYPE).
        """
        assert isinstance(partition, InputPartition), (
            f"Expected the partition value to be of type 'InputPartition', but found '{type(partition).__name__}'."
        )
        rows: Any = self.reader.read(partition)
        if not isinstance(rows, Iterator):
            told = {"type": type(rows).__name__, "name": self.source.name(), "supported_types": "iterator"}
            raise PySparkRuntimeError(errorClass="DATA_SOURCE_INVALID_RETURN_TYPE", messageParameters=told)
        return _to_arrow(rows, self.schema, self.source)


def _to_arrow(rows: Iterator[Any], schema: StructType, source: DataSource) -> Iterable[pa.RecordBatch]:
    """Tuples, Rows or record batches, checked against the schema by PySpark's own rules."""
    return _records_to_arrow_batches()(rows, 10_000, schema, source)


def _records_to_arrow_batches() -> Callable[..., Iterable[pa.RecordBatch]]:
    """PySpark's own converter. Where Spark is tested (SPARK_TESTING), its module refuses to be imported by a driver."""
    testing = os.environ.pop("SPARK_TESTING", None)
    try:
        from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches
    finally:
        if testing is not None:
            os.environ["SPARK_TESTING"] = testing
    return records_to_arrow_batches
