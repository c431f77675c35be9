"""RocksDB's state store provider: both engines write the same files, and each goes on where the other has stopped.

As in test_cross_resume.py, the query is restarted after every step, and the other engine takes over; compared with Spark alone:
rows, progress and state metrics of every batch, and at the end the changelogs record by record and the number of keys in each
zip. Then Spark's own `statestore` reader and `inspect` read the checkpoint in which both have written.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from minispark_stream import MiniSparkSession, explain_output, inspect
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.conftest import Compare
from tests.conformance.real_time_checkpoint import QUERIES as QUERIES_IN_REAL_TIME
from tests.conformance.test_rocksdb_state import (
    ASKED,
    FILES,
    QUERIES,
    ROCKSDB,
    STORE,
    Query,
    Variables,
    as_sparks_reader,
    clicks,
    of_spark,
    reads,
)

FEED = [[f"2024-01-01 {line}" for line in lines] for lines in (FILES[0], FILES[1] + FILES[2], FILES[3] + FILES[5])]
SUM: tuple[str, Query] = ("complete", lambda rows, _: rows.groupBy().agg(F.sum("n")))


def by_keys_without_nulls(rows: DataFrame, _: DataFrame) -> DataFrame:
    keys = rows.withColumn("k", F.coalesce("k", F.lit(""))).withColumn("s", F.struct("k")).groupBy("k", "s")
    return keys.transformWithStateInPandas(Variables(None), "k string", "update", "EventTime")


CHANGELOGS = {f"{STORE}rocksdb.changelogCheckpointing.enabled": "true"}
FORMAT = f"{STORE}checkpointFormatVersion"
IDS = {FORMAT: "2"}
CHECKSUMS = {f"{STORE}rowChecksum.enabled": "true"}
CASES: dict[str, dict[str, str]] = {  # "chain" has a deduplication, a join and a windowed aggregation
    "count": {},
    "chain": CHANGELOGS,
    "sessions": CHANGELOGS | CHECKSUMS | {f"{STORE}compression.codec": "zstd"},
    "dedup within": CHECKSUMS,
    "limit": CHANGELOGS,
    "group state": {},
    "sum": CHANGELOGS,
    "variables": CHANGELOGS | CHECKSUMS,
    "variables by keys without nulls": {},
    "variables with ttl": {"spark.sql.streaming.noDataMicroBatches.enabled": "false"},  # else there is always one more batch
}
OF_CASE = QUERIES | {"sum": SUM, "variables by keys without nulls": ("update", by_keys_without_nulls)}
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
CASES |= {"join3": {JOIN_FORMAT: "3"}, "join4, ids": IDS | CHANGELOGS | CHECKSUMS | {JOIN_FORMAT: "4"}}
CASES |= {  # in checkpoint format 2
    "count, ids": IDS | CHANGELOGS,
    "sum, ids": IDS,
    "sessions, ids": IDS | CHECKSUMS,
    "variables, ids": IDS | CHANGELOGS,
}
if ASKED == "all":
    CASES["chain, ids"] = IDS | CHANGELOGS
RUN_AGAIN = ("sum", "count, ids", "sum, ids", "variables, ids")  # each engine runs the last batch of the other one again, as after a kill, over its files


def confs(of_case: dict[str, str]) -> dict[str, str]:
    often = {f"{STORE}minDeltasForSnapshot": "2", f"{STORE}maintenanceInterval": "2s", "spark.sql.shuffle.partitions": "2"}
    return {f"{STORE}providerClass": ROCKSDB, **often, **of_case}


def build(name: str) -> Any:
    query = OF_CASE[name.removesuffix(", ids")][1]
    return lambda session, folder: query(*(clicks(session, folder) for _ in range(2)))


def lose_last_commit(checkpoint: str) -> None:
    last = max((p for p in Path(checkpoint, "commits").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def of_operator(spark: SparkSession, checkpoint: Path) -> list[str]:
    """What Spark's reader of operator metadata shows, with the state variables in the order of their names."""
    [row] = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    properties = json.loads(row.operatorProperties)
    variables = [f"{v['stateName']} {v['stateVariableType']} {v['ttlEnabled']}" for v in properties.pop("stateVariables")]
    return [row.operatorName, row.stateStoreName, str(row.numPartitions), str(properties), ", ".join(sorted(variables))]


