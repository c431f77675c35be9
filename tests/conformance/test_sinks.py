"""The file, foreach and table sinks leave the same files, manifests, calls and errors as in Structured Streaming."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.tools.compare.prepared import confs_set
from minispark_stream.tools.inspection.sink_folder import inspect_sink

pytestmark = pytest.mark.usefixtures("spark_files")

SCHEMA = "k string, v int"
STEPS = (["a,1", "b,2", "a,3"], ["c,4", ",5"], ["a,6"])
ENGINES = ("spark", "model")


@pytest.fixture
def sessions(spark, mini):
    return {"spark": spark, "model": mini}


def put(folder: Path, number: int, lines: list[str]) -> None:
    """One more input file; it appears in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number}"
    hidden.write_text("\n".join(lines) + "\n")
    os.utime(hidden, (1_700_000_000 + number,) * 2)
    hidden.rename(folder / f"{number:03}.csv")


def rows_of(session, folder: Path):
    return session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).csv(str(folder))


def write(df, checkpoint: Path, output: Path | None = None, source: str = "json", partition_by=(), **options):
    """Run a query into files until all that is there is written."""
    writer = df.writeStream.format(source).options(**options).option("checkpointLocation", str(checkpoint))
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    query = writer.trigger(availableNow=True).start(*([str(output)] if output else []))
    query.awaitTermination()
    return query


def read(spark, output: Path, source: str = "json", **options):
    return sorted((tuple(r) for r in spark.read.format(source).options(**options).load(str(output)).collect()), key=repr)


def manifest(output: Path) -> dict[str, list]:
    """The entries of every manifest, without what no two runs share."""
    found = {}
    for path in sorted((output / "_spark_metadata").iterdir()):
        if not path.name.startswith("."):
            version, *lines = path.read_text().splitlines()
            assert version == "v1"
            found[path.name] = [_entry(json.loads(line), output) for line in lines]
    return found


def _entry(status, output: Path):
    assert status["path"].startswith(f"file://{output}/")
    local = Path(unquote(status["path"].removeprefix("file://")))
    assert local.stat().st_size == status["size"]
    assert local.stat().st_mtime_ns // 1_000_000 == status.pop("modificationTime")
    status["path"] = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", str(local.relative_to(output)))
    return tuple(status.items())


def data_files(output: Path) -> list[str]:
    """All files with data below the output folder, whether a manifest names them or not."""
    return sorted(
        str(p.relative_to(output)) for p in output.rglob("*")
        if p.is_file() and "_spark_metadata" not in p.parts and not p.name.startswith(".")
    )


# -- the file sink --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "columns", "partition_by", "options"),
    [
        ("parquet", ("k", "v"), (), {}),
        ("json", ("k", "v"), ("K",), {}),
        ("csv", ("v", "k"), ("v",), {"header": "true", "compression": "gzip"}),
        ("orc", ("k", "v"), ("k",), {}),
        ("text", ("k",), (), {"lineSep": ";"}),
    ],
)
def test_files_and_manifests_are_the_same(spark, sessions, tmp_path, source, columns, partition_by, options):
    for i, lines in enumerate(STEPS):
        put(tmp_path / "in", i, lines)
    for engine, session in sessions.items():
        df = rows_of(session, tmp_path / "in").select(*columns)
        query = write(df, tmp_path / f"c-{engine}", tmp_path / engine, source, partition_by, **options)
        assert query.lastProgress.sink.description == f"FileSink[file:{tmp_path / engine}]"
        assert [p.sink.numOutputRows for p in query.recentProgress] == [-1] * 3
    theirs, ours = tmp_path / "spark", tmp_path / "model"
    assert manifest(ours) == manifest(theirs)
    assert read(spark, ours, source, **options) == read(spark, theirs, source, **options)
    assert len(data_files(ours)) == len(data_files(theirs))
    assert not list(ours.glob("_staging*"))


def test_partition_values_with_odd_characters(spark, sessions, tmp_path):
    put(tmp_path / "in", 0, ["a b/c,1", "é%=?,2", "x:y,3"])
    for engine, session in sessions.items():
        write(rows_of(session, tmp_path / "in"), tmp_path / f"c-{engine}", tmp_path / engine, partition_by=["k"])
    assert read(spark, tmp_path / "model") == read(spark, tmp_path / "spark") != []
    names = ([e[0][1] for e in manifest(tmp_path / engine)["0"]] for engine in ENGINES)
    assert len({tuple(n) for n in names}) == 1


