"""rate, rate-micro-batch and socket make the same rows, offsets and errors as in Structured Streaming."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.engine.clock import ManualClock
from minispark_stream.engine.jvm import scala
from minispark_stream.engine.sources.memory import MemoryStream
from minispark_stream.engine.sources.rate import value_at_second
from tests.connectors import kafka_connector

# -- rate-micro-batch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"rowsPerBatch": 5, "numPartitions": 2, "startTimestamp": 1000, "advanceMillisPerBatch": 50},
        {"rowsPerBatch": 2, "numPartitions": 5},
        {"rowsPerBatch": 7, "numPartitions": 3, "advanceMillisPerBatch": 0},
        {"rowsPerBatch": 1},
        {"rowsPerBatch": 20_003, "numPartitions": 2},
    ],
)
def test_rate_micro_batch_makes_the_same_rows_in_the_same_partitions(compare, options):
    def build(session):
        return session.readStream.format("rate-micro-batch").options(**options).load().withColumn("p", F.spark_partition_id())

    compared = compare(build, [[], [], []], trigger={"availableNow": True})
    first = [s["description"] for s in compared.spark.batches[0].progress["sources"]]
    assert first == [s["description"] for s in compared.model.batches[0].progress["sources"]]


def test_rate_micro_batch_drives_a_windowed_count(compare):
    def build(session):
        rows = session.readStream.format("rate-micro-batch").options(rowsPerBatch=10, advanceMillisPerBatch=3000).load()
        return rows.withWatermark("timestamp", "2 seconds").groupBy(F.window("timestamp", "5 seconds")).count()

    compare(build, [[]] * 4, trigger={"once": True})


# -- a stream that a query uses twice -------------------------------------------------------------------------------

TWICE = {
    "a union": lambda df: df.union(df),
    "a union of parts": lambda df: df.where("value % 2 = 0").union(df.where("value % 2 = 1")),
    "a union that is counted": lambda df: df.union(df).groupBy().count(),
    "a join": lambda df: df.alias("x").join(df.alias("y"), F.expr("x.value = y.value")),
    "a join by name": lambda df: df.select("value").join(df.select((F.col("value") + 1).alias("value")), "value"),
}


@pytest.mark.parametrize("name", TWICE)
def test_how_many_rows_a_stream_gives_that_is_used_twice(compare, spark, tmp_path, name):
    """A join of rate-micro-batch with itself has two sources, one of a memory stream has one."""
    mode = "complete" if "counted" in name else "append"
    compare(lambda s: TWICE[name](s.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()), [[], []], output_mode=mode,
            trigger={"once": True})

    streams = scala.jvm(spark).org.apache.spark.sql.execution.streaming.runtime.MemoryStream
    theirs = streams.apply(spark._jsparkSession, scala.jvm(spark).org.apache.spark.sql.Encoders.INT())
    theirs.addData(scala.seq(spark, [1, 2, 3]))
    ours = MemoryStream(MiniSparkSession(spark), "value int")
    ours.add_data([(1,), (2,), (3,)])
    seen: list[object] = []
    for df in (DataFrame(theirs.toDF(), spark), ours.to_df()):
        query = TWICE[name](df).writeStream.outputMode(mode).format("noop").trigger(availableNow=True)
        query = query.option("checkpointLocation", str(tmp_path / str(len(seen)))).start()
        query.awaitTermination()
        log = (tmp_path / str(len(seen)) / "offsets/0").read_text().splitlines()[2:]
        seen.append((log, query.recentProgress[0].numInputRows, [one.numInputRows for one in query.recentProgress[0].sources]))
    assert seen[1] == seen[0]


# -- rate -----------------------------------------------------------------------------------------------------------


def test_the_ramp_of_the_rate_source():
    assert [value_at_second(s, 10, 4) for s in range(7)] == [0, 2, 6, 12, 20, 30, 40]
    assert [value_at_second(s, 6, 2) for s in range(6)] == [0, 2, 6, 12, 18, 24]
    assert [value_at_second(s, 1, 3) for s in range(6)] == [0, 0, 0, 0, 1, 2]  # the step is cut off to a whole number
    assert [value_at_second(s, 3, 0) for s in range(3)] == [0, 3, 6]


@pytest.mark.parametrize(
    "options",
    [
        {"rowsPerSecond": 3},
        {"rowsPerSecond": 7, "numPartitions": 3},
        {"rowsPerSecond": 10, "rampUpTime": "4s", "numPartitions": 4},
        {"rowsPerSecond": 1, "rampUpTime": "1500ms", "numPartitions": 1},
    ],
)
def test_rate_makes_the_same_rows_for_the_same_seconds(spark, tmp_path, options):
    """Spark's clock is the wall clock: the model is given one that stands where Spark's batches ended."""
    seen: dict = {}
    theirs = _rate_batches(spark, options, tmp_path / "spark", seen, ahead_ms=(5_400, 8_000))
    ours = []
    for i, (start_ms, end) in enumerate(theirs):
        clock = ManualClock(start_ms + end * 1000 + 999)
        _seed(tmp_path / "model", start_ms)
        ours += _rate_run(MiniSparkSession(spark, clock=clock), options, tmp_path / "model", seen, i)
    assert ours == seen["offsets"]
    assert seen["model"] == seen["spark"]
    assert all(rows for _, rows in seen["spark"])


def _seed(checkpoint, start_ms):
    """As if the query had been started at `start_ms`."""
    (checkpoint / "sources/0").mkdir(parents=True, exist_ok=True)
    (checkpoint / "sources/0/0").write_text(f"v1\n{start_ms}")
    (checkpoint / "sources/0/.0.crc").unlink(missing_ok=True)


def _rate_batches(spark, options, checkpoint, seen, ahead_ms):
    import time

    batches = []
    for i, ahead in enumerate(ahead_ms):
        start_ms = int(time.time() * 1000) - ahead
        _seed(checkpoint, start_ms)
        offsets = _rate_run(spark, options, checkpoint, seen, i)
        seen.setdefault("offsets", []).extend(offsets)
        batches.append((start_ms, int(offsets[-1])))
    return batches


def _rate_run(session, options, checkpoint, seen, i):
    engine = "model" if isinstance(session, MiniSparkSession) else "spark"
    rows = seen.setdefault(engine, [])
    stream = session.readStream.format("rate").options(**options).load().withColumn("p", F.spark_partition_id())
    query = (
        stream.writeStream.foreachBatch(lambda df, batch_id: rows.append((batch_id, [tuple(r) for r in df.collect()])))
        .option("checkpointLocation", str(checkpoint)).trigger(once=True).start()
    )
    query.awaitTermination()
    source = query.lastProgress.sources[0]
    assert query.lastProgress.numInputRows == len(rows[-1][1])
    assert source.latestOffset == source.endOffset and source.description.startswith("RateStreamV2[rowsPerSecond=")
    return [source.endOffset]


def test_a_rate_query_goes_on_from_its_start_time(spark, tmp_path):
    counts = []
    for now_ms in (10_000, 12_500, 14_000):
        mini = MiniSparkSession(spark, clock=ManualClock(now_ms))
        query = (
            mini.readStream.format("rate").options(rowsPerSecond=2).load().writeStream
            .foreachBatch(lambda df, batch_id: counts.append(df.count()))
            .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )
        query.awaitTermination()
    assert counts == [0, 4, 4]
    assert (tmp_path / "sources/0/0").read_text() == "v1\n10000"


def test_a_rate_query_fails_when_the_clock_was_set_back_before_a_restart(spark, mini, tmp_path):
    def run(session, checkpoint, seconds_ago):
        start_time = checkpoint / "sources/0/0"
        start_time.parent.mkdir(parents=True, exist_ok=True)
        start_time.write_text(f"v1\n{round((time.time() - seconds_ago) * 1000)}")
        (start_time.parent / ".0.crc").unlink(missing_ok=True)
        rows = session.readStream.format("rate").load().writeStream.format("noop")
        rows.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    for engine, session in (("spark", spark), ("model", mini)):
        run(session, tmp_path / engine, seconds_ago=100)
        with pytest.raises(StreamingQueryException) as error:
            run(session, tmp_path / engine, seconds_ago=50)
        assert error.value.getCondition() == "STREAM_FAILED"
        assert len(list((tmp_path / engine).glob("commits/[0-9]*"))) == 1, engine
    assert re.search(r"assertion failed: startSeconds\(1\d\d\) > endSeconds\(\d\d\)", str(error.value))  # the model's words


@pytest.mark.parametrize(
    "content", ["abc", "v1", "v2\n5", "v1\nxx", ""], ids=["no version", "no time", "v2", "no number", "empty"]
)
def test_a_start_time_that_cannot_be_read_ends_the_query(spark, mini, tmp_path, content):
    messages = {}
    for engine, session in (("spark", spark), ("model", mini)):
        log = tmp_path / engine / "sources/0/0"
        log.parent.mkdir(parents=True)
        log.write_text(content)
        query = (
            session.readStream.format("rate").load().writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / engine)).start()
        )
        with pytest.raises(StreamingQueryException) as error:
            query.awaitTermination()
        assert error.value.getCondition() == "STREAM_FAILED"
        messages[engine] = str(error.value).replace(str(tmp_path / engine), "")
    for words in ("failed to detect the log file version line", "maximum supported log version is v1", 'For input string: "xx"'):
        assert (words in messages["spark"]) <= (words in messages["model"])
    assert "sources/0/0" in messages["model"]


def test_a_rate_too_great_to_count_ends_the_query(spark, mini):
    for session in (spark, mini):
        options = {"rowsPerSecond": str(2**62), "rampUpTime": "3s"}
        query = session.readStream.format("rate").options(**options).load().writeStream.format("noop").start()
        with pytest.raises(StreamingQueryException, match="INCORRECT_RAMP_UP_RATE.*rowsPerSecond is 1, but 'rampUpTimeSeconds' is 3"):
            query.awaitTermination()


# -- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("rate", {"rowsPerSecond": "0"}),
        ("rate", {"rowsPerSecond": "x"}),
        ("rate", {"rowsPerSecond": "99999999999999999999"}),
        ("rate", {"rampUpTime": "-1s"}),
        ("rate", {"rampUpTime": "soon"}),
        ("rate", {"numPartitions": "0"}),
        ("rate", {"numPartitions": "1.5"}),
        ("rate-micro-batch", {}),
        ("rate-micro-batch", {"rowsPerBatch": "-1"}),
        ("rate-micro-batch", {"rowsPerBatch": "1", "numPartitions": "-2"}),
        ("rate-micro-batch", {"rowsPerBatch": "1", "startTimestamp": "-1"}),
        ("rate-micro-batch", {"rowsPerBatch": "1", "advanceMillisPerBatch": "-1"}),
        ("socket", {}),
        ("socket", {"host": "localhost"}),
        ("socket", {"host": "localhost", "port": "x"}),
        ("socket", {"host": "localhost", "port": "1", "includeTimestamp": "maybe"}),
    ],
)
def test_wrong_options_are_refused_in_the_same_words(spark, mini, source, options):
    theirs, ours = (_refusal(lambda s=s: s.readStream.format(source).options(**options).load()) for s in (spark, mini))
    assert ours == theirs


@pytest.mark.parametrize(
    ("source", "options"), [("rate", {}), ("rate-micro-batch", {"rowsPerBatch": "1"}), ("socket", {"host": "h", "port": "1"})]
)
def test_these_sources_have_their_own_schema(spark, mini, source, options):
    readers = [s.readStream.format(source).options(**options) for s in (spark, mini)]
    assert readers[0].load().schema == readers[1].load().schema
    theirs, ours = (_refusal(lambda r=r: r.schema("a int").load()) for r in readers)
    assert ours == theirs


def _refusal(load):
    with pytest.raises(PySparkException) as error:
        load()
    condition = error.value.getCondition()
    return type(error.value).__name__, condition, str(error.value).removeprefix(f"[{condition}] ")


# -- socket ---------------------------------------------------------------------------------------------------------


class _Server:
    """Accepts connections; `connection()` waits for the next one."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]

    def connection(self) -> socket.socket:
        return self._socket.accept()[0]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server() -> Iterator[_Server]:
    server = _Server()
    yield server
    server.close()


