"""console: print the first rows of each batch.

Models: ConsoleTable, ConsoleWrite (Sink document).

    -------------------------------------------
    Batch: 0
    -------------------------------------------
    +-----+
    |value|
    +-----+
    |    1|
    +-----+
    only showing top 1 row

Differs from Spark: the rows are printed by Python, so they appear in the notebook cell and not in the terminal of the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from minispark_stream.jvm import plans
from minispark_stream.sinks.base import Sink


class ConsoleSink(Sink):
    """`writeStream.format("console").options(options)`.

    Args:
        options: `numRows` (20), `truncate` (true: cells are cut after 20 characters); names in lower case.

    Raises:
        ValueError: `numRows` is no number.
    """

    def __init__(self, options: Mapping[str, str]):
        self.num_rows = int(options.get("numrows", 20))
        self.truncate = options.get("truncate", "true").lower() == "true"
        self.description = (
            "org.apache.spark.sql.execution.streaming.ConsoleTable$"
            f"[numRows={self.num_rows}, truncate={str(self.truncate).lower()}]"
        )

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        # Collected once: printing alone would stop at the first rows, and state must run every partition.
        rows = plans.collect_rows(data)
        local = plans.local_frame(data.sparkSession, plans.analyzed(data).output(), rows)
        print(f"-------------------------------------------\nBatch: {batch_id}\n-------------------------------------------")
        print(plans.show_string(local, self.num_rows, 20 if self.truncate else 0))
        return int(rows.size())