def test_two_values_with_one_folder(spark, sessions, tmp_path):
    """Null and the text for it, the hour that comes twice, and zeros and NaNs in two forms, all in one task."""
    put(tmp_path / "in", 0, [f"k,{i}" for i in range(8)])
    odd, not_a_number = F.col("v") % 2 == 1, F.lit(float("nan"))
    columns = {
        "k": F.when(odd, "__HIVE_DEFAULT_PARTITION__"),
        "t": F.when(F.col("v") > 3, F.lit(1730611800)).otherwise(F.lit(1730615400)).cast("timestamp"),
        "d": F.when(F.col("v") < 2, F.when(odd, -0.0).otherwise(0.0)).otherwise(F.when(odd, not_a_number).otherwise(-not_a_number)),
    }
    found = {}
    for engine, session in sessions.items():
        df = rows_of(session, tmp_path / "in").coalesce(1).withColumns(columns)
        zone = {"timeZone": "America/New_York"}
        write(df, tmp_path / f"c-{engine}", tmp_path / engine, partition_by=["k", "t", "d"], **zone)
        folders = {os.path.dirname(name) for name in data_files(tmp_path / engine)}
        found[engine] = folders, str(read(spark, tmp_path / engine))  # as text, a NaN equals a NaN
    assert found["model"] == found["spark"]
    assert len(found["model"][0]) == 2 and found["model"][1].count("datetime.datetime") == 8


def test_each_engine_goes_on_where_the_other_stopped(spark, sessions, tmp_path):
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    try:
        for i, engine in enumerate(["spark", "model", "model", "spark", "model", "spark", "spark", "model"]):
            put(tmp_path / "in", i, [f"{engine},{i}"])
            write(rows_of(sessions[engine], tmp_path / "in"), tmp_path / "c", tmp_path / "out")
            assert sorted(row[1] for row in read(spark, tmp_path / "out")) == list(range(i + 1))
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    log = manifest(tmp_path / "out")
    assert sorted(log) == ["0", "1", "2.compact", "3", "4", "5.compact", "6", "7"]
    assert [len(entries) for entries in log.values()] == [1, 1, 3, 1, 1, 6, 1, 1]


def test_a_kill_within_the_clean_up_of_a_log_loses_nothing(spark, sessions, tmp_path, monkeypatch):
    """Of the source's log and of the sink's. Spark cannot go on when the newer one of two compact files is deleted first."""
    confs = {f"spark.sql.streaming.{log}.log.{name}": value for log in ("fileSource", "fileSink")
             for name, value in {"compactInterval": "2", "cleanupDelay": "0"}.items()}
    for i in range(7):
        put(tmp_path / "in", i, [f"a,{i}"])
    everything = [("a", i) for i in range(7)]
    deleted, deletes, kills = CheckpointFileManager.delete, itertools.count(1), []

    def killed(files: CheckpointFileManager, name: str) -> None:
        if ("sources" in files.root or "_spark_metadata" in files.root) and next(deletes) % 2 == 0:
            kills.append(name)
            raise OSError("killed")
        deleted(files, name)

    def run(engine: str, name: str) -> None:
        write(rows_of(sessions[engine], tmp_path / "in"), tmp_path / f"c-{name}", tmp_path / name)

    with confs_set(spark, {**confs, "spark.sql.streaming.minBatchesToRetain": "1"}):
        monkeypatch.setattr(CheckpointFileManager, "delete", killed)
        while True:
            with suppress(StreamingQueryException):
                run("model", "model")
                break
        monkeypatch.undo()
        assert len(kills) > 3 and read(spark, tmp_path / "model") == everything

        with confs_set(spark, {f"spark.sql.streaming.{log}.log.deletion": "false" for log in ("fileSource", "fileSink")}):
            run("spark", "spark")
        for folder in (tmp_path / "c-spark/sources/0", tmp_path / "spark/_spark_metadata"):
            for name in ("0", "2", "3.compact", "4"):
                _forget(folder / name)
        put(tmp_path / "in", 7, ["a,7"])
        with pytest.raises(StreamingQueryException, match=r"3.compact doesn't exist \(latestId: 6, compactInterval: 4\)"):
            run("spark", "spark")
        run("model", "spark")
        assert read(spark, tmp_path / "spark") == [*everything, ("a", 7)]


