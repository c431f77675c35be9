"""Stop, crash, damage, restart: where does each engine go on?"""

from __future__ import annotations

import shutil
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from minispark_stream.engine.state.schema_files import encode_schemas, read_schemas
from tests.conformance.conftest import Compare
from tests.conformance.inputs import at, random_rows, read_random

FEED = [at("12:02", "12:07"), at("12:14"), at("12:21", "12:04", "12:11"), at("12:30", "12:17"), at("12:05")]


def windowed(session: Any, input_dir: str) -> Any:
    times = session.readStream.schema("ts timestamp, k string").json(input_dir)
    return times.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "5 minutes")).count()


def newest(checkpoint: str, log: str) -> Path:
    return max((p for p in Path(checkpoint, log).iterdir() if p.name.isdigit()), key=lambda p: int(p.name))


def lose(path: Path) -> None:
    """Remove a file, and the checksum that Spark keeps beside it."""
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def lose_the_last_commit(checkpoint: str) -> None:
    """As after a crash between the write-ahead log and the commit log: the last batch will run again."""
    lose(newest(checkpoint, "commits"))


def lose_all_commits(checkpoint: str) -> None:
    shutil.rmtree(Path(checkpoint, "commits"))


def roll_back_two_batches(checkpoint: str) -> None:
    """What an operator may do by hand: delete the tails of both logs. The source's own log does not go back."""
    for _ in range(2):
        lose(newest(checkpoint, "offsets"))
        lose(newest(checkpoint, "commits"))


def lose_the_last_offsets(checkpoint: str) -> None:
    lose(max(Path(checkpoint, "offsets").glob("[0-9]*"), key=lambda p: int(p.name)))


def let_the_last_offset_go_back(checkpoint: str) -> None:
    """As after an entry was restored from an older copy: the last batch ends where an earlier one has ended."""
    path = newest(checkpoint, "offsets")
    *before, offset = path.read_text().splitlines()
    assert '"logOffset":' in offset and not offset.endswith(":0}")
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_text("\n".join([*before, '{"logOffset":0}']))


def lose_the_last_source_logs(checkpoint: str) -> None:
    """The source would count on from an older entry, and the next batch would end before it begins."""
    for _ in range(2):
        lose(newest(checkpoint, "sources/0"))


def lose_all_offsets(checkpoint: str) -> None:
    shutil.rmtree(Path(checkpoint, "offsets"))


def lose_the_operator_metadata(checkpoint: str) -> None:
    shutil.rmtree(Path(checkpoint, "state/0/_metadata"))


def lose_the_state_schema(checkpoint: str) -> None:
    shutil.rmtree(Path(checkpoint, "state/0/0/_metadata"))


def lose_the_first_deltas(checkpoint: str) -> None:
    """What the state of a later version is built on, as long as there is no snapshot."""
    for delta in Path(checkpoint, "state").glob("*/*/1.delta"):
        lose(delta)


def leave_junk(checkpoint: str) -> None:
    """Files that are no log entries, and a delta of a version that was never committed."""
    Path(checkpoint, "offsets/notes.txt").write_text("hello")
    Path(checkpoint, "commits/.hidden").write_text("hello")
    Path(checkpoint, "state/0/1/99.delta").write_bytes(b"garbage")


@pytest.mark.parametrize("restart", [0, 1, 2, 3])
def test_a_batch_that_was_logged_but_not_committed_runs_again(compare: Compare, restart: int) -> None:
    comparison = compare(windowed, FEED, restart_after={restart: lose_the_last_commit})
    ids = [b.batch_id for b in comparison.model.batches]
    assert len(ids) > len(set(ids)), "one batch id must show up twice"


def test_the_very_first_batch_runs_again(compare: Compare) -> None:
    compare(lambda s, d: read_random(s, d).groupBy("k").count(), [random_rows(1), random_rows(2)], output_mode="update",
            restart_after={0: lose_all_commits})


def test_all_commits_lost_runs_the_last_batch_again(compare: Compare) -> None:
    compare(windowed, FEED, restart_after={2: lose_all_commits})


def test_all_offsets_lost_is_no_new_query(compare: Compare) -> None:
    """A new query would write its batch 0 over what is there."""
    comparison = compare(windowed, FEED, restart_after={2: lose_all_offsets})
    assert comparison.model.condition == "STREAM_FAILED"


def test_a_batch_whose_commit_is_there_already_fails_when_it_is_done(compare: Compare) -> None:
    comparison = compare(windowed, FEED, restart_after={2: lose_the_last_offsets})
    assert comparison.model.cause is not None and comparison.model.cause.name == "CONCURRENT_STREAM_LOG_UPDATE"


