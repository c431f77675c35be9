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

If an option is not a number or not a boolean, the first batch notices it, and ends the query.

Differs from Spark: Python prints the rows, so they appear in the notebook's cell and not in the terminal of the JVM. The
description in the progress report does not contain the id of Spark's object, because there is no such object here.
Shown by tests/spark/test_jvm.py::test_console_shows_as_many_rows_as_it_is_told, tests/spark/test_differences.py::test_sinks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import plans
from minispark_stream.engine.jvm.builders import case_insensitive
from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.engine.sinks.base import Sink, StreamingWrite
from minispark_stream.engine.sinks.packed_rows import packed_rows

logger = logging.getLogger(__name__)


class ConsoleSink(Sink):
    """`writeStream.format("console").options(options)`.

    Args:
        options: `numRows` (20), `truncate` (true: cells are cut after 20 characters); names in lower case.

    Raises:
        IllegalArgumentException: (from `add_batch`) `truncate` is not a boolean, or (NumberFormatException) `numRows` is not a
            number.
    """

    description = f"{ENGINE['ConsoleTable']}$"
    supports_continuous = True

    def __init__(self, session: SparkSession, options: Mapping[str, str]):
        self._options = case_insensitive(session, options)

    @property
    def _shown(self) -> tuple[int, bool]:
        """How many rows are shown, and whether their cells are cut."""
        return self._options.getInt("numRows", 20), self._options.getBoolean("truncate", True)

    @property
    def writer(self) -> str:  # type: ignore[override]
        num_rows, truncate = self._shown
        return f"ConsoleWriter[numRows={num_rows}, truncate={str(truncate).lower()}]"

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        num_rows, truncate = self._shown
        # All rows are collected: to print the first ones would not run every partition, and each must write its state.
        rows = plans.collect_rows(data)
        local = plans.local_frame(data.sparkSession, plans.analyzed(data).output(), rows)
        _print(f"-------------------------------------------\nBatch: {batch_id}\n-------------------------------------------")
        _print(plans.show_string(local, num_rows, 20 if truncate else 0))
        return int(rows.size())

    def streaming_write(self, session: SparkSession, schema: StructType) -> StreamingWrite:
        return packed_rows(self, session, schema)


def _print(text: str) -> None:
    """Print as Java does: a character that the terminal lacks becomes a question mark, and a closed terminal is no error."""
    try:
        try:
            print(text)
        except UnicodeEncodeError as e:
            print(text.encode(e.encoding, "replace").decode(e.encoding))
    except OSError as e:
        logger.warning("A batch could not be shown: %s", e)
