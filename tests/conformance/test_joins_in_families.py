"""Stream-stream joins in state formats 3 and 4, with RocksDB: all rows of a join in one store, in column families.

A quick run has one query of two joins; `MINISPARK_ROCKSDB=all` has all. The engines take turns, and the rows, progress, metrics
and files are compared with those of Spark alone. That Spark's reader shows the same rows as `inspect` is in
test_rocksdb_provider.py.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import MiniSparkSession, side_by_side
from minispark_stream.engine.operators.join.symmetric_hash_join import MERGE_OPERATOR
from minispark_stream.engine.operators.join.symmetric_hash_join import STATE_FORMAT as FORMAT
from minispark_stream.engine.state.state_store import HDFS_PROVIDER
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.conftest import Compare
from tests.conformance.test_rocksdb_provider import CHANGELOGS, CHECKSUMS, IDS, confs
from tests.conformance.test_rocksdb_state import ASKED, STORE
from tests.conformance.test_stream_stream_joins import FEED, WITHIN, joined, row, step, streams

NO_TIME = row("a", None)  # its time is null, which no watermark passes
AHEAD = "k = rk AND rts <= ts - interval 5 minutes"  # the state watermark of the left side is after the watermark


def with_no_time(feed: list[dict[str, list[str]]]) -> list[dict[str, list[str]]]:
    """In the first steps, and late, when the watermark has moved."""
    nothing = step([NO_TIME, NO_TIME], [NO_TIME])
    return [
        {side: [*rows, *(nothing[side] if i in (0, 3) else ())] for side, rows in one.items()} for i, one in enumerate(feed)
    ]


def several(session: Any, input_dir: str) -> DataFrame:
    """Joins of several types in one query; if asked, also by windows, and by the event time itself."""
    left, right = streams(session, input_dir)
    in_windows = (
        left.withColumn("lw", F.window("ts", "15 minutes")).drop("ts"),
        right.withColumn("rw", F.window("rts", "15 minutes")).drop("rts"),
    )
    other = left.withColumn("v", F.col("v") + 100)  # what two joins need alike, Spark reads once (docs/differences.md)
    joins = [
        left.join(right, F.expr(WITHIN), "left_semi"),
        other.join(right, F.expr(AHEAD), "full"),
        left.join(right, F.expr(WITHIN), "left"),
        left.join(right, F.expr("k = rk AND ts = rts"), "right"),
        in_windows[0].join(in_windows[1], F.expr("k = rk AND lw = rw"), "full"),
    ]
    columns = ["k", "v", "rk", "rv"]
    same = [
        df.select(F.lit(i).alias("join"), *(F.col(c) if c in df.columns else F.lit(None).alias(c) for c in columns))
        for i, df in enumerate(joins[: None if ASKED else 2])
    ]
    return reduce(lambda one, other: one.union(other), same)


CASES: dict[str, tuple[dict[str, str], tuple[str, str]]] = {"4, ids": (IDS, ("spark", "model"))}
if ASKED:
    CASES |= {
        "3": (CHANGELOGS | CHECKSUMS, ("model", "spark")),
        "3, ids": (IDS, ("spark", "model")),
        "4": ({}, ("spark", "model")),
        "4, changelogs": (CHANGELOGS, ("model", "spark")),
        "4, checksums": (CHANGELOGS | CHECKSUMS | IDS, ("model", "spark")),
    }
FEW = {"spark.sql.shuffle.partitions": "1"} | ({} if ASKED else {"spark.sql.streaming.noDataMicroBatches.enabled": "false"})


@pytest.mark.parametrize("name", CASES)
def test_each_engine_goes_on_where_the_other_stopped(compare: Compare, name: str) -> None:
    of_case, relay = CASES[name]
    wanted, feed = confs(of_case | FEW | {FORMAT: name[0]}), with_no_time(FEED)
    compare(several, feed if ASKED else feed[:5], confs=wanted, restart_after=(0, 2, 3) if ASKED else (1,), relay=relay)


def test_rows_without_an_event_time_go_under_any_number(spark: SparkSession, tmp_path: Path) -> None:
    """Spark draws the number for each row, so the files are not compared, and the engines go on with what the other has."""
    comparison = side_by_side(
        spark, joined("inner", delay=None), FEED[:3], directory=str(tmp_path), confs=confs({FORMAT: "4"}), progress=False,
        restart_after=(0, 1), relay=("model", "spark"),
    )
    assert [d for d in comparison.differences if not d.what.endswith(("numRowsTotal", ".zip"))] == []
    assert sum(len(batch.rows) for batch in comparison.model.batches) > 4


CHANGED = {
    "a store without families": {FORMAT: "3", f"{STORE}providerClass": HDFS_PROVIDER},
    "commas between the elements of a list": {FORMAT: "4", MERGE_OPERATOR: "1"},
}


@pytest.mark.parametrize("name", list(CHANGED)[: None if ASKED else 1])
def test_confs_that_do_not_fit_are_changed_when_a_query_begins(compare: Compare, tmp_path: Path, name: str) -> None:
    compare(joined("inner", WITHIN), FEED[:1], confs=confs(CHANGED[name]))
    begun = json.loads((tmp_path / "checkpoint-model/offsets/0").read_text().splitlines()[1])["conf"]
    assert (begun[FORMAT], begun[MERGE_OPERATOR]) == (("2", "2") if "store" in name else ("4", "2"))


def test_lists_with_commas_cannot_be_continued(spark: SparkSession, tmp_path: Path) -> None:
    """As in a checkpoint whose offset log does not say which merge operator it was begun with."""
    said = set()
    for engine, session in {"spark": spark, "model": MiniSparkSession(spark)}.items():
        for side, rows in FEED[0].items():
            (tmp_path / engine / side).mkdir(parents=True)
            (tmp_path / engine / side / "0.json").write_text("\n".join(rows))
        with confs_set(spark, confs({FORMAT: "4"})):
            writer = joined("inner", WITHIN)(session, str(tmp_path / engine)).writeStream.format("noop")
            writer = writer.option("checkpointLocation", str(tmp_path / engine / "cp")).trigger(availableNow=True)
            writer.start().awaitTermination()
            for entry in (tmp_path / engine / "cp/offsets").glob("[0-9]*"):
                entry.write_text(entry.read_text().replace(f'"{MERGE_OPERATOR}":"2"', f'"{MERGE_OPERATOR}":"1"'))
                entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
            (tmp_path / engine / "left/1.json").write_text("\n".join(FEED[1]["left"]))
            with pytest.raises(StreamingQueryException, match="STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS") as failed:
                writer.start().awaitTermination()
            said.add(str(failed.value).partition("exception: ")[2].partition("=== Streaming")[0])
    assert len(said) == 1
