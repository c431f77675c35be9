"""Whether there is a next batch, how far it reads, and what is written down before it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import SparkRuntimeException

from minispark_stream.engine.runtime.construct_next_batch import construct_next_batch
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.watermark_tracker import WatermarkTracker
from minispark_stream.engine.sources.base import ALL_AVAILABLE, ReadLimit, ReadMaxRows
from tests.unit.fake_query import Counter, FakeQuery, log, steps


@dataclass
class Evicted:
    """The plan of a batch that removed its state up to `watermark`."""

    watermark: int

    def should_run_another_batch(self, watermark_ms: int) -> bool:
        return watermark_ms > self.watermark


def after_a_batch(read: str | None, evicted: int = 0, watermark: int = 0) -> MicroBatchExecutionContext:
    """Batch 0 has read up to `read` and evicted by `evicted`; now the watermark is at `watermark`."""
    if read is None:
        return MicroBatchExecutionContext()
    done = MicroBatchExecutionContext(
        end_offsets={0: read},
        watermark_tracker=WatermarkTracker().set_watermark(watermark),
        execution=cast(IncrementalExecution, Evicted(evicted)),
    )
    return done.next()


LIMIT_1 = ReadMaxRows(1)


@pytest.mark.parametrize(
    "behaviour, newest, limit, context, no_data_batches, runs, end",
    [
        ("new data runs a batch", 7, ALL_AVAILABLE, after_a_batch("5"), True, True, "7"),
        ("under a limit it reads a part", 7, LIMIT_1, after_a_batch("5"), True, True, "6"),
        ("nothing new, nothing to do", 7, ALL_AVAILABLE, after_a_batch("7"), True, False, "7"),
        ("a moved watermark needs no data", 7, ALL_AVAILABLE, after_a_batch("7", 10, 20), True, True, "7"),
        ("unless such batches are turned off", 7, ALL_AVAILABLE, after_a_batch("7", 10, 20), False, False, "7"),
        ("a watermark that stood still needs nothing", 7, ALL_AVAILABLE, after_a_batch("7", 20, 20), True, False, "7"),
        ("the first batch waits for data as well", 0, ALL_AVAILABLE, after_a_batch("0"), True, False, "0"),
    ],
)
def test_is_there_a_next_batch(
    tmp_path: Path,
    behaviour: str,
    newest: int,
    limit: ReadLimit,
    context: MicroBatchExecutionContext,
    no_data_batches: bool,
    runs: bool,
    end: str,
) -> None:
    query = FakeQuery(tmp_path, Counter(newest), limit=limit, no_data_batches_enabled=no_data_batches)
    log(query, {0: "5"}, {0: 0})
    context = construct_next_batch(query, context)
    assert (context.is_current_batch_constructed, context.end_offsets[0]) == (runs, end), behaviour
    assert (query.offset_log.get(1) is not None) == runs, behaviour
    assert query.progress_lock.no_new_data == (not runs)


def test_the_batch_is_logged_with_the_watermark_and_the_time_before_it_runs(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter(newest=7), now_ms=123)
    log(query, {0: "5"}, {0: 0})
    construct_next_batch(query, after_a_batch("5", watermark=20))
    entry = query.offset_log.get(1)
    assert entry is not None and entry.metadata is not None
    assert (entry.offsets, entry.metadata.batch_watermark_ms, entry.metadata.batch_timestamp_ms) == (("7",), 20, 123)


def test_once_a_batch_is_logged_the_source_may_forget_the_one_before_it(tmp_path: Path) -> None:
    source = Counter(newest=7)
    query = FakeQuery(tmp_path, source)
    log(query, {0: "5"}, {0: 0})
    construct_next_batch(query, after_a_batch("5"))
    assert source.committed == ["5"]
    assert steps(query) == ["latestOffset", "commitSource", "walCommit", "constructNextBatch"]


@pytest.mark.parametrize("retain, left", [(1, [2, 3]), (2, [1, 2, 3]), (3, [0, 1, 2, 3])])
def test_the_logs_keep_one_entry_more_than_they_must_retain(tmp_path: Path, retain: int, left: list[int]) -> None:
    query = FakeQuery(tmp_path, Counter(newest=9), min_batches_to_retain=retain)
    log(query, {0: "1", 1: "2", 2: "3"}, {0: 0, 1: 0, 2: 0})
    construct_next_batch(query, replace(after_a_batch("3"), batch_id=3))
    assert [i for i in range(4) if query.offset_log.get(i) is not None] == left


def test_of_two_runs_on_one_checkpoint_only_one_can_log_a_batch(tmp_path: Path) -> None:
    source = Counter(newest=7)
    query: Any = FakeQuery(tmp_path, source)
    log(query, {0: "5", 1: "6"}, {0: 0})
    with pytest.raises(SparkRuntimeException) as refused:
        construct_next_batch(query, after_a_batch("5"))
    assert source.committed == [], "a batch that is not in the log may have to begin where the other one did"
    assert refused.value.getCondition() == "CONCURRENT_STREAM_LOG_UPDATE"