@pytest.mark.parametrize("name", CASES)
def test_each_engine_goes_on_where_the_other_stopped(compare: Compare, spark: SparkSession, tmp_path: Path, name: str) -> None:
    wanted = confs(CASES[name])
    mode, _ = OF_CASE[name.removesuffix(", ids")]
    restarts = range(len(FEED) - 1)
    between = dict.fromkeys(restarts, lose_last_commit) if name in RUN_AGAIN else restarts
    relayed = {"restart_after": between, "relay": ("model", "spark")}
    compare(build(name), FEED, output_mode=mode, confs=wanted, keeps_checkpoint=name.startswith("variables"), **relayed)
    checkpoint = tmp_path / "checkpoint-model"
    report = inspect(str(checkpoint))
    assert [f for f in report.findings if "temporary files" not in f.says] == []  # maintenance that the end of a query has cut off
    assert {o.provider for o in report.operators} == {"RocksDB"}
    if name.startswith("chain"):
        assert "window=[2024-01-01 12:" in str(explain_output(checkpoint))
    if name.startswith("variables"):
        theirs, ours = (of_operator(spark, tmp_path / f"checkpoint-{engine}") for engine in ("spark", "model"))
        assert ours == theirs and "items ListState" in ours[-1]
    with confs_set(spark, wanted):
        for operator, store, options in reads(report):
            shown = [json.dumps(r, sort_keys=True) for row in report.rows(operator, store=store) for r in as_sparks_reader(store, row)]
            assert sorted(shown) == of_spark(spark, checkpoint, options), store


