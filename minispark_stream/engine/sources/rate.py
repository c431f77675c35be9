"""rate: a certain number of rows per second, with a timestamp and a counting value; for trying things out.

Models: RateStreamProvider, RateStreamMicroBatchStream (Source document, "rate").

1. The first run writes its start time into the source log (`sources/0/0`), and every run counts from this time.
2. The offset is the number of whole seconds since the start, a plain number in the offset log. It never goes back while the
   query runs. If the clock was set back before a restart, the first batch would end before it begins, so the query fails until
   the clock has caught up.
3. `value_at_second` says how many values there are after a number of seconds: `rowsPerSecond` for each second; but during
   `rampUpTime`, the speed begins at 0 and grows by the same amount every second.
4. A batch (a, b] has the values from value_at_second(a) up to, but without, value_at_second(b). Their timestamps are spread
   evenly over the seconds a to b. Value number n is in partition n mod numPartitions.

    rowsPerSecond 10, rampUpTime 4s      seconds   0  1  2   3   4   5   6
                                         speed     0  2  4   6   8  10  10
                                         values    0  2  6  12  20  30  40

    batch (1, 3] has the values 2 … 11, one every 200 ms from second 1 on

The rows are made by Spark SQL, never by Python (striped_rows.py).

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog
from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm.builders import case_insensitive
from minispark_stream.engine.jvm.errors import illegal_argument, spark_error
from minispark_stream.engine.jvm.sessions import time_string_as_sec
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.sources.base import Offset, Source, offset_of_another_source
from minispark_stream.engine.sources.source_options import check, refuse_user_schema
from minispark_stream.engine.sources.striped_rows import SCHEMA, StripedRows

_MAX_LONG = 2**63 - 1


@dataclass(frozen=True)
class RateOptions:
    """How fast rows are made, and in how many partitions. `described` has the number of partitions as the user gave it."""

    rows_per_second: int
    ramp_up_s: int
    partitions: int
    described: str

    @staticmethod
    def of(spark: SparkSession, schema: StructType | None, options: Mapping[str, str]) -> RateOptions:
        """The options of `readStream.format("rate")`.

        Args:
            options: `rowsPerSecond` (1), `rampUpTime` ("0s"; fractions of a second are cut off), `numPartitions` (the default
                parallelism); names in lower case.

        Raises:
            IllegalArgumentException: a value is out of range, or (NumberFormatException) not a number.
            UnsupportedOperationException: a schema was given.
        """
        refuse_user_schema(spark, "RateStreamProvider", schema)
        given = case_insensitive(spark, options)
        rows_per_second = given.getLong("rowsPerSecond", 1)
        check(rows_per_second > 0, rows_per_second, "rowsPerSecond", "positive")
        ramp_up_s = time_string_as_sec(spark, options.get("rampuptime", "0s"))
        if ramp_up_s < 0:
            raise illegal_argument(f"Invalid value '{ramp_up_s}'. The option 'rampUpTime' must not be negative")
        partitions = given.getInt("numPartitions", spark.sparkContext.defaultParallelism)
        check(partitions > 0, partitions, "numPartitions", "positive")
        return RateOptions(rows_per_second, ramp_up_s, partitions, f"numPartitions={options.get('numpartitions', 'default')}")

    @property
    def description(self) -> str:
        """The name of the source in progress reports; as in Spark, the closing bracket is missing."""
        return f"RateStreamV2[rowsPerSecond={self.rows_per_second}, rampUpTimeSeconds={self.ramp_up_s}, {self.described}"


def rate_relation(
    spark: SparkSession, schema: StructType | None, options: Mapping[str, str], clock: Clock
) -> StreamingRelation:
    """`readStream.format("rate").options(options).load()`; raises as RateOptions.of does."""
    rate = RateOptions.of(spark, schema, options)
    return StreamingRelation("rate", SCHEMA, lambda session, metadata_path: RateStream(session, rate, metadata_path, clock))


class RateStream(Source):
    """The source of one query.

    Raises:
        SparkRuntimeException: the number of rows during `rampUpTime` might not fit into a long (INCORRECT_RAMP_UP_RATE).
    """

    is_v1 = False

    def __init__(self, session: SparkSession, rate: RateOptions, metadata_path: str, clock: Clock):
        self._rate = rate
        self._clock = clock
        self.description = rate.description
        self._max_seconds = _MAX_LONG // rate.rows_per_second
        if rate.ramp_up_s > self._max_seconds:
            raise spark_error(
                session, SparkRuntimeException, "INCORRECT_RAMP_UP_RATE", rowsPerSecond=str(rate.rows_per_second),
                maxSeconds=str(self._max_seconds), rampUpTimeSeconds=str(rate.ramp_up_s),
            )
        log = StartTimeLog(metadata_path)  # (1)
        started = log.get(0)
        if started is None:
            started = clock.get_time_millis()
            log.add(0, started)
        self._start_ms = self._last_ms = started
        self._rows = StripedRows(session, rate.partitions)

    def get_offset(self) -> Offset:  # (2)
        self._last_ms = max(self._last_ms, self._clock.get_time_millis())
        return str((self._last_ms - self._start_ms) // 1000)

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:  # (4)
        start_s, end_s = (_seconds(offset) for offset in (start or "0", end))
        if start_s > end_s:
            raise AssertionError(f"assertion failed: startSeconds({start_s}) > endSeconds({end_s})")
        if end_s > self._max_seconds:
            raise SparkRuntimeException(
                message=f"Max offset with {self._rate.rows_per_second} rowsPerSecond is {self._max_seconds}, "
                f"but it's {end_s} now."
            )
        first, last = (value_at_second(s, self._rate.rows_per_second, self._rate.ramp_up_s) for s in (start_s, end_s))
        return self._rows.of(first, last, self._start_ms + start_s * 1000, (end_s - start_s) * 1000)


def _seconds(offset: Offset) -> int:
    try:
        return int(offset)
    except ValueError as e:
        raise offset_of_another_source(offset, "rate") from e


class StartTimeLog(HDFSMetadataLog[int]):
    """`sources/<i>/0`: the start time in ms since the epoch."""

    incomplete = "Log file was malformed: failed to detect the log file version line"

    def serialize(self, entry: int) -> bytes:
        return f"v1\n{entry}".encode()

    def deserialize(self, data: bytes) -> int:
        if not (data.startswith(b"v") and b"\n" in data):
            raise ValueError(self.incomplete)
        return super().deserialize(data)

    def deserialize_lines(self, version: int, lines: list[str]) -> int:
        text = lines[0] if lines else ""
        try:
            return int(text)
        except ValueError:
            raise ValueError(f'For input string: "{text[:80]}"') from None


def value_at_second(seconds: int, rows_per_second: int, ramp_up_s: int) -> int:  # (3)
    """How many values there are when `seconds` have passed."""
    step = rows_per_second // (ramp_up_s + 1)
    ramp = min(seconds, ramp_up_s)
    return step * ramp * (ramp + 1) // 2 + (seconds - ramp) * rows_per_second
