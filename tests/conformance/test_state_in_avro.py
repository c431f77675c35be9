"""The state of transformWithState in Avro (`stateStore.encodingFormat`): both engines write the same bytes, and either goes on with
what the other has written, also when a variable has another schema after a restart.

Spark 4.3 has what it needs for this in its own jars. A quick run has three schemas and one error; `MINISPARK_ROCKSDB=all` has all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, StructField, StructType

from minispark_stream import MiniSparkSession, inspect, side_by_side
from minispark_stream.extras.rocksdb.column_family_schemas import decode_column_families
from minispark_stream.tools.compare.checkpoint_files import comparable_files
from minispark_stream.tools.compare.prepared import confs_set

pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")

STORE = "spark.sql.streaming.stateStore."
CONFS = {
    f"{STORE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
    f"{STORE}encodingFormat": "avro",
    "spark.sql.shuffle.partitions": "1",
}
ALL = os.environ.get("MINISPARK_ROCKSDB")


class Variables(StatefulProcessor):
    """Variables of every kind, and timers; with a time to live, those of a batch do not expire within a test."""

    def __init__(self, value: str = "n long, s string", ttl_ms: int | None = None, timers: bool = True):
        self.schema, self.timers = value, timers
        self.ttl: dict[str, Any] = {"ttlDurationMs": ttl_ms} if ttl_ms else {}

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", self.schema, **self.ttl)
        self.items = handle.getListState("items", self.schema, **self.ttl)
        self.pairs = handle.getMapState("pairs", "mk string, mn int", self.schema, **self.ttl)

    def row(self, n: int) -> tuple[Any, ...]:
        values = {"n": n, "m": -n, "s": f"s{n}" if n % 2 else None, "d": n / 4}
        return tuple(values[field.split()[0]] for field in self.schema.split(", "))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        before = [self.value.get(), list(self.items.get()), sorted(self.pairs.iterator(), key=repr)]
        for n in pd.concat(rows)["n"]:
            self.value.update(self.row(int(n)))
            self.items.appendValue(self.row(int(n)))
            self.pairs.updateValue((f"k{n % 3}", int(n) % 3), self.row(int(n)))
            if self.timers:
                self.handle.registerTimer(32503680000000 + int(n))
            if n == 4:
                self.items.put([self.row(4), self.row(5)])
                self.pairs.removeKey(("k2", 2))
            if n == 9:
                self.items.clear()
                self.value.clear()
        timers = list(self.handle.listTimers()) if self.timers else []
        yield pd.DataFrame({"user": [key[0]], "told": [repr((before, list(self.pairs.keys()), timers))]})

    def close(self) -> None: ...


def query(processor: StatefulProcessor, time: str = "processingtime") -> Callable[[Any, str], Any]:
    def build(session: Any, input_dir: str) -> Any:
        users = session.readStream.schema("user string, n int").json(input_dir).groupBy("user")
        return users.transformWithStateInPandas(processor, "user string, told string", "update", time)

    return build


def rows(*numbers: int, user: str | None = "ann") -> list[str]:
    return [json.dumps({"user": user, "n": n}) for n in numbers]


FEED = [rows(1, 2) + rows(3, user=None), rows(4) + rows(-7, user="bob"), rows(5, 300), rows(9)]
CHECKPOINT_2 = {f"{STORE}checkpointFormatVersion": "2"}


@pytest.mark.skipif(not ALL, reason="a minute and a half; MINISPARK_ROCKSDB=all runs it")
@pytest.mark.parametrize(("ttl_ms", "confs", "engines"), [
    (None, {}, ("model", "spark")), (3_600_000_000, {}, ("spark", "model")),
    (None, CHECKPOINT_2, ("spark", "model")), (3_600_000_000, CHECKPOINT_2, ("model", "spark")),
    (None, {f"{STORE}rocksdb.changelogCheckpointing.enabled": "false"}, ("spark", "model")),
])
def test_both_write_the_same_bytes_and_go_on_with_those_of_the_other(
    spark: SparkSession, tmp_path: Path, ttl_ms: int | None, confs: Any, engines: Any
) -> None:
    once: Any = {"trigger": {"once": True}}
    found = side_by_side(
        spark, query(Variables(ttl_ms=ttl_ms)), FEED, directory=str(tmp_path), progress=False, confs=CONFS | confs,
        output_mode="update", relay=engines, **once,
    )
    assert found.differences == () and len(found.model.batches) == len(FEED)


# --- other schemas after a restart --------------------------------------------------------------------------------


def run(session: Any, checkpoint: Path, numbers: list[int], processor: StatefulProcessor, time: str = "none") -> list[tuple[Any, ...]]:
    """One more file, and what comes out of its batch. StreamingQueryException: it failed."""
    folder, out = checkpoint.parent / f"{checkpoint.name}-in", list[tuple[Any, ...]]()
    folder.mkdir(exist_ok=True)
    (folder / f"{len(list(folder.iterdir()))}.json").write_text("\n".join(rows(*numbers) + rows(*numbers, user="bob")))
    writer = query(processor, time)(session, str(folder)).writeStream.outputMode("update")
    writer = writer.foreachBatch(lambda batch, _: out.extend(map(tuple, batch.collect())))
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return sorted(out)


def written(checkpoint: Path) -> dict[str, Any]:
    """What the changelogs, the schema files and the metadata of the state say."""
    return {name: content for name, content in comparable_files(str(checkpoint)).items() if name.startswith("state/")}


SCHEMAS = ["n int, s string", "n int, s string, d double", "d double, n long, s string", "n long, m int", "m long, n double"]
TURNS = [("spark", "model"), ("model", "spark"), ("model", "model")]
SHORT = None if ALL else 3


@pytest.mark.parametrize("turns", TURNS if ALL else TURNS[:1])
def test_fields_are_added_reordered_widened_and_removed(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, turns: Any) -> None:
    engines = {"spark": spark, "model": mini}
    with confs_set(spark, CONFS):
        for i, schema in enumerate(SCHEMAS[:SHORT]):
            processor, numbers = Variables(schema, timers=False), [i, 3 * i + 1]
            theirs = run(spark, tmp_path / "spark", numbers, processor)
            assert run(engines[turns[i % 2]], tmp_path / "relay", numbers, processor) == theirs
    assert written(tmp_path / "relay") == written(tmp_path / "spark")
    newest = decode_column_families(written(tmp_path / "relay")[f"state/0/_stateSchema/default/{i}"])
    assert {family.name: family.value_id for family in newest} == {"value": i, "items": i, "pairs": i, "$rowCounter_items": 0}


def failure(session: Any, checkpoint: Path, processor: StatefulProcessor, time: str) -> str:
    with pytest.raises(StreamingQueryException) as error:
        run(session, checkpoint, [7], processor, time)
    return str(error.value).split("terminated with exception: ")[1].split("=== Streaming Query ===")[0].strip()


class One(Variables):
    """One variable, of another name for each schema if there is none."""

    def __init__(self, schema: Any, name: str = "value"):
        super().__init__(timers=False)
        self.one, self.name = schema, name

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.value = handle.getValueState(self.name, self.one)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield pd.DataFrame({"user": [key[0]], "told": [repr(self.value.get())]})


NOT_NULL = StructType([StructField("n", IntegerType(), False)])
REFUSED = {
    "a number that becomes narrower": ("n long", "n int", {}, "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"),
    "a number that becomes a text": ("n long, s string", "n string, s string", {}, "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"),
    "one change too many": ("n int", "n long", {"valueStateSchemaEvolutionThreshold": "1"}, "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED"),
    "one file too many": ("n int", None, {"maxNumStateSchemaFiles": "1"}, "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED"),
    "a field that cannot be null": (NOT_NULL, NOT_NULL, {}, "TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE"),
}


@pytest.mark.parametrize("case", list(REFUSED)[: None if ALL else 1])
def test_what_cannot_follow_is_refused(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, case: str) -> None:
    before, after, confs, condition = REFUSED[case]
    with confs_set(spark, CONFS | {f"{STORE}{name}": value for name, value in confs.items()}):
        said = []
        for session, folder in ((spark, tmp_path / "spark"), (mini, tmp_path / "model")):
            if before is not after:
                run(session, folder, [1], One(before))
            said.append(failure(session, folder, One(after) if after else One(before, "another"), "none"))
    assert said[0] == said[1] and f"[{condition}]" in said[0]


class Keep(One):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        self.value.update((1,))
        yield pd.DataFrame({"user": [key[0]], "told": [repr(self.value.get())]})


def test_a_byte_is_read_back_by_the_model_alone(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    with confs_set(spark, CONFS):
        assert failure(spark, tmp_path / "spark", Keep("n byte"), "none")  # its log: cannot convert Avro type to SQL type TINYINT
        assert run(mini, tmp_path / "model", [1], Keep("n byte")) == [("ann", "(1,)"), ("bob", "(1,)")]


# --- read without a JVM -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not ALL, reason="half a minute; MINISPARK_ROCKSDB=all runs it")
def test_inspect_reads_rows_of_every_schema(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "spark"
    with confs_set(spark, CONFS):
        run(spark, checkpoint, [1, 4], Variables("n int, s string", timers=False))
        run(spark, checkpoint, [5], Variables("s string, n long, d double", timers=False))
        reader = spark.read.format("statestore")
        theirs = {
            "value": reader.option("stateVarName", "value").load(str(checkpoint)).selectExpr("key.user", "value.*").collect(),
            "items": reader.option("stateVarName", "items").option("flattenCollectionTypes", "true").load(str(checkpoint))
            .selectExpr("key.user", "list_element.*").collect(),
            "pairs": reader.option("stateVarName", "pairs").load(str(checkpoint))
            .selectExpr("key.user", "user_map_key.*", "user_map_value.*").collect(),
        }
    report = inspect(str(checkpoint))
    for name, expected in theirs.items():
        found = [(row.key, one) for row in report.rows(store=name) for one in row.value.get("list", [row.value])]
        assert sorted(sorted(map(repr, leaves(row))) for row in found) == sorted(sorted(map(repr, row)) for row in expected), name


def leaves(value: Any) -> Iterator[Any]:
    """What is in dicts and tuples, without their names."""
    if isinstance(value, (dict, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    else:
        yield value
