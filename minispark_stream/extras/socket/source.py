"""socket: lines of text from a TCP connection; for trying things out, because nothing can be read twice.

Models: TextSocketSourceProvider, TextSocketMicroBatchStream (Source document: the one source that is not replayable).

1. The offset is the number of the last line, from 0; -1 before the first line.
2. The connection is opened with the first batch, which is empty. From then on a thread reads lines into a buffer, each with
   the time of its arrival.
3. A batch (a, b] has the lines a+1 … b of the buffer, dealt out to numPartitions partitions in turn.
4. `commit(b)` drops the lines up to b.

    line       a  b  c │ d           batch 0: nothing, offset -1 (connects)
    offset     0  1  2 │ 3           batch 1: a b c, offset 2;   batch 2: d, offset 3, and 0 … 2 are dropped

A restart begins with an empty buffer and counts from -1 again, while the offset log remembers a greater number: the batch after
the next fails with "Offsets committed out of order". This is Spark's behaviour, too, and the reason why it warns its users.

Differs from Spark: a batch that runs again after a restart does not connect, because its lines are lost anyway; the next
batch does.
Shown by tests/unit/extras/socket/test_socket_source.py::test_a_batch_that_is_run_again_does_not_connect.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm import plans
from minispark_stream.engine.jvm.builders import case_insensitive
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.sources.base import Offset, Source
from minispark_stream.engine.sources.source_options import refuse_user_schema
from minispark_stream.extras.socket.continuous_stream import TextSocketContinuousStream
from minispark_stream.extras.socket.lines import SocketLines, SocketRow

logger = logging.getLogger(__name__)

_VALUE = StructField("value", StringType())
_TIMESTAMP = StructField("timestamp", TimestampType())


def socket_relation(
    spark: SparkSession, schema: StructType | None, options: Mapping[str, str], clock: Clock
) -> StreamingRelation:
    """`readStream.format("socket").options(options).load()`.

    Args:
        options: `host` and `port` (required), `includeTimestamp` (false), `numPartitions` (the default parallelism); names in
            lower case.

    Raises:
        AnalysisException: host or port is missing, or includeTimestamp is neither true nor false.
        UnsupportedOperationException: a schema was given.
    """
    refuse_user_schema(spark, "TextSocketSourceProvider", schema)
    logger.warning("The socket source should not be used for production applications! It does not support recovery.")
    if "host" not in options:
        raise analysis_error(spark, "_LEGACY_ERROR_TEMP_1295")
    if "port" not in options:
        raise analysis_error(spark, "_LEGACY_ERROR_TEMP_1296")
    include = options.get("includetimestamp", "false").lower()
    if include not in ("true", "false"):
        raise analysis_error(spark, "_LEGACY_ERROR_TEMP_1297")
    given = case_insensitive(spark, options)
    host, port = options["host"], given.getInt("port", -1)
    partitions = given.getInt("numPartitions", spark.sparkContext.defaultParallelism)
    return StreamingRelation(
        "socket",
        StructType([_VALUE, _TIMESTAMP] if include == "true" else [_VALUE]),
        lambda session, metadata_path: TextSocketStream(session, host, port, partitions, include == "true", clock),
        create_continuous=lambda session, metadata_path: TextSocketContinuousStream(
            session, host, port, partitions, include == "true", clock
        ),
    )


class TextSocketStream(Source):
    """The source of one query. `get_batch` raises OSError when the connection cannot be opened."""

    is_v1 = False

    def __init__(
        self, session: SparkSession, host: str, port: int, partitions: int, include_timestamp: bool, clock: Clock
    ):
        self._session = session
        self._host = host
        self._port = port
        self._partitions = partitions
        self._include_timestamp = include_timestamp
        self._schema = StructType([_VALUE, _TIMESTAMP] if include_timestamp else [_VALUE])
        self._clock = clock
        self.description = f"TextSocketV2[host: {host}, port: {port}]"
        self._lock = threading.Lock()
        self._lines: list[SocketRow] = []
        self._current = self._committed = -1
        self._was_asked = False
        self._connection: SocketLines | None = None

    def get_offset(self) -> Offset:  # (1)
        with self._lock:
            self._was_asked = True
            return str(self._current)

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:  # (3)
        with self._lock:
            # A batch that is run again after a restart comes before the first call of `get_offset`: its lines are gone.
            if self._connection is None and (self._was_asked or start is None):
                self._connection = SocketLines(self._host, self._port, self._include_timestamp, self._clock, self._add)  # (2)
            skipped = self._committed + 1
            # Like Spark's, the buffer answers a range that it does not have with no lines.
            first, last = (max(0, int(offset) + 1 - skipped) for offset in (start or "-1", end))
            lines = self._lines[first:last]
        slices = [lines[p :: self._partitions] for p in range(self._partitions)]
        return plans.frame_of_slices(self._session, slices, self._schema)

    def commit(self, end: Offset) -> None:  # (4)
        with self._lock:
            if int(end) < self._committed:
                raise RuntimeError(f"Offsets committed out of order: {self._committed} followed by {end}")
            del self._lines[: int(end) - self._committed]
            self._committed = int(end)

    def stop(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.stop()

    def _add(self, row: SocketRow) -> None:
        with self._lock:
            self._lines.append(row)
            self._current += 1
