"""console: print the first rows of each batch (Spark: ConsoleTable, ConsoleWrite).

Options: `numRows` (default 20), `truncate` (default true). Differs from Spark: the rows are printed by Python, so they
appear in the notebook cell and not in the terminal of the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from minispark_stream.jvm import plans
from minispark_stream.sinks.base import Sink


class ConsoleSink(Sink):
    def __init__(self, options: Mapping[str, str]):
        self.num_rows = int(options.get("numRows", 20))
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
        print(local._jdf.showString(self.num_rows, 20 if self.truncate else 0, False))
        return int(rows.size())
