"""The workloads of `make bench`: for each one its files, and the query over them, which both engines run.

    write      one Parquet file of a source for each trigger (the Yahoo-like one has two, for two cores)
    query      from a reader, `session.readStream` or `session.read`, to a DataFrame: the second is the plain batch job,
               the floor under both engines. Where a batch job has no such operator, `plain` is what comes nearest.

The data are pseudo-random and the same every time. Event times go on from trigger to trigger, so that windows close and state
is removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pandas import DataFrame as PandasFrame
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState

START = np.datetime64("2024-01-01T00:00:00", "us")
Columns = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes:
        rows: of each source in a trigger.
        triggers: of a run; the first `warm_up` of them are not counted.
        files: of each source in a trigger.
        make: (number of the trigger, rows, random numbers) -> the columns of each source by its name.
        query: of the source's DataFrames by their names.
        goal: the model's milliseconds per trigger are to be at most this share of Spark's.
        distance: and at most this many times those of the plain batch job, if there is such a goal.
        plain: the batch job of the floor, when it is not `query` itself.
        confs: of the session, while this workload runs.
    """

    name: str
    says: str
    rows: int
    make: Callable[[int, int, np.random.Generator], dict[str, Columns]]
    query: Callable[[dict[str, DataFrame]], DataFrame]
    goal: float
    mode: str = "update"
    triggers: int = 12
    warm_up: int = 4
    files: int = 1
    distance: float | None = None
    plain: Callable[[dict[str, DataFrame]], DataFrame] | None = None
    confs: Mapping[str, str] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        rng = np.random.default_rng(7)
        for n in range(self.triggers):
            for source, columns in self.make(n, self.rows, rng).items():
                (directory / source).mkdir(parents=True, exist_ok=True)
                table = pa.table(columns)
                size = -(-table.num_rows // self.files)
                for part in range(self.files):
                    pq.write_table(table.slice(part * size, size), directory / source / f"{n:05}-{part}.parquet")

    def read(self, session: Any, directory: Path, streaming: bool) -> dict[str, DataFrame]:
        """The sources, as streams of `files` files a trigger, or as what the last trigger of such a stream reads."""
        found = {}
        for path in sorted(directory.iterdir()):
            files = [str(file) for file in sorted(path.glob("*.parquet"))[-self.files :]]
            schema = session.read.parquet(files[0]).schema
            reader = session.readStream.option("maxFilesPerTrigger", self.files) if streaming else session.read
            found[path.name] = reader.schema(schema).format("parquet").load(str(path) if streaming else files)
        return found

    def start(self, session: Any, data: Path, checkpoint: Path, **trigger: Any) -> Any:
        """The query over the streams in `data`, with `trigger(**trigger)` and a noop sink."""
        write = self.query(self.read(session, data, streaming=True)).writeStream.outputMode(self.mode).format("noop")
        return write.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


def spark_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """On two cores, with two partitions of state, and otherwise as users get it but for the confs in `settings`."""
    confs: dict[str, Any] = {
        "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC", "spark.driver.memory": "4g",
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", **(settings or {}),
    }
    spark = SparkSession.builder.master("local[2]").config(map=confs).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def reports_with_data(query: Any) -> list[dict[str, Any]]:
    """What a query reported of the triggers that had data. The watermark's last batch has none: another kind of batch."""
    return [one for one in (json.loads(progress.json) for progress in query.recentProgress) if one["numInputRows"]]


def times(seconds: Any) -> pa.Array:
    return pa.array(START + np.asarray(seconds * 1e6, "timedelta64[us]"), pa.timestamp("us", "UTC"))


def events(n: int, rows: int, rng: np.random.Generator, keys: int, minutes: int = 1) -> dict[str, Columns]:
    """Events of `minutes` minutes in any order: a key, a value, a time."""
    seconds = (n + rng.random(rows)) * minutes * 60
    return {"events": {"key": rng.integers(0, keys, rows), "value": rng.integers(0, 1000, rows), "time": times(seconds)}}


def named_events(n: int, rows: int, rng: np.random.Generator, keys: int) -> dict[str, Columns]:
    """The same with names of 1 to 40 characters as keys, as users have."""
    columns = events(n, rows, rng, keys)["events"]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    return {"events": columns | {"key": pa.array([f"{key}{letters[: key % 35]}" for key in columns["key"].tolist()])}}


def stateless(of: dict[str, DataFrame]) -> DataFrame:
    return of["events"].where("value >= 0").select("key", (F.col("value") * 2).alias("twice"), "time")


def windowed_count(of: dict[str, DataFrame]) -> DataFrame:
    return of["events"].withWatermark("time", "10 minutes").groupBy(F.window("time", "5 minutes"), "key").count()


def running_count(_: Any, frames: Iterator[PandasFrame], state: GroupState) -> Iterator[PandasFrame]:
    count = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((count,))
    yield PandasFrame({"key": [_[0]], "count": [count]})


def pandas_with_state(of: dict[str, DataFrame]) -> DataFrame:
    return of["events"].groupBy("key").applyInPandasWithState(running_count, "key long, count long", "count long", "update", "NoTimeout")


def pandas_without_state(of: dict[str, DataFrame]) -> DataFrame:
    return of["events"].groupBy("key").applyInPandas(lambda frame: frame[["key"]].head(1).assign(count=len(frame)), "key long, count long")


CAMPAIGNS, ADS = 100, 1000


def ad_events(n: int, rows: int, rng: np.random.Generator) -> dict[str, Columns]:
    kinds = pa.DictionaryArray.from_arrays(rng.integers(0, 3, rows).astype("int8"), ["view", "click", "purchase"])
    seconds = (n + np.arange(rows) / rows) * 20
    return {"events": {"ad": rng.integers(0, ADS, rows), "kind": kinds.cast(pa.string()), "time": times(seconds)}}


def by_campaign(of: dict[str, DataFrame]) -> DataFrame:
    events = of["events"]
    campaigns = events.sparkSession.range(ADS).selectExpr("id AS ad", f"id % {CAMPAIGNS} AS campaign")
    views = events.where("kind = 'view'").select("ad", "time").join(F.broadcast(campaigns), "ad")
    return views.withWatermark("time", "10 seconds").groupBy("campaign", F.window("time", "10 seconds")).count()


def count_and_sum(of: dict[str, DataFrame]) -> DataFrame:
    return of["events"].groupBy("key").agg(F.count("*").alias("count"), F.sum("value").alias("sum"))


def without_duplicates(of: dict[str, DataFrame]) -> DataFrame:
    return of["events"].withWatermark("time", "2 minutes").dropDuplicatesWithinWatermark(["key"])


def session_windows(of: dict[str, DataFrame], delay: str = "1 minute", gap: str = "10 seconds") -> DataFrame:
    return of["events"].withWatermark("time", delay).groupBy(F.session_window("time", gap), "key").count()


def clicks_and_impressions(n: int, rows: int, rng: np.random.Generator, minutes: int = 10) -> dict[str, Columns]:
    """Half of the clicks belong to an impression of the same trigger, a quarter to one of the trigger before, the rest to none."""
    ids = n * rows + rng.permutation(rows)
    clicked = [rng.permutation(ids)[: rows // 2], rng.permutation(ids)[: rows // 4] - rows]
    nobody = -1 - n * rows - np.arange(rows - rows // 2 - rows // 4) - rows
    texts = pa.array([f"text {i % 1000}" for i in range(rows)])
    found = {}
    for source, keys in (("impressions", ids), ("clicks", np.concatenate([*clicked, nobody]))):
        seconds = (n + rng.random(rows)) * minutes * 60
        found[source] = {"id": keys, "time": times(seconds), "text": texts}
    return found


def outer_join(of: dict[str, DataFrame], delay: str = "10 minutes", reach: str = "10 minutes") -> DataFrame:
    def side(name: str, prefix: str) -> DataFrame:
        renamed = of[name].select(*(F.col(column).alias(prefix + column) for column in ("id", "time", "text")))
        return renamed.withWatermark(f"{prefix}time", delay)

    condition = f"iid = cid AND ctime >= itime AND ctime <= itime + interval {reach}"
    return side("impressions", "i").join(side("clicks", "c"), F.expr(condition), "leftOuter")


WORKLOADS = (
    Workload("stateless", "3 rows: a filter and a projection", 3, lambda n, rows, rng: events(n, rows, rng, 10), stateless, 0.35,
             distance=1.6, mode="append", triggers=16),
    Workload("files", "5,000 rows in 500 files: a filter and a projection", 5000, lambda n, rows, rng: events(n, rows, rng, 10), stateless, 0.2,
             mode="append", triggers=6, warm_up=2, files=500),
    Workload("windows", "1,000 rows: counts by a window of five minutes and a key", 1000,
             lambda n, rows, rng: events(n, rows, rng, 10, minutes=2), windowed_count, 0.45, triggers=16),
    Workload("windows-200", "1,000 rows: the same in 200 partitions, Spark's default", 1000,
             lambda n, rows, rng: events(n, rows, rng, 10, minutes=2), windowed_count, 0.5, triggers=5, warm_up=2,
             confs={"spark.sql.shuffle.partitions": "200"}),
    Workload("pandas", "33,000 rows, 5,000 keys: applyInPandasWithState", 33_000,
             lambda n, rows, rng: events(n, rows, rng, 5000), pandas_with_state, 0.3, triggers=4, warm_up=1, plain=pandas_without_state),
    Workload("campaigns", "4 million rows: a filter, a join with a table, counts by ten seconds and campaign", 4_000_000,
             ad_events, by_campaign, 0.75, distance=1.15, triggers=6, warm_up=2, files=2),
    Workload("keys", "500,000 rows, 1 million keys: count and sum", 500_000,
             lambda n, rows, rng: events(n, rows, rng, 1_000_000), count_and_sum, 0.5, distance=1.6, triggers=8),
    Workload("duplicates", "500,000 rows, 1 million keys: dropDuplicatesWithinWatermark", 500_000,
             lambda n, rows, rng: events(n, rows, rng, 1_000_000), without_duplicates, 0.5, mode="append", triggers=8,
             plain=lambda of: of["events"].dropDuplicates(["key"])),
    Workload("names", "500,000 rows, 1 million names: count and sum", 500_000,
             lambda n, rows, rng: named_events(n, rows, rng, 1_000_000), count_and_sum, 0.6, triggers=8),
    Workload("sessions", "200,000 rows, 50,000 keys: counts of sessions", 200_000,
             lambda n, rows, rng: events(n, rows, rng, 50_000), session_windows, 0.6, distance=1.7, mode="append", triggers=8),
    Workload("names-sessions", "200,000 rows, 50,000 names: counts of sessions", 200_000,
             lambda n, rows, rng: named_events(n, rows, rng, 50_000), session_windows, 0.7, mode="append", triggers=8),
    Workload("join-20k", "2 x 20,000 rows: a left outer join with a time range", 20_000, clicks_and_impressions, outer_join, 0.5,
             mode="append", triggers=8),
    Workload("join-200k", "2 x 200,000 rows: the same join", 200_000, clicks_and_impressions, outer_join, 0.6, distance=4,
             mode="append", triggers=5, warm_up=2),
)
# what the settings with a shape have beside those above: sessions that end soon, a join that reaches back 90 seconds
SHORT_SESSIONS = partial(session_windows, delay="30 seconds", gap="20 seconds")
SHORT_JOIN = partial(outer_join, delay="30 seconds", reach="90 seconds")
MORE_WORKLOADS = (
    Workload("short-sessions", "200,000 rows a minute, 50,000 keys: counts of sessions, a gap of 20 s, a delay of 30 s", 200_000,
             lambda n, rows, rng: events(n, rows, rng, 50_000), SHORT_SESSIONS, 0.6, mode="append"),
    Workload("short-join-20k", "2 x 20,000 rows a minute: a left outer join with a range of 90 s", 20_000,
             partial(clicks_and_impressions, minutes=1), SHORT_JOIN, 0.5, mode="append"),
    Workload("short-join-200k", "2 x 200,000 rows a minute: the same join", 200_000,
             partial(clicks_and_impressions, minutes=1), SHORT_JOIN, 0.6, mode="append"),
)