@contextmanager
def _listening(session, server, rows, checkpoint, **options):
    stream = session.readStream.format("socket").options(host="127.0.0.1", port=server.port, **options).load()
    arrived = threading.Semaphore(0)

    def keep(df, batch_id):
        batch = [tuple(r) for r in df.collect()]
        rows.append((batch_id, batch))
        for _ in batch:
            arrived.release()

    query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint)).start()
    connection = server.connection()

    def send(text: bytes, lines: int) -> None:
        """Send, and wait until so many lines have come out of the query."""
        connection.sendall(text)
        for _ in range(lines):
            assert arrived.acquire(timeout=60)

    try:
        yield query, send, connection
    finally:
        query.stop()
        connection.close()


def test_socket_lines_arrive_in_batches(spark, mini, server, tmp_path):
    lines = {}
    for engine, session in (("spark", spark), ("model", mini)):
        rows: list = []
        with _listening(session, server, rows, tmp_path / engine) as (query, send, connection):
            send(b"a\nb\nc\r\nd\n", 4)
            send(b"\n\xc3\xa9\xff\n", 2)
            connection.sendall(b"last")
            connection.close()
            query.processAllAvailable()
            while rows[-1][1] != [("last",)]:
                query.processAllAvailable()
            progress = query.recentProgress
        assert rows[0] == (0, [])  # the first batch only connects
        assert progress[0].sources[0].endOffset == "-1" and progress[-1].sources[0].endOffset == "6"
        assert (progress[0].numInputRows, sum(p.numInputRows for p in progress)) == (0, 7)
        lines[engine] = sorted(row for _, batch in rows for row in batch)
    assert lines["model"] == lines["spark"]


