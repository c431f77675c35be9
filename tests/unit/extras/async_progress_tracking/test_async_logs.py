"""Which entries of the logs are written, when the sources are told, and what an error leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import SparkRuntimeException

from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeq, OffsetSeqLog, OffsetSeqMetadata
from minispark_stream.engine.clock import ManualClock
from minispark_stream.extras.async_progress_tracking.async_logs import (
    WAITING,
    AsyncCommitLog,
    AsyncOffsetSeqLog,
    LogWriteFailure,
    LogWriter,
)


def entry(batch_id: int) -> OffsetSeq:
    return OffsetSeq((str(batch_id),), OffsetSeqMetadata())


class Logs:
    """Both logs of one run."""

    def __init__(self, checkpoint: Path, interval_ms: int, retained: int = 100):
        self.clock = ManualClock(0)
        self.writer = LogWriter()
        self.offsets = AsyncOffsetSeqLog(str(checkpoint / "offsets"), self.writer, retained, interval_ms, self.clock)
        self.commits = AsyncCommitLog(str(checkpoint / "commits"), self.writer, retained, self.offsets)
        self.writer.start()

    def run(self, *batches: int, ms: int = 0) -> list[str]:
        """Run these batches, each of which takes `ms`; returns the offsets up to which the sources were told to be done."""
        told: list[str] = []
        for batch_id in batches:
            assert self.offsets.add(batch_id, entry(batch_id))
            told += [str(e.by_id()["0"]) for e in self.offsets.done_before(batch_id)]
            assert self.commits.add(batch_id, CommitMetadata(batch_id))
            self.clock.advance(ms)
        return told

    def finish(self) -> tuple[list[int], list[int]]:
        self.writer.finish()
        return self.offsets.list_batches(), self.commits.list_batches()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Logs]]:
    started: list[Logs] = []

    def new(interval_ms: int, **arguments: int) -> Logs:
        started.append(Logs(tmp_path, interval_ms, **arguments))
        return started[-1]

    yield new
    for logs in started:
        logs.writer.finish()


@pytest.mark.parametrize(
    "interval_ms, written",
    [(1000, [0, 4, 8]), (900, [0, 3, 6, 9]), (300, list(range(10))), (0, list(range(10))), (-1, list(range(10))), (10**9, [0])],
)
def test_an_entry_is_written_in_each_interval(start: Callable[..., Logs], interval_ms: int, written: list[int]) -> None:
    logs = start(interval_ms)
    logs.run(*range(10), ms=300)
    assert logs.finish() == (written, written)
    assert logs.offsets.get(9) == entry(9), "an entry that was not written is still in memory"


def test_the_first_batch_of_a_run_is_always_written(start: Callable[..., Logs]) -> None:
    first = start(10**9)
    first.run(0, 1, 2)
    assert first.finish() == ([0], [0])
    again = start(10**9)
    again.run(1, 2)  # where the logs ended
    assert again.finish() == ([0, 1], [0, 1])


def test_the_commit_of_a_batch_that_runs_again_is_written(start: Callable[..., Logs], tmp_path: Path) -> None:
    """Its offsets are in the log already, so they are not added once more."""
    OffsetSeqLog(str(tmp_path / "offsets")).add(5, entry(5))
    logs = start(10**9)
    logs.commits.add(5, CommitMetadata(0))
    logs.run(6, 7)
    assert logs.finish() == ([5, 6], [5, 6])


def test_an_entry_is_the_same_as_without_the_option(start: Callable[..., Logs], tmp_path: Path) -> None:
    logs = start(0)
    logs.run(0)
    logs.finish()
    OffsetSeqLog(str(tmp_path / "other")).add(0, entry(0))
    CommitLog(str(tmp_path / "done")).add(0, CommitMetadata(0))
    assert (tmp_path / "offsets" / "0").read_bytes() == (tmp_path / "other" / "0").read_bytes()
    assert (tmp_path / "commits" / "0").read_bytes() == (tmp_path / "done" / "0").read_bytes() == b'v1\n{"nextBatchWatermarkMs":0}'
    assert logs.commits.serialize(CommitMetadata(7, {})) == b'v2\n{"nextBatchWatermarkMs":7}'


def test_sources_are_told_of_rows_that_no_restart_needs(start: Callable[..., Logs]) -> None:
    """A restart after batch 9 begins at the end of 8 or, if that has no commit, at the end of 4."""
    logs = start(1000)
    told = logs.run(*range(10), ms=300)
    logs.writer.finish()
    assert told + [e.by_id()["0"] for e in logs.offsets.done_before(10)] == ["0", "4"]


def test_after_a_restart_sources_are_told_of_what_was_written_before_it(start: Callable[..., Logs]) -> None:
    first = start(10**9)
    first.run(0, 1)
    first.finish()
    again = start(10**9)
    again.run(1, 2)
    again.writer.finish()
    assert again.offsets.done_before(3) == [entry(0)]


def test_the_entry_before_a_batch_is_the_last_one_that_was_written(start: Callable[..., Logs], tmp_path: Path) -> None:
    log = OffsetSeqLog(str(tmp_path / "offsets"))
    for batch_id in (0, 2, 5):
        log.add(batch_id, entry(batch_id))
    offsets = start(0).offsets
    assert [offsets.entry_before(i) for i in (6, 5, 2, 1, 0)] == [entry(5), entry(2), entry(0), entry(0), None]
    with pytest.raises(RuntimeError, match="batch 4 doesn't exist"):
        log.entry_before(5)


def test_entries_to_keep_are_counted(start: Callable[..., Logs]) -> None:
    logs = start(1000, retained=2)
    logs.run(*range(10), ms=300)
    assert logs.finish()[0] == [0, 4, 8]
    assert (logs.offsets.purge(7), logs.commits.purge(7)) == ([0], [0])
    assert logs.finish() == ([4, 8], [4, 8])


def test_nothing_is_written_after_an_error(start: Callable[..., Logs], tmp_path: Path) -> None:
    """Not even the commit of the batch whose offsets could not be written."""
    OffsetSeqLog(str(tmp_path / "offsets")).add(1, entry(7))
    logs = start(0)
    logs.run(0, 1, 2)
    assert logs.finish() == ([0, 1], [0])
    assert isinstance(logs.writer.error, SparkRuntimeException)
    assert logs.writer.error.getCondition() == "CONCURRENT_STREAM_LOG_UPDATE"


def test_a_disk_error_says_which_entry_was_not_written(start: Callable[..., Logs], tmp_path: Path) -> None:
    (tmp_path / "commits").write_text("a file in the place of the folder")
    logs = start(0)
    logs.run(0)
    logs.writer.finish()
    assert isinstance(logs.writer.error, LogWriteFailure) and isinstance(logs.writer.error.__cause__, OSError)
    assert (logs.writer.error.condition, logs.writer.error.batch_id) == ("STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.COMMIT_LOG", 0)


def test_at_most_three_entries_wait() -> None:
    writer = LogWriter()
    writer.start()
    go, begun = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go.wait()

    writer.submit(slow)
    begun.wait()
    for _ in range(WAITING):
        writer.submit(lambda: None)
    fourth = threading.Thread(target=writer.submit, args=(lambda: None,))
    fourth.start()
    fourth.join(0.1)  # it would be done at once
    assert fourth.is_alive(), "the query waits"
    go.set()
    fourth.join()
    writer.finish()