def test_a_batch_that_was_written_is_skipped_when_it_runs_again(spark, sessions, tmp_path):
    """As after a kill between the manifest and the commit log."""
    seen = {}
    for engine, session in sessions.items():
        folder, checkpoint, output = (tmp_path / f"{name}-{engine}" for name in ("in", "c", "out"))
        for i, lines in enumerate(STEPS):
            put(folder, i, lines)
        write(rows_of(session, folder), checkpoint, output)
        before, files = manifest(output), data_files(output)
        _forget(checkpoint / "commits/2")
        put(folder, 3, ["again,7"])
        query = write(rows_of(session, folder), checkpoint, output)
        after = manifest(output)
        assert {name: after[name] for name in before} == before
        assert set(files) < set(data_files(output))
        seen[engine] = ([(p.batchId, p.numInputRows) for p in query.recentProgress], read(spark, output), after)
    assert seen["model"] == seen["spark"]
    assert seen["model"][0] == [(2, 0), (3, 1)]


def test_files_without_a_manifest_are_invisible(spark, sessions, tmp_path):
    """As after a kill between the files and the manifest: the batch is written again, its first files are never seen."""
    for engine, session in sessions.items():
        folder, checkpoint, output = (tmp_path / f"{name}-{engine}" for name in ("in", "c", "out"))
        for i, lines in enumerate(STEPS):
            put(folder, i, lines)
        write(rows_of(session, folder), checkpoint, output)
        expected = read(spark, output)
        _forget(checkpoint / "commits/2")
        _forget(output / "_spark_metadata/2")
        if engine == "model":  # its hidden folder, if it was killed while it wrote; the other one is the user's
            for name in (f"_staging-{uuid.uuid4()}", "_staging-area"):
                (output / name / "k=a").mkdir(parents=True)
        write(rows_of(session, folder), checkpoint, output)
        assert read(spark, output) == expected
        assert len(data_files(output)) == 4 and len(manifest(output)) == 3
        assert [p.name for p in output.glob("_staging*")] == (["_staging-area"] if engine == "model" else [])


def test_a_manifest_that_lacks_a_file_stops_the_sink_when_it_compacts(spark, sessions, tmp_path):
    with confs_set(spark, {"spark.sql.streaming.fileSink.log.compactInterval": "3"}):
        for engine, session in sessions.items():
            folder, checkpoint, output = (tmp_path / f"{name}-{engine}" for name in ("in", "c", "out"))
            for i in range(2):
                put(folder, i, [f"a,{i}"])
            write(rows_of(session, folder), checkpoint, output)
            _forget(output / "_spark_metadata/0")
            put(folder, 2, ["a,2"])
            query = rows_of(session, folder).writeStream.format("json").option("checkpointLocation", str(checkpoint)).start(str(output))
            with pytest.raises(StreamingQueryException) as failed:
                query.awaitTermination()
            words = rf"\[BATCH_METADATA_NOT_FOUND\] Unable to find batch file:{output}/_spark_metadata/0\. .*SQLSTATE: 42K03"
            assert re.match(words, (failed.value.getMessageParameters() or {})["message"]), engine


