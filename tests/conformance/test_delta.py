"""The Delta sink leaves what Delta Lake's own sink leaves, and refuses what that refuses.

Delta Lake does not run on PySpark 4.3, so the oracle is what it wrote on 4.2: tests/golden/delta (record.py says how).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F

from minispark_stream.extras.delta.sink import DeltaSink
from tests.golden.delta.record import ADAPTED, GOLDEN, QUERIES, REFUSED, STEPS, prepare, put, rows_of, said, sums, write

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def folder(tmp_path):
    """Three batches of input."""
    for i, lines in enumerate(STEPS):
        put(tmp_path / "in", i, lines)
    return tmp_path


def run(session: Any, folder: Path, name: str) -> Any:
    build, mode, partition_by = QUERIES[name]
    return write(build(rows_of(session, folder / "in")), folder / f"c-{name}", folder / name, mode, partition_by)


def rows(table: Path, version: int | None = None) -> list[tuple[Any, ...]]:
    found = deltalake.DeltaTable(table, version=version)
    columns = [field.name for field in found.schema().fields]
    return sorted((tuple(row[c] for c in columns) for row in found.to_pyarrow_table().to_pylist()), key=repr)


def log(table: Path) -> list[list[dict[str, Any]]]:
    """The actions of every commit."""
    files = sorted((table / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def lose_last_commit(checkpoint: Path) -> None:
    newest = max((p for p in (checkpoint / "commits").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


# -- the log --------------------------------------------------------------------------------------------------------

# What only Delta, or only the library, says of a commit, and what no two runs share.
UNSHARED = {"timestamp", "modificationTime", "deletionTimestamp", "createdTime", "lastUpdated", "size", "numOutputBytes"}
OF_THE_LIBRARY = {"clientVersion", "mode", "partitionBy", "location", "protocol", "metadata", "name", "description"}
OF_DELTA = {"txnId", "readVersion"}


def shape(action: dict[str, Any]) -> str:
    """An action, without what differs from run to run and from one writer to the other."""

    def pruned(value: Any, key: str = "") -> Any:
        if key == "stats":
            value = json.loads(value)
        if key == "schemaString":
            return json.loads(value)
        if key in ("path", "id", "appId", "queryId", "engineInfo"):
            return re.sub(r"part-\d{5}-[0-9a-f-]{36}", "part", value) if key == "path" else "..."
        if isinstance(value, dict):
            left = UNSHARED | OF_DELTA | (OF_THE_LIBRARY if key in ("commitInfo", "operationParameters", "metaData") else set())
            return {k: pruned(v, k) for k, v in value.items() if k not in left and v is not None}
        return value

    [(kind, fields)] = action.items()
    found = pruned(fields, kind)
    if kind == "commitInfo":
        assert found["operation"] in ("STREAMING UPDATE", "WRITE", "CREATE TABLE")
        del found["operation"]
    if kind == "remove" and "__HIVE_DEFAULT_PARTITION__" in fields["path"]:
        del found["partitionValues"]  # Delta leaves out a null here, the library writes it
    return json.dumps({kind: found}, sort_keys=True)


@pytest.mark.parametrize("name", list(QUERIES))
def test_the_log_has_the_actions_of_delta(mini, folder, name):
    query = run(mini, folder, name)
    theirs, ours = log(GOLDEN / name), log(folder / name)
    assert len(ours) == len(theirs) == 3
    for commit, golden in zip(ours, theirs):
        assert Counter(map(shape, commit)) == Counter(map(shape, golden))
    assert rows(folder / name) == rows(GOLDEN / name)
    assert query.lastProgress.sink.description == f"DeltaSink[{folder / name}]"
    assert [p.sink.numOutputRows for p in query.recentProgress] == [-1, -1, -1]
    assert [a["txn"]["appId"] for commit in ours for a in commit if "txn" in a] == [query.id] * 3


def test_a_recording_of_delta_is_gone_on_with(mini, folder):
    """The checkpoint says that the query is the one of the recording: what it has done is skipped, what is new is added."""
    for name in QUERIES:
        shutil.copytree(GOLDEN / name, folder / name)
        [app_id] = {a["txn"]["appId"] for commit in log(folder / name) for a in commit if "txn" in a}
        (folder / f"c-{name}").mkdir()
        (folder / f"c-{name}" / "metadata").write_text(json.dumps({"id": app_id}))
        query = run(mini, folder, name)
        assert query.id == app_id and [p.batchId for p in query.recentProgress] == [0, 1, 2]
        assert len(log(folder / name)) == 3  # nothing was written
    put(folder / "in", 3, ["b,10", "z,1"])
    for name in ("append", "append_partitioned"):  # the others have no state: what is skipped is not computed
        run(mini, folder, name)
        assert len(log(folder / name)) == 4
    appended = sorted([*rows(GOLDEN / "append"), ("b", 10), ("z", 1)], key=repr)
    assert rows(folder / "append") == rows(folder / "append_partitioned") == appended


# -- the rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_the_table_has_what_spark_gives_to_memory(spark, mini, folder, mode):
    def build(session: Any) -> Any:
        source = rows_of(session, folder / "in")
        if mode == "complete":
            return sums(source)
        return source.select("k", (F.col("v") * 2).alias("v"), F.lit(1.5).alias("d"), F.array("v").alias("xs"),
                             F.timestamp_seconds("v").alias("t"), F.struct("k").alias("s"), F.lit("2024-01-01").cast("date").alias("dt"))

    build(spark).writeStream.format("memory").queryName("in_memory").outputMode(mode).trigger(availableNow=True).start().awaitTermination()
    write(build(mini), folder / "c", folder / "out", mode)
    theirs = spark.table("in_memory").toPandas()
    ours = deltalake.DeltaTable(folder / "out").to_pandas()
    assert list(ours.columns) == list(theirs.columns)
    if mode == "append":
        ours["t"] = ours["t"].dt.tz_localize(None).astype(theirs["t"].dtype)  # toPandas gives local times, and it is UTC here
        ours["xs"], theirs["xs"] = ours["xs"].map(list).map(repr), theirs["xs"].map(list).map(repr)
    assert sorted(map(repr, ours.values.tolist())) == sorted(map(repr, theirs.values.tolist()))
    spark.catalog.dropTempView("in_memory")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_partition_values_of_any_kind(spark, mini, tmp_path, zone):
    put(tmp_path / "in", 0, ["a b/c,1", "é%=?,2", "x:y,3", ",4"])
    df = rows_of(mini, tmp_path / "in").withColumns({"t": F.timestamp_seconds("v"), "d": F.lit("2024-02-29").cast("date")})
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        write(df, tmp_path / "c", tmp_path / "out", partition_by=("d", "t", "k"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [(k, v) for k, v, _, _ in rows(tmp_path / "out")] == sorted([("a b/c", 1), ("é%=?", 2), ("x:y", 3), (None, 4)], key=repr)
    assert all((t.timestamp(), str(d)) == (v, "2024-02-29") for _, v, t, d in rows(tmp_path / "out"))


def test_a_bound_is_never_wrong(mini, tmp_path):
    put(tmp_path / "in", 0, ["z" * 40 + ",1", "a,NaN", ",-3"])
    df = rows_of(mini, tmp_path / "in").selectExpr(
        "k", "v", "double(v) * double('NaN') as n", "double(v) as d", "cast(v as decimal(30, 10)) as m", "v > 0 as b",
        "named_struct('v', v) as s", "array(v) as xs",
    )
    write(df.coalesce(1), tmp_path / "c", tmp_path / "out")
    [stats] = [json.loads(a["add"]["stats"]) for commit in log(tmp_path / "out") for a in commit if "add" in a]
    assert stats == {
        "numRecords": 3, "minValues": {"v": -3, "d": -3.0}, "maxValues": {"v": 1, "d": 1.0},
        "nullCount": {"k": 1, "v": 1, "n": 1, "d": 1, "m": 1, "b": 1},
    }


def test_a_batch_without_rows_is_a_commit_without_files(mini, folder):
    write(rows_of(mini, folder / "in").where("v > 100"), folder / "c", folder / "out")
    assert [sorted(k for a in commit for k in a) for commit in log(folder / "out")] == [
        ["commitInfo", "metaData", "protocol", "txn"], *[["commitInfo", "txn"]] * 2,
    ]
    assert rows(folder / "out") == []


# -- exactly once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(QUERIES))
def test_a_batch_that_was_committed_is_skipped(mini, folder, name):
    """As after a kill between Delta's log and the commit log."""
    query = run(mini, folder, name)
    before = log(folder / name)
    lose_last_commit(folder / f"c-{name}")
    put(folder / "in", 3, ["b,10"])
    again = run(mini, folder, name)
    assert again.id == query.id and [p.batchId for p in again.recentProgress] == [2, 3]
    assert log(folder / name)[:3] == before and len(log(folder / name)) == 4
    values = [row[1] for row in rows(folder / name)]
    assert sorted(values) == ([1, 2, 3, 4, 5, 6, 10] if name.startswith("append") else [4, 5, 10, 12])


