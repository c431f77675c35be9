"""rate-micro-batch: the same number of rows in every batch, independent of the clock; for tests and lessons.

Models: RatePerMicroBatchProvider, RatePerMicroBatchStream.

1. The offset says how many rows have been made, and at which time the next batch begins: `{"offset":20,"timestamp":2000}`.
2. Each batch makes `rowsPerBatch` rows and takes `advanceMillisPerBatch`. A run with `availableNow` or `once` makes one batch.
3. All rows of a batch have the time at which it begins. Row number n is in partition n mod numPartitions.

    rowsPerBatch 10, startTimestamp 0, advanceMillisPerBatch 1000
    batch 0   {"offset":10,"timestamp":1000}   values 0 … 9 at 00:00:00
    batch 1   {"offset":20,"timestamp":2000}   values 10 … 19 at 00:00:01

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.metadata_log import json_object, number, to_json
from minispark_stream.engine.jvm.builders import case_insensitive
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.sources.base import (
    Offset,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    offset_of_another_source,
)
from minispark_stream.engine.sources.source_options import check, refuse_user_schema
from minispark_stream.engine.sources.striped_rows import SCHEMA, StripedRows


def rate_micro_batch_relation(
    spark: SparkSession, schema: StructType | None, options: Mapping[str, str]
) -> StreamingRelation:
    """`readStream.format("rate-micro-batch").options(options).load()`.

    Args:
        options: `rowsPerBatch` (required), `numPartitions` (the default parallelism), `startTimestamp` (0, in ms),
            `advanceMillisPerBatch` (1000); names in lower case.

    Raises:
        IllegalArgumentException: a value is out of range, or (NumberFormatException) not a number.
        UnsupportedOperationException: a schema was given.
    """
    refuse_user_schema(spark, "RatePerMicroBatchProvider", schema)
    given = case_insensitive(spark, options)
    rows = given.getLong("rowsPerBatch", 0)
    check(rows > 0, rows, "rowsPerBatch", "positive")
    partitions = given.getInt("numPartitions", spark.sparkContext.defaultParallelism)
    check(partitions > 0, partitions, "numPartitions", "positive")
    start_ms = given.getLong("startTimestamp", 0)
    check(start_ms >= 0, start_ms, "startTimestamp", "non-negative")
    advance_ms = given.getInt("advanceMillisPerBatch", 1000)
    check(advance_ms >= 0, advance_ms, "advanceMillisPerBatch", "non-negative")
    return StreamingRelation(
        "rate-micro-batch", SCHEMA,
        lambda session, metadata_path: RatePerMicroBatchStream(session, rows, partitions, start_ms, advance_ms),
    )


class RatePerMicroBatchStream(SupportsTriggerAvailableNow):
    """The source of one query. Times are in ms since the epoch."""

    is_v1 = False

    def __init__(self, session: SparkSession, rows: int, partitions: int, start_ms: int, advance_ms: int):
        self._session = session
        self._rows_per_batch = rows
        self._rows = StripedRows(session, partitions)
        self._start_ms = start_ms
        self._advance_ms = advance_ms
        self._is_available_now = False
        self._available_now: Offset | None = None
        self.description = (
            f"RatePerMicroBatchStream[rowsPerBatch={rows}, numPartitions={partitions}, startTimestamp={start_ms}, "
            f"advanceMsPerBatch={advance_ms}]"
        )

    def default_read_limit(self) -> ReadLimit:
        return ReadMaxRows(self._rows_per_batch)

    def prepare_for_trigger_available_now(self) -> None:
        self._is_available_now = True

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset:  # (2)
        if self._available_now is not None:
            return self._available_now
        made, time_ms = _parsed(start, self._start_ms)
        end = to_json({"offset": min(made + self._rows_per_batch, 2**63 - 1), "timestamp": time_ms + self._advance_ms})
        if self._is_available_now:
            self._available_now = end
        return end

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:  # (3)
        (first, start_ms), (last, end_ms) = (_parsed(offset, self._start_ms) for offset in (start, end))
        if first > last:
            raise self._malformed("INVALID_OFFSET", startOffset=first, endOffset=last)
        if start_ms > end_ms:  # batch 0 runs again, and the source was given a later time
            raise self._malformed("INVALID_TIMESTAMP", startTimestamp=start_ms, endTimestamp=end_ms)
        return self._rows.of(first, last, start_ms)

    def _malformed(self, what: str, **parameters: int) -> SparkRuntimeException:
        condition = f"MALFORMED_STATE_IN_RATE_PER_MICRO_BATCH_SOURCE.{what}"
        texts = {name: str(value) for name, value in parameters.items()}
        return spark_error(self._session, SparkRuntimeException, condition, **texts)


def _parsed(offset: Offset | None, start_ms: int) -> tuple[int, int]:  # (1)
    if offset is None:
        return 0, start_ms
    try:
        values = json_object(offset)
        return number(values, "offset", None), number(values, "timestamp", None)
    except ValueError as e:
        raise offset_of_another_source(offset, "rate-micro-batch") from e
