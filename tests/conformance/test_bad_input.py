"""Bad input: the same class of exception, the same condition, at the same moment, and nothing overwritten."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.inputs import random_rows

Engines = list[tuple[str, Any]]


@pytest.fixture
def engines(spark: Any, caplog: pytest.LogCaptureFixture) -> Engines:
    caplog.set_level(logging.CRITICAL, "minispark_stream")  # the queries fail on purpose
    return [("spark", spark), ("model", MiniSparkSession(spark))]


def raised(action: Callable[[], object]) -> tuple[str, str | None, str | None]:
    """The class and the condition of what an action raises, and the condition of its cause."""
    with pytest.raises(Exception) as e:  # noqa: B017 - both engines are asked, and must answer alike
        action()
    condition, of_cause = (getattr(one, "getCondition", lambda: None)() for one in (e.value, getattr(e.value, "_cause", None)))
    return type(e.value).__name__, condition, of_cause


READS: dict[str, Callable[[Any, str], Any]] = {
    "no path": lambda s, d: s.readStream.schema("a int").format("json").load(),
    "a path that is None": lambda s, d: s.readStream.schema("a int").json(None),
    "a list of paths": lambda s, d: s.readStream.schema("a int").load([d]),
    "a missing path": lambda s, d: s.readStream.schema("a int").json(f"{d}/nope"),
    "no schema": lambda s, d: s.readStream.json(d),
    "no schema for csv": lambda s, d: s.readStream.csv(d),
    "an unknown format": lambda s, d: s.readStream.schema("a int").format("nope").load(d),
    "a format that cannot stream": lambda s, d: s.readStream.format("jdbc").load(),
    "a schema that is no schema": lambda s, d: s.readStream.schema("a intt").json(d),
    "a schema of char": lambda s, d: s.readStream.schema("a char(3)").json(d),
    "a schema of another type": lambda s, d: s.readStream.schema(17).json(d),
    "an unknown table": lambda s, d: s.readStream.table("nope"),
    "an unknown column": lambda s, d: s.readStream.schema("a int").json(d).select("b"),
    "collect": lambda s, d: s.readStream.schema("a int").json(d).collect(),
    "show": lambda s, d: s.readStream.schema("a int").json(d).show(),
    "count": lambda s, d: s.readStream.schema("a int").json(d).count(),
    "write": lambda s, d: s.readStream.schema("a int").json(d).write.parquet(f"{d}/out"),
    "a watermark on an unknown column": lambda s, d: s.readStream.schema("a int").json(d).withWatermark("ts", "1 minute"),
    "a watermark on a number": lambda s, d: s.readStream.schema("a int").json(d).withWatermark("a", "1 minute"),
    "a watermark on a timestamp without time zone": lambda s, d: s.readStream.schema("a timestamp_ntz").json(d).withWatermark("a", "1 minute"),
    "a watermark delay that is no interval": lambda s, d: s.readStream.schema("a timestamp").json(d).withWatermark("a", "soon"),
    "a format that is no text": lambda s, d: s.readStream.schema("a int").format(3).load(d),
    "an option whose name is no text": lambda s, d: s.readStream.option(3, "x"),
    "an option without a name": lambda s, d: s.readStream.option(None, "x"),
    "a path that is no text": lambda s, d: s.readStream.schema("a int").load(3),
    "a table that is no text": lambda s, d: s.readStream.table(3),
    "a negative watermark delay": lambda s, d: s.readStream.schema("a timestamp").json(d).withWatermark("a", "-1 minute"),
}


@pytest.mark.parametrize("name", READS)
def test_what_fails_before_a_query_is_written(engines: Engines, tmp_path: Path, name: str) -> None:
    spark, model = (raised(lambda: READS[name](session, str(tmp_path))) for _, session in engines)  # noqa: B023
    assert model == spark


WRITES: dict[str, Callable[[Any], Any]] = {
    "an unknown output mode": lambda w: w.outputMode("upsert"),
    "an empty output mode": lambda w: w.outputMode(""),
    "complete without aggregation": lambda w: w.outputMode("complete").format("noop").start(),
    "an unknown sink": lambda w: w.format("nope").start(),
    "memory without a name": lambda w: w.format("memory").start(),
    "an empty name": lambda w: w.queryName(""),
    "no checkpoint for a file sink": lambda w: w.format("parquet").start("/tmp/never-written"),
    "a format that is no text": lambda w: w.format(b"x"),
    "a format that is None": lambda w: w.format(None).start(),
    "another format that is no text": lambda w: w.start(format=["noop"]),
    "an output mode that is no text": lambda w: w.outputMode(3),
    "a name that is no text": lambda w: w.queryName(3),
    "an option without a name": lambda w: w.option(None, "x"),
    "an interval that is no text": lambda w: w.trigger(processingTime=3),
    "a table that is no text": lambda w: w.toTable(3),
    "a table that is None": lambda w: w.toTable(None),
    "a partition column that is no text": lambda w: w.partitionBy(3).format("parquet").start("/tmp/never-written"),
    "foreach of no function": lambda w: w.foreach(17),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_fails_when_a_query_is_started(engines: Engines, tmp_path: Path, name: str) -> None:
    def start(session: Any) -> object:
        return WRITES[name](session.readStream.schema("a int").json(str(tmp_path)).writeStream)

    spark, model = (raised(lambda: start(session)) for _, session in engines)  # noqa: B023
    assert model == spark


OPTIONS = [
    ("maxFilesPerTrigger", "0"), ("maxFilesPerTrigger", "x"), ("maxFilesPerTrigger", " 5 "), ("maxBytesPerTrigger", "1_000"),
    ("maxCachedFiles", str(2**31)), ("maxBytesPerTrigger", "-1"), ("maxFileAge", "abc"), ("latestFirst", "maybe"),
    ("cleanSource", "foo"), ("cleanSource", "archive"), ("maxCachedFiles", "-1"), ("discardCachedInputRatio", "2"), ("fileNameOnly", "x"),
    ("modifiedBefore", "2020-01-01T00:00:00"), ("mode", "NOPE"),
]


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_a_bad_option_ends_the_query_in_sparks_words(engines: Engines, tmp_path: Path, option: tuple[str, str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"a":1}\n')
    messages = []
    for _, session in engines:
        df = session.readStream.schema("a int").option(*option).json(str(tmp_path / "in"))
        query = df.writeStream.format("noop").trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            messages.append("")
        except StreamingQueryException as e:
            messages.append(str(e).split("terminated with exception: ")[1].split(" SQLSTATE")[0].split("\n")[0])
    assert messages[0] == messages[1]


def start_and_wait(session: Any, folder: Path, checkpoint: Path | str) -> None:
    df = session.readStream.schema("k string").option("maxFilesPerTrigger", 1).json(str(folder)).groupBy("k").count()
    query = df.writeStream.outputMode("update").format("noop").option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


def test_an_archive_that_is_the_root(engines: Engines, tmp_path: Path) -> None:
    def start(session: Any) -> None:
        rows = session.readStream.schema("a int").option("cleanSource", "archive").option("sourceArchiveDir", "/").json(str(tmp_path))
        rows.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()

    spark, model = (raised(lambda: start(session)) for _, session in engines)  # noqa: B023
    assert model == spark == ("StreamingQueryException", "STREAM_FAILED", None)


def test_no_progress_can_be_kept(engines: Engines, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text('{"k": "a"}')
    found = []
    for engine, session in engines:
        writer = session.readStream.schema("k string").json(str(tmp_path / "in")).writeStream.format("noop").trigger(availableNow=True)
        with confs_set(session, {"spark.sql.streaming.numRecentProgressUpdates": "0"}), pytest.raises(StreamingQueryException) as e:
            writer.option("checkpointLocation", str(tmp_path / engine)).start().awaitTermination()
        found.append((str(e.value).split("terminated with exception: ")[1].split("\n")[0], (tmp_path / engine / "commits/0").exists()))
    assert found[0] == found[1] == ("empty collection SQLSTATE: XXKST", True)


IDS = ["", "abc", "1-1-1-1-1", "A-b-c-d-000001", "1-2-3-4", "0" * 32, "{12345678-1234-5678-1234-567812345678}"]


@pytest.mark.parametrize("text", IDS, ids=str)
def test_a_query_is_looked_for_by_what_may_be_no_id(engines: Engines, text: str) -> None:
    answers = []
    for _, session in engines:
        try:
            answers.append(str(session.streams.get(text)))
        except IllegalArgumentException as e:
            answers.append(e._desc if isinstance(e, CapturedException) else str(e))
    assert answers[0] == answers[1]


ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "a query whose id is no text": lambda s, q: s.streams.get(3),
    "an explanation of None": lambda s, q: q.explain(None),
    "an explanation of a text": lambda s, q: q.explain("extended"),
    "a listener that is none": lambda s, q: s.streams.addListener(object),
}


def test_what_a_query_and_its_manager_are_asked_for_with_arguments_of_a_wrong_type(engines: Engines, tmp_path: Path) -> None:
    def answers(session: Any) -> list[Any]:
        query = session.readStream.schema("a int").json(str(tmp_path)).writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        return [raised(lambda: ask(session, query)) for ask in ASKED.values()]  # noqa: B023

    spark, model = (answers(session) for _, session in engines)
    assert model == spark


CAUSES: dict[str, Callable[[Any], Any]] = {
    "an archive within the source": lambda r: r.option("cleanSource", "archive").option("sourceArchiveDir", "/tmp"),
    "an unknown option for what to clean": lambda r: r.option("cleanSource", "foo"),
    "no number": lambda r: r.option("maxFilesPerTrigger", "x"),
    "malformed rows": lambda r: r.option("mode", "FAILFAST"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_of_a_failure_has_its_class_and_condition(engines: Engines, tmp_path: Path, name: str) -> None:
    (tmp_path / "0.json").write_text("{")
    causes = []
    for _, session in engines:
        rows = CAUSES[name](session.readStream.schema("a int")).json(str(tmp_path))
        query = rows.writeStream.format("noop").trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException) as e:
            query.awaitTermination()
        both: list[Any] = [e.value, query.exception()]
        causes.append([(type(one._cause).__name__, one._cause.getCondition(), one._cause.getSqlState()) for one in both])
    assert causes[0] == causes[1]


def test_the_cause_of_a_failure_has_its_sql_state_if_it_was_raised_in_python(engines: Engines, tmp_path: Path) -> None:
    """A query gets an operator with state, which has no state in the checkpoint."""
    states = []
    for engine, session in engines:
        (tmp_path / engine).mkdir()
        for rows, i in ((lambda df: df, 0), (lambda df: df.distinct(), 1)):
            (tmp_path / engine / f"{i}.json").write_text(f'{{"a": {i}}}')
            writer = rows(session.readStream.schema("a int").json(str(tmp_path / engine))).writeStream.format("noop")
            query = writer.option("checkpointLocation", str(tmp_path / f"{engine}-ck")).trigger(availableNow=True).start()
            try:
                query.awaitTermination()
            except StreamingQueryException as e:
                states.append((e._cause.getCondition(), e._cause.getSqlState()))  # type: ignore[attr-defined]
    assert states == [("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", "42K03")] * 2


@pytest.mark.parametrize(("provider", "changed"), [("HDFSBacked", "key"), ("HDFSBacked", "value"), ("RocksDB", "value")])
def test_state_that_is_of_other_types_than_the_query(engines: Engines, tmp_path: Path, provider: str, changed: str) -> None:
    """The check of the schema, which would notice it, is switched off."""
    def start(session: Any, folder: Path, types: tuple[str, str]) -> None:
        (folder / f"in/{'-'.join(types)}.json").write_text('{"a": 1, "b": "x"}')
        rows = session.readStream.schema("a int, b string").json(f"{folder}/in")
        key, value = ("a" if one == "int" else "b" for one in types)
        query = rows.groupBy(F.col(key).alias("k")).agg(F.max(value).alias("m")).writeStream.outputMode("update").format("noop")
        query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()

    conditions = []
    for engine, session in engines:
        (tmp_path / engine / "in").mkdir(parents=True)
        store = "spark.sql.streaming.stateStore"
        confs = {f"{store}.providerClass": f"org.apache.spark.sql.execution.streaming.state.{provider}StateStoreProvider"}
        with confs_set(session, {**confs, f"{store}.stateSchemaCheck": "false"}):
            start(session, tmp_path / engine, ("string", "string"))
            with pytest.raises(StreamingQueryException) as e:
                start(session, tmp_path / engine, ("int", "string") if changed == "key" else ("string", "int"))
        conditions.append(str(e.value).split("terminated with exception: ")[1].split("]")[0])
    assert conditions[0] == conditions[1]
    assert conditions[0].endswith(f"{changed.upper()}_ROW_FORMAT_VALIDATION_FAILURE")


@pytest.mark.parametrize("place", ["file://host/ck", "a:b", ""])
def test_what_is_no_place_for_a_checkpoint(engines: Engines, tmp_path: Path, place: str) -> None:
    (tmp_path / "in").mkdir()
    spark, model = (raised(lambda: start_and_wait(session, tmp_path / "in", place)) for _, session in engines)  # noqa: B023
    assert model == spark == ("IllegalArgumentException", None, None)


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "offsets": lambda d: (d / "checkpoint/offsets").touch(),
    "commits": lambda d: (d / "checkpoint/commits").touch(),
    "state": lambda d: (d / "checkpoint/state").touch(),
    "an id that is none": lambda d: (d / "checkpoint/metadata").write_text('{"id":"abc"}'),
    "the log of the file sink": lambda d: (d / "out/_spark_metadata").touch(),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_a_file_where_none_should_be(engines: Engines, tmp_path: Path, name: str) -> None:
    outcomes = []
    for engine, session in engines:
        for folder in ("in", "checkpoint", "out"):
            (tmp_path / engine / folder).mkdir(parents=True)
        (tmp_path / engine / "in/0.json").write_text('{"k": "a"}')
        IN_THE_WAY[name](tmp_path / engine)
        if name == "the log of the file sink":
            written = session.readStream.schema("k string").json(str(tmp_path / engine / "in")).writeStream
            options = {"path": str(tmp_path / engine / "out"), "checkpointLocation": str(tmp_path / engine / "checkpoint")}
            query = written.options(**options).trigger(availableNow=True).start()
            outcomes.append(raised(query.awaitTermination))
        else:
            outcomes.append(raised(lambda: start_and_wait(session, tmp_path / engine / "in", tmp_path / engine / "checkpoint")))  # noqa: B023
    assert outcomes[0] == outcomes[1]


GARBAGE = ["", "garbage", "v9\n{}", "v1", "v1\n{bad", "\x00\xff"]
VALID = [("commits/2", "v1"), ("sources/0/2", "v1")]  # nothing to say about the next batch; no files
LOGS = ("offsets/2", "commits/2", "sources/0/2", "metadata")
DAMAGED = [(name, text) for name in LOGS for text in GARBAGE if (name, text) not in VALID]


@pytest.mark.parametrize(("name", "text"), DAMAGED, ids=lambda x: repr(x))
def test_garbage_in_a_log_file_stops_the_query_and_changes_nothing(
    engines: Engines, tmp_path: Path, name: str, text: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.json").write_text("\n".join(random_rows(i, 3)))
    for engine, session in engines:
        checkpoint = tmp_path / engine
        start_and_wait(session, folder, checkpoint)
        (checkpoint / name).write_text(text, encoding="latin-1")
        before = {p: p.read_bytes() for p in checkpoint.rglob("*") if p.is_file()}
        with pytest.raises(Exception) as e:  # noqa: B017
            start_and_wait(session, folder, checkpoint)
        if engine == "model":
            assert {p: p.read_bytes() for p in checkpoint.rglob("*") if p.is_file()} == before
            assert f"{checkpoint}/{name}" in str(e.value), "the message names the file"
            assert ("Restore" in str(e.value)) or ("upgrade" in str(e.value)), "and says what to do"
            if name != "metadata":  # Spark's start() lets a JSON parser's error through there
                assert isinstance(e.value, StreamingQueryException)
        elif name != "metadata":
            assert e.type.__name__ == "StreamingQueryException"


GONE: dict[str, tuple[str, ...]] = {
    "the offset before the last": ("offsets/1",),
    "the newest source log entry": ("sources/0/2",),
    "an older source log entry": ("sources/0/1",),
    "the identity": ("metadata",),
    "a delta": ("state/0/0/3.delta", "state/0/1/3.delta"),
}


@pytest.mark.parametrize("name", GONE)
def test_a_missing_file_stops_the_query_with_sparks_words(engines: Engines, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.json").write_text("\n".join(random_rows(i, 3)))
    outcomes = []
    for engine, session in engines:
        checkpoint = tmp_path / engine
        start_and_wait(session, folder, checkpoint)
        for gone in GONE[name]:
            (checkpoint / gone).unlink()
            (checkpoint / gone).with_name(f".{Path(gone).name}.crc").unlink(missing_ok=True)
        (folder / "9.json").write_text("\n".join(random_rows(9, 3)))
        outcomes.append(raised(lambda: start_and_wait(session, folder, checkpoint)))  # noqa: B023
        (folder / "9.json").unlink()
    assert outcomes[0] == outcomes[1]
