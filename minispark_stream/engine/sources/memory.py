"""The memory source: rows that a test or a lesson adds by hand.

Models: MemoryStream (Source document). As in Spark, it is not a format of `readStream`, but an object that rows can be added
to.

    numbers = MemoryStream(mini, "value int")
    query = numbers.to_df().writeStream...start()
    numbers.add_data([(1,), (2,)])         # offset 0
    numbers.add_data([(3,)])               # offset 1

1. Each call of `add_data` adds one block; the number of the block is the offset. Rows that do not fit the schema are refused
   there: in a block, they would end every run of the query.
2. A batch `(start, end]` reads the blocks start+1 … end, so it consists of whole blocks.
3. Every query has a reader of its own, and its checkpoint says how far it has read. So several queries may read one stream.

Blocks exist as long as the object does, so a query may be stopped and restarted on its checkpoint; but they are lost when the
process ends.

Differs from Spark: a block that a query has committed is kept, because another query may still need it; Spark drops it, and
another query on the same stream never gets its rows. If the blocks of a batch are missing (because the stream is a new object,
but the checkpoint is not new), the batch fails; Spark skips these blocks.
Shown by tests/unit/engine/sources/test_memory_stream.py::test_two_queries_read_one_stream_each_at_its_own_pace,
tests/unit/engine/sources/test_memory_stream.py::test_blocks_that_are_not_there_are_never_skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _create_converter, _make_type_verifier

from minispark_stream.engine.plan.streaming_relation import StreamingRelation, streaming_dataframe
from minispark_stream.engine.sources.base import ALL_AVAILABLE, Offset, ReadLimit, SupportsTriggerAvailableNow


class MemoryStream:
    """A stream of rows that are added by hand.

    Args:
        session: the MiniSparkSession whose queries read it.
        schema: a StructType or a DDL string.
    """

    def __init__(self, session: SparkSession, schema: StructType | str):
        self._mini = session
        self.schema = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
        self.blocks: list[list[tuple[Any, ...]]] = []
        self._df: DataFrame | None = None
        self._lock = threading.Lock()

    def add_data(self, rows: Iterable[Any]) -> Offset:  # (1)
        """Add one block of rows (tuples, dicts or Rows); returns its offset. Raises as `fitting_rows` does."""
        block = fitting_rows(rows, self.schema)
        with self._lock:
            self.blocks.append(block)
            return str(len(self.blocks) - 1)

    def to_df(self) -> DataFrame:
        """The streaming DataFrame over this stream; however often a query uses it, it has one reader."""

        def reader(session: SparkSession, metadata_path: str) -> MemoryStreamReader:
            return MemoryStreamReader(session, self)

        with self._lock:
            if self._df is None:
                relation = StreamingRelation("memory", self.schema, reader, is_one_source=True)
                self._df = streaming_dataframe(self._mini, relation)
            return self._df


def fitting_rows(rows: Iterable[Any], schema: StructType) -> list[tuple[Any, ...]]:
    """Rows as tuples, by the rules of `createDataFrame`.

    Raises:
        PySparkTypeError, PySparkValueError: a row does not fit the schema.
    """
    verify, convert = _make_type_verifier(schema, nullable=False), _create_converter(schema)
    fitting = []
    for row in rows:
        verify(row)
        fitting.append(convert(row))
        schema.toInternal(fitting[-1])  # refuses, for example, a time that has no number of microseconds
    return fitting


class MemoryStreamReader(SupportsTriggerAvailableNow):  # (3)
    """A query's view of a MemoryStream."""

    is_v1 = False

    def __init__(self, session: SparkSession, stream: MemoryStream):
        self._session = session
        self._stream = stream
        self._available_now: int | None = None
        self.description = f"MemoryStream[{','.join(stream.schema.names)}]"

    def latest_offset(self, start: Offset | None, limit: ReadLimit = ALL_AVAILABLE) -> Offset | None:
        blocks = len(self._stream.blocks) if self._available_now is None else self._available_now
        return str(blocks - 1) if blocks else None

    def prepare_for_trigger_available_now(self) -> None:
        self._available_now = len(self._stream.blocks)

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:  # (2)
        """Raises AssertionError if the batch ends before it begins; RuntimeError if the stream does not have these blocks."""
        first, last = 0 if start is None else int(start) + 1, int(end)
        if first > last + 1:
            raise AssertionError(f"assertion failed: sliceStart: {first} sliceEnd: {last + 1}")
        if last >= len(self._stream.blocks):
            raise RuntimeError(
                f"{self.description} cannot give the blocks {first} to {last}: it has {len(self._stream.blocks)} blocks. They "
                "live as long as the MemoryStream; start the query with a new checkpoint location."
            )
        rows = [row for block in self._stream.blocks[first : last + 1] for row in block]
        return self._session.createDataFrame(rows, self._stream.schema)
