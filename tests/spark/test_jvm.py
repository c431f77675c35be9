"""The calls that cross into the JVM: typed answers, few calls, and nothing that is kept for ever."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from minispark_stream import MiniSparkSession
from minispark_stream.engine.jvm import builders, expressions, plans, scala, sessions
from minispark_stream.engine.jvm.errors import JavaError
from minispark_stream.engine.plan import streaming_relation
from minispark_stream.engine.runtime import write_to_stream
from minispark_stream.engine.sinks.noop import NoopSink
from minispark_stream.engine.sinks.packed_rows import packed, packed_rows
from minispark_stream.engine.sources.file_listing import File, Folder
from minispark_stream.tools.compare.prepared import confs_set

ODD_NAMES = {
    "a b.txt": "a%20b.txt", "100%.txt": "100%25.txt", "ä&+;.txt": "ä&+;.txt", "[x]#?.txt": "%5Bx%5D%23%3F.txt",
    "x; isDirectory=false; length=1;.txt": "x;%20isDirectory=false;%20length=1;.txt", "two\nlines.txt": "two%0Alines.txt",
    "~!$'()*,=@.txt": "~!$'()*,=@.txt",
}


@pytest.mark.parametrize("names", [{}, {"one.txt": "one.txt"}, ODD_NAMES])
def test_a_listing_gives_uris_sizes_and_times_as_java_does(spark, tmp_path, names):
    for i, name in enumerate(names):
        (tmp_path / name).write_text("x" * i)
        os.utime(tmp_path / name, (1_700_000_000, 1_700_000_000 + i))
    found = Folder(spark, str(tmp_path)).files({})
    uris = [f"file://{tmp_path}/{encoded}" for encoded in names.values()]
    expected = {File(uri, i, (1_700_000_000 + i) * 1000) for i, uri in enumerate(uris)}
    assert len(found) == len(names) and set(found) == expected


def test_expression_ids_are_those_of_the_columns(spark):
    timed = F.col("id").cast("timestamp")
    wide = spark.range(1).select(timed.alias("t"), *(timed.alias(f"odd #{i}, name)") for i in range(30)))
    wide = wide.withWatermark("t", "5 seconds")
    node = plans.analyzed(wide)
    assert expressions.expression_ids(spark, node) == [a.exprId().id() for a in scala.items(node.output())]
    assert expressions.expression_ids(spark, plans.analyzed(spark.range(1).select())) == []


def test_counting_computes_every_column_and_plans_no_rdd_again(spark):
    computed = spark.sparkContext.accumulator(0)

    def seen(batches):
        for batch in batches:
            computed.add(len(batch))
            yield batch

    rows = spark.range(5).mapInPandas(seen, "id long")
    over_rdd = plans.as_leaf(rows)
    assert [plans.count_rows(rows), plans.count_rows(over_rdd)] == [5, 5] and computed.value == 10
    planned = over_rdd._jdf.queryExecution().tracker().phases().keySet()
    assert not planned.contains("planning")


@pytest.mark.parametrize("sizes", [[], [0], [1], [40_000, 1], [3_000_000]])
def test_bytes_of_an_iterator(spark, sizes):
    arrays = [bytearray(range(256)) * (size // 256) + bytearray(size % 256) for size in sizes]
    assert scala.bytes_of(spark, scala.seq(spark, arrays).iterator()) == b"".join(arrays)


def test_an_iterator_that_fails_is_an_error_and_not_the_end_of_its_bytes(spark):
    with pytest.raises(JavaError, match="Unexpected element type"):
        scala.bytes_of(spark, scala.seq(spark, [bytearray(b"a row"), 5]).iterator())


def test_arguments_are_passed_in_the_order_in_which_they_are_written(spark):
    math = scala.java_class(spark, "java.lang.Math")
    assert scala.call(math.floorMod, x=7, y=4) == 3


def test_a_leaf_is_forgotten_when_no_plan_has_it_any_more(spark, mini):
    def forgotten() -> None:
        gc.collect()
        spark.sparkContext._jvm.java.lang.System.gc()
        mini.readStream.format("rate").load()  # the next leaf sweeps

    leaves = streaming_relation._leaves
    gc.unfreeze()  # a test of tasks in this process may have set apart what was there (engine/operators/state_task.py)
    forgotten()
    kept = mini.readStream.format("rate").load().where("value > 1")
    before = len(leaves)
    dropped = [mini.readStream.format("rate").load() for _ in range(20)]
    assert len(leaves) >= before + 20
    del dropped
    for _ in range(100):  # py4j tells the JVM what is free in a thread of its own, which may have much to tell
        forgotten()
        if len(leaves) <= before + 2:
            break
        time.sleep(0.1)
    assert len(leaves) <= before + 2
    assert streaming_relation.model_session_of(kept) is mini, "a plan still has it"


def test_streams_that_are_loaded_in_several_threads_at_once_are_all_known(spark, mini, monkeypatch):
    """The first ones of a process: each thread finds no map of tokens yet."""
    together = threading.Barrier(8)

    def load(i: int) -> Any:
        together.wait()
        return mini.readStream.format("rate").load()

    for _ in range(5):
        monkeypatch.setattr(streaming_relation, "_leaves", streaming_relation._Leaves())
        with ThreadPoolExecutor(8) as threads:
            loaded = list(threads.map(load, range(8)))
        assert [streaming_relation.model_session_of(df) for df in loaded] == [mini] * 8


def test_a_start_without_a_checkpoint_location_leaves_nothing_to_do_at_exit(mini):
    left = set(write_to_stream._temporary_checkpoints)
    for name in ("noop", "memory", "console"):
        query = mini.readStream.format("rate").load().writeStream.format(name).queryName(f"q_{name}").start()
        [folder] = write_to_stream._temporary_checkpoints - left
        assert os.path.isdir(folder)
        query.stop()
        assert write_to_stream._temporary_checkpoints == left and not os.path.exists(folder)


def test_a_view_keeps_its_stream(spark, mini):
    mini.readStream.format("rate").load().createOrReplaceTempView("kept_stream")
    gc.collect()
    spark.sparkContext._jvm.java.lang.System.gc()
    mini.readStream.format("rate").load()
    assert streaming_relation.model_session_of(spark.table("kept_stream")) is mini
    spark.catalog.dropTempView("kept_stream")


def test_the_schema_of_a_builder_is_spark_s_own(spark):
    assert builders.parse_schema(spark, "a int, b array<string> not null") == StructType.fromDDL("a int, b array<string> not null")
    assert builders.output_mode(spark, "Complete") == "complete"
    with pytest.raises(Exception, match="char"):
        builders.parse_schema(spark, "a char(3)")


def test_console_shows_as_many_rows_as_it_is_told(spark, mini, tmp_path: Path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\nthree\n")
    df = mini.readStream.format("text").load(str(tmp_path / "in"))
    query = df.writeStream.format("console").option("numRows", 2).trigger(availableNow=True).start()
    query.awaitTermination()
    shown = capsys.readouterr().out
    assert "only showing top 2 rows" in shown and "three" not in shown


def test_bytes_end_an_arrow_batch_only_if_the_user_sees_it_or_says_so(mini, monkeypatch):
    found: list[str | None] = []

    def look(batch: Any, batch_id: int) -> int:
        found.append(batch.sparkSession.sparkContext.getLocalProperty(sessions.ARROW_BYTES))
        return len(batch.collect())

    monkeypatch.setattr(NoopSink, "add_batch", lambda sink, batch_id, batch: look(batch, batch_id))

    def limit_of(query: Callable[[Any], Any], calls_function: bool = False, confs: dict[str, str] | None = None) -> str | None:
        """Which limit the tasks of a batch learn, besides those of the session."""

        with confs_set(mini, confs or {}):
            events = mini.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
            writer = query(events).writeStream.outputMode("update")
            writer = writer.foreachBatch(look) if calls_function else writer.format("noop")
            writer.trigger(once=True).start().awaitTermination()
        return found.pop()

    assert limit_of(lambda events: events.groupBy("value").count()) == str(2**31 - 1)
    assert limit_of(lambda events: events.groupBy("value").count(), calls_function=True) is None
    assert limit_of(lambda events: events.mapInArrow(lambda batches: batches, events.schema)) is None
    assert limit_of(lambda events: events.groupBy("value").count(), confs={sessions.ARROW_BYTES: "1000"}) == "1000"


class Latin1:
    """A terminal that knows few letters, and then is gone."""

    encoding, shown = "latin-1", ""

    def write(self, text: str) -> None:
        if self.shown.count("Batch") > 1:
            raise BrokenPipeError("the terminal is gone")
        self.shown += text.encode("latin-1").decode("latin-1")

    def flush(self) -> None:
        pass


def test_console_does_not_end_a_query_because_of_the_terminal(mini, tmp_path: Path, monkeypatch):
    (tmp_path / "in").mkdir()
    for i in range(3):
        (tmp_path / "in" / f"{i}.txt").write_text("λόγος")
    monkeypatch.setattr("sys.stdout", terminal := Latin1())
    df = mini.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
    query = df.writeStream.format("console").trigger(availableNow=True).start()
    query.awaitTermination()
    assert "?????" in terminal.shown and [p["batchId"] for p in query.recentProgress] == [0, 1, 2]


def test_rows_with_intervals_are_shown(spark, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one")
    mini = MiniSparkSession(spark, trace="rows")
    intervals = "make_ym_interval(1, 2) AS months", "make_interval(1, 2) AS calendar"
    df = mini.readStream.format("text").load(str(tmp_path / "in")).selectExpr("value", *intervals)
    query: Any = df.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    [shown] = [event.outputs["rows"] for event in query.trace.events if event.step == "addBatch"]
    assert shown == [{"value": "one", "months": "INTERVAL '1-2' YEAR TO MONTH", "calendar": "1 years 2 months"}]


def test_what_cannot_be_shown_does_not_end_the_query(spark, tmp_path: Path, monkeypatch, caplog):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one")
    monkeypatch.setattr("minispark_stream.lens.recording.previews._json", lambda value: 1 / 0)
    df = MiniSparkSession(spark, trace="rows").readStream.format("text").load(str(tmp_path / "in"))
    query: Any = df.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    assert "rows cannot be shown" in caplog.text and query.lastProgress["numInputRows"] == 1
    shown = {name for event in query.trace.events for name in event.outputs}
    assert not shown & {"rows", "emitted"}, "that nothing is known does not mean that there was nothing"


def test_the_rows_of_an_epoch_lie_on_the_driver_however_many_they_are(spark):
    taken: list[Any] = []
    sink: Any = SimpleNamespace(add_batch=lambda epoch, data: taken.append(data))
    spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", "1")
    try:
        rows = pa.record_batch({"_0": pa.array([1, 2, 3])})
        packed_rows(sink, spark, StructType().add("n", LongType())).commit(7, [packed([rows]), packed([rows])])
    finally:
        spark.conf.unset("spark.sql.execution.arrow.localRelationThreshold")
    [data] = taken
    assert [row.n for row in data.collect()] == [1, 2, 3, 1, 2, 3]
    assert data._jdf.queryExecution().executedPlan().toString().startswith("LocalTableScan")