class Begun:
    """A query over a checkpoint of its own, in either engine, with some confs, batch by batch."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.spark, self.folder, self.sessions = spark, folder, {"spark": spark, "model": MiniSparkSession(spark)}
        (folder / "in").mkdir()

    def run(self, engine: str, step: int, more: dict[str, str] | None = None, reads: Any = None) -> None:
        (self.folder / f"in/{step}.csv").write_text("\n".join(FEED[step]))
        with confs_set(self.spark, confs({} if more is None else more)):
            writer = build("count")(self.sessions[engine], self.folder / "in").writeStream.outputMode("update")
            writer = writer.foreachBatch(reads) if reads else writer.format("noop")
            writer.option("checkpointLocation", str(self.folder / "cp")).trigger(availableNow=True).start().awaitTermination()

    def files(self, suffix: str) -> list[str]:
        return sorted(path.name for path in (self.folder / "cp/state/0").glob(f"[01]/*{suffix}"))


@pytest.mark.parametrize("begun, then", [("spark", "model"), ("model", "spark")])
def test_a_checkpoint_stays_in_the_format_in_which_it_was_begun(spark: SparkSession, tmp_path: Path, begun: str, then: str) -> None:
    for begun_in, goes_on in (("2", "1"), ("1", "2")):
        (tmp_path / begun_in).mkdir()
        query = Begun(spark, tmp_path / begun_in)
        query.run(begun, 0, CHANGELOGS | {FORMAT: begun_in})
        query.run(then, 1, CHANGELOGS | {FORMAT: goes_on})
        has_ids = {"_" in name for name in query.files(".changelog")}
        commits = {(tmp_path / begun_in / f"cp/commits/{batch}").read_text()[:2] for batch in (0, 1)}
        assert (has_ids, commits) == ({begun_in == "2"}, {f"v{begun_in}"})


@pytest.mark.parametrize("engine", ["spark", "model"])
def test_a_wrong_checksum_is_an_error_in_both_engines(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    """As is a lost id, and a lost file. Maintenance makes no zip, from which the version could be read as well."""
    query, without_zips = Begun(spark, tmp_path), CHANGELOGS | IDS | {f"{STORE}minDeltasForSnapshot": "100"}
    query.run("spark", 0, without_zips)
    commit = max((tmp_path / "cp/commits").glob("[0-9]*"), key=lambda path: int(path.name))
    version = int(commit.name) + 1
    changelogs = {path: path.read_bytes() for path in (tmp_path / "cp/state/0").glob(f"[01]/{version}_*.changelog")}

    def fails(with_words: str) -> None:
        with pytest.raises(PySparkException, match=with_words):
            query.run(engine, 1, without_zips)

    for path in changelogs:
        path.write_bytes(b"another file")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    fails("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED")
    for path in changelogs:
        path.unlink()
    fails(rf"CANNOT_READ_STREAMING_STATE_FILE.*{version}_[0-9a-f-]{{36}}.changelog")
    for path, content in changelogs.items():
        path.write_bytes(content)
    said = commit.read_text()
    commit.write_text(re.sub(',"state.*', "}", said))
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    fails("CANNOT_READ_STREAMING_STATE_FILE")
    commit.write_text(said)
    query.run(engine, 1, without_zips)


@pytest.mark.parametrize("damage", ["cut", "gone", "no tables"])
def test_without_changelogs_there_is_no_way_around_the_newest_zip(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    """Not even if there are older zips: the changelogs after them were never written."""
    told = {}
    for engine in ("spark", "model"):
        (tmp_path / engine).mkdir()
        query = Begun(spark, tmp_path / engine)
        for step in (0, 1):
            query.run(engine, step, {})
        newest = max(int(name.removesuffix(".zip")) for name in query.files(".zip"))
        assert newest > 1 and not query.files(".changelog")
        for path in (tmp_path / engine / "cp/state/0").glob("[01]/SSTs/*.sst" if damage == "no tables" else f"[01]/{newest}.zip"):
            content = path.read_bytes()
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            if damage == "cut":
                path.write_bytes(content[: len(content) // 2])
        with pytest.raises(PySparkException, match="CANNOT_LOAD_STATE_STORE") as failed:
            query.run(engine, 2, {})
        told[engine] = str(failed.value)
    conditions = {engine: re.findall(r"STATE_STORE\.(\w+)", text) for engine, text in told.items()}
    assert conditions["model"][0] == conditions["spark"][0] == ("CANNOT_READ_STREAMING_STATE_FILE" if damage == "gone" else "UNCATEGORIZED")
    if damage != "gone":  # Spark has it in the cause
        assert ".changelog" not in told["model"] and re.search(rf"/[01]/{newest}.zip of .*(not a zip|SSTs/.*\.sst does not exist)", told["model"])


def test_a_batch_that_is_read_in_part_fails_and_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    """The commit log would lack ids of its files, so it matters nothing that nobody validates the commits."""
    said = set()
    for engine in ("spark", "model"):
        (tmp_path / engine).mkdir()
        query, unchecked = Begun(spark, tmp_path / engine), IDS | {f"{STORE}commitValidation.enabled": "false"}
        with pytest.raises(PySparkException, match="CheckpointInfo length: [01], numPartitions: 2") as failed:
            query.run(engine, 0, unchecked, lambda batch, _: print(batch.limit(1).collect()))
        said.add(str(failed.value).partition("exception: ")[2].partition("=== Streaming")[0])
        query.run(engine, 1, unchecked)
        assert [path.name for path in (tmp_path / engine / "cp/commits").glob("[0-9]*") if path.name == "0"] == ["0"]
    assert len(said) == 1, said


def test_a_query_without_state_has_an_empty_list_of_ids(compare: Compare, spark: SparkSession, tmp_path: Path) -> None:
    run = compare(lambda session, folder: clicks(session, folder).select("n"), FEED, confs={FORMAT: "2"})
    assert '"stateUniqueIds":{}' in (tmp_path / "checkpoint-model/commits/0").read_text() and run is not None


def test_hdfs_backed_stores_have_no_ids(spark: SparkSession, tmp_path: Path) -> None:
    hdfs = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    for engine in ("spark", "model"):
        (tmp_path / engine).mkdir()
        with pytest.raises(PySparkException, match="HDFSBackedStateStoreProvider does not support checkpointFormatVersion > 1"):
            Begun(spark, tmp_path / engine).run(engine, 0, IDS | {f"{STORE}providerClass": hdfs})


@pytest.mark.parametrize("version", ("1", "2"))
def test_sparks_tool_divides_the_state_of_the_model_anew(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, version: str) -> None:
    """Two partitions become five and then one, and after each time the query goes on with all that it has counted.

    A kill in a last repartition leaves a batch without its commit. No query may run that batch, which has written only its part.
    """

    def run(session: Any, folder: Path) -> list[Any]:
        rows: list[Any] = []
        (folder / "in").mkdir(parents=True)
        counts = session.readStream.text(f"{folder}/in").groupBy("value").count()
        writer = counts.writeStream.outputMode("complete").foreachBatch(lambda df, _: rows.append(sorted(map(tuple, df.collect()))))
        writer = writer.option("checkpointLocation", f"{folder}/c").trigger(availableNow=True)
        for i, partitions in enumerate((5, 1, None)):
            (folder / "in" / f"{i}.txt").write_text("\n".join("abcdefgh"[: 8 - i]))
            query = writer.start()
            query.awaitTermination()
            [operator] = query.lastProgress.stateOperators
            rows.append((operator.numRowsTotal, operator.numRowsUpdated, operator.numStateStoreInstances))
            if partitions:
                session._streamingCheckpointManager.repartition(f"{folder}/c", partitions)
        session._streamingCheckpointManager.repartition(f"{folder}/c", 2)
        lose_last_commit(f"{folder}/c")
        with pytest.raises(StreamingQueryException) as refused:
            writer.start().awaitTermination()
        return [*rows, re.findall(r"exception: (\[.*?SQLSTATE: \w+)", str(refused.value), re.DOTALL)]

    with confs_set(spark, {f"{STORE}providerClass": ROCKSDB, FORMAT: version, "spark.sql.shuffle.partitions": "2"}):
        expected, found = run(spark, tmp_path / "spark"), run(mini, tmp_path / "model")
    assert found == expected
    assert [told for told in found if isinstance(told, tuple)] == [(8, 8, 2), (8, 7, 5), (8, 6, 1)]
    assert "STREAMING_UNFINISHED_REPARTITION_DETECTED" in found[-1][0]
    assert found[-3] == [*((k, 3) for k in "abcdef"), ("g", 2), ("h", 1)]


class Letters(DataSource):
    """Offsets like those of the stream that has written a real-time checkpoint."""

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict:
            return {"0": 0}

        def latestOffset(self) -> dict:  # type: ignore[override]
            return {"0": 5}

        def partitions(self, start: dict, end: dict) -> list[InputPartition]:
            return [InputPartition(i) for i in range(start["0"], end["0"])]

        def read(self, partition: Any) -> Any:
            yield ("ababc"[partition.value],)

    @classmethod
    def name(cls) -> str:
        return "letters"

    def schema(self) -> str:
        return "value string"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return Letters.Reader()


def test_micro_batches_go_on_with_the_state_of_real_time_mode(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.conformance.real_time_checkpoint", str(tmp_path / "begun")]
    subprocess.run(program, cwd=Path(__file__).parents[2], check=True, capture_output=True, timeout=300)
    assert "StatefulStreamlineAggregate" in (tmp_path / "begun/count/state/0/_metadata/metadata").read_text()
    spark.dataSource.register(Letters)
    seen: dict[tuple[str, str], Any] = {}
    for name, query in QUERIES_IN_REAL_TIME.items():
        for engine, session in (("spark", spark), ("model", mini)):
            checkpoint, rows = tmp_path / engine / name, list[Any]()
            shutil.copytree(tmp_path / "begun" / name, checkpoint)
            with confs_set(spark, confs(CHANGELOGS | IDS)):
                writer = query(session.readStream.format("letters").load()).writeStream.outputMode("update")
                writer = writer.foreachBatch(lambda batch, _: rows.extend(sorted(map(tuple, batch.collect()))))  # noqa: B023
                running = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
                running.awaitTermination()
            kept = (checkpoint / "state/0/_metadata/metadata").read_text()
            seen[engine, name] = rows, kept, [operator.operatorName for operator in running.lastProgress.stateOperators]
    assert seen["model", "count"] == seen["spark", "count"] and seen["model", "count"][0] == [("b", 2), ("c", 1)]
    assert seen["model", "distinct"] == seen["spark", "distinct"] and seen["model", "distinct"][0] == [("c",)]
