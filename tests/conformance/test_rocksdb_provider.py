"""RocksDB's state store provider: both engines write the same files, and each goes on where the other has stopped.

As in test_cross_resume.py, the query is restarted after every step, and the other engine takes over; compared with Spark alone:
rows, progress and state metrics of every batch, and at the end the changelogs record by record and the number of keys in each
zip. Then Spark's own `statestore` reader and `inspect` read the checkpoint in which both have written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import MiniSparkSession, explain_output, inspect
from minispark_stream.tools.compare.runner import confs_set
from tests.conformance.conftest import Compare
from tests.conformance.test_rocksdb_state import (
    FILES,
    QUERIES,
    ROCKSDB,
    STORE,
    Query,
    as_sparks_reader,
    clicks,
    of_spark,
    reads,
)

FEED = [[f"2024-01-01 {line}" for line in lines] for lines in (FILES[0], FILES[1] + FILES[2], FILES[3] + FILES[5])]
SUM: tuple[str, Query] = ("complete", lambda rows, _: rows.groupBy().agg(F.sum("n")))
CHANGELOGS = {f"{STORE}rocksdb.changelogCheckpointing.enabled": "true"}
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
    "variables with ttl": {"spark.sql.streaming.noDataMicroBatches.enabled": "false"},  # else there is always one more batch
}
OF_CASE = QUERIES | {"sum": SUM}
RUN_AGAIN = ("sum",)  # each engine runs the last batch of the other one again, as after a kill, over its files


def confs(of_case: dict[str, str]) -> dict[str, str]:
    often = {f"{STORE}minDeltasForSnapshot": "2", f"{STORE}maintenanceInterval": "2s", "spark.sql.shuffle.partitions": "2"}
    return {f"{STORE}providerClass": ROCKSDB, **often, **of_case}


def build(name: str) -> Any:
    return lambda session, folder: OF_CASE[name][1](*(clicks(session, folder) for _ in range(2)))


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
    mode, _ = OF_CASE[name]
    between = dict.fromkeys(range(len(FEED) - 1), lose_last_commit if name in RUN_AGAIN else lambda _: None)
    compare(build(name), FEED, output_mode=mode, confs=wanted, restart_after=between, relay=("model", "spark"))
    checkpoint = tmp_path / "checkpoint-model"
    report = inspect(str(checkpoint))
    assert report.findings == () and {o.provider for o in report.operators} == {"RocksDB"}
    if name == "chain":
        assert "window=[2024-01-01 12:" in str(explain_output(checkpoint))
    if name.startswith("variables"):
        theirs, ours = (of_operator(spark, tmp_path / f"checkpoint-{engine}") for engine in ("spark", "model"))
        assert ours == theirs and "items ListState" in ours[-1]
    with confs_set(spark, wanted):
        for operator, store, options in reads(report):
            shown = [json.dumps(r, sort_keys=True) for row in report.rows(operator, store=store) for r in as_sparks_reader(store, row)]
            assert sorted(shown) == of_spark(spark, checkpoint, options), store


def test_what_the_model_refuses(spark: SparkSession, spark_files: None, tmp_path: Path) -> None:
    """A checkpoint that Spark has begun in format 2."""
    (tmp_path / "in").mkdir()

    def run(session: Any, step: int, file_format: str) -> None:
        (tmp_path / f"in/{step}.csv").write_text("\n".join(FEED[step]))
        with confs_set(spark, confs({f"{STORE}checkpointFormatVersion": file_format})):
            writer = build("count")(session, tmp_path / "in").writeStream.outputMode("update").format("noop")
            writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start().awaitTermination()

    run(spark, 0, "2")
    with pytest.raises(PySparkException, match="the checkpoint is in checkpoint format 2"):
        run(MiniSparkSession(spark), 1, "1")
