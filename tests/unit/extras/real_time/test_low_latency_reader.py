"""Reader and writer of real-time mode, without Spark: when a batch ends, what its tasks report, and what a sink receives."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructType

from minispark_stream.engine.sinks.base import BATCH_ID_KEY
from minispark_stream.engine.sources.base import ContinuousInputPartition, StreamedRows
from minispark_stream.extras.continuous.queued_data_reader import BATCH_BYTES, PUSH, QueuedDataReader
from minispark_stream.extras.real_time.low_latency_batch import LowLatencyBatch
from minispark_stream.extras.real_time.low_latency_reader import (
    LowLatencyReaderTask,
    PartitionEnd,
    RealTimeWriterTask,
    Written,
)

NUMBER = pa.RecordBatch.from_pydict({"id": [0]})  # of the partition
SCHEMA = StructType().add("_0", StringType()).add("control", StringType())


@dataclass(frozen=True)
class Letters(ContinuousInputPartition):
    """Has its letters at once, and waits after the last one; `!` is one that cannot be read."""

    letters: Sequence[str]
    start_offset: int = 0

    def read(self, stopped: threading.Event) -> Iterator[tuple[StreamedRows, Any]]:
        for offset, letter in enumerate(self.letters[self.start_offset :], self.start_offset + 1):
            if letter == "!":
                raise OSError("the disk is on fire")
            yield [(letter,)], offset
        stopped.wait()


@dataclass(frozen=True)
class LongRecords(ContinuousInputPartition):
    """Has ten records, each as long as two batches; `given` has their numbers."""

    given: list[int]

    def read(self, stopped: threading.Event) -> Iterator[tuple[StreamedRows, Any]]:
        for number in range(10):
            self.given.append(number)
            yield pa.RecordBatch.from_pydict({"_0": ["x" * 2 * BATCH_BYTES]}), number
        stopped.wait()


class Reports(list[Any]):
    """What an accumulator is to a task."""

    def add(self, reports: list[Any]) -> None:
        self.extend(reports)


def in_task(monkeypatch: pytest.MonkeyPatch, seconds: float = 60, attempt: int = 0, begins: int = 0) -> None:
    """As in the first, or another, attempt of the fifth task of a batch that ends after some seconds."""
    of_batch = LowLatencyBatch(int(1000 * (time.time() + seconds)), {"0": [begins]}, {})
    properties = dict([of_batch.local_property(), (BATCH_ID_KEY, "7")])
    context = SimpleNamespace(attemptNumber=lambda: attempt, partitionId=lambda: 4, getLocalProperty=properties.get)
    monkeypatch.setattr(TaskContext, "get", lambda: context)


def read(partition: ContinuousInputPartition, pushes: int = 2) -> tuple[list[str | None], list[str | None], list[Any]]:
    """The letters, what is in the column of the control rows, and the reports."""
    reports: Any = Reports()
    task = LowLatencyReaderTask(0, (partition,), SCHEMA, reports, pushes)
    batches = list(task(iter([NUMBER])))
    return [one for batch in batches for one in batch.column(0).to_pylist()], [one for batch in batches for one in batch.column(1).to_pylist()], reports


def test_a_reader_ends_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, seconds=0.3, begins=1)
    began = time.time()
    letters, control, reports = read(Letters("abc"))  # planned for a batch that began with the first letter
    assert time.time() - began >= 0.29
    assert [one for one in letters if one is not None] == ["b", "c"]
    assert set(control) == {None, PUSH} and control[-1] == PUSH
    assert reports == [PartitionEnd(source=0, partition=0, offset=3, rows=2)]


def test_a_task_that_starts_after_the_end_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, seconds=-1, begins=1)
    assert read(Letters("abc", start_offset=1)) == ([], [], [PartitionEnd(0, 0, offset=1, rows=0)])


def test_without_a_way_for_control_rows_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, seconds=0.2)
    letters, control, _ = read(Letters("ab"), pushes=0)
    assert (letters, control) == (["a", "b"], [None, None])


def test_what_cannot_be_read_fails_the_task_and_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch)
    reports: Any = Reports()
    task = LowLatencyReaderTask(0, (Letters("a!"),), SCHEMA, reports, 0)
    with pytest.raises(RuntimeError, match="Data read failed: OSError: the disk is on fire"):
        list(task(iter([NUMBER])))
    assert reports == []


def test_long_records_fill_the_queue_as_many_rows_would() -> None:
    """There is room for four rows, or for two such records; the source has one more in its hand."""
    given: list[int] = []
    reader = QueuedDataReader(LongRecords(given), 4)
    changed = threading.Event()
    while len(given) < 3:
        changed.wait(0.01)
    changed.wait(0.1)
    waiting = reader.next_entries()
    reader.close()
    assert waiting is not None and len(waiting) == 2


def test_a_second_attempt_refuses_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch, attempt=1)
    task = LowLatencyReaderTask(0, (Letters("a"),), SCHEMA, Reports(), 0)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="does not support task retry"):
        next(task(iter([])))


def test_a_sink_gets_rows_while_they_come_and_no_control_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    in_task(monkeypatch)
    reports: Any = Reports()
    seen: list[Any] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"_0": ["a", None, "b"], "control": [None, PUSH, None]})
        seen.append("the next batch")
        yield pa.RecordBatch.from_pydict({"_0": ["c"], "control": [None]})

    def write(partition: int, batch_id: int, rows: Iterator[pa.RecordBatch]) -> str:
        for batch in rows:
            seen.extend((partition, batch_id, letter) for letter in batch.column(0).to_pylist())
        return "done"

    assert list(RealTimeWriterTask(write, reports)(batches())) == []
    assert seen == [(4, 7, "a"), (4, 7, "b"), "the next batch", (4, 7, "c")]
    assert reports == [Written(partition=4, message="done", rows=3)]
