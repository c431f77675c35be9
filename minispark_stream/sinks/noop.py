"""noop: compute every row and keep none; for measuring.

Models: NoopDataSource (Sink document). Differs from Spark: nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from minispark_stream.jvm import plans
from minispark_stream.sinks.base import Sink


class NoopSink(Sink):
    description = "NoopTable"

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        return plans.count_rows(data)