def test_a_socket_line_may_have_the_time_of_its_arrival(spark, server, tmp_path):
    mini = MiniSparkSession(spark, clock=ManualClock(1_700_000_000_500))
    rows: list = []
    with _listening(mini, server, rows, tmp_path, includeTimestamp="TRUE", numPartitions=3) as (_, send, _connection):
        send(b"a\n", 1)
    [(value, timestamp)] = rows[-1][1]
    assert (value, timestamp.isoformat()) == ("a", "2023-11-14T22:13:20.500000")


def test_a_restarted_socket_query_cannot_go_on(spark, mini, server, tmp_path):
    """The lines are gone, and the new connection counts from -1 again."""
    for engine, session in (("spark", spark), ("model", mini)):
        rows: list = []
        with _listening(session, server, rows, tmp_path / engine) as (query, send, _):
            send(b"a\nb\n", 2)
            query.processAllAvailable()
        with _listening(session, server, rows, tmp_path / engine) as (query, _, connection):
            connection.sendall(b"c\nd\n")
            with pytest.raises(StreamingQueryException, match="Offsets committed out of order: 1 followed by -1"):
                query.awaitTermination()
        assert [row for _, batch in rows for row in batch] == [("a",), ("b",)]


def test_nobody_listens(spark, mini):
    server = _Server()
    server.close()
    for session in (spark, mini):
        stream = session.readStream.format("socket").options(host="127.0.0.1", port=server.port).load()
        query = stream.writeStream.format("noop").start()
        with pytest.raises(StreamingQueryException, match="Connection refused"):
            query.awaitTermination()