def test_a_checkpoint_of_the_log_remembers_the_batch(mini, folder):
    """Delta, and the library, write one from time to time; the commits before it may be deleted."""
    run(mini, folder, "append")
    deltalake.DeltaTable(folder / "append").create_checkpoint()
    for version in (0, 1):
        (folder / "append" / "_delta_log" / f"{version:020}.json").unlink()
    lose_last_commit(folder / "c-append")
    put(folder / "in", 3, ["b,10"])
    run(mini, folder, "append")
    assert sorted(row[1] for row in rows(folder / "append")) == [1, 2, 3, 4, 5, 6, 10]


def test_another_query_does_not_skip(mini, folder):
    """The ids of batches are counted for each query on its own."""
    write(rows_of(mini, folder / "in"), folder / "c1", folder / "out")
    write(rows_of(mini, folder / "in"), folder / "c2", folder / "out")
    assert sorted(row[1] for row in rows(folder / "out")) == sorted([1, 2, 3, 4, 5, 6] * 2)


def test_of_a_batch_that_fails_nothing_is_seen(mini, folder):
    bad = F.when(F.col("v") == 4, F.raise_error(F.lit("unlucky"))).otherwise(F.col("v")).alias("v")
    df = rows_of(mini, folder / "in").repartition(4, "v")
    with pytest.raises(StreamingQueryException, match="unlucky"):
        write(df.select("k", bad), folder / "c", folder / "out")
    assert len(rows(folder / "out")) == 3
    write(df, folder / "c", folder / "out")
    assert sorted(row[1] for row in rows(folder / "out")) == [1, 2, 3, 4, 5, 6]
    assert not list((folder / "out").glob("_staging*"))


