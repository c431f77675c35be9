"""The queries that are killed, and their input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tests.conformance.crash_inputs import Stages
from tests.conformance.inputs import at

# Whether a batch without data runs at the end of a stage is not to decide what becomes of a row. Each stage is one file: of two, a restart
# may read both in one batch, when the source had noted the first and the batch was not logged yet (Spark does the same).
STAGES = [
    [[*at("12:01", "12:02"), *at("12:02", k="b")]],
    [[*at("12:06", "12:07", "12:03"), *at("12:13", k="c")]],
    [[*at("12:30", k="c"), *at("11:50", k="b")]],  # the last one is late
    [at("13:00"), at("13:30", k="b")],
]
# The file sink and Delta skip a batch that they have, so that its rows move no watermark (test_sinks.py shows it of Spark). After two
# such batches one after the other, a row is late by the third. So for them the late row comes last.
LATE_AT_THE_END = [*STAGES[:2], [at("12:30", k="c")], [[*at("13:00"), *at("11:50", k="b")], at("13:30", k="b")]]
# More files than a batch may read, and no row that one batch could drop and another one take.
WAITING = [[at("12:01", "12:02"), at("12:06", k="b"), at("12:13", k="c")], [at("12:14", "12:18")], [at("12:30", k="c")], [at("13:00")]]


@dataclass(frozen=True)
class Query:
    """A query, and where it writes: by foreachBatch, into files of JSON, or into a table of Delta."""

    mode: str
    build: Callable[[Any, str], DataFrame]
    sink: str = "foreachBatch"
    confs: dict[str, str] = field(default_factory=dict)
    of_kafka: bool = False
    stages: Stages = field(default_factory=lambda: STAGES)

    @property
    def store(self) -> str:
        """Whose format its state has."""
        return "RocksDB" if "RocksDB" in str(self.confs) else "HDFS"

    def start(self, session: Any, address: str, folder: Path) -> Any:
        """Start it, or go on with it, in a folder that has its checkpoint and its output."""
        out = folder / "out"

        def write(data: DataFrame, batch_id: int) -> None:
            rows = "\n".join(sorted(json.dumps(row.asDict(recursive=True), default=str) for row in data.collect()))
            if (out / str(batch_id)).exists():
                assert (out / str(batch_id)).read_text() == rows, f"batch {batch_id} has other rows than before"
            else:
                out.mkdir(parents=True, exist_ok=True)
                (out / ".tmp").write_text(rows)
                (out / ".tmp").rename(out / str(batch_id))

        writer = self.build(session, address).writeStream.outputMode(self.mode)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        if self.sink == "foreachBatch":
            return writer.foreachBatch(write).start()
        return writer.format(self.sink).start(str(out))

    def rows(self, session: Any, folder: Path) -> list[str]:
        """What it has written."""
        out = folder / "out"
        if self.sink == "json":
            return sorted(row[0] for row in session.read.text(str(out)).collect())
        if self.sink == "delta":
            from deltalake import DeltaTable

            return sorted(json.dumps(row, default=str) for row in DeltaTable(out).to_pyarrow_table().to_pylist())
        batches = sorted((path for path in out.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        chosen = batches[-1:] if self.mode == "complete" else batches
        return sorted(row for path in chosen for row in path.read_text().splitlines())


def events(session: Any, folder: str) -> DataFrame:
    read = session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).json(folder)
    return read.withWatermark("ts", "1 minute")


def windows(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy(F.window("ts", "5 minutes"), "k").count()


def windows_of_topic(session: Any, address: str) -> DataFrame:
    """Each record is the rows of a stage."""
    servers, topic = address.split()
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", "kafka.fetch.max.wait.ms": "20"}
    rows = F.inline(F.from_json(F.col("value").cast("string"), "array<struct<ts timestamp, k string>>"))
    read = session.readStream.format("kafka").options(**options).load().select(rows)
    return read.withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 minutes"), "k").count()


def counts(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy("k").count()


def sessions(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy(F.session_window("ts", "3 minutes"), "k").count()


def first_of_each_key(session: Any, folder: str) -> DataFrame:
    return events(session, folder).dropDuplicates(["ts", "k"])


def join(session: Any, folder: str, how: str, *columns: Column) -> DataFrame:
    left, right = events(session, folder).alias("a"), events(session, folder).where("k = 'b'").alias("b")
    on = F.expr("a.k = b.k AND b.ts >= a.ts AND b.ts <= a.ts + interval 5 minutes")
    return left.join(right, on, how).select("a.ts", "a.k", *columns)


def outer_join(session: Any, folder: str) -> DataFrame:
    return join(session, folder, "left_outer", F.col("b.ts").alias("then"))


STORE = "spark.sql.streaming.stateStore."
ROCKSDB = {
    f"{STORE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
}
# Snapshots are taken, and what no restart needs is deleted, while the query runs.
CLEANED = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    f"{STORE}minDeltasForSnapshot": "2",
    f"{STORE}maintenanceInterval": "100ms",
    **{f"spark.sql.streaming.{log}.log.{key}": value for log in ("fileSource", "fileSink")
       for key, value in {"compactInterval": "2", "cleanupDelay": "0"}.items()},
}


class Count(StatefulProcessor):
    """How often a key was there, said a minute after it came first."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle, self.seen = handle, handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N803
        came = [row.ts for row in rows]
        if not self.seen.exists():
            self.handle.registerTimer(int(min(came).timestamp() * 1000) + 60_000)
        [before] = self.seen.get() or (0,)
        self.seen.update((before + len(came),))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N803
        [n] = self.seen.get() or (0,)
        yield Row(k=key[0], n=n)
        self.seen.clear()


