"""When is an epoch over? The driver counts what the tasks report.

Models: EpochCoordinator and its messages (Continuous processing; SIGMOD'18 paper, section 6.3).

1. The driver's clock begins the next epoch (`IncrementAndGetEpoch`). Readers ask which epoch it is (`GetCurrentEpoch`), and
   put a marker between the rows of the old epoch and those of the new one.
2. At a marker, a reader reports how far it has read (`ReportPartitionOffset`). When all readers have reported, `add_offset`
   writes the entry of the epoch: what was read is logged afterwards.
3. When the marker has reached the writer, the writer reports that it has written the rows (`CommitPartitionEpoch`).
4. When all writers and all readers have reported, the epoch is committed, but never before the previous one.
5. What is kept for late epochs has a limit (`spark.sql.streaming.continuous.epochBacklogQueueSize`).
6. After `StopContinuousExecutionWrites` nothing is counted any more: what the tasks report while they end does not matter.

    reader 0, writer 0   offset 0    commit 0       offset 1    commit 1
    reader 1, writer 1        offset 0                     offset 1        commit 1   commit 0 (late)
    driver                    add_offset(0)                add_offset(1)                         commit(0) commit(1)

Nothing here knows about Spark, tasks or sockets: messages go in, calls come out.

When the backlog is too long, `receive` raises an error, which ends the query.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IncrementAndGetEpoch:
    """The next epoch begins; answered with its number."""


@dataclass(frozen=True)
class GetCurrentEpoch:
    """Answered with the number of the epoch that the driver is in."""


@dataclass(frozen=True)
class SetReaderPartitions:
    num_partitions: int


@dataclass(frozen=True)
class SetWriterPartitions:
    num_partitions: int


@dataclass(frozen=True)
class ReportPartitionOffset:
    """A reader ends an epoch at an offset."""

    partition_id: int
    epoch: int
    offset: Any


@dataclass(frozen=True)
class CommitPartitionEpoch:
    """A writer has written the rows of an epoch; `message` is for its sink."""

    partition_id: int
    epoch: int
    message: Any


@dataclass(frozen=True)
class StopContinuousExecutionWrites:
    """The query ends."""


class EpochCoordinator:
    """Counts for one run.

    Args:
        start_epoch: the first epoch of the run.
        backlog_size: how many messages, and how many finished epochs, may wait for an earlier epoch.
        add_offset: is called with an epoch and the offsets of all partitions, by partition.
        commit: is called with an epoch and the messages of all writers, in the order of the partitions.
    """

    def __init__(
        self,
        start_epoch: int,
        backlog_size: int,
        add_offset: Callable[[int, Mapping[int, Any]], None],
        commit: Callable[[int, Sequence[Any]], None],
    ):
        self._driver_epoch = start_epoch
        self._last_committed = start_epoch - 1
        self._backlog_size = backlog_size
        self._add_offset, self._commit = add_offset, commit
        self._readers = self._writers = 0
        self._offsets: dict[int, dict[int, Any]] = {}  # by epoch and partition
        self._commits: dict[int, dict[int, Any]] = {}
        self._stopped = False

    def receive(self, message: Any) -> int | None:
        """Take a message of a task or of the driver, and answer it.

        Raises:
            RuntimeError: too much waits for an epoch that does not come.
        """
        match message:
            case IncrementAndGetEpoch():  # (1)
                self._driver_epoch += 1
                return self._driver_epoch
            case GetCurrentEpoch():
                return self._driver_epoch
            case SetReaderPartitions(number):
                self._readers = number
            case SetWriterPartitions(number):
                self._writers = number
            case StopContinuousExecutionWrites():  # (6)
                self._stopped = True
            case _ if self._stopped:
                pass
            case ReportPartitionOffset(partition, epoch, offset):  # (2)
                offsets = self._offsets.setdefault(epoch, {})
                offsets[partition] = offset
                if len(offsets) == self._readers:
                    self._add_offset(epoch, offsets)
                    self._commit_finished_epochs()
                self._check_backlog()
            case CommitPartitionEpoch(partition, epoch, commit):  # (3)
                self._commits.setdefault(epoch, {}).setdefault(partition, commit)
                self._commit_finished_epochs()
                self._check_backlog()
        return None

    def _commit_finished_epochs(self) -> None:  # (4)
        while self._is_finished(self._last_committed + 1):
            epoch = self._last_committed + 1
            commits = self._commits.pop(epoch)
            self._commit(epoch, [message for _, message in sorted(commits.items(), key=lambda one: one[0])])
            del self._offsets[epoch]
            self._last_committed = epoch

    def _is_finished(self, epoch: int) -> bool:
        return (
            len(self._commits.get(epoch, ())) == self._writers > 0 and len(self._offsets.get(epoch, ())) == self._readers > 0
        )

    def _check_backlog(self) -> None:  # (5)
        waiting = {
            "partition offset": sum(map(len, self._offsets.values())),
            "partition commit": sum(map(len, self._commits.values())),
            "epoch": sum(map(self._is_finished, self._commits)),
        }
        for what, size in waiting.items():
            if size > self._backlog_size:
                raise RuntimeError(f"Size of the {what} queue has exceeded its maximum")