# -- other writers --------------------------------------------------------------------------------------------------


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """`act` is done by another writer, once, after the files of a batch are written and before they are committed."""
    commit, acts = DeltaSink._commit, [act]

    def late(*arguments: Any) -> None:
        if acts:
            acts.pop()()
        commit(*arguments)

    monkeypatch.setattr(DeltaSink, "_commit", late)


def test_an_append_of_another_writer_is_no_harm(mini, folder, monkeypatch):
    run(mini, folder, "append")
    put(folder / "in", 3, ["b,10"])
    meanwhile(monkeypatch, lambda: write(rows_of(mini, folder / "in"), folder / "c2", folder / "append"))
    run(mini, folder, "append")
    assert sorted(row[1] for row in rows(folder / "append")) == sorted([1, 2, 3, 4, 5, 6, 10] * 2)


def test_two_runs_of_one_query_do_not_write_a_batch_twice(mini, folder, monkeypatch):
    """Another process, with a copy of the checkpoint, commits batch 3 first."""
    query = run(mini, folder, "append")
    put(folder / "in", 3, ["b,10"])

    def commit_batch_3() -> None:
        table = deltalake.DeltaTable(folder / "append")
        properties = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(query.id, 3)])
        table.create_write_transaction([], "append", table.schema(), commit_properties=properties)

    meanwhile(monkeypatch, commit_batch_3)
    with pytest.raises(StreamingQueryException, match="Another writer has changed"):
        run(mini, folder, "append")
    again = run(mini, folder, "append")
    assert [p.batchId for p in again.recentProgress] == [3]
    assert sorted(row[1] for row in rows(folder / "append")) == [1, 2, 3, 4, 5, 6]  # what the other has written stands


def test_complete_does_not_drop_rows_that_it_has_not_seen(mini, folder, monkeypatch):
    run(mini, folder, "complete")
    put(folder / "in", 3, ["b,10"])
    other = rows_of(mini, folder / "in").select("k", F.col("v").cast("long").alias("s"))
    meanwhile(monkeypatch, lambda: write(other, folder / "c2", folder / "complete"))
    with pytest.raises(StreamingQueryException, match="Another writer has changed"):
        run(mini, folder, "complete")
    assert sorted(row[1] for row in rows(folder / "complete")) == sorted([2, 4, 5, 10] + [1, 2, 3, 4, 5, 6, 10])
    run(mini, folder, "complete")
    assert sorted(row[1] for row in rows(folder / "complete")) == [4, 5, 10, 12]


