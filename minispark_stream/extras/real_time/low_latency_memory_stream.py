"""The memory source of real-time mode: rows that a test or a lesson adds by hand, and that tasks read while they arrive.

Models: LowLatencyMemoryStream (in no document: it is newer).

1. Row number i, counted over all calls of `add_data`, goes to partition i modulo the number of partitions.
2. The offset is the number of rows of each partition.
3. In real-time mode, tasks ask the driver for the rows (extras/continuous/records.py).
4. In micro-batches, a batch is a range of each partition.

    three rows, then one, 2 partitions      partition 0: 1st, 3rd; partition 1: 2nd, 4th      {"0":2,"1":1}, {"0":2,"1":2}

The rows live as long as the object, so a query may be stopped and restarted from its checkpoint, but only in the same process.

Differs from Spark: several queries may read one stream. In Spark, a query that stops ends the stream's endpoint, and the other
queries fail.
Shown by tests/conformance/test_real_time_mode.py::test_two_queries_read_one_stream.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.plan.streaming_relation import StreamingRelation, streaming_dataframe
from minispark_stream.engine.sources.base import (
    ALL_AVAILABLE,
    MOST_ROWS,
    Offset,
    ReadLimit,
    SupportsRealTimeMode,
    offset_by_partition,
    offset_of_another_source,
)
from minispark_stream.extras.continuous.records import ContinuousRecordPartition, GetRecords
from minispark_stream.extras.rpc import RpcEndpoint


class LowLatencyRows:
    """The rows of a stream of the model; `session` is the model session that will read it."""

    def __init__(self, session: SparkSession, schema: StructType | str, num_partitions: int):
        self._mini = session
        self.schema = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
        self.records: list[list[tuple[Any, ...]]] = [[] for _ in range(num_partitions)]
        self._number = 0  # of rows
        self._lock = threading.Lock()
        self._df: DataFrame | None = None

    def add_data(self, rows: Sequence[tuple[Any, ...]]) -> Offset:  # (1)
        with self._lock:
            for row in rows:
                self.records[self._number % len(self.records)].append(row)
                self._number += 1
            return self.latest_offset()

    def latest_offset(self) -> Offset:  # (2)
        return offset_by_partition({i: len(records) for i, records in enumerate(self.records)})

    def to_df(self) -> DataFrame:
        """The streaming DataFrame over this stream; however often a query uses it, it is one source."""

        def reader(session: SparkSession, metadata_path: str) -> LowLatencyMemoryStreamReader:
            return LowLatencyMemoryStreamReader(session, self)

        with self._lock:
            if self._df is None:
                relation = StreamingRelation("memory", self.schema, reader, is_one_source=True)
                self._df = streaming_dataframe(self._mini, relation)
            return self._df


class LowLatencyMemoryStreamReader(SupportsRealTimeMode):
    """A query's view of a stream."""

    is_v1 = False

    def __init__(self, session: SparkSession, stream: LowLatencyRows):
        self._session, self._stream = session, stream
        self.description = f"MemoryStream[{','.join(stream.schema.names)}]"
        self._endpoint: RpcEndpoint | None = None

    def latest_offset(self, start: Offset | None, limit: ReadLimit = ALL_AVAILABLE) -> Offset | None:
        return self._stream.latest_offset()

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:  # (4)
        begins, ends = self._numbers(start), self._numbers(end)
        pieces = [records[begins[i] : ends[i]] for i, records in enumerate(self._stream.records)]
        return self._session.createDataFrame([row for piece in pieces for row in piece], self._stream.schema)

    def plan_input_partitions(self, start: Offset | None) -> list[ContinuousRecordPartition]:  # (3)
        self._endpoint = self._endpoint or RpcEndpoint(sessions.driver_host(self._session), self._records)
        return [ContinuousRecordPartition(i, offset, self._endpoint.ref) for i, offset in enumerate(self._numbers(start))]

    def stop_reading(self) -> None:
        if self._endpoint is not None:
            self._endpoint.stop()

    def stop(self) -> None:
        self.stop_reading()

    def _records(self, message: GetRecords) -> list[tuple[Any, ...]]:
        return self._stream.records[message.partition_id][message.offset : message.offset + MOST_ROWS]

    def _numbers(self, offset: Offset | None) -> list[int]:
        """How many rows of each partition an offset covers.

        Raises:
            RuntimeError: it is not an offset of this stream, or the stream does not have so many rows.
        """
        number = len(self._stream.records)
        if offset is None:
            return [0] * number
        found = json.loads(offset)
        if not isinstance(found, dict) or sorted(found) != sorted(map(str, range(number))):
            raise offset_of_another_source(offset, f"LowLatencyMemoryStream of {number} partitions, which this is not")
        reached = [found[str(i)] for i in range(number)]
        if any(not isinstance(one, int) or not 0 <= one <= len(self._stream.records[i]) for i, one in enumerate(reached)):
            raise RuntimeError(
                f"{self.description} cannot read up to {offset}: it has {self._stream.latest_offset()}. The rows live as long "
                "as the LowLatencyMemoryStream; start the query with a new checkpoint location."
            )
        return reached