@pytest.mark.parametrize("partition_by", [(), ("k",)], ids=["plain", "partitioned"])
def test_an_inspection_of_the_folder_says_what_a_reader_sees(spark, sessions, tmp_path, partition_by):
    answers = {}
    for engine, session in sessions.items():
        folder, checkpoint, output, moved = (tmp_path / f"{name}-{engine}" for name in ("in", "c", "out", "moved"))
        for i, lines in enumerate((["a,1"], ["b,2"], ["c,3"])):
            put(folder, i, lines)
        write(rows_of(session, folder), checkpoint, output, partition_by=partition_by)
        assert inspect_sink(output, checkpoint=checkpoint).findings == ()

        _forget(output / "_spark_metadata/2")
        assert len(read(spark, output)) == 2
        behind = inspect_sink(output, checkpoint=checkpoint)
        assert behind.exit_code == 1 and len(behind.unlisted) == 1

        shutil.copytree(output, moved)
        copied = inspect_sink(moved)
        assert len(copied.elsewhere) == 2 and len(copied.unlisted) == 3 and copied.exit_code == 2
        for name in copied.unlisted:
            (moved / name).unlink()
        rows = spark.read.schema(SCHEMA).json(str(moved)).count()
        assert rows == (2 if partition_by else 0)  # those in the first folder

        line = (output / "_spark_metadata/1").read_text().splitlines()[1]
        (output / "_spark_metadata/2").write_text(f"v1\n{line}\n{line.replace('add', 'delete')}\n")
        assert len(read(spark, output)) == 4
        twice = inspect_sink(output)
        assert twice.exit_code == 2

        name = unquote(json.loads(line)["path"]).removeprefix(f"file://{output}/")
        (output / name).unlink()
        condition = "[FAILED_READ_FILE.FILE_NOT_EXIST]"
        with pytest.raises(Exception, match=re.escape(condition)):
            spark.read.schema(SCHEMA).json(str(output)).collect()
        gone = inspect_sink(output)
        assert gone.missing == (name,) and condition in str(gone) and gone.exit_code == 1

        words = "\n".join(map(str, (behind, copied, twice, gone))).replace(f"-{engine}", "")
        answers[engine] = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", words)
    assert answers["model"] == answers["spark"]


def test_a_windowed_count_is_written_once(spark, sessions, tmp_path):
    """A skipped batch must not touch the state either."""
    seen = {}
    for engine, session in sessions.items():
        folder, checkpoint, output = (tmp_path / f"{name}-{engine}" for name in ("in", "c", "out"))
        folder.mkdir()
        counts = (
            session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).csv(str(folder))
            .withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 minutes"), "k").count().select("window.start", "k", "count")
        )
        for i, minute in enumerate((1, 7, 13, 30)):
            put(folder, i, [f"2024-01-01 12:{minute:02}:00,a"] * (i + 1))
            write(counts, checkpoint, output)
            latest = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
            _forget(checkpoint / f"commits/{latest}")
        query = write(counts, checkpoint, output)
        seen[engine] = (read(spark, output), [p.batchId for p in query.recentProgress], _sizes(output))
    assert seen["model"] == seen["spark"]
    assert [row[0] for row in seen["model"][0]] == [1, 2, 3]


def test_a_batch_that_is_skipped_does_not_move_the_watermark(spark, sessions, tmp_path):
    """Its rows are not read again. So after two kills, each between the manifest and the commit log, a row is counted that was late."""
    seen = {}
    with confs_set(spark, {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}):
        for engine, session in sessions.items():
            folder, checkpoint, output = (tmp_path / f"{name}-{engine}" for name in ("in", "c", "out"))
            folder.mkdir()
            events = session.readStream.schema("ts timestamp, k string").csv(str(folder)).withWatermark("ts", "1 minute")
            counts = events.groupBy(F.window("ts", "5 minutes"), "k").count().selectExpr("string(window.start)", "count")
            for i, minutes in enumerate((["12:01"], ["12:07"], ["12:13", "11:50"], ["12:30"])):
                put(folder, i, [f"2024-01-01 {minute}:00,a" for minute in minutes])
                write(counts, checkpoint, output)
                if i < 2:
                    _forget(checkpoint / f"commits/{i}")
            seen[engine] = read(spark, output)
    assert seen["model"] == seen["spark"]
    assert sorted(start[11:16] for row in seen["model"] for start in row if isinstance(start, str)) == ["11:50", "12:00", "12:05"]


def _sizes(output: Path) -> dict[str, int]:
    return {name: len(entries) for name, entries in manifest(output).items()}


def _forget(path: Path) -> None:
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def test_of_a_batch_that_fails_nothing_is_seen(spark, sessions, tmp_path):
    """Some tasks have written their files when another one fails; when the cause is gone, nothing is lost or doubled."""
    for engine, session in sessions.items():
        folder, checkpoint, output = (tmp_path / f"{name}-{engine}" for name in ("in", "c", "out"))
        put(folder, 0, [f"k{i},{i}" for i in range(20)])
        bad = F.when(F.col("v") == 13, F.raise_error(F.lit("unlucky"))).otherwise(F.col("v")).alias("v")
        df = rows_of(session, folder).repartition(4, "v")
        with pytest.raises(StreamingQueryException, match="unlucky"):
            write(df.select("k", bad), checkpoint, output)
        assert _sizes(output) == {}
        write(df, checkpoint, output)
        assert sorted(row[1] for row in read(spark, output)) == list(range(20))