@pytest.mark.parametrize("then", [lambda checkpoint: None, lose_the_last_commit], ids=["committed", "not committed"])
@pytest.mark.parametrize("damage", [let_the_last_offset_go_back, lose_the_last_source_logs])
def test_a_batch_never_ends_before_it_begins(compare: Compare, damage: Any, then: Any) -> None:
    """Files would be read twice, and others never."""
    comparison = compare(lambda s, d: read_random(s, d).groupBy().count(), [random_rows(i) for i in range(4)],
                         output_mode="complete", restart_after={2: lambda checkpoint: (damage(checkpoint), then(checkpoint))})
    says = "assertion failed" if damage is let_the_last_offset_go_back else "batch 2 doesn't exist"
    assert says in str(comparison.model.error) and len(comparison.model.batches) == 3


def test_stateless_rerun_gives_the_same_rows(compare: Compare) -> None:
    compare(lambda s, d: read_random(s, d).select("k", "i"), [random_rows(i) for i in range(3)],
            restart_after={0: lose_the_last_commit, 1: lose_the_last_commit})


def test_rolling_both_logs_back_makes_one_batch_of_several_log_entries(compare: Compare) -> None:
    compare(lambda s, d: read_random(s, d).groupBy("k").count(), [random_rows(i) for i in range(5)], output_mode="update",
            restart_after={3: roll_back_two_batches})


@pytest.mark.parametrize("damage", [lose_the_operator_metadata, lose_the_state_schema, leave_junk])
def test_what_can_be_missing_or_left_over(compare: Compare, damage: Any) -> None:
    compare(windowed, FEED, restart_after={2: damage})


def test_a_restart_needs_the_files_and_not_what_is_in_memory(compare: Compare) -> None:
    comparison = compare(windowed, FEED, restart_after={2: lose_the_first_deltas})
    assert comparison.model.condition == "STREAM_FAILED"


def test_the_logged_confs_win_over_the_sessions(compare: Compare) -> None:
    """shuffle.partitions changed between two runs: state partitions are fixed by the first batch."""
    partitions = iter(["3", "5"] * 2)

    def build(session: Any, input_dir: str) -> Any:
        session.conf.set("spark.sql.shuffle.partitions", next(partitions))
        return read_random(session, input_dir).groupBy("k").count()

    comparison = compare(
        build, [random_rows(1), random_rows(2)], output_mode="update", restart_after=(0,),
        confs={"spark.sql.shuffle.partitions": "2"},
    )
    assert all(b.progress["stateOperators"][0]["numShufflePartitions"] == 3 for b in comparison.model.batches)


def test_a_udf_may_change_between_two_runs(compare: Compare) -> None:
    versions = iter([1, 2, 1, 2])

    def build(session: Any, input_dir: str) -> Any:
        version = next(versions)
        return read_random(session, input_dir).select(F.udf(lambda i: None if i is None else i * version, "int")("i").alias("j"))

    compare(build, [random_rows(1), random_rows(2)], restart_after=(0,))


@pytest.mark.parametrize(
    "second",
    [
        lambda df: df.groupBy("i").count(),  # another type of key
        lambda df: df.groupBy("k").agg(F.sum("d")),  # another type of value
        lambda df: df.groupBy("k").agg(F.count("*"), F.sum("i")),  # one value more
        lambda df: df.select("k"),  # no state any more
    ],
    ids=["another key", "another value", "a value more", "no state"],
)
def test_another_query_on_the_same_checkpoint(compare: Compare, second: Any) -> None:
    queries = iter([lambda df: df.groupBy("k").count(), second] * 2)
    compare(lambda s, d: next(queries)(read_random(s, d)), [random_rows(1), random_rows(2)], output_mode="update", restart_after=(0,))


def test_another_number_of_sources_on_the_same_checkpoint(compare: Compare) -> None:
    def one(session: Any, input_dir: str) -> Any:
        return read_random(session, input_dir).select("k")

    def two(session: Any, input_dir: str) -> Any:
        return one(session, input_dir).union(one(session, input_dir))

    queries = iter([one, two] * 2)
    compare(lambda s, d: next(queries)(s, d), [random_rows(1), random_rows(2)], restart_after=(0,))


def test_only_the_state_keeps_the_logged_partitions(compare: Compare) -> None:
    """A shuffle that keeps no state goes by the conf of the session that runs it."""
    partitions = iter(["3", "5"] * 2)

    def build(session: Any, input_dir: str) -> Any:
        session.conf.set("spark.sql.shuffle.partitions", next(partitions))
        rows = read_random(session, input_dir).repartition("i").withColumn("partition", F.spark_partition_id() > 2)
        return rows.groupBy("k", "partition").count()

    comparison = compare(
        build, [random_rows(1), random_rows(2)], output_mode="update", restart_after=(0,), confs={"spark.sql.shuffle.partitions": "2"}
    )
    assert all(b.progress["stateOperators"][0]["numShufflePartitions"] == 3 for b in comparison.model.batches)
    above_the_second = [any(above for _, above, _ in batch.rows) for batch in comparison.model.batches]
    assert above_the_second == [False, True]


