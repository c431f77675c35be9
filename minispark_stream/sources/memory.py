"""The memory source: rows that a test or a lesson hands in by itself.

Models: MemoryStream (Source document). Not a format of `readStream`, as in Spark: the stream is an object that data can be
added to.

    numbers = MemoryStream(mini, "value int")
    query = numbers.to_df().writeStream...start()
    numbers.add_data([(1,), (2,)])         # offset 0
    numbers.add_data([(3,)])               # offset 1

1. Each `add_data` is one block; its number is the offset.
2. A batch `(start, end]` reads the blocks start+1 … end, so that a batch is made of whole blocks.
3. `commit(end)` drops the blocks up to `end`: nothing will ask for them again.

Blocks live as long as the object, so a query may be stopped and restarted on its checkpoint; they do not outlive the
process. Differs from Spark: nothing but the names' case.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.plan.streaming_relation import StreamingRelation, streaming_dataframe
from minispark_stream.sources.base import ALL_AVAILABLE, Offset, ReadLimit, SupportsTriggerAvailableNow


class MemoryStream(SupportsTriggerAvailableNow):
    """A stream of rows that are added by hand.

    Args:
        session: the MiniSparkSession that will read it.
        schema: a StructType or a DDL string.
    """

    def __init__(self, session: SparkSession, schema: StructType | str):
        self._mini = session
        self.schema = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
        self.description = f"MemoryStream[{','.join(self.schema.names)}]"
        self._blocks: dict[int, list[Any]] = {}
        self._offset = -1
        self._available_now: int | None = None
        self._lock = threading.Lock()

    def add_data(self, rows: Iterable[Any]) -> Offset:  # (1)
        """Add one block of rows (tuples, dicts or Rows that fit the schema); returns its offset."""
        block = list(rows)
        with self._lock:
            self._offset += 1
            self._blocks[self._offset] = block
            return str(self._offset)

    def to_df(self) -> DataFrame:
        """The streaming DataFrame over this stream."""
        relation = StreamingRelation("memory", self.schema, lambda session, metadata_path: self._read_by(session))
        return streaming_dataframe(self._mini, relation)

    def latest_offset(self, start: Offset | None, limit: ReadLimit = ALL_AVAILABLE) -> Offset | None:
        newest = self._offset if self._available_now is None else self._available_now
        return None if newest < 0 else str(newest)

    def prepare_for_trigger_available_now(self) -> None:
        self._available_now = self._offset

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:  # (2)
        first = 0 if start is None else int(start) + 1
        with self._lock:
            rows = [row for i in range(first, int(end) + 1) for row in self._blocks.get(i, ())]
        return self._session.createDataFrame(rows, self.schema)

    def commit(self, end: Offset) -> None:  # (3)
        with self._lock:
            for offset in [i for i in self._blocks if i <= int(end)]:
                del self._blocks[offset]

    def _read_by(self, session: SparkSession) -> MemoryStream:
        self._session = session
        self._available_now = None
        return self
