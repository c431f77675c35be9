"""What the engine requires of a sink, and what a sink is made from.

Models: Sink.addBatch, DataStreamWriter.createV1Sink, StreamingWrite (Sink document; Continuous processing).

`add_batch(batch_id, data)` is the only place where a batch is evaluated. A batch that failed is run again with the
same id. So if every row is to be in the output exactly once, the sink must recognise an id that it has already written:

    add_batch(6, ...)  add_batch(7, ...) crash    restart    add_batch(7, the same rows)  add_batch(8, ...)

The continuous engine has no batches: its tasks write the rows of an epoch as they come (`streaming_write`).

Differs from Spark: nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

# Local properties, from which a sink and the tasks learn the query of a batch and its id.
QUERY_ID_KEY = "sql.streaming.queryId"
BATCH_ID_KEY = "streaming.sql.batchId"


@dataclass(frozen=True)
class SinkSpec:
    """What `df.writeStream` was given until the query is started.

    Attributes:
        session: the session that starts the query.
        df: the streaming DataFrame.
        format: the name of the sink as the user wrote it, or "foreachBatch".
        options: the options, with names in lower case; the argument of `start(path)` is the option `path`.
        partition_by: the arguments of `partitionBy`, in the user's spelling.
        output_mode: "append", "update" or "complete".
        cluster_by: the arguments of `clusterBy`, in the user's spelling.
        query_name: the argument of `queryName`.
        function: the argument of `foreach` or `foreachBatch`.
        table: the full name of the table, for `toTable`.
    """

    session: SparkSession
    df: DataFrame
    format: str
    options: Mapping[str, str]
    partition_by: list[str]
    output_mode: str
    cluster_by: Sequence[str] = ()
    query_name: str | None = None
    function: Any = None
    table: str | None = None


@dataclass(frozen=True)
class StreamingWrite:
    """How the rows of an epoch are written (Spark's DataWriterFactory and the commit of StreamingWrite).

    Attributes:
        write: (partition_id, epoch_id, batches) is sent to the tasks. There it writes the rows of an epoch, which it receives
            as they come, and returns a message.
        commit: (epoch_id, messages) is called on the driver with the messages of all partitions, before the epoch is committed.
        stop: is called on the driver when the query ends.
    """

    write: Callable[[int, int, Iterator[pa.RecordBatch]], Any]
    commit: Callable[[int, Sequence[Any]], None] = lambda epoch_id, messages: None
    stop: Callable[[], None] = lambda: None


class Sink(ABC):
    """Where the rows of each batch go.

    Attributes:
        description: the name of the sink in progress reports.
        spark_name: `Table.name()` in Spark, where a refusal says it.
        supports_continuous: whether it has a `streaming_write`.
        writer: what Spark's plan of a batch says of who writes it; None for a V1 sink, which is not in the plan.
        is_v1: whether it is a V1 sink in Spark, which can only write batches.
        calls_function: whether a user's function receives the batch. The function may join it, for which Spark must know its
            size, and it may leave rows unread, so the engine checks that all partitions of the state were written.
        written: what the last batch wrote into the sink's own log, for the trace; None if the sink has no log.
    """

    description: str
    supports_continuous = False
    writer: str | None = None
    is_v1 = False
    calls_function = False
    written: Mapping[str, Any] | None = None

    @property
    def spark_name(self) -> str:
        return self.description

    def begin(self) -> None:
        """Make what must be there when a query starts. A sink that is only planned with makes nothing."""

    @abstractmethod
    def add_batch(self, batch_id: int, data: DataFrame) -> int | None:
        """Write one batch.

        Args:
            batch_id: the id of the micro-batch; the same id twice means the same data twice.
            data: the rows of the batch, as a batch DataFrame; every action on it is a Spark job.

        Returns:
            The number of rows written; None if the sink cannot know it (Spark reports -1 then).
        """

    def streaming_write(self, session: SparkSession, schema: StructType) -> StreamingWrite:
        """How the continuous engine writes rows of this schema, if the sink `supports_continuous`."""
        raise NotImplementedError
