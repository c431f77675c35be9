"""`inspect` on RocksDB checkpoints of real Spark: its rows are those of Spark's own `statestore` reader.

A checkpoint is written in two runs of three batches each. A case says what the query is, whether each of the runs writes
changelogs, which format the checkpoint has, and its codec. A quick run takes a few cases, among which are both formats and all
codecs; `MINISPARK_ROCKSDB=all` takes them all, and `MINISPARK_ROCKSDB=join2` those of one query. Both look at an older version, too.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from minispark_stream import explain_output, inspect, trace_of
from minispark_stream.engine.checkpointing.unsafe_row.plain import plain
from minispark_stream.lens.trace.values import name_of
from minispark_stream.tools.compare.prepared import confs_set
from minispark_stream.tools.inspection.contents import DecodedStateRow
from minispark_stream.tools.inspection.report import CheckpointReport

pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")

STORE = "spark.sql.streaming.stateStore."
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILES = [
    ["12:00:00,a,1", "12:00:30,b,2", "12:01:00,a,3"], ["12:02:00,c,4", "12:03:00,a,5"], ["12:11:00,b,6", "12:12:00,dd,7"],
    ["12:21:00,a,8", "12:21:30,eeeeeeeeeeee,-9"], ["12:22:00,a,10"], ["12:23:00,b,11", "12:24:00,,12", "12:24:30,c,13"],
]
JOIN_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
TIMED_STORES = ("left-keyWithTsToValues", "left-tsWithKey", "right-keyWithTsToValues", "right-tsWithKey")


class Variables(StatefulProcessor):
    """State variables of every kind, and timers."""

    def __init__(self, ttl_ms: int | None):
        self.ttl: dict[str, Any] = {"ttlDurationMs": ttl_ms} if ttl_ms else {}

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", "n long, s string", **self.ttl)
        self.items = handle.getListState("items", "x string", **self.ttl)
        self.pairs = handle.getMapState("pairs", "mk string", "mn int", **self.ttl)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        for row in pd.concat(rows).itertuples():
            before: Any = self.value.get() if self.value.exists() else (0, "")
            self.value.update((before[0] + int(row.n), before[1] + "x"))
            self.items.appendValue((f"i{row.n}",))
            self.pairs.updateValue((f"m{row.n % 3}",), (int(row.n),))
            self.handle.registerTimer(32503680000000 + int(row.n) * 1000)
            if row.n == 6:
                self.items.clear()
                self.pairs.removeKey(("m2",))
            if row.n == 8:
                self.items.put([("p1",), ("p2",)])
                self.handle.deleteTimer(32503680000000 + 5000)
            if row.n == 11:
                self.value.clear()
        yield pd.DataFrame({"k": [key[0]]})

    def close(self) -> None: ...


def total(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    n: int = sum(len(frame) for frame in frames) + (state.get[0] if state.exists else 0)
    state.update((n, "x" * n))
    state.setTimeoutTimestamp(1704110400000 + 86_400_000)
    yield pd.DataFrame({"k": [key[0]]})


def clicks(spark: SparkSession, folder: Path) -> DataFrame:
    rows = spark.readStream.schema("ts timestamp, k string, n long").option("maxFilesPerTrigger", 1).csv(str(folder))
    return rows.withWatermark("ts", "5 minutes")


def joined(rows: DataFrame, other: DataFrame, how: str = "leftOuter") -> DataFrame:
    right = other.select(F.col("ts").alias("rts"), F.col("k").alias("rk"), F.col("n").alias("rn"))
    return rows.join(right, F.expr("k = rk AND rts >= ts AND rts <= ts + interval 10 minutes"), how)


Query = Callable[[DataFrame, DataFrame], DataFrame]
Reads = tuple[str, Mapping[str, Any]]  # a store as `inspect` calls it, and Spark's options for it


def variables(ttl_ms: int | None, time: str) -> Query:
    return lambda rows, _: rows.groupBy("k").transformWithStateInPandas(Variables(ttl_ms), "k string", "update", time)


QUERIES: dict[str, tuple[str, Query]] = {
    "count": ("update", lambda rows, _: rows.groupBy("k").agg(F.count("*"), F.sum("n"), F.max("k"))),
    "windows": ("append", lambda rows, _: rows.groupBy(F.window("ts", "5 minutes"), "k").count()),
    "global": ("complete", lambda rows, _: rows.groupBy().agg(F.sum("n"), F.max("k"))),
    "dedup": ("append", lambda rows, _: rows.dropDuplicates(["k", "ts"])),
    "dedup within": ("append", lambda rows, _: rows.dropDuplicatesWithinWatermark(["k"])),
    "sessions": ("append", lambda rows, _: rows.groupBy(F.session_window("ts", "6 minutes"), "k").count()),
    "limit": ("append", lambda rows, _: rows.dropDuplicates(["k"]).limit(4)),
    "group state": ("update", lambda rows, _: rows.groupBy("k").applyInPandasWithState(
        total, "k string", "n int, s string", "update", "EventTimeTimeout")),
    "join2": ("append", joined),
    "join3": ("append", joined),
    "join4": ("append", joined),
    "chain": ("append", lambda rows, other: joined(rows.dropDuplicates(["k", "ts"]), other, "inner")
              .groupBy(F.window("ts", "5 minutes"), "k").count()),
    "variables": ("update", variables(None, "EventTime")),
    "variables with ttl": ("update", variables(3_600_000_000, "ProcessingTime")),
}


@dataclass(frozen=True)
class Case:
    """`changelogs`: whether the first and the second run write them; `file_format`: of the checkpoint; `more`: other confs."""

    query: str
    changelogs: tuple[bool, bool]
    file_format: int
    codec: str = "lz4"
    more: str = ""

    def __str__(self) -> str:
        runs = "-".join("changelogs" if on else "zips" for on in self.changelogs)
        return " ".join(filter(None, [self.query, runs, f"format{self.file_format}", self.codec, self.more]))

    def confs(self, run: int) -> dict[str, str]:
        join_format = self.query[-1] if self.query.startswith("join") else "2"
        return {
            f"{STORE}providerClass": ROCKSDB,
            f"{STORE}rocksdb.changelogCheckpointing.enabled": str(self.changelogs[run]).lower(),
            f"{STORE}checkpointFormatVersion": str(self.file_format),
            f"{STORE}compression.codec": self.codec,
            f"{STORE}minDeltasForSnapshot": "2",
            f"{STORE}rowChecksum.enabled": str(self.more == "checksums").lower(),
            f"{STORE}rocksdb.mergeOperatorVersion": "1" if self.more == "commas" else "2",
            f"{STORE}rocksdb.compactOnCommit": str(self.more == "compacted").lower(),
            "spark.sql.streaming.join.stateFormatVersion": join_format,
            # with time to live there is always one more batch, so that a run would not end
            "spark.sql.streaming.noDataMicroBatches.enabled": str("ttl" not in self.query).lower(),
            "spark.sql.shuffle.partitions": "2",
        }


def all_cases() -> Iterator[Case]:
    codecs = itertools.cycle(["lz4", "zstd", "snappy"])
    for name, changelogs, file_format in itertools.product(QUERIES, [(False, False), (True, True), (False, True), (True, False)], [1, 2]):
        yield Case(name, changelogs, file_format, next(codecs))
    for name, more in itertools.product(["windows", "join4", "variables with ttl"], ["checksums", "commas", "compacted"]):
        if (name, more) == ("join4", "commas"):
            continue  # Spark refuses it
        yield from (Case(name, on, 1, more=more) for on in ((False, False), (True, True)))


QUICK = [
    Case("chain", (False, True), 1, "zstd"),
    Case("sessions", (True, True), 2, "snappy"),
    Case("variables with ttl", (False, False), 1, more="checksums"),
    Case("group state", (False, False), 2),
]
ASKED = os.environ.get("MINISPARK_ROCKSDB", "")
CASES = [case for case in all_cases() if ASKED in ("all", case.query)] if ASKED else QUICK


def write(spark: SparkSession, case: Case, folder: Path) -> Any:
    """Two runs of the query; returns the second one."""
    (folder / "in").mkdir()
    mode, build = QUERIES[case.query]
    for run in range(2):
        for i, lines in enumerate(FILES[3 * run : 3 * run + 3], 3 * run):
            (folder / f"in/{i}.csv").write_text("".join(f"2024-01-01 {line}\n" for line in lines))
            os.utime(folder / f"in/{i}.csv", (1_700_000_000 + i, 1_700_000_000 + i))
        with confs_set(spark, case.confs(run)):
            writer = build(clicks(spark, folder / "in"), clicks(spark, folder / "in")).writeStream.outputMode(mode)
            query = writer.format("noop").option("checkpointLocation", str(folder / "cp")).trigger(availableNow=True).start()
            query.awaitTermination()
    return query


def reads(report: CheckpointReport) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Operator and store as `inspect` calls them, and Spark's options to read the same."""
    for operator in report.operators:
        for store in operator.stores:
            options: dict[str, Any] = {"operatorId": operator.operator_id}
            if store.name in JOIN_STORES + TIMED_STORES:
                options["storeName"] = store.name
            elif store.name.endswith("_keyToTimestamp"):
                options["readRegisteredTimers"] = True
            elif store.name.startswith("$"):
                continue  # Spark's reader has none of these
            elif operator.name and operator.name.startswith("transformWithState"):
                options["stateVarName"] = store.name
            yield operator.operator_id, store.name, options