def test_a_manifest_that_another_run_wrote_first_ends_the_query(spark, mini, tmp_path):
    from minispark_stream.engine.sinks.base import SinkSpec
    from minispark_stream.engine.sinks.file import FileStreamSink

    spec = SinkSpec(spark, spark.range(1), "json", {"path": str(tmp_path)}, [], "append")
    sink, other = FileStreamSink(spec), FileStreamSink(spec)
    sink.log.get_latest_batch_id = lambda: None  # type: ignore[method-assign]  # what both saw before they began to write
    other.add_batch(0, spark.range(1))
    with pytest.raises(Exception, match="Race while writing batch 0"):
        sink.add_batch(0, spark.range(5))
    assert read(spark, tmp_path) == [(0,)]


def test_what_another_run_still_writes_stays_until_a_batch_is_committed(spark, mini, tmp_path):
    """It may still win the batch; without a part of its files it would name what is left of them."""
    from minispark_stream.engine.sinks.base import SinkSpec
    from minispark_stream.engine.sinks.file import FileStreamSink

    sink = FileStreamSink(SinkSpec(spark, spark.range(1), "json", {"path": str(tmp_path / "out")}, [], "append"))
    sink.begin()
    others = tmp_path / "out" / f"_staging-{uuid.uuid4()}"
    others.mkdir()
    with pytest.raises(Exception, match="unlucky"):
        sink.add_batch(0, spark.range(1).select(F.raise_error(F.lit("unlucky")).cast("long").alias("id")))
    assert others.is_dir()
    sink.add_batch(0, spark.range(1))
    assert not others.exists()


def test_retention_forgets_old_files(spark, sessions, tmp_path):
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    try:
        for engine, session in sessions.items():
            for i in range(2):
                put(tmp_path / f"in-{engine}", i, [f"a,{i}"])
            df = rows_of(session, tmp_path / f"in-{engine}")
            write(df, tmp_path / f"c-{engine}", tmp_path / engine, retention="0ms")
            assert _sizes(tmp_path / engine) == {"0": 1, "1.compact": 0} or engine == "spark"
            assert len(data_files(tmp_path / engine)) == 2
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")


@pytest.mark.parametrize("trace", ["steps", "rows"])
def test_what_a_function_does_with_a_batch_does_not_depend_on_the_trace(spark, tmp_path, trace):
    """Cached and forgotten by the function, the batch is computed once; read in part, it has no state for the next one."""
    put(tmp_path / "in", 0, STEPS[0])

    def cache_count_and_forget(batch, _):
        batch.persist()
        assert batch.count() == 2
        batch.unpersist()

    seen = {}
    for engine, session in {"spark": spark, "model": MiniSparkSession(spark, trace=trace)}.items():
        counts = rows_of(session, tmp_path / "in").groupBy("k").count().writeStream.outputMode("update")
        start = counts.foreachBatch(cache_count_and_forget).trigger(availableNow=True).start
        query = start(checkpointLocation=str(tmp_path / f"{engine}-all"))
        query.awaitTermination()
        operator = query.lastProgress.stateOperators[0]
        seen[engine] = operator.numRowsUpdated, operator.numRowsTotal
        query = counts.foreachBatch(lambda batch, _: batch.take(1)).start(checkpointLocation=str(tmp_path / f"{engine}-part"))
        with pytest.raises(StreamingQueryException) as failed:
            query.awaitTermination()
        assert "StateStoreCommitValidationFailed" in getattr(failed.value, "_stackTrace", "") or "COMMIT_VALIDATION_FAILED" in str(failed.value)
    assert seen["model"] == seen["spark"] == (2, 2)
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