STREAMING = "org.apache.spark.sql.execution.streaming"
PYTHON_SOURCE = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream"
STREAMS = {  # the classes of Spark that read each source
    "files": [f"{STREAMING}.runtime.FileStreamSource"],
    "Kafka": ["org.apache.spark.sql.kafka010.KafkaMicroBatchStream", "org.apache.spark.sql.kafka010.KafkaContinuousStream"],
    "Python": [PYTHON_SOURCE, f"{PYTHON_SOURCE}WithTriggerAvailableNow"],
    "rate": [f"{STREAMING}.sources.RateStreamMicroBatchStream", f"{STREAMING}.continuous.RateStreamContinuousStream"],
    "rate-micro-batch": [f"{STREAMING}.sources.RatePerMicroBatchStream"],
    "socket": [f"{STREAMING}.sources.TextSocketMicroBatchStream", f"{STREAMING}.continuous.TextSocketContinuousStream"],
}
INTERFACES = {
    "Source": f"{STREAMING}.Source",
    **{name: f"org.apache.spark.sql.connector.read.streaming.{name}" for name in (
        "MicroBatchStream", "ContinuousStream", "SupportsAdmissionControl", "SupportsTriggerAvailableNow")},
}


def test_the_sources_implement_the_interfaces_that_notebook_02_draws(spark):
    """The last column of the drawing, against the classes of Spark."""
    if not kafka_connector():
        pytest.skip("no Kafka connector on the class path")
    loader = spark._jvm.Thread.currentThread().getContextClassLoader()
    loaded = {name: spark._jvm.Class.forName(name, False, loader) for name in (*INTERFACES.values(), *sum(STREAMS.values(), []))}
    of_spark = {
        interface: {source for source, classes in STREAMS.items() if any(loaded[at].isAssignableFrom(loaded[c]) for c in classes)}
        for interface, at in INTERFACES.items()
    }
    notebook = json.loads((Path(__file__).parents[2] / "notebooks" / "02_sources.ipynb").read_text(encoding="utf-8"))
    (cell,) = ("".join(cell["source"]) for cell in notebook["cells"] if "SparkDataStream  " in "".join(cell["source"]))
    [drawing] = re.findall(r"```\n(SparkDataStream.*?)```", cell, re.S)
    drawn: dict[str, set[str]] = {}
    for line in drawing.splitlines()[1:]:
        if name := re.search(r"[A-Z]\w+", line[:34]):
            drawn[name.group()] = set()
            interface = name.group()
        drawn[interface] |= set(re.findall(r"[\w-]+", line[70:]))
    assert drawn == of_spark