def test_a_table_of_someone_else_is_appended_to(mini, folder):
    import pyarrow as pa

    deltalake.write_deltalake(folder / "out", pa.table({"k": ["x"], "v": pa.array([0], pa.int32())}))
    write(rows_of(mini, folder / "in"), folder / "c", folder / "out")
    assert len(rows(folder / "out")) == 7 and rows(folder / "out", version=0) == [("x", 0)]


# -- what does not fit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_delta_refuses_is_refused_in_the_same_words(mini, tmp_path, case):
    source = prepare(mini, tmp_path)
    with pytest.raises(PySparkException) as error:
        REFUSED[case](source, tmp_path)
    kind, *text = json.loads((GOLDEN / "refused.json").read_text())[case]
    ours = said(error.value)
    assert ours[0] == kind
    if text:
        # Not what Delta advises to set, and what is not set here.
        assert re.sub(r"^\[_LEGACY\w+\] ", "", ours[1]) == re.split(r"\nAlternatively, |\. You can set ", text[0])[0]
    assert rows(tmp_path / "t") == rows(tmp_path / "p") == [("first", 0)]


@pytest.mark.parametrize("case", list(ADAPTED))
def test_what_delta_adapts_is_adapted(mini, tmp_path, case):
    ADAPTED[case](prepare(mini, tmp_path), tmp_path)
    table = tmp_path / ("p" if "partitioned" in case else "t")
    columns, expected = json.loads((GOLDEN / "adapted.json").read_text())[case]
    assert [field.name for field in deltalake.DeltaTable(table).schema().fields] == columns
    assert rows(table) == sorted(map(tuple, expected), key=repr)


def test_other_files_in_the_folder_are_left_alone(mini, folder):
    """As with Delta."""
    (folder / "out").mkdir()
    (folder / "out" / "part-0.parquet").write_text("not parquet")
    write(rows_of(mini, folder / "in"), folder / "c", folder / "out")
    assert len(rows(folder / "out")) == 6
    assert (folder / "out" / "part-0.parquet").read_text() == "not parquet"


def test_a_table_with_constraints_is_refused(mini, folder):
    run(mini, folder, "append")
    deltalake.DeltaTable(folder / "append").alter.add_constraint({"positive": "v > 0"})
    put(folder / "in", 3, ["b,-10"])
    with pytest.raises(StreamingQueryException, match=re.escape("delta.constraints.positive")):
        run(mini, folder, "append")


def test_a_log_that_cannot_be_read_ends_the_query(mini, folder):
    (folder / "out" / "_delta_log").mkdir(parents=True)
    (folder / "out" / "_delta_log" / f"{0:020}.json").write_text("no JSON\n")
    with pytest.raises(StreamingQueryException):
        write(rows_of(mini, folder / "in"), folder / "c", folder / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_ends_the_query(mini, folder):
    (folder / "out").mkdir(mode=0o500)
    with pytest.raises(StreamingQueryException):
        write(rows_of(mini, folder / "in"), folder / "c", folder / "out")


def test_without_the_library_there_is_one_clear_line(mini, folder, monkeypatch):
    find = sys.modules["importlib.util"].find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name == "deltalake" else find(name, *a))
    with pytest.raises(ImportError, match=re.escape("pip install deltalake")):
        write(rows_of(mini, folder / "in"), folder / "c", folder / "out")


def test_what_only_the_library_does(mini, tmp_path):
    """Another name for the operation, no checksums beside the log, and a commit of its own for a new column."""
    ADAPTED["mergeSchema"](prepare(mini, tmp_path), tmp_path)
    commits = [{kind: fields for action in commit for kind, fields in action.items()} for commit in log(tmp_path / "t")]
    assert {commit["commitInfo"]["operation"] for commit in commits} <= {"CREATE TABLE", "WRITE", "ADD COLUMN"}
    assert [("metaData" in commit, "txn" in commit) for commit in commits[1:3]] == [(True, False), (False, True)]
    assert not list((tmp_path / "t" / "_delta_log").glob(".*"))


def test_overwrite_schema_is_refused(mini, folder):
    with pytest.raises(PySparkException, match="overwriteSchema"):
        write(sums(rows_of(mini, folder / "in")), folder / "c", folder / "out", "complete", overwriteSchema="true")