@pytest.mark.parametrize(
    "query",
    [
        lambda df: df.alias("a").join(df.alias("b"), F.expr("a.k = b.k AND a.ts = b.ts")).select("a.*"),
        lambda df: df.join(df.sparkSession.range(9).withColumnRenamed("id", "k"), "k").dropDuplicates(["k", "ts"]),
    ],
    ids=["a join of streams", "duplicates of a join with a table"],
)
def test_a_function_that_joins_a_batch_finds_the_size_that_spark_gives_it(sessions, tmp_path, query):
    found = {}
    for engine, session in sessions.items():
        put(tmp_path / engine, 0, ['{"k": 1, "ts": "2024-01-01 12:00:00"}', '{"k": 2, "ts": "2024-01-01 12:00:00"}'])
        events = session.readStream.schema("k int, ts timestamp").json(str(tmp_path / engine)).withWatermark("ts", "1 minute")
        seen: list[tuple[int, bool, int]] = []

        def join(batch, _, seen=seen):
            joined = batch.alias("x").join(batch.alias("y"), "k")
            execution = joined._jdf.queryExecution()
            size = execution.optimizedPlan().stats().sizeInBytes()
            seen.append((size, "Broadcast" in execution.executedPlan().toString(), joined.count()))

        start = query(events).writeStream.outputMode("update").foreachBatch(join).trigger(availableNow=True).start
        done = start(checkpointLocation=str(tmp_path / f"{engine}-checkpoint"))
        done.awaitTermination()
        found[engine] = seen, [progress["numInputRows"] for progress in done.recentProgress]
    assert found["spark"] == found["model"]


@pytest.mark.parametrize("level", ["steps", "rows"])
def test_a_batch_without_rows_has_a_manifest(spark, sessions, tmp_path, level):
    put(tmp_path / "in", 0, ["a,1"])
    for engine, session in sessions.items():
        write(rows_of(session, tmp_path / "in").where("v > 5"), tmp_path / f"c-{engine}", tmp_path / engine, "parquet")
    assert manifest(tmp_path / "model") == manifest(tmp_path / "spark")
    assert read(spark, tmp_path / "model", "parquet") == []


# -- what is refused ------------------------------------------------------------------------------------------------

REFUSED = {
    "no path": lambda df, out: df.writeStream.format("parquet").option("checkpointLocation", f"{out}-c").start(),
    "no checkpoint": lambda df, out: df.writeStream.format("parquet").start(out),
    "update": lambda df, out: df.writeStream.format("csv").outputMode("update").option("checkpointLocation", f"{out}-c").start(out),
    "complete": lambda df, out: df.groupBy("k").count().writeStream.outputMode("complete").start(out),
    "unknown partition column": lambda df, out: df.writeStream.partitionBy("z").start(out),
    "every column a partition column": lambda df, out: df.writeStream.partitionBy("k", "v").start(out),
    "a partition column twice": lambda df, out: df.writeStream.partitionBy("k", "k").start(out),
    "two paths": lambda df, out: df.writeStream.option("path", "/x").start(out),
    "retention": lambda df, out: df.writeStream.option("retention", "long").start(out),
    "partitioned memory": lambda df, out: df.writeStream.format("memory").queryName("q").partitionBy("k").start(),
    "partitioned foreach": lambda df, out: df.writeStream.foreach(print).partitionBy("k").start(),
    "foreach in complete mode": lambda df, out: df.writeStream.foreach(print).outputMode("complete").start(),
    "foreach without process": lambda df, out: df.writeStream.foreach(3),
    "table is a temporary view": lambda df, out: df.writeStream.toTable("a_temporary_view"),
    "table is a view": lambda df, out: df.writeStream.toTable("a_view"),
    "table of another format": lambda df, out: df.writeStream.format("json").toTable("a_parquet_table"),
    "no name of a table": lambda df, out: df.writeStream.toTable("a b"),
    "table without checkpoint": lambda df, out: df.writeStream.toTable("a_parquet_table"),
}


@pytest.fixture(scope="module")
def catalog(spark):
    spark.sql("create or replace temporary view a_temporary_view as select 1")
    spark.sql("create view a_view as select 1 as one")
    spark.sql("create table a_parquet_table (k string, v int) using parquet")
    yield
    spark.sql("drop table a_parquet_table")
    spark.sql("drop view a_view")
    spark.catalog.dropTempView("a_temporary_view")


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_is_refused_is_refused_in_the_same_words(catalog, sessions, tmp_path, case):
    put(tmp_path / "in", 0, ["a,1"])
    said = {}
    for engine, session in sessions.items():
        with pytest.raises(PySparkException) as error:
            REFUSED[case](rows_of(session, tmp_path / "in"), str(tmp_path / "out"))
        condition = error.value.getCondition()
        said[engine] = type(error.value).__name__, condition, str(error.value).removeprefix(f"[{condition}] ").strip()
    assert said["model"] == said["spark"]


