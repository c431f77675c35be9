"""noop: compute every row and keep none; useful for measuring.

Models: NoopDataSource (Sink document).

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import plans
from minispark_stream.engine.sinks.base import Sink, StreamingWrite


class NoopSink(Sink):
    description = "NoopTable"
    writer = "NoopStreamingWrite"
    supports_continuous = True

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        return plans.count_rows(data)

    def streaming_write(self, session: SparkSession, schema: StructType) -> StreamingWrite:
        return StreamingWrite(_drop)


def _drop(partition_id: int, epoch_id: int, batches: Iterator[Any]) -> None:
    for _ in batches:
        pass
