"""What the engine asks of a sink (Sink document; Sink.addBatch).

`add_batch(batch_id, data)` is the only place where a batch is evaluated. A batch that failed is run again with the
same id, so a sink that wants exactly-once must recognise an id that it has already written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyspark.sql import DataFrame


class Sink(ABC):
    """Where the rows of each batch go. `description` is what progress reports call it."""

    description: str

    @abstractmethod
    def add_batch(self, batch_id: int, data: DataFrame) -> int | None:
        """Write one batch.

        Args:
            batch_id: the id of the micro-batch; the same id twice means the same data twice.
            data: the rows of the batch, as a batch DataFrame; every action on it is a Spark job.

        Returns:
            the number of rows written, or None when the sink cannot know (Spark reports -1 then).
        """
