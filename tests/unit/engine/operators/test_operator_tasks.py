"""The tasks of aggregations and deduplications, without Spark: what they keep, show, drop and forget. Times in milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType, TimestampType

from minispark_stream.engine.operators.aggregation.state_store_restore import StateStoreRestore
from minispark_stream.engine.operators.aggregation.state_store_save import StateStoreSave
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.deduplication.streaming_deduplicate import Deduplicate
from minispark_stream.engine.operators.session.session_window_state_store_restore import by_group_and_start
from minispark_stream.engine.operators.state_task import OperatorWatermarks
from tests.unit.engine.operators.test_state_tasks import Accumulator, in_partition, info

TIME = EventTime(0, is_window=False)
KEYS, COUNT = StructType().add("time", TimestampType()), StructType().add("count", LongType())
SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("count", pa.int64())])
Rows = list[tuple[int, int]]  # time and count


def marks(late_ms: int, eviction_ms: int) -> OperatorWatermarks:
    return OperatorWatermarks(late_ms, eviction_ms, moved=late_ms != eviction_ms)


def batch(rows: Rows) -> pa.RecordBatch:
    columns = [[time * 1000 for time, _ in rows], [count for _, count in rows]]
    return pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types)], schema=SCHEMA)


def rows_of(batches: Any) -> Rows:
    rows = [(row[0].value // 1000, row[1].as_py()) for one in batches for row in zip(*one.columns)]
    return sorted(rows)


class Aggregation:
    """Batch after batch of an aggregation by time, in one partition."""

    def __init__(self, state: Path, output_mode: str):
        self._state, self._output_mode = state, output_mode
        self.batch_id = 0

    def run(self, rows: Rows, late_ms: int = 0, eviction_ms: int = 0) -> tuple[Rows, int]:
        """What comes out, and how many rows were late. Between the two tasks, Spark adds up what has one key."""
        known: dict[str, Any] = {
            "info": info(self._state, self.batch_id), "watermarks": marks(late_ms, eviction_ms), "output": SCHEMA,
            "keys": KEYS, "values": COUNT, "metrics": Accumulator(),
        }
        restored = StateStoreRestore(**known)(in_partition(0, batch(rows)))
        sums: dict[int, int] = {}
        for time, count in rows_of(restored):
            sums[time] = sums.get(time, 0) + count
        save = StateStoreSave(**known, output_mode=self._output_mode, event_time=TIME)
        shown = rows_of(save(in_partition(0, batch(list(sums.items())))))
        self.batch_id += 1
        _, (_, done) = known["metrics"].value
        return shown, done.num_rows_dropped_by_watermark


def test_append_mode_shows_a_group_once_when_the_watermark_has_passed_it(tmp_path: Path) -> None:
    counts = Aggregation(tmp_path, "append")
    assert counts.run([(10, 1), (20, 1)]) == ([], 0)
    assert counts.run([(10, 2), (30, 1)], 0, 20) == ([(10, 3), (20, 1)], 0)
    assert counts.run([(20, 1), (21, 1)], 20, 30) == ([(21, 1), (30, 1)], 1), "a row at the watermark is late"
    assert counts.run([], 30, 99) == ([], 0), "and what was shown is gone"


def test_update_mode_shows_the_groups_of_the_batch_and_forgets_what_the_watermark_has_passed(tmp_path: Path) -> None:
    counts = Aggregation(tmp_path, "update")
    assert counts.run([(10, 1), (40, 1)]) == ([(10, 1), (40, 1)], 0)
    assert counts.run([(40, 1)], 0, 20) == ([(40, 2)], 0)
    assert counts.run([(10, 1), (40, 1)], 20, 20) == ([(40, 3)], 1)


def test_complete_mode_keeps_and_shows_everything_however_late(tmp_path: Path) -> None:
    counts = Aggregation(tmp_path, "complete")
    assert counts.run([(10, 1), (40, 1)]) == ([(10, 1), (40, 1)], 0)
    assert counts.run([(10, 1)], 20, 30) == ([(10, 2), (40, 1)], 0)


def test_a_batch_that_runs_again_begins_with_the_state_that_it_began_with(tmp_path: Path) -> None:
    counts = Aggregation(tmp_path, "update")
    counts.run([(10, 1)])
    for _ in range(2):
        counts.batch_id = 1
        assert counts.run([(10, 5)]) == ([(10, 6)], 0)


@pytest.mark.parametrize("far", [7, 1 << 40, (1 << 63) - 1])
def test_sessions_are_sorted_by_group_and_start_however_far_their_starts_are_apart(far: int) -> None:
    group, start = np.array([0, 2, 1, 0, 1, 1, 2, 0]), np.array([far, 5, 9, -far, far, 9, -far - 1, 9])
    assert by_group_and_start(group, start).tolist() == np.lexsort((start, group)).tolist()
    assert len(by_group_and_start(group[:0], start[:0])) == 0


@pytest.mark.parametrize("delay_ms", [None, 10])
def test_a_duplicate_is_dropped_until_its_key_is_forgotten(tmp_path: Path, delay_ms: int | None) -> None:
    """By dropDuplicates(["time"]), and by dropDuplicatesWithinWatermark(["count"]) with a delay."""
    within = delay_ms is not None

    def run(batch_id: int, rows: Rows, late_ms: int = 0, eviction_ms: int = 0) -> Rows:
        task = Deduplicate(
            info=info(tmp_path, batch_id), watermarks=marks(late_ms, eviction_ms), output=SCHEMA, metrics=Accumulator(),  # type: ignore[arg-type]
            positions=(1,) if within else (0,), keys=COUNT if within else KEYS, event_time=TIME,
            key_event_time=None if within else TIME, delay_ms=delay_ms,
        )
        return rows_of(task(in_partition(0, batch(rows))))

    expires = 20 if within else 10
    assert run(0, [(10, 1), (10, 1), (30, 3)]) == [(10, 1), (30, 3)]
    assert run(1, [(10, 1), (25, 2)], 0, expires - 1) == [(25, 2)]
    assert run(2, [(10, 1), (30, 3)], expires - 1 if within else 9, expires) == [], "what expires is forgotten after this batch"
    assert run(3, [(expires, 1)], expires - 1, expires) == [(expires, 1)]