def timers(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy("k").transformWithState(Count(), "k string, n long", "append", "EventTime")


QUERIES = {
    "windows over files that wait": Query("append", windows, stages=WAITING),
    "windows updated": Query("update", windows),
    "counts complete": Query("complete", counts),
    "sessions": Query("append", sessions),
    "first of each key": Query("append", first_of_each_key),
    "first within the watermark": Query("append", lambda s, d: events(s, d).dropDuplicatesWithinWatermark(["k"])),
    "limit": Query("append", lambda s, d: events(s, d).limit(5)),
    "outer join": Query("append", outer_join),
    "no state": Query("append", lambda s, d: events(s, d).select("k")),
    "counts complete into Delta": Query("complete", counts, "delta"),
    "windows into files, snapshots in RocksDB": Query("append", windows, "json", {**ROCKSDB, **CLEANED}, stages=LATE_AT_THE_END),
}
# Of these the tests take no sample.
MORE = {
    "windows": Query("append", windows),
    "windows, old versions deleted": Query("append", windows, confs=CLEANED),
    "windows, every version a snapshot of RocksDB": Query("append", windows, confs=dict([*ROCKSDB.items()][:1])),
    "windows into Delta": Query("append", windows, "delta", stages=LATE_AT_THE_END),
    "sessions in RocksDB": Query("append", sessions, confs=ROCKSDB),
    "first of each key in RocksDB": Query("append", first_of_each_key, confs=ROCKSDB),
    "outer join in RocksDB": Query("append", outer_join, confs=ROCKSDB),
    "full join": Query("append", lambda s, d: join(s, d, "full_outer", F.col("b.ts").alias("then"))),
    "semi join": Query("append", lambda s, d: join(s, d, "left_semi")),
    "timers of transformWithState": Query("append", timers, confs={**ROCKSDB, **CLEANED}),
    "no state into files": Query("append", lambda s, d: events(s, d).select("k"), "json"),
    "windows from Kafka": Query("append", windows_of_topic, of_kafka=True),
    "windows in checkpoint format 2": Query("append", windows, confs={**ROCKSDB, f"{STORE}checkpointFormatVersion": "2"}),
}
