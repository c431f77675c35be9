"""The order within a batch: the sink, then the watermark, then the commit. Without Spark: a plan that is none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import SparkRuntimeException

from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqMetadata
from minispark_stream.engine.observer import Observer
from minispark_stream.engine.runtime import run_batch as module
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.run_batch import run_batch
from minispark_stream.engine.runtime.watermark_tracker import EventTimeStats, WatermarkTracker
from tests.unit.fake_query import Counter, FakeQuery


class Plan(SimpleNamespace):
    """The plan of a batch that saw an event time of 100 ms, of which 10 are waited for."""

    next_batch = "rows"
    began_ms = 0
    batch = None
    template = SimpleNamespace(operators=(), watermarks=(SimpleNamespace(node_id="ts", observation="seen", delay_ms=10),))

    def event_time_stats(self) -> dict[str, EventTimeStats]:
        return {"seen": EventTimeStats(100, 100, 100.0, 1)}


class Sink(SimpleNamespace):
    """Notes whether the batch that it gets is committed already."""

    calls_function = False

    def add_batch(self, batch_id: int, data: Any) -> int:
        self.found = (batch_id, data, self.commits.get(batch_id))
        if self.fails:
            raise OSError("no room")
        return 3


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One with two sources, of which the first has something new."""
    monkeypatch.setattr(module.plans, "analyzed", lambda frame: frame)
    query = FakeQuery(tmp_path, Counter(7), Counter(7))
    query.observer = Observer()
    query.planner = SimpleNamespace(plan=lambda context, new_data: Plan(new_data=new_data))
    query.sink = Sink(commits=query.commit_log, fails=False)
    return query


BATCH = MicroBatchExecutionContext(
    2, start_offsets={0: "5", 1: "7"}, end_offsets={0: "7", 1: "7"}, metadata=OffsetSeqMetadata(batch_watermark_ms=50),
    watermark_tracker=WatermarkTracker("min", {"ts": 50}).set_watermark(50),
)


def test_a_batch_is_committed_when_the_sink_has_it_with_the_watermark_of_the_next_one(query: Any) -> None:
    context = run_batch(query, BATCH)
    assert query.sink.found == (2, "rows", None)
    [committed] = [query.commit_log.get(2)]
    assert committed.next_batch_watermark_ms == context.watermark_tracker.current_watermark == 90
    assert context.num_output_rows == 3


def test_a_batch_that_the_sink_could_not_take_is_not_committed(query: Any) -> None:
    query.sink.fails = True
    with pytest.raises(OSError, match="no room"):
        run_batch(query, BATCH)
    assert query.commit_log.get_latest() is None


def test_of_two_runs_only_one_commits_a_batch(query: Any) -> None:
    run_batch(query, BATCH)
    with pytest.raises(SparkRuntimeException) as refused:
        run_batch(query, BATCH)
    assert refused.value.getCondition() == "CONCURRENT_STREAM_LOG_UPDATE"


def test_a_source_without_new_data_is_not_read(query: Any) -> None:
    run_batch(query, BATCH)
    assert [query.sources[number].asked for number in (0, 1)] == [[("5", "7")], []]


def test_the_next_batch_begins_where_this_one_ended_and_its_rows_are_late_by_the_watermark_of_this_one(query: Any) -> None:
    following = run_batch(query, BATCH).next()
    assert (following.batch_id, following.start_offsets) == (3, {0: "7", 1: "7"})
    assert not following.is_new_data_available()
    assert following.previous_watermark_ms == 50
    assert BATCH.previous_watermark_ms == 0
