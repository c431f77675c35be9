"""memory: keep the rows on the driver, as a table under the query's name.

Models: MemorySink (Sink document).

1. A batch whose id is not greater than the last one is run again: its rows are in the table already.
2. append and update add the rows of the batch (update keeps *every* version of a changed row, because the sink cannot know
   which row replaces which); complete replaces the table.
3. The table is a temporary view of the session that started the query. It exists when `start()` has succeeded, and is renewed
   after each batch, unless the user has dropped it or given its name to something else.

    update:    batch 0 (a, 1)    batch 1 (a, 2)   ->  table (a, 1), (a, 2)
    complete:  batch 0 (a, 1)    batch 1 (a, 2)   ->  table (a, 2)

The rows stay in the JVM, in Spark's own row format and in a persistent vector, so adding a batch only costs as much as its
rows.

Differs from Spark: a DataFrame taken from the view has the rows of the batches before it was taken, because a plan without
Spark's own memory sink cannot grow; Spark's DataFrame has the rows that are there when it is run. Take it again to see more.
Shown by tests/spark/test_differences.py::test_sinks.
"""

from __future__ import annotations

import threading

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import plans, scala
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.sinks.base import Sink, StreamingWrite
from minispark_stream.engine.sinks.packed_rows import packed_rows


class MemorySink(Sink):
    """`writeStream.format("memory").queryName(name)`.

    Raises:
        AnalysisException: the query has no name.
    """

    description = "MemorySink"
    writer = "MemoryStreamingWrite"
    supports_continuous = True

    def __init__(self, session: SparkSession, name: str | None, schema: StructType, output_mode: str):
        if not name:
            raise analysis_error(session, "_LEGACY_ERROR_TEMP_1194")
        self.session = session
        self.name = name
        self.output_mode = output_mode
        self._last_batch_id = -1
        empty = session.createDataFrame([], schema)
        self._attributes = plans.analyzed(empty).output()
        self._rows = scala.seq(session, []).toVector()
        self._publishing = threading.Lock()
        self._view: JavaObject = None  # what was published last

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        rows = plans.collect_rows(data)
        if batch_id > self._last_batch_id:  # (1)
            self._rows = rows.toVector() if self.output_mode == "complete" else self._rows.appendedAll(rows)  # (2)
            self._last_batch_id = batch_id
            with self._publishing:
                if self._view is not None and plans.temporary_view(self.session, self.name) == self._view:
                    self._show()
        return int(rows.size())

    def streaming_write(self, session: SparkSession, schema: StructType) -> StreamingWrite:
        return packed_rows(self, session, schema)

    def publish(self) -> None:  # (3)
        """Make the rows a view. `start()` does it on its own thread, perhaps at the same time as the first batch."""
        with self._publishing:
            self._show()

    def _show(self) -> None:
        plans.local_frame(self.session, self._attributes, self._rows).createOrReplaceTempView(self.name)
        self._view = plans.temporary_view(self.session, self.name)
