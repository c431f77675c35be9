"""Sources and sinks written in Python by PySpark's own API do the same on both engines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.accumulators import _accumulatorRegistry
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from minispark_stream import MiniSparkSession


class Numbers(InputPartition):
    def __init__(self, first: int, last: int):
        self.first, self.last = first, last


class Counter(DataSourceStreamReader):
    """Two numbers more at each look, up to six; one partition for each number."""

    def __init__(self) -> None:
        self.newest = 0

    def initialOffset(self) -> dict:
        return {"n": 0}

    def latestOffset(self) -> dict:  # type: ignore[override]
        self.newest = min(self.newest + 2, 6)
        return {"n": self.newest}

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        return [Numbers(i, i + 1) for i in range(start["n"], end["n"])]

    def read(self, partition: Any) -> Iterator[Any]:
        for i in range(partition.first, partition.last):
            yield (i, f"number {i}") if i % 2 else Row(s=f"number {i}", i=i)


class Limited(Counter, SupportsTriggerAvailableNow):
    """All of ten numbers are there; three rows for each batch."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(3)

    def prepareForTriggerAvailableNow(self) -> None:
        self.newest = 10

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:  # type: ignore[override]
        most = 10 if isinstance(limit, ReadAllAvailable) else limit.max_rows  # type: ignore[attr-defined]
        return {"n": min(start["n"] + most, 10)}

    def reportLatestOffset(self) -> dict:
        return {"n": 10}