def of_spark(spark: SparkSession, checkpoint: Path, options: dict[str, Any]) -> list[str]:
    """The rows of Spark's reader, as text."""
    frame = spark.read.format("statestore").options(**options).load(str(checkpoint))
    columns = [plain(column.combine_chunks(), f.dataType) for column, f in zip(frame.toArrow().columns, frame.schema.fields)]
    return sorted(json.dumps(dict(zip(frame.columns, row)), sort_keys=True) for row in zip(*columns))


def as_sparks_reader(store: str, row: DecodedStateRow) -> Iterator[dict[str, Any]]:
    """A row of `inspect` as Spark's reader has it: a list is a row for each element, and a map for each entry."""
    where = {"partition_id": row.partition}
    if store.endswith("_keyToTimestamp"):
        yield {**where, "key": row.key["key"], "expiration_timestamp_ms": row.key["expiryTimestampMs"]}
    elif store == "pairs":
        yield {**where, "key": row.key["key"], "user_map_key": row.key["userKey"], "user_map_value": row.value}
    elif "list" in row.value:
        name = "list_element" if store == "items" else "value"
        yield from ({**where, "key": row.key, name: element} for element in row.value["list"])
    else:
        yield {**where, "key": row.key, "value": row.value}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rows_are_those_of_sparks_reader(spark: SparkSession, spark_files: None, tmp_path: Path, case: Case) -> None:
    query = write(spark, case, tmp_path)
    checkpoint = tmp_path / "cp"
    report = inspect(str(checkpoint))
    assert report.findings == () and {o.provider for o in report.operators} == {"RocksDB"}
    rows = 0
    with confs_set(spark, case.confs(1)):
        for batch_id in [*([3] if ASKED else []), report.next_version - 1]:
            for operator, store, options in reads(report):
                found = report.rows(operator, store=store, version=batch_id + 1)
                shown = sorted(json.dumps(r, sort_keys=True) for row in found for r in as_sparks_reader(store, row))
                assert shown == of_spark(spark, checkpoint, {**options, "batchId": batch_id}), (store, batch_id)
                rows += len(shown)
    assert rows
    assert len(trace_of(query).batches) == len(query.recentProgress)
    if case.query in ("windows", "chain"):
        assert "the first to leave is window=[2024-01-01 12:" in str(explain_output(checkpoint))


def test_the_difference_of_two_versions_is_sparks_change_feed(spark: SparkSession, spark_files: None, tmp_path: Path) -> None:
    case = Case("windows", (True, True), 1)
    write(spark, case, tmp_path)
    report = inspect(str(tmp_path / "cp"))
    seen = 0
    for batch_id in (1, 2):
        options = {"readChangeFeed": True, "changeStartBatchId": batch_id, "changeEndBatchId": batch_id}
        expected = {}
        for text in of_spark(spark, tmp_path / "cp", options):
            row = json.loads(text)
            expected[name_of([row["partition_id"], row["key"]])] = None if row["change_type"] == "delete" else row["value"]
        changes = report.diff(batch_id, batch_id + 1)
        assert {name_of([c.partition, c.key]): c.after for c in changes} == expected
        seen += len(changes)
    assert seen
