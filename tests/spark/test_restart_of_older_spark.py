"""What `inspect` says of Spark's own test checkpoints, which its versions 2.1 to 4.0 wrote, is what Spark does with them.

They are in the test jar of spark-sql, which is read where it lies (tests/connectors.py). The queries are those of Spark's suites.
Some of these call functions in Scala, which Python cannot start: Spark's suites go on with them.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import inspect
from minispark_stream.engine.jvm import scala
from minispark_stream.tools.compare.prepared import confs_set
from tests.connectors import SPARK_TESTS, JarsMissing, download
from tests.spark.checkpoint_damages import FORMAT_2, ROCKSDB

FOLDER = "structured-streaming/"
INTS = ("int",)
PAIRS = ("int", "int")  # py4j makes no long of a small number


@dataclass(frozen=True)
class Continued:
    """A query that went on from a checkpoint: what its streams contain, and its batches, of which the last one is new."""

    build: Callable[..., DataFrame]
    columns: tuple[str, ...] = INTS
    mode: str = "update"
    batches: int = 2
    streams: int = 1
    confs: dict[str, str] = field(default_factory=dict)


def seconds(stream: DataFrame) -> DataFrame:
    return stream.withColumn("ts", F.timestamp_seconds("value")).withWatermark("ts", "10 seconds")


def windows(stream: DataFrame) -> DataFrame:
    counted = seconds(stream).groupBy(F.window("ts", "5 seconds").alias("window")).agg(F.count("*").alias("count"))
    return counted.select(F.col("window.start").cast("long"), "count")


def keys(stream: DataFrame) -> DataFrame:
    return stream.select((F.col("value") * 2).alias("key1"), (F.col("value") * 3).alias("key2"), "value")


def first_join(left: DataFrame, right: DataFrame) -> DataFrame:
    """In state format 1."""
    named = [seconds(one).select(F.col("value").alias("key"), "ts", (F.col("value") * 2).alias(name))
             for one, name in ((left, "leftValue"), (right, "rightValue"))]
    return named[0].join(named[1], ["key", "ts"])


def outer_join(kind: str) -> Callable[[DataFrame], DataFrame]:
    def build(stream: DataFrame) -> DataFrame:
        rows = stream.select(F.col("_1").alias("value"), F.timestamp_seconds("_2").alias("ts"))
        left = rows.select(F.col("value").alias("leftId"), F.col("ts").alias("leftTime")).withWatermark("leftTime", "5 seconds")
        right = rows.where("value % 2 = 0").select(F.col("value").alias("rightId"), F.col("ts").alias("rightTime"))
        range_ = "leftId = rightId AND leftTime >= rightTime AND leftTime <= rightTime + interval 5 seconds"
        return left.join(right.withWatermark("rightTime", "5 seconds"), F.expr(range_), kind)

    return build


def sessions(stream: DataFrame) -> DataFrame:
    events = stream.select(F.col("_1").alias("value"), F.col("_2").alias("userId"), F.col("_3").cast("timestamp").alias("ts"))
    words = events.withWatermark("ts", "30 seconds").select(F.explode(F.split("value", " ")).alias("sessionId"), "userId", "ts")
    grouped = words.repartition("userId").groupBy(F.session_window("ts", "10 seconds").alias("session"), "sessionId", "userId")
    return grouped.agg(F.count("*").alias("numEvents"))


def first_of_key(stream: DataFrame) -> DataFrame:
    return stream.dropDuplicates(["_1"])


def first_with_watermark(stream: DataFrame) -> DataFrame:
    return stream.withColumn("ts", F.timestamp_seconds("_2")).withWatermark("ts", "10 seconds").dropDuplicates(["_1"])


COUNT = Continued(lambda stream: stream.groupBy("value").agg(F.count("*")))
OF_4_0 = {
    "agg": Continued(lambda stream: stream.groupBy("_1").count(), PAIRS, batches=5),
    "dedup": Continued(first_of_key, PAIRS, "append", 5),
    "limit": Continued(lambda stream: stream.limit(10), PAIRS, "append", 5),
    "join1": Continued(outer_join("inner"), PAIRS, "append", 6),
    "join2": Continued(outer_join("left_outer"), PAIRS, "append", 6),
}
RUN: dict[str, Continued] = {
    "2.1.0": Continued(lambda stream: stream.groupBy("value").count(), mode="complete", batches=3, confs={"spark.sql.shuffle.partitions": "10"}),
    "2.3.1-for-multi-watermark-policy": Continued(
        lambda one, other: seconds(one).union(other.withColumn("ts", F.timestamp_seconds("value")).withWatermark("ts", "15 seconds")),
        mode="append", batches=3, streams=2,
    ),
    "2.3.1-streaming-aggregate-state-format-1": Continued(COUNT.build, batches=3),
    "2.3.1-without-commit-log-metadata": Continued(windows, batches=3),
    "2.4.0-streaming-join": Continued(first_join, mode="append", streams=2),
    "2.4.5-for-compatibility-test-deduplicate": Continued(lambda stream: stream.dropDuplicates(["value"]), mode="append"),
    "3.0.0-streaming-statestore-codec": COUNT,
    "3.2.0-deduplication-with-repartition": Continued(lambda s: keys(s).dropDuplicates(["key1", "key2"]), mode="append", batches=3),
    "3.2.0-session-window-with-repartition": Continued(sessions, ("string", "string", "int"), "append", 3),
    "3.2.0-streaming-aggregate-with-repartition": Continued(lambda s: keys(s).groupBy("key1", "key2").count(), batches=3),
    "3.3.0-streaming-deduplication": Continued(first_with_watermark, ("string", "int"), "append", 3),
    "3.5.1-streaming-deduplication": Continued(first_with_watermark, ("string", "int"), "append", 3),
    "3.5.1-streaming-join": Continued(outer_join("left_outer"), PAIRS, "append"),
    "4.0.1-dedup-spark-53942": Continued(lambda s: keys(s).dropDuplicates(["key1", "key2"]), mode="append"),
    **{f"4.0.0/hdfs/{name}": one for name, one in OF_4_0.items()},
    **{f"4.0.0/rocksdb/{name}": Continued(one.build, PAIRS, one.mode, one.batches, confs=ROCKSDB) for name, one in OF_4_0.items()},
    **{
        f"4.0.0-checkpoint-v2/rocksdb/{name}": Continued(one.build, PAIRS, one.mode, one.batches, confs=FORMAT_2)
        for name, one in OF_4_0.items() if name != "agg"
    },
}
# What Spark's suites do with the others: "starts", "refused", or what depends on the query's aggregates, which is not on the disk.
TOLD = {
    "2.3.1-flatMapGroupsWithState-state-format-1": "starts",
    "3.1.0-flatmapgroupswithstate-repartition": "starts",
    "3.2.0-flatmapgroupswithstate1-repartition": "starts",
    "3.2.0-flatmapgroupswithstate2-repartition": "starts",
    "2.4.5-for-compatibility-test-common-functions": "unknown",
    "2.4.5-for-compatibility-test-statistical-functions": "unknown",
    "2.4.5-for-compatibility-test-sum-decimal": "unknown",
    "4.0.0-tws-avro": "refused",  # its schemas are those of a development version
    "4.0.0-tws-unsaferow": "refused",
}


@pytest.fixture(scope="module")
def jar() -> zipfile.ZipFile:
    try:
        [path] = download([SPARK_TESTS])
    except JarsMissing as e:
        pytest.skip(str(e))
    return zipfile.ZipFile(path)


def unpacked(jar: zipfile.ZipFile, name: str, to: Path) -> Path:
    prefix = f"{FOLDER}checkpoint-version-{name}/"
    names = [one for one in jar.namelist() if one.startswith(prefix) and not one.endswith("/")]
    assert names, f"{prefix} is not in the jar"
    for one in names:
        path = to / one.removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jar.read(one))
    return to


def memory_stream(spark: SparkSession, columns: Sequence[str], batches: int) -> DataFrame:
    """Spark's own MemoryStream, with as many blocks."""
    jvm: Any = scala.jvm(spark)
    encoders = jvm.org.apache.spark.sql.Encoders
    one = {"int": encoders.scalaInt, "string": encoders.STRING}
    types = [one[column]() for column in columns]
    encoder = types[0] if len(types) == 1 else encoders.tuple(*types)
    stream = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(encoder, spark._jsparkSession)
    for block in range(batches):
        of_kind = {"int": block + 1, "string": f"k{block}"}
        values = [of_kind[column] for column in columns]
        rows = jvm.java.util.ArrayList()
        rows.add(values[0] if len(values) == 1 else getattr(jvm.scala, f"Tuple{len(values)}")(*values))
        stream.addData(jvm.scala.jdk.javaapi.CollectionConverters.asScala(rows).toSeq())
    return DataFrame(stream.toDF(), spark)


