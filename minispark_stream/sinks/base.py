"""What the engine asks of a sink (Sink document; Sink.addBatch).

`add_batch(batch_id, data)` is the only place where a batch is evaluated. A batch that failed is run again with the
same id, so a sink that wants exactly-once must recognise an id that it has already written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyspark.sql import DataFrame

QUERY_ID_KEY = "sql.streaming.queryId"  # the local property that tells a sink whose batch it writes


class Sink(ABC):
    """Where the rows of each batch go.

    `description` is what progress reports call it. `may_read_a_part` says that it may leave rows of a batch unread (a function
    of the user), or run a batch only in part: then the engine looks whether all of the state was written.
    """

    description: str
    may_read_a_part = False

    @abstractmethod
    def add_batch(self, batch_id: int, data: DataFrame) -> int | None:
        """Write one batch.

        Args:
            batch_id: the id of the micro-batch; the same id twice means the same data twice.
            data: the rows of the batch, as a batch DataFrame; every action on it is a Spark job.

        Returns:
            the number of rows written, or None when the sink cannot know (Spark reports -1 then).
        """
