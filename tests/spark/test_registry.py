"""Sources and sinks that are not the model's: registered by a call, or by the entry point of an installed package."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import minispark_stream
from minispark_stream import MiniSparkSession, registry
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.engine.sources.base import (
    Offset,
    ReadLimit,
    ReadMaxRows,
    SupportsAdmissionControl,
    SupportsTriggerAvailableNow,
)


class Count(SupportsTriggerAvailableNow):
    """The numbers from 0 up to `rows`, at most `step` of them in each batch."""

    def __init__(self, session: SparkSession, rows: int, step: int):
        self._session, self._rows, self._step = session, rows, step
        self.description = f"Count[{rows}]"

    def default_read_limit(self) -> ReadLimit:
        return ReadMaxRows(self._step)

    def prepare_for_trigger_available_now(self) -> None:
        pass  # there will never be more

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._rows
        return json.dumps({"n": min(self._at(start) + most, self._rows)})

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:
        return self._session.range(self._at(start), self._at(end), 1, 2)

    def _at(self, offset: Offset | None) -> int:
        return int(json.loads(offset)["n"]) if offset else 0


def count(session: SparkSession, schema: StructType | None, options: Mapping[str, str]) -> StreamingRelation:
    rows, step = int(options["path"]), int(options.get("step", 4))
    return StreamingRelation("count", session.range(0).schema, lambda query_session, metadata_path: Count(query_session, rows, step))


class Keep(Sink):
    """Keeps the rows, by the id of their batch."""

    def __init__(self, rows: dict[int, list[int]], fails_at: int | None):
        self.description = "Keep"
        self._rows, self._fails_at = rows, fails_at

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        self._rows[batch_id] = sorted(row[0] for row in data.collect())
        if batch_id == self._fails_at:
            raise OSError("the disk is full")
        return len(self._rows[batch_id])


KEPT: dict[int, list[int]] = {}
CALLS: list[tuple[str | None, list[str], str]] = []


def keep(session: SparkSession, options: Mapping[str, str], partition_columns: list[str], output_mode: str) -> Sink:
    CALLS.append((options.get("path"), partition_columns, output_mode))
    return Keep(KEPT, int(options["failsat"]) if "failsat" in options else None)


@pytest.fixture(params=["call", "entry point"])
def registered(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {"sources": {}, "sinks": {}, "operators": {}})
    if request.param == "call":
        minispark_stream.register_source("Count", count)
        minispark_stream.register_sink("keep", keep)
    else:
        install(tmp_path, monkeypatch, f"[minispark_stream.sources]\nCount = {__name__}:count\n[minispark_stream.sinks]\nkeep = {__name__}:keep\n")
        monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or sys.modules[count.__module__])
    KEPT.clear()
    CALLS.clear()
    yield


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry_points: str) -> None:
    """A package that has nothing but its metadata."""
    folder = tmp_path / "site" / "counting-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(str(folder.parent))


def run(mini: MiniSparkSession, checkpoint: Path, rows: int, **options: Any) -> Any:
    df = mini.readStream.format("count").load(str(rows))
    writer = df.writeStream.format("KEEP").partitionBy("id").option("checkpointLocation", str(checkpoint)).options(**options)
    query = writer.trigger(availableNow=True).start("somewhere")
    query.awaitTermination()
    return query


def test_a_query_from_and_to_something_of_ones_own(mini, tmp_path, registered):
    with pytest.raises(Exception, match="the disk is full"):
        run(mini, tmp_path / "c", 10, failsAt=1)
    assert KEPT == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}
    query = run(mini, tmp_path / "c", 10)  # batch 1 comes again, the same
    assert KEPT == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7], 2: [8, 9]}
    assert [(p.batchId, p.numInputRows, p.sink.numOutputRows) for p in query.recentProgress] == [(1, 4, 4), (2, 2, 2)]
    assert query.lastProgress.sources[0].description == "Count[10]"
    assert query.lastProgress.sources[0].endOffset == '{"n": 10}'
    run(mini, tmp_path / "c", 12)  # two numbers more
    assert KEPT[3] == [10, 11]
    assert CALLS == [("somewhere", ["id"], "append")] * 3


def test_the_rows_of_a_table_are_no_input(mini, registered):
    """A table that is read as the batches of the source are: as a range."""
    joined = mini.readStream.format("count").load("4").join(mini.range(100).where("id % 2 = 0"), "id")
    query = joined.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.lastProgress.numInputRows == 4


def test_a_sink_needs_a_checkpoint(mini, tmp_path, registered):
    with pytest.raises(AnalysisException, match="checkpointLocation must be specified"):
        mini.readStream.format("count").load("3").writeStream.format("keep").start()


def test_what_was_registered_by_a_call_comes_before_an_entry_point(tmp_path, monkeypatch, registered):
    minispark_stream.register_source("count", lambda *_: pytest.fail("another one"))
    assert registry.find("sources", "COUNT") is not count
    assert registry.find("sources", "no such source") is registry.find("sinks", "count") is None


@pytest.mark.parametrize("name", ["csv", "Rate", "kafka"])
def test_the_names_of_the_model_are_taken(name):
    with pytest.raises(ValueError, match=f"'{name}' is the name of one of minispark_stream's own sources"):
        minispark_stream.register_source(name, count)


@pytest.mark.parametrize("name", ["delta", "foreachbatch", "memory"])
def test_the_names_of_the_models_sinks_are_taken(name):
    with pytest.raises(ValueError, match=f"'{name}' is the name of one of minispark_stream's own sinks"):
        minispark_stream.register_sink(name, keep)


def test_a_factory_must_be_callable():
    with pytest.raises(TypeError, match="must be callable, not str"):
        minispark_stream.register_sink("mine", "keep")  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["no_such_module:count", f"{Keep.__module__}:no_such_name", "json.decoder:JSONDecodeError.nothing"])
def test_an_entry_point_that_cannot_be_loaded(mini, tmp_path, monkeypatch, target):
    install(tmp_path, monkeypatch, f"[minispark_stream.sources]\nbroken = {target}\n[minispark_stream.sinks]\nbroken = {target}\n")
    said = rf"The entry point 'broken = {target}' \(minispark_stream.{{}}\) of counting 1.0 cannot be loaded: \w*Error: "
    with pytest.raises(AnalysisException, match=said.format("sources")):
        mini.readStream.format("broken").load()
    df = mini.readStream.format("rate").load()
    with pytest.raises(AnalysisException, match=said.format("sinks")):
        df.writeStream.format("broken").option("checkpointLocation", str(tmp_path / "c")).start()


def test_a_name_that_nobody_knows_is_still_sparks_error(mini):
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        mini.readStream.format("no-such-source").load()


def test_the_example_of_the_documentation_works(mini, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {"sources": {}, "sinks": {}, "operators": {}})
    example = str(registry.__doc__).split('format("count")`:', 1)[1].split("As an entry point", 1)[0]
    names: dict[str, Any] = {
        "json": json, "minispark_stream": minispark_stream, "Sink": Sink, "StreamingRelation": StreamingRelation,
        "SupportsAdmissionControl": SupportsAdmissionControl,
    }
    exec(textwrap.dedent(example), names)
    for _ in range(2):
        query = mini.readStream.format("count").load().writeStream.format("count").option("checkpointLocation", str(tmp_path))
        query.trigger(once=True).start().awaitTermination()
    assert {batch: [row.id for row in rows] for batch, rows in names["Keep"].rows.items()} == {0: [0, 1], 1: [2, 3]}