@pytest.mark.parametrize("name", RUN)
@pytest.mark.usefixtures("spark_files")
def test_spark_does_what_is_foretold(name: str, spark: SparkSession, jar: zipfile.ZipFile, tmp_path: Path) -> None:
    checkpoint = unpacked(jar, name, tmp_path / "cp")
    report = inspect(str(checkpoint))
    query = RUN[name]
    with confs_set(spark, query.confs):
        streams = [memory_stream(spark, query.columns, query.batches) for _ in range(query.streams)]
        writer = query.build(*streams).writeStream.format("noop").outputMode(query.mode)
        run = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        error = None
        try:
            assert run.awaitTermination(60)
        except Exception as e:
            error = str(e)
    ran = [progress["batchId"] for p in run.recentProgress if "addBatch" in (progress := json.loads(p.json))["durationMs"]]
    assert report.next.unknown is None
    if report.next.refused is None:
        assert error is None and ran[0] == report.next.batch_id
    else:
        assert error is not None and report.next.refused.message in error and ran == []
        said = re.search(r"terminated with exception: (?:\[([A-Z_.0-9]+)\])?", error)
        assert said is not None and said[1] == report.next.refused.condition


@pytest.mark.parametrize("name", TOLD)
def test_what_is_foretold_of_queries_that_python_cannot_start(name: str, jar: zipfile.ZipFile, tmp_path: Path) -> None:
    report = inspect(str(unpacked(jar, name, tmp_path / "cp")))
    told = {1: "refused", 3: "unknown"}.get(report.exit_code, "starts")
    assert told == TOLD[name], report.next.says


