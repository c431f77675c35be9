"""`inspect` on checkpoints of real queries, written by Spark and by the model: what it says is what Spark says.

    batch 0   12:01 a, 12:06 b     batch 1   12:14 a     batch 2   12:22 b     then one without data
    a count in windows of 5 minutes with a watermark of 10 minutes
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import MiniSparkSession, inspect

FILES = [["12:01 a", "12:06 b"], ["12:14 a"], ["12:22 b"]]


@dataclass(frozen=True)
class Run:
    """A query that has ended: its checkpoint, its input, and its progress reports."""

    engine: str
    checkpoint: Path
    source: Path
    progress: list[dict[str, Any]]

    def copy(self, to: Path) -> Run:
        return Run(self.engine, shutil.copytree(self.checkpoint, to), self.source, [])


def windowed_count(session: Any, source: Path) -> DataFrame:
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(str(source))
    parts = F.split("value", " ")
    events = lines.select(F.concat(F.lit("2024-01-01 "), parts[0]).cast("timestamp").alias("ts"), parts[1].alias("k"))
    return events.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "5 minutes"), "k").agg(F.count("*").alias("n"))


def run(session: Any, engine: str, source: Path, checkpoint: Path) -> Run:
    writer = windowed_count(session, source).writeStream.outputMode("append").format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return Run(engine, checkpoint, source, [json.loads(p.json) if hasattr(p, "json") else p for p in query.recentProgress])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("in")
    for i, lines in enumerate(FILES):
        (source / f"{i}.txt").write_text("\n".join(lines))
        os.utime(source / f"{i}.txt", (1_700_000_000 + i, 1_700_000_000 + i))
    return source


@pytest.fixture(scope="module", params=["spark", "model"])
def done(request: pytest.FixtureRequest, spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    checkpoint = tmp_path_factory.mktemp("inspect") / "cp"
    return run(session_of(request.param, spark), request.param, source, checkpoint)


def session_of(engine: str, spark: SparkSession) -> Any:
    return spark if engine == "spark" else MiniSparkSession(spark)


def test_batches_are_those_of_the_progress_reports(done: Run) -> None:
    report = inspect(str(done.checkpoint))
    assert report.findings == ()
    assert [b.batch_id for b in report.batches] == [p["batchId"] for p in done.progress] == [0, 1, 2, 3]
    assert [b.offsets for b in report.batches] == [
        {"0": json.dumps(p["sources"][0]["endOffset"], separators=(",", ":"))} for p in done.progress
    ]
    assert [b.watermark_ms for b in report.batches] == [0, ms("11:56"), ms("12:04"), ms("12:12")]
    assert [b.files["0"] and b.files["0"][0].rsplit("/", 1)[-1] for b in report.batches] == ["0.txt", "1.txt", "2.txt", ()]
    assert report.batches[-1].conf["spark.sql.shuffle.partitions"] == "2"


def ms(clock: str) -> int:
    hours, minutes = map(int, clock.split(":"))
    return 1_704_067_200_000 + (hours * 60 + minutes) * 60_000


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_rows_are_those_of_the_statestore_reader(done: Run, spark: SparkSession, version: int) -> None:
    reader = spark.read.format("statestore").option("batchId", version - 1).load(str(done.checkpoint))
    by_spark = reader.select("partition_id", F.col("key.window.start").cast("string"), "key.k", "value.count").collect()
    ours = inspect(str(done.checkpoint)).rows(version=version)
    assert sorted(tuple(r) for r in by_spark) == sorted(
        (r.partition, r.key["window"]["start"], r.key["k"], r.value["count"]) for r in ours
    )


def test_the_difference_of_two_versions_is_what_the_batch_changed(done: Run, spark: SparkSession) -> None:
    feed = (
        spark.read.format("statestore").option("readChangeFeed", True).option("changeStartBatchId", 3).option("changeEndBatchId", 3)
        .load(str(done.checkpoint)).select("change_type", "partition_id", "key.k").collect()
    )
    kinds = {"+": "update", "~": "update", "-": "delete"}
    ours = [(kinds[c.mark], c.partition, c.key["k"]) for c in inspect(str(done.checkpoint)).diff(3, 4)]
    assert ours and sorted(ours) == sorted(tuple(r) for r in feed)


def test_the_number_of_keys_is_that_of_the_progress_reports(done: Run) -> None:
    (store,) = inspect(str(done.checkpoint)).operators[0].stores
    assert list(store.history.values()) == [p["stateOperators"][0]["numRowsTotal"] for p in done.progress]


def test_metadata_is_that_of_the_state_metadata_reader(done: Run, spark: SparkSession) -> None:
    (row,) = spark.read.format("state-metadata").load(str(done.checkpoint)).collect()
    (operator,) = inspect(str(done.checkpoint)).operators
    assert (row.operatorId, row.operatorName, row.numPartitions) == (operator.operator_id, operator.name, operator.num_partitions)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_the_next_batch_is_the_one_that_runs(done: Run, spark: SparkSession, tmp_path: Path, killed: bool) -> None:
    again = done.copy(tmp_path / "cp")
    if killed:  # between the two logs
        (again.checkpoint / "commits/3").unlink()
        (again.checkpoint / "commits/.3.crc").unlink(missing_ok=True)
    upcoming = inspect(str(again.checkpoint)).next
    source = shutil.copytree(again.source, tmp_path / "in")
    for file in list(source.iterdir()):  # the source log knows the files by their path
        file.unlink()
    (source / "3.txt").write_text("12:40 c")
    progress = run(session_of(again.engine, spark), again.engine, source, again.checkpoint).progress
    assert upcoming.rerun is killed
    assert upcoming.batch_id == progress[0]["batchId"] == (3 if killed else 4)


def test_all_that_it_shows(done: Run, tmp_path: Path) -> None:
    report = inspect(str(done.checkpoint))
    assert "batch 4 next, a new one" in str(report) and "stateStoreSave" in str(report)
    page = report.to_html(tmp_path / "page.html").read_text()
    assert "What a restart does" in page and "keys in all partitions" in page
    assert json.loads(report.to_json())["operators"][0]["name"] == "stateStoreSave"


def test_a_deleted_delta(done: Run, tmp_path: Path) -> None:
    again = done.copy(tmp_path / "cp")
    (again.checkpoint / "state/0/1/2.delta").unlink()
    report = inspect(str(again.checkpoint))
    assert [f.level for f in report.findings] == ["error"] and "2.delta is missing" in report.findings[0].says
    assert report.rows(partition=0) is not None


MONTHS = ["YEAR", "MONTH", "YEAR TO MONTH"]
UNITS = ["DAY", "HOUR", "MINUTE", "SECOND"]
DAYS = [f"{a} TO {b}" if a != b else a for i, a in enumerate(UNITS) for b in UNITS[i:]]
SHOWN = [
    *(f"CAST(make_ym_interval(v, 7) AS INTERVAL {unit})" for unit in MONTHS),
    *(f"CAST(make_dt_interval(v, 25, v, v / 7) AS INTERVAL {unit})" for unit in DAYS),
    "make_interval(0, v, 0, v, 0, 0, v / 8)", "make_interval()", "make_interval(v, v, 0, 0, v, v, -v)",
    "parse_json('{\"a\":[1,null,\"u\"]}')",
]


def test_intervals_and_variants_are_shown_as_spark_shows_them(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text("\n".join(f'{{"v": {v}}}' for v in (0, 1, -13, 2500)))
    columns = [F.expr(shown).alias(f"x{i}") for i, shown in enumerate(SHOWN)]
    firsts = spark.readStream.schema("v int").json(str(tmp_path / "in")).groupBy("v").agg(F.first(F.array(F.struct(*columns))).alias("x"))
    query = firsts.writeStream.outputMode("update").format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    told = {row.key["v"]: list(next(iter(row.value.values()))[0].values()) for row in inspect(str(tmp_path / "checkpoint")).rows()}
    texts = spark.read.schema("v int").json(str(tmp_path / "in")).select("v", *(c.cast("string") for c in columns)).collect()
    assert told == {row.v: list(row[1:]) for row in texts}