def lose_both_logs(checkpoint: str) -> None:
    for log in ("offsets", "commits"):
        shutil.rmtree(Path(checkpoint, log))


@pytest.mark.parametrize("verify", ["true", "false"])
def test_a_new_query_wants_a_checkpoint_without_state(compare: Compare, verify: str) -> None:
    comparison = compare(
        lambda s, d: read_random(s, d).groupBy("k").count(), [random_rows(1), random_rows(2)], output_mode="update",
        restart_after={0: lose_both_logs}, confs={"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": verify},
    )
    assert (comparison.model.error is not None) == (verify == "true")


NULLABLE = "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled"
STATEFUL = {
    "aggregation": lambda df: df.groupBy("k").count(),
    "windows": lambda df: df.groupBy(F.window("ts", "10 minutes"), F.lit(1).alias("one")).agg(F.count("*"), F.sum("i")),
    "sessions": lambda df: df.groupBy(F.session_window("ts", "10 minutes"), "k").count(),
    "deduplication": lambda df: df.withColumn("one", F.lit(1)).dropDuplicates(["one", "k"]),
    "join": lambda df: df.withColumn("a", F.lit(1)).join(df.select(F.col("k").alias("kk"), F.lit(2).alias("b")), F.expr("k = kk")),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_a_state_without_nulls_as_older_versions_wrote_it(compare: Compare, name: str) -> None:
    compare(
        lambda s, d: STATEFUL[name](read_random(s, d).withWatermark("ts", "1 hour")), [random_rows(1, 8), random_rows(2, 8)],
        restart_after=(0,), relay=("spark", "model"), confs={NULLABLE: "false"},
        output_mode="update" if name in ("aggregation", "windows") else "append",
    )


def name_all_columns_as_values(checkpoint: str) -> None:
    """As a Spark before 3.4 did for dropDuplicates, which keeps nothing in its values."""
    for metadata in Path(checkpoint, "state/0/0").glob("_metadata"):
        key, _ = read_schemas(f"{checkpoint}/state", 0, "default")
        (metadata / "schema").write_bytes(encode_schemas(key, StructType().add("k", "string").add("i", "integer")))
        (metadata / ".schema.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("within", [False, True], ids=["dropDuplicates", "within the watermark"])
def test_what_the_values_of_seen_keys_are_called(compare: Compare, within: bool) -> None:
    def distinct(session: Any, input_dir: str) -> Any:
        rows = read_random(session, input_dir).withWatermark("ts", "1 hour")
        return rows.dropDuplicatesWithinWatermark(["k"]) if within else rows.dropDuplicates(["k"])

    comparison = compare(distinct, [random_rows(1), random_rows(2)], restart_after={0: name_all_columns_as_values})
    assert (comparison.model.error is not None) == within


def test_a_query_without_state_does_not_look_at_the_state_store(compare: Compare) -> None:
    rocks_db = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    confs = {"spark.sql.streaming.stateStore.providerClass": rocks_db}
    compare(lambda s, d: read_random(s, d).select("k"), [random_rows(1), random_rows(2)], restart_after=(0,), confs=confs)


def test_a_relative_checkpoint_is_where_spark_was_started(spark: Any, mini: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Python's folder is now; and a scheme may be in capitals. So the other engine has nothing left to do."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("x\n")
    home = Path(spark._jvm.System.getProperty("user.dir"))
    relative = f".checkpoint-{uuid.uuid4()}"
    try:
        for place in (relative, f"FILE:{tmp_path}/checkpoint"):
            for session, batches in ((mini, 1), (spark, 0)):
                rows = session.readStream.text(str(tmp_path / "in"))
                query = rows.writeStream.format("noop").option("checkpointLocation", place).trigger(availableNow=True).start()
                query.awaitTermination()
                assert sum(p.numInputRows for p in query.recentProgress) == batches
        assert (home / relative / "commits/0").exists() and (tmp_path / "checkpoint/commits/0").exists()
    finally:
        shutil.rmtree(home / relative, ignore_errors=True)


def test_of_several_starts_on_a_new_checkpoint_one_runs(spark: Any, mini: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    says = {"Multiple streaming queries are concurrently using", "CONCURRENT_QUERY"}
    for name, session in {"spark": spark, "model": mini}.items():
        started: list[Any] = []
        refused: list[str] = []

        def start(session: Any = session, name: str = name, started: list[Any] = started, refused: list[str] = refused) -> None:
            rows = session.readStream.text(str(tmp_path / "in"))
            try:
                started.append(rows.writeStream.format("noop").start(checkpointLocation=str(tmp_path / name)))
            except Exception as e:
                refused.append(str(e))

        threads = [threading.Thread(target=start) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        running = [query for query in started if query.isActive]
        for query in running:
            query.stop()
        assert len(running) == 1 or name == "spark"  # of Spark's, none may be left, or two for a moment
        assert all(any(words in message for words in says) for message in refused), refused
