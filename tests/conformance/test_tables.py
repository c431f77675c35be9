"""Tables of the catalog as streams, by their names in SQL and in the API; on both engines, batch by batch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from minispark_stream.streaming_query import StreamingQuery
from minispark_stream.tools.compare.prepared import confs_set

Build = Callable[[Any], Any]


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[dict[str, str]]:
    """A table of times in two files, one of names with a partition column, and a view of Spark's that reads the first."""
    names = {name: f"{name}_{uuid.uuid4().hex}" for name in ("times", "names", "view")}
    spark.sql(f"create table {names['times']} (k int, t timestamp) using parquet")
    spark.sql(f"create table {names['names']} (k int, name char(3), day date) using json partitioned by (day)")
    for k, time in ((1, "12:00:00"), (2, "13:00:00")):
        spark.sql(f"insert into {names['times']} values ({k}, timestamp'2024-01-01 {time}')")
    spark.sql(f"insert into {names['names']} values (1, 'a', date'2024-01-01'), (2, 'b', date'2024-01-02')")
    spark.sql(f"create or replace temporary view {names['view']} as select k + 1 as next from stream {names['times']}")
    yield names
    spark.catalog.dropTempView(names["view"])
    for table in ("times", "names"):
        spark.sql(f"drop table {names[table]}")


def run(session: Any, folder: Path, stream: Any) -> tuple[list[Any], list[Any], str | None]:
    """The rows of each batch, how many each source has read, and how the query ended."""
    rows: list[Any] = []
    writer = stream.writeStream.foreachBatch(lambda batch, i: rows.append((i, sorted(map(str, batch.collect())))))
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    assert isinstance(query, StreamingQuery) is isinstance(session, MiniSparkSession), "the engine of the session runs it"
    error = None
    try:
        query.awaitTermination()
    except StreamingQueryException as e:
        error = str(e).split("exception: ")[1].split(".")[0]
    return rows, [[s.numInputRows for s in p.sources] for p in query.recentProgress], error


WINDOWS = (
    "select window.start, count(*) as n from stream {times} with (maxFilesPerTrigger = 1) watermark t delay of interval 1 minute "
    "group by window(t, '5 minutes')"
)
STREAMS: dict[str, Build] = {
    "a table": lambda sql: sql("select k + 1 as next from stream {times}"),
    "in brackets, with an option": lambda sql: sql("select x.k from stream({times}) with (maxFilesPerTrigger = 1) x where x.k > 0"),
    "with a watermark": lambda sql: sql(WINDOWS),
    "_metadata": lambda sql: sql("select k, _metadata.file_size > 0 as is_file from stream {times}"),
    "a table beside it": lambda sql: sql("select * from stream {times} join {names} using (k)"),
    "a stream beside it": lambda sql: sql("select * from stream {times} join stream {names} using (k)"),
    "with itself": lambda sql: sql("select a.k from stream {times} a join stream {times} b on a.k = b.k"),
    "a view": lambda sql: sql("select next from {view} union all select next from {view}"),
    "partitions and text of a fixed length": lambda sql: sql("select *, length(name) as n from stream {names}"),
    "a recursion": lambda sql: sql("with recursive r(n) as (select k from stream {times} union all select n + 1 from r where n < 3) from r"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_table_is_a_stream_in_sql(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, tables: dict[str, str], name: str) -> None:
    found = []
    with confs_set(spark, {"spark.sql.streaming.pollingDelay": "300ms"}):
        for engine, session in (("spark", spark), ("model", mini)):
            stream = STREAMS[name](lambda text, session=session: session.sql(text.format(**tables)))
            found.append(run(session, tmp_path / engine, stream))
    assert found[1] == found[0] and (found[0][0] or found[0][2])


def test_a_view_of_a_table_as_a_stream_has_its_name(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, tables: dict[str, str]) -> None:
    read: list[Build] = [lambda s: s.table(tables["view"]), lambda s: s.readStream.table(tables["view"])]
    for i, build in enumerate(read):
        expected, found = (run(s, tmp_path / f"{i}{engine}", build(s)) for engine, s in enumerate((spark, mini)))
        assert found == expected and found[0][0][1] == ["Row(next=2)", "Row(next=3)"]


def test_a_source_has_its_name_in_sql(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, tables: dict[str, str]) -> None:
    text = f"select k from stream {tables['times']} identified by clicks"
    with confs_set(spark, {"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}):
        for engine, session in (("spark", spark), ("model", mini)):
            run(session, tmp_path / engine, session.sql(text))
            assert [path.name for path in (tmp_path / engine / "sources").iterdir()] == ["clicks"], engine
            assert 'clicks:{"logOffset":0}' in (tmp_path / engine / "offsets/0").read_text(), engine
