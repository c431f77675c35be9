"""Two drivers on one checkpoint, each of which takes it for its own: the second one to write an entry of a log ends, the other goes on.

A session knows of the queries that run in it, and does not start a second run of one. Another process cannot know. So the id of the
query is changed here before the second driver starts, and the session takes it for a query of its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from minispark_stream import MiniSparkSession
from minispark_stream.testing import stream_test
from tests.conformance.inputs import at
from tests.conformance.test_kills import put

pytestmark = pytest.mark.usefixtures("spark_files")
CLOSED = [("12:00", 2), ("12:05", 1), ("12:30", 1)]


def as_if_in_another_process(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (checkpoint / ".metadata.crc").unlink(missing_ok=True)


def start(df: DataFrame, checkpoint: Path, write: Callable[[DataFrame, int], None]) -> Any:
    writer = df.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    return writer.foreachBatch(write).start()


def test_of_two_drivers_that_run_one_batch_the_second_to_commit_it_ends(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path
) -> None:
    seen = {}
    for engine, session in {"spark": spark, "model": mini}.items():
        folder, checkpoint = tmp_path / engine, tmp_path / engine / "checkpoint"
        folder.mkdir()
        for i, lines in enumerate([at("12:01", "12:02"), at("12:06"), at("12:30")]):
            put(folder, i, lines)
        events = session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
        counts = events.withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 minutes")).count()
        counts = counts.select(F.date_format("window.start", "HH:mm"), "count")
        written: dict[int, list[tuple[Any, ...]]] = {}

        def keep(data: DataFrame, batch_id: int, written: Any = written) -> None:
            rows = sorted(map(tuple, data.collect()))
            assert written.setdefault(batch_id, rows) == rows, "both have the same rows"

        def overtaken(data: DataFrame, batch_id: int, keep: Any = keep, counts: Any = counts, checkpoint: Path = checkpoint) -> None:
            keep(data, batch_id)
            if batch_id == 1:  # logged, and not committed yet: the other driver runs it again, and goes on
                as_if_in_another_process(checkpoint)
                start(counts, checkpoint, keep).awaitTermination()

        with pytest.raises(StreamingQueryException, match="CONCURRENT_STREAM_LOG_UPDATE.* detected for 1"):
            start(counts, checkpoint, overtaken).awaitTermination()
        put(folder, 3, at("13:00"))
        start(counts, checkpoint, keep).awaitTermination()
        seen[engine] = written
    assert seen["model"] == seen["spark"]
    assert sorted(row for rows in seen["model"].values() for row in rows) == CLOSED


class Numbers(DataSource):
    """The numbers below the one that a file has; it keeps no log, so that the log of the offsets is the first to be written."""

    @classmethod
    def name(cls) -> str:
        return "numbers_below"

    def schema(self) -> str:
        return "n int"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802
        return Reader(Path(self.options["path"]))


class Reader(SimpleDataSourceStreamReader):
    def __init__(self, path: Path):
        self.path = path

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        end = {"n": int(self.path.read_text())}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:  # noqa: N802
        return iter([(n,) for n in range(start["n"], end["n"])])


@pytest.mark.parametrize("engine", ["spark", "model"])
@pytest.mark.parametrize("source", ["files", "numbers"])
def test_of_two_drivers_that_plan_one_batch_the_second_to_log_it_ends(
    spark: SparkSession, tmp_path: Path, source: str, engine: str
) -> None:
    """The log of the source, if it has one, is the first that both write."""
    spark.dataSource.register(Numbers)

    def build(session: Any) -> DataFrame:
        if source == "numbers":
            return session.readStream.format("numbers_below").load(str(tmp_path / "below"))
        return session.readStream.schema("n int").json(str(tmp_path / "in"))

    def arrives(n: int) -> None:
        (tmp_path / "below").write_text(str(n + 1))
        put(tmp_path, n, [json.dumps({"n": n})])

    arrives(0)
    with stream_test(spark, build, engine=engine, directory=tmp_path) as t:
        t.expect([(0,)])
        arrives(1)
        checkpoint, others = tmp_path / engine / "checkpoint", list[Any]()
        as_if_in_another_process(checkpoint)
        session = spark if engine == "spark" else MiniSparkSession(spark)
        start(build(session), checkpoint, lambda data, _: others.extend(data.collect())).awaitTermination()
        t.add()
        assert "Concurrent update to the log. Multiple streaming jobs detected for 1" in str(t._queries[0].error)
        t.expect_error("CONCURRENT_STREAM_LOG_UPDATE" if source == "numbers" else "STREAM_FAILED")
        assert others == [(1,)]
        arrives(2)
        t.restart()
        t.expect([(2,)])