def test_every_checkpoint_of_the_jar_is_here(jar: zipfile.ZipFile) -> None:
    found = {re.sub(r".*?checkpoint-version-(.*)/offsets/.*", r"\1", one) for one in jar.namelist()
             if one.startswith(f"{FOLDER}checkpoint-version-") and "/offsets/" in one}
    assert found == {*RUN, *TOLD}


@pytest.mark.parametrize("name", ["2.3.1-without-commit-log-metadata", "2.1.0"])
def test_state_that_cannot_be_decoded_is_not_described(name: str, jar: zipfile.ZipFile, tmp_path: Path) -> None:
    """A count in windows: it has a watermark, but nothing on the disk says so."""
    from minispark_stream import explain_output

    said = str(explain_output(unpacked(jar, name, tmp_path / "cp")))
    assert "it has no event time" not in said and "what evicts it, cannot be read" in said


@pytest.mark.parametrize("name", ["3.2.0-deduplication-with-repartition", "3.3.0-streaming-deduplication"])
def test_the_keys_that_an_older_spark_has_seen_are_shown(name: str, jar: zipfile.ZipFile, tmp_path: Path) -> None:
    report = inspect(str(unpacked(jar, name, tmp_path / "cp")))
    rows = report.rows()
    assert rows and all(row.key and row.value == {} for row in rows) and report.exit_code == 0
