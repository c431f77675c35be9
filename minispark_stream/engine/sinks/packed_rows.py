"""A sink on the driver in continuous mode: the tasks keep the rows of an epoch, and send them when it ends.

Models: PackedRowWriterFactory, PackedRowDataWriter (Continuous processing; Sink document).

1. A task keeps the rows of an epoch, and sends them as its message at the end of the epoch.
2. The messages of all tasks together are the rows of the epoch, in the order of the partitions. The driver passes them to the
   sink as if they were a batch.

    partition 0: (a) (b) | (d)     partition 1: (c) |         epoch 0 is the batch (a) (b) (c), epoch 1 the batch (d)

The rows of this DataFrame are on the driver, so no task is needed to read them: the query's own tasks may occupy all slots.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, sessions
from minispark_stream.engine.sinks.base import Sink, StreamingWrite


def packed_rows(sink: Sink, session: SparkSession, schema: StructType) -> StreamingWrite:
    """Write each epoch with `sink.add_batch`."""
    own = sessions.cloned(session)
    own.conf.set("spark.sql.execution.arrow.localRelationThreshold", "1t")  # the rows stay on the driver, however many they are
    columns = expressions.positional(schema)
    arrow_schema = to_arrow_schema(columns, timezone="UTC")

    def commit(epoch_id: int, messages: Sequence[bytes]) -> None:  # (2)
        tables = [pa.ipc.open_stream(message).read_all().cast(arrow_schema) for message in messages if message]
        rows = pa.concat_tables([arrow_schema.empty_table(), *tables])
        sink.add_batch(epoch_id, own.createDataFrame(rows, columns).toDF(*schema.names))

    return StreamingWrite(_pack, commit)


def _pack(partition_id: int, epoch_id: int, batches: Iterator[pa.RecordBatch]) -> bytes:  # (1)
    return packed(list(batches))


def packed(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Batches of one schema as an Arrow stream; empty if there are no batches."""
    if not batches:
        return b""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return out.getvalue().to_pybytes()
