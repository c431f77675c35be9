"""The offset log and the commit log of a query that does not wait for them: not every entry is written, and none at once.

Models: AsyncOffsetSeqLog and AsyncCommitLog (in no document: asynchronous progress tracking is newer).

1. The offsets of a batch are written if the interval is over that began with the last ones that were written, and always in the
   first batch that a run constructs. Those of the other batches are only kept in memory, where the next batch needs them.
2. The commit of a batch is written if its offsets are, and always in the first batch of a run, which may be one whose offsets
   are in the log already.
3. One thread writes, in the order in which it was asked, so no commit is in its log before the offsets of its batch. If three
   entries wait, the query waits, too. After an error, nothing more is written, and the next trigger raises the error.
4. A restart needs the rows after the last entry but one *that was written*. So when an entry has been written, the sources are
   told that the rows before the written entry before it are done; and the entries to keep are counted, not computed from ids.

    batches every 300 ms, interval 1 s      offsets/ 0 4 8     commits/ 0 4 8     a restart runs 9 from the end of 8

Differs from Spark: nothing.
Shown by tests/unit/extras/async_progress_tracking/test_async_logs.py::test_an_entry_is_written_in_each_interval.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from queue import Queue
from threading import Thread
from typing import TypeVar

from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqBase, OffsetSeqLog
from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm.errors import concurrent_stream_log_update

T = TypeVar("T")

WAITING = 2  # besides the one that is being written
SECONDS_TO_FINISH = 30


class LogWriter:  # (3)
    """The thread that writes. `error` is the first error, after which it writes nothing more."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._writes: Queue[Callable[[], None] | None] = Queue(WAITING)
        self._thread = Thread(target=self._run, name="async-log-write", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, write: Callable[[], None]) -> None:
        self._writes.put(write)

    def finish(self) -> None:
        """Wait until everything is written, and end the thread, if it has been started."""
        if self._thread.is_alive():
            self._writes.put(None)
            self._thread.join(SECONDS_TO_FINISH)

    def _run(self) -> None:
        while (write := self._writes.get()) is not None:
            if self.error is None:
                try:
                    write()
                except Exception as e:
                    self.error = e


class LogWriteFailure(Exception):
    """An entry could not be written; the cause says why."""

    def __init__(self, condition: str, batch_id: int):
        self.condition, self.batch_id = condition, batch_id


class _AsyncLog(HDFSMetadataLog[T]):
    """What both logs have in common. They keep `retained` entries."""

    condition: str

    def __init__(self, path: str, writer: LogWriter, retained: int):
        super().__init__(path)
        self._writer = writer
        self._retained = retained
        self.last_written = -1

    def submit(self, batch_id: int, entry: T, then: Callable[[], None]) -> None:
        """Let the entry of a batch be written, and call `then` after that, on the thread of the writer."""
        new_folder = not self._cache

        def write() -> None:
            try:
                is_new = self.write(batch_id, entry, new_folder)
            except OSError as e:
                raise LogWriteFailure(self.condition, batch_id) from e
            if not is_new:
                raise concurrent_stream_log_update(batch_id)
            then()

        self.last_written = batch_id
        self._writer.submit(write)

    def is_in_file(self, batch_id: int) -> bool:
        return batch_id == self.last_written

    def purge(self, threshold: int) -> list[int]:  # (4)
        return super().purge(min(self.list_batches()[-self._retained:], default=0))


class AsyncOffsetSeqLog(_AsyncLog[OffsetSeqBase], OffsetSeqLog):
    """The log in `<checkpoint>/offsets`."""

    condition = "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.OFFSET_LOG"

    def __init__(self, path: str, writer: LogWriter, retained: int, interval_ms: int, clock: Clock):
        super().__init__(path, writer, retained)
        self._interval_ms = interval_ms
        self._clock = clock
        self._began_ms: int | None = None
        self._before: OffsetSeqBase | None = None  # the written entry before the one that is written next
        self._done: deque[OffsetSeqBase] = deque()

    def add(self, batch_id: int, entry: OffsetSeqBase) -> bool:
        now_ms = self._clock.get_time_millis()
        if self._began_ms is None or self._began_ms + self._interval_ms <= now_ms:  # (1)
            before = self.entry_before(batch_id) if self._began_ms is None else self._before
            self._began_ms, self._before = now_ms, entry
            self.submit(batch_id, entry, partial(self._done.extend, [] if before is None else [before]))
        self._remember(batch_id, entry)
        return True

    def entry_before(self, batch_id: int) -> OffsetSeqBase | None:
        """The last entry before batch `batch_id` that was written; None if there is none."""
        earlier = max((i for i in self.list_batches() if i < batch_id), default=None)
        return None if earlier is None else self.get(earlier)

    def done_before(self, batch_id: int) -> list[OffsetSeqBase]:  # (4)
        """The entries that the thread of the writer has found to be done."""
        return [self._done.popleft() for _ in range(len(self._done))]


class AsyncCommitLog(_AsyncLog[CommitMetadata], CommitLog):
    """The log in `<checkpoint>/commits`. Such a query has no state, so there are no ids of files to remember."""

    condition = "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.COMMIT_LOG"

    def __init__(self, path: str, writer: LogWriter, retained: int, offset_log: AsyncOffsetSeqLog):
        super().__init__(path, writer, retained)
        self._offset_log = offset_log

    def add(self, batch_id: int, entry: CommitMetadata) -> bool:
        if self.last_written == -1 or self._offset_log.is_in_file(batch_id):  # (2)
            self.submit(batch_id, entry, lambda: None)
        self._remember(batch_id, entry)
        return True

    def serialize(self, entry: CommitMetadata) -> bytes:
        version = 1 if entry.state_unique_ids is None else 2
        return super().serialize(CommitMetadata(entry.next_batch_watermark_ms)).replace(b"v1", b"v%d" % version, 1)