@pytest.mark.parametrize(
    ("select", "source", "options", "condition"),
    [
        (("v",), "text", {}, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"),
        (("k", "array(v)"), "csv", {}, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"),
        (("k",), "json", {"compression": "none-such"}, "CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION"),
    ],
)
def test_what_the_writer_cannot_do_ends_the_query(sessions, tmp_path, select, source, options, condition):
    put(tmp_path / "in", 0, ["a,1"])
    for engine, session in sessions.items():
        df = rows_of(session, tmp_path / "in").selectExpr(*select)
        with pytest.raises(StreamingQueryException, match=re.escape(f"[{condition}]")):
            write(df, tmp_path / f"c-{engine}", tmp_path / engine, source, **options)
        assert data_files(tmp_path / engine) == []


def test_the_output_is_a_file(sessions, tmp_path):
    put(tmp_path / "in", 0, ["a,1"])
    (tmp_path / "out").write_text("")
    for engine, session in sessions.items():
        with pytest.raises(Exception, match="[Nn]ot a directory"):
            write(rows_of(session, tmp_path / "in"), tmp_path / f"c-{engine}", tmp_path / "out")


# -- toTable --------------------------------------------------------------------------------------------------------


def test_to_table_creates_the_table_and_then_appends(spark, sessions, tmp_path):
    for engine, session in sessions.items():
        for i, lines in enumerate(STEPS):
            put(tmp_path / f"in-{engine}", i, lines)
            df = rows_of(session, tmp_path / f"in-{engine}").withColumn("odd `name`", F.col("v") * 2)
            query = df.writeStream.format("csv").partitionBy("k").option("checkpointLocation", f"{tmp_path}/c-{engine}").trigger(
                availableNow=True
            ).toTable(f"default.to_table_{engine}")
            query.awaitTermination()
    theirs, ours = (spark.table(f"to_table_{engine}") for engine in ENGINES)
    assert ours.schema == theirs.schema
    assert sorted(map(tuple, ours.collect()), key=repr) == sorted(map(tuple, theirs.collect()), key=repr)
    assert ours.count() == 6
    statements = [spark.sql(f"show create table to_table_{e}").first()[0].replace(f"to_table_{e}", "t") for e in ENGINES]
    assert statements[0] == statements[1]
    for engine in ENGINES:
        spark.sql(f"drop table to_table_{engine}")


def test_a_table_that_was_read_before_has_each_new_batch(spark, sessions, tmp_path):
    seen: dict[str, list[int]] = {}
    for engine, session in sessions.items():
        seen[engine] = []
        for i, lines in enumerate(STEPS):
            put(tmp_path / f"in-{engine}", i, lines)
            writer = rows_of(session, tmp_path / f"in-{engine}").writeStream.trigger(availableNow=True)
            writer.option("checkpointLocation", f"{tmp_path}/c-{engine}").toTable(f"growing_{engine}").awaitTermination()
            seen[engine].append(spark.table(f"growing_{engine}").count())
        spark.sql(f"drop table growing_{engine}")
    assert seen["model"] == seen["spark"] == [3, 5, 6]


def test_to_table_at_a_path(spark, sessions, tmp_path):
    put(tmp_path / "in", 0, STEPS[0])
    for engine, session in sessions.items():
        place = tmp_path / f"it's {engine}"
        df = rows_of(session, tmp_path / "in")
        df.writeStream.trigger(availableNow=True).toTable(
            f"at_path_{engine}", "parquet", path=str(place), checkpointLocation=f"{tmp_path}/c-{engine}"
        ).awaitTermination()
        assert len(data_files(place)) == 1
        assert sorted(r["v"] for r in spark.table(f"at_path_{engine}").collect()) == [1, 2, 3]
        spark.sql(f"drop table at_path_{engine}")


# -- foreach --------------------------------------------------------------------------------------------------------


class Writer:
    """Writes its calls to one file per partition and epoch, because tasks run side by side in other processes."""

    def __init__(self, folder: Path, fails_in: str = "", skips: int = -1):
        self.folder = str(folder)
        self.fails_in = fails_in
        self.skips = skips

    def open(self, partition_id, epoch_id):
        self.path = os.path.join(self.folder, f"{epoch_id}-{partition_id}")
        self._log("open", f"{partition_id} {epoch_id}")
        return epoch_id != self.skips

    def process(self, row):
        self._log("process", repr(row))

    def close(self, error):
        self._log("close", repr(error))

    def _log(self, call, text):
        with open(self.path, "a") as file:
            file.write(f"{call} {text}\n")
        if call == self.fails_in:
            raise ValueError(f"cannot {call}")


def calls(folder: Path) -> dict[str, list[str]]:
    return {path.name: path.read_text().splitlines() for path in sorted(folder.iterdir())}


def run_foreach(df, writer, checkpoint: Path, mode="append"):
    query = (
        df.writeStream.outputMode(mode).foreach(writer).option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return [(p.batchId, p.numInputRows, p.sink.numOutputRows) for p in query.recentProgress]


@pytest.mark.parametrize("mode", ["append", "update"])
def test_a_writer_is_opened_per_partition_and_epoch(sessions, tmp_path, mode):
    for i, lines in enumerate(STEPS):
        put(tmp_path / "in", i, lines)
    seen = {}
    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        df = rows_of(session, tmp_path / "in").repartition(2, "k")
        progress = run_foreach(df, Writer(tmp_path / engine, skips=1), tmp_path / f"c-{engine}", mode)
        seen[engine] = (progress, calls(tmp_path / engine))
    assert seen["model"] == seen["spark"]
    assert seen["model"][0] == [(0, 3, 3), (1, 2, 2), (2, 1, 1)]
    assert sorted(seen["model"][1]) == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]


def test_foreach_of_a_complete_aggregation(sessions, tmp_path):
    for i, lines in enumerate(STEPS):
        put(tmp_path / "in", i, lines)
    seen = {}
    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        df = rows_of(session, tmp_path / "in").groupBy("k").agg(F.sum("v").alias("s"))
        progress = run_foreach(df, Writer(tmp_path / engine), tmp_path / f"c-{engine}", "complete")
        seen[engine] = (progress, {name: sorted(lines) for name, lines in calls(tmp_path / engine).items()})
    assert seen["model"] == seen["spark"]


def test_a_plain_function_gets_every_row(sessions, tmp_path):
    for i, lines in enumerate(STEPS):
        put(tmp_path / "in", i, lines)
    seen = {}
    for engine, session in sessions.items():
        target = str(tmp_path / f"{engine}.txt")

        def append(row, target=target):
            with open(target, "a") as file:
                file.write(repr(row) + "\n")

        progress = run_foreach(rows_of(session, tmp_path / "in"), append, tmp_path / f"c-{engine}")
        seen[engine] = (progress, Path(target).read_text())
    assert seen["model"] == seen["spark"]


def test_a_batch_without_partitions_is_opened_once(sessions, tmp_path):
    """The first batch of a rate source."""
    seen = {}
    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        progress = run_foreach(session.readStream.format("rate").load(), Writer(tmp_path / engine), tmp_path / f"c-{engine}")
        seen[engine] = (progress, calls(tmp_path / engine))
    assert seen["model"] == seen["spark"] == ([(0, 0, 0)], {"0-0": ["open 0 0", "close None"]})


@pytest.mark.parametrize("call", ["open", "process", "close"])
def test_what_a_writer_raises_ends_the_query_and_the_batch_runs_again(sessions, tmp_path, call):
    put(tmp_path / "in", 0, STEPS[0])
    seen = {}
    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        df = rows_of(session, tmp_path / "in")
        with pytest.raises(StreamingQueryException, match=f"ValueError: cannot {call}"):
            run_foreach(df, Writer(tmp_path / engine, fails_in=call), tmp_path / f"c-{engine}")
        failed = calls(tmp_path / engine)
        shutil.rmtree(tmp_path / engine)
        (tmp_path / engine).mkdir()
        progress = run_foreach(df, Writer(tmp_path / engine), tmp_path / f"c-{engine}")
        seen[engine] = (failed, progress, calls(tmp_path / engine))
    assert seen["model"] == seen["spark"]
    assert seen["model"][1] == [(0, 3, 3)]
