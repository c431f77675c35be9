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

Differs from Spark: the rows are printed by Python, so they appear in the notebook cell and not in the terminal of the JVM. An
option that is no number or no boolean is refused when the query is started, and not by its first batch.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from minispark_stream.jvm import plans
from minispark_stream.jvm.builders import case_insensitive
from minispark_stream.sinks.base import Sink


class ConsoleSink(Sink):
    """`writeStream.format("console").options(options)`.

    Args:
        options: `numRows` (20), `truncate` (true: cells are cut after 20 characters); names in lower case.

    Raises:
        IllegalArgumentException: `truncate` is no boolean, or (NumberFormatException) `numRows` no number.
    """

    def __init__(self, session: SparkSession, options: Mapping[str, str]):
        given = case_insensitive(session, options)
        self.num_rows = given.getInt("numRows", 20)
        self.truncate = given.getBoolean("truncate", True)
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