class Simple(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict:
        return {"at": 0}

    def read(self, start: dict) -> tuple[Iterator[Any], dict]:
        end = min(start["at"] + 2, 5)
        return self.readBetweenOffsets(start, {"at": end}), {"at": end}

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[Any]:
        return iter([(i, "x") for i in range(start["at"], end["at"])])


class Noting(Counter):
    """Writes down which numbers it was asked for."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        Path(self.folder, f"asked-{start['n']}-{end['n']}").touch()
        return super().partitions(start, end)


def no_news(self: Limited, *arguments: Any) -> Any:
    raise ValueError("no news")


def broken(method: str) -> type[Limited]:
    """A reader of which one method fails."""
    return type(f"Broken{method}", (Limited,), {method: no_news})


class Listing(Counter):
    """Returns what is no iterator."""

    def read(self, partition: Any) -> Any:
        return list(super().read(partition))


class Bare(Counter):
    """Its partitions are no partitions."""

    def partitions(self, start: dict, end: dict) -> Any:
        return [1]


class Nowhere(Counter):
    """Its newest offset is null, which is JSON, too."""

    def latestOffset(self) -> Any:  # type: ignore[override]
        return None


class Planless(Counter):
    def partitions(self, start: dict, end: dict) -> Any:
        return None


class Paired(Counter):
    """Its offsets are tuples, which JSON makes lists of before `partitions` gets them."""

    def initialOffset(self) -> Any:
        return (0, "n")

    def latestOffset(self) -> Any:  # type: ignore[override]
        return (super().latestOffset()["n"], "n")

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        assert isinstance(start, list) and isinstance(end, list)
        return super().partitions({"n": start[0]}, {"n": end[0]})


READERS = {
    "counter": Counter, "limited": Limited, "simple": Simple, "paired": Paired,
    "listing": Listing, "bare": Bare, "nowhere": Nowhere, "planless": Planless,
}


@dataclass
class Written(WriterCommitMessage):
    numbers: list[int]


class Writer(DataSourceStreamWriter):
    """Commits the numbers of a batch into a file that the batch id names."""

    def __init__(self, folder: str):
        self.folder = folder

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        numbers = [row.i for row in iterator]
        if 99 in numbers:
            raise ValueError("99 is too much")
        return Written(numbers)

    def commit(self, messages: list[Any], batchId: int) -> None:
        if any({77, 78}.intersection(m.numbers) for m in messages):
            raise ValueError("77 cannot be committed")
        self._note(f"commit-{batchId}", messages)

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._note(f"abort-{batchId}", messages)
        if any(78 in m.numbers for m in messages if m is not None):
            raise ValueError("78 cannot be aborted")

    def _note(self, name: str, messages: list[Any]) -> None:
        said = sorted(n for m in messages if m is not None for n in m.numbers)
        Path(self.folder, name).write_text(json.dumps(said))
        if not said and name.startswith("commit"):
            Path(self.folder, name.replace("commit", "messages")).write_text(str(sum(m is not None for m in messages)))


class ArrowWriter(DataSourceStreamArrowWriter):
    def __init__(self, writer: Writer):
        self.writer = writer

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return Written([n for batch in iterator for n in batch.column(0).to_pylist()])

    def commit(self, messages: list[Any], batchId: int) -> None:
        self.writer.commit(messages, batchId)


class Registered(DataSource):
    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "i int, s string"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        if self.options["kind"] == "simple":
            return super().streamReader(schema)
        if self.options["kind"] == "noting":
            return Noting(self.options["folder"])
        if self.options["kind"].startswith("broken "):
            return broken(self.options["kind"].removeprefix("broken "))()
        return READERS[self.options["kind"]]()  # type: ignore[return-value]

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return Simple()

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        writer = Writer(self.options["folder"])
        return ArrowWriter(writer) if self.options.get("kind") == "arrow" else writer


@pytest.fixture
def sessions(spark: SparkSession, mini: MiniSparkSession) -> dict[str, Any]:
    spark.dataSource.register(Registered)
    return {"spark": spark, "model": mini}


def run(session: Any, checkpoint: Path, kind: str, **trigger: Any) -> list[Any]:
    """(batch, rows, offsets in the log) of a run that ends when there is nothing new."""
    batches: list[tuple[Any, ...]] = []

    def keep(data: Any, batch_id: int) -> None:
        batches.append((batch_id, sorted(map(tuple, data.collect()))))

    sources = [session.readStream.format("numbers").option("kind", one).load() for one in kind.split(" and ")]
    df = reduce(DataFrame.union, sources).where("i != 3")
    query = df.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()
    try:
        if "availableNow" in trigger:
            query.awaitTermination()
        else:
            query.processAllAvailable()
    finally:
        query.stop()
    progress = [p for p in query.recentProgress if p.numInputRows]
    logs = [(checkpoint / "offsets" / str(b)).read_text().split("\n")[2] for b, _ in batches]
    offsets = [(one.startOffset, one.endOffset, one.latestOffset) for p in progress for one in p.sources]
    return [*zip(batches, logs), offsets, [p.numInputRows for p in progress]]


@pytest.mark.parametrize(
    ("kind", "trigger"),
    [
        ("counter", {"processingTime": "0 seconds"}),
        ("counter", {"availableNow": True}),
        ("limited", {"processingTime": "0 seconds"}),
        ("limited", {"availableNow": True}),
        ("limited and counter", {"availableNow": True}),  # one batch without a limit: a counter does not know where to stop
        ("simple", {"processingTime": "0 seconds"}),
        ("simple", {"availableNow": True}),
        ("paired", {"availableNow": True}),
    ],
)
def test_a_reader_and_its_restart(sessions: dict[str, Any], tmp_path: Path, kind: str, trigger: dict[str, Any]) -> None:
    def outcome(engine: str) -> Any:
        first = run(sessions[engine], tmp_path / engine, kind, **trigger)
        last = max((tmp_path / engine / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        return first, run(sessions[engine], tmp_path / engine, kind, **trigger)

    spark, model = outcome("spark"), outcome("model")
    assert model == spark
    assert model[0][0][0][0] == 0, "batch 0 came first"


def test_a_finished_batch_is_not_asked_for_again(sessions: dict[str, Any], tmp_path: Path) -> None:
    """Only V1 sources are, at a restart."""
    def asked(session: Any, folder: Path) -> set[str]:
        numbers = session.readStream.format("numbers").option("kind", "noting").option("folder", str(folder)).load()
        writer = numbers.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return {path.name for path in folder.glob("asked-*")}

    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        assert asked(session, tmp_path / engine) == {"asked-0-2"}, engine
        (tmp_path / engine / "asked-0-2").unlink()
        assert "asked-0-2" not in asked(session, tmp_path / engine), engine


@pytest.mark.parametrize("where", ["latestOffset", "getDefaultReadLimit", "reportLatestOffset", "prepareForTriggerAvailableNow"])
def test_an_error_of_the_reader_ends_the_query(sessions: dict[str, Any], tmp_path: Path, where: str) -> None:
    for engine, session in sessions.items():
        with pytest.raises(StreamingQueryException, match=f"PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR.* {where}") as e:
            run(session, tmp_path / engine, f"broken {where}", availableNow=True)
        assert "no news" in str(e.value)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("listing", "DATA_SOURCE_INVALID_RETURN_TYPE"),
        ("bare", "to be of type 'InputPartition'"),
        ("nowhere", "(?s)RUNTIME_ERROR.* planPartitions.*TypeError: 'NoneType' object is not subscriptable"),
        ("planless", r"(?s)RUNTIME_ERROR.* planPartitions.*TypeError: object of type 'NoneType' has no len\(\)"),
    ],
)
def test_a_reader_that_gives_something_else_ends_the_query(sessions: dict[str, Any], tmp_path: Path, kind: str, words: str) -> None:
    for engine, session in sessions.items():
        with pytest.raises(StreamingQueryException, match=words):
            run(session, tmp_path / engine, kind, availableNow=True)


def test_a_class_that_cannot_be_created(sessions: dict[str, Any]) -> None:
    class NoSchema(DataSource):
        @classmethod
        def name(cls) -> str:
            return "noschema"

    sessions["spark"].dataSource.register(NoSchema)
    for session in sessions.values():
        with pytest.raises(PySparkException) as e:
            session.readStream.format("noschema").load()
        assert e.value.getCondition() == "PYTHON_DATA_SOURCE_ERROR"


@pytest.mark.parametrize(
    ("schema", "outcome"),
    [
        (None, "PYTHON_DATA_SOURCE_ERROR"),
        ("int", "INVALID_SCHEMA.NON_STRUCT_TYPE"),
        ("", "PARSE_EMPTY_STATEMENT"),
        ("i integer s", "PARSE_SYNTAX_ERROR"),
        ("struct<i: int>", "struct<i:int>"),
    ],
)
def test_the_schema_of_a_class_is_a_struct_in_any_words(sessions: dict[str, Any], schema: str | None, outcome: str) -> None:
    class Odd(DataSource):
        @classmethod
        def name(cls) -> str:
            return "odd"

        def schema(self) -> Any:
            return schema

    def loaded(session: Any) -> str | None:
        try:
            return session.readStream.format("odd").load().schema.simpleString()
        except PySparkException as e:
            return e.getCondition()

    sessions["spark"].dataSource.register(Odd)
    assert [loaded(session) for session in sessions.values()] == [outcome, outcome]


@pytest.mark.parametrize(("kind", "mode"), [("rows", "append"), ("arrow", "append"), ("rows", "complete")])
def test_a_writer_commits_each_batch(sessions: dict[str, Any], tmp_path: Path, kind: str, mode: str) -> None:
    seen = {}
    counters = set(_accumulatorRegistry)
    (tmp_path / "in").mkdir()
    for i in range(3):
        (tmp_path / "in" / f"{i}.csv").write_text(f"{i}\n{i + 10}\n")
    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        df = session.readStream.schema("i int").option("maxFilesPerTrigger", 1).csv(str(tmp_path / "in")).repartition(2)
        df = df if mode == "append" else df.groupBy("i").count()
        writer = df.writeStream.format("numbers").outputMode(mode).option("folder", str(tmp_path / engine)).option("kind", kind)
        query = writer.option("checkpointLocation", str(tmp_path / f"c-{engine}")).trigger(availableNow=True).start()
        query.awaitTermination()
        written = [p.sink.numOutputRows for p in query.recentProgress]
        seen[engine] = {p.name: p.read_text() for p in (tmp_path / engine).iterdir()}, written
    assert seen["model"] == seen["spark"]
    assert set(seen["model"][0]) == {"commit-0", "commit-1", "commit-2"}
    assert set(_accumulatorRegistry) == counters, "PySpark would keep the messages of every batch"


@pytest.mark.parametrize("kind", ["rows", "arrow"])
def test_a_batch_without_partitions_is_written_once(sessions: dict[str, Any], tmp_path: Path, kind: str) -> None:
    """A batch of empty files has none. What writes it may count its messages."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("")
    seen = {}
    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        writer = session.readStream.schema("i int").csv(str(tmp_path / "in")).writeStream.format("numbers").option("kind", kind)
        writer = writer.option("folder", str(tmp_path / engine)).option("checkpointLocation", str(tmp_path / f"c-{engine}"))
        writer.trigger(availableNow=True).start().awaitTermination()
        seen[engine] = {p.name: p.read_text() for p in (tmp_path / engine).iterdir()}
    assert seen["model"] == seen["spark"] == {"commit-0": "[]", "messages-0": "1"}


@pytest.mark.parametrize(("number", "why"), [(99, "99 is too much"), (77, "77 cannot be committed")])
def test_a_writer_that_fails_is_told_to_abort(sessions: dict[str, Any], tmp_path: Path, number: int, why: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text(f"{number}\n")
    seen = {}
    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        writer = session.readStream.schema("i int").csv(str(tmp_path / "in")).writeStream.format("numbers")
        writer = writer.option("folder", str(tmp_path / engine)).option("checkpointLocation", str(tmp_path / f"c-{engine}"))
        with pytest.raises(StreamingQueryException, match=why):
            writer.trigger(availableNow=True).start().awaitTermination()
        seen[engine] = {p.name: p.read_text() for p in (tmp_path / engine).iterdir()}
    assert seen["model"] == seen["spark"] == {"abort-0": "[77]" if number == 77 else "[]"}


def test_an_abort_that_fails_does_not_hide_why(sessions: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("78\n")
    for engine, session in sessions.items():
        (tmp_path / engine).mkdir()
        writer = session.readStream.schema("i int").csv(str(tmp_path / "in")).writeStream.format("numbers")
        writer = writer.option("folder", str(tmp_path / engine)).option("checkpointLocation", str(tmp_path / f"c-{engine}"))
        with pytest.raises(StreamingQueryException, match="Writing job failed") as failed:
            writer.trigger(availableNow=True).start().awaitTermination()
        error: Any = failed.value
        assert "77 cannot be committed" in (error._stackTrace if engine == "spark" else str(error.__cause__.__cause__))
        assert [p.name for p in (tmp_path / engine).iterdir()] == ["abort-0"]


def test_update_mode_is_refused_when_a_batch_runs(sessions: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("1\n")
    for engine, session in sessions.items():
        df = session.readStream.schema("i int").csv(str(tmp_path / "in")).groupBy("i").count()
        writer = df.writeStream.format("numbers").option("folder", str(tmp_path)).outputMode("update")
        query = writer.option("checkpointLocation", str(tmp_path / f"c-{engine}")).trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException, match="numbers does not support Update mode"):
            query.awaitTermination()
