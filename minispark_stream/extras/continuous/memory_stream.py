"""The memory source of the continuous engine: rows that a test or a lesson adds by hand.

Models: ContinuousMemoryStream (Continuous processing; Source document).

    numbers = ContinuousMemoryStream(mini, "value int")
    query = numbers.to_df().writeStream...trigger(continuous="1 second").start()
    numbers.add_data([(1,), (2,), (3,)])      # partition 0: 1, 3; partition 1: 2; the offset is {"0":2,"1":1}

1. The rows of each `add_data` are dealt out to the partitions in turn.
2. The offset is the number of rows of each partition.
3. Tasks ask the driver for the rows (records.py).

The rows live as long as the object, so a query may be stopped and restarted from its checkpoint, but only in the same process.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any, cast

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.plan.streaming_relation import StreamingRelation, streaming_dataframe
from minispark_stream.engine.sources.base import MOST_ROWS, ContinuousStream, Offset, offset_by_partition
from minispark_stream.engine.sources.memory import fitting_rows
from minispark_stream.extras.continuous.records import ContinuousRecordPartition, GetRecords
from minispark_stream.extras.rpc import RpcEndpoint


class ContinuousMemoryStream:
    """A stream of rows that are added by hand, for one query at a time or for several.

    Args:
        session: the MiniSparkSession that will read it.
        schema: a StructType or a DDL string.
        num_partitions: how many tasks read it.
    """

    def __init__(self, session: SparkSession, schema: StructType | str, num_partitions: int = 2):
        self._mini = session
        self.schema = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
        self._records: list[list[tuple[Any, ...]]] = [[] for _ in range(num_partitions)]
        self._lock = threading.Lock()

    @property
    def num_partitions(self) -> int:
        return len(self._records)

    def add_data(self, rows: Iterable[Any]) -> Offset:  # (1)
        """Add rows (tuples, dicts or Rows); returns the offset at which all of them are processed.

        Raises:
            PySparkTypeError, PySparkValueError: a row does not fit the schema; then none is added.
        """
        fitting = fitting_rows(rows, self.schema)
        with self._lock:
            for i, row in enumerate(fitting):
                self._records[i % self.num_partitions].append(row)
            return offset_by_partition({i: len(records) for i, records in enumerate(self._records)})

    def get(self, message: GetRecords) -> list[tuple[Any, ...]]:  # (3)
        return self._records[message.partition_id][message.offset : message.offset + MOST_ROWS]

    def to_df(self) -> DataFrame:
        """The streaming DataFrame over this stream."""

        def no_micro_batches(session: SparkSession, metadata_path: str) -> Any:
            raise spark_error(session, UnsupportedOperationException, "_LEGACY_ERROR_TEMP_2209", srcName="memory")

        relation = StreamingRelation(
            "memory", self.schema, no_micro_batches, create_continuous=lambda session, metadata_path: _Stream(session, self)
        )
        return streaming_dataframe(self._mini, relation)


class _Stream(ContinuousStream):
    """A query's view of a ContinuousMemoryStream."""

    def __init__(self, session: SparkSession, memory: ContinuousMemoryStream):
        self._memory = memory
        self.description = f"ContinuousMemoryStream[{','.join(memory.schema.names)}]"
        self._endpoint = RpcEndpoint(sessions.driver_host(session), memory.get)

    def initial_offset(self) -> Offset:  # (2)
        return offset_by_partition(dict.fromkeys(range(self._memory.num_partitions), 0))

    def plan_input_partitions(self, start: Offset) -> list[ContinuousRecordPartition]:
        """Raises ValueError: `start` is not an offset of this stream."""
        offsets = json.loads(start)
        if not isinstance(offsets, dict) or len(offsets) != self._memory.num_partitions:
            raise ValueError(f"Expected an object with the offsets of {self._memory.num_partitions} partitions but got {start}")
        return [ContinuousRecordPartition(int(i), offset, self._endpoint.ref) for i, offset in offsets.items()]

    def stop(self) -> None:
        self._endpoint.stop()
