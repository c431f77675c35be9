"""The two tasks between which rows change their partition in real-time mode, and what each task with state does there.

Models: StreamingDeduplicateExec and StatefulStreamlineAggregateExec above a PipelinedShuffleDependency (in no document: it is
newer).

Such a query consists of pipelines, whose tasks all run at the same time:

1. The sending task is the last one of a pipeline. For each row, Spark has computed the partition, by the hash that a shuffle
   takes, so the files of the state are those of micro-batches. Rows that only push others forward end here.
2. The receiving task is the first one of the next pipeline. It opens version N of its state, as its job says
   (low_latency_batch.py), and is given the rows in the batches in which they come.
3. Rows leave it at once, followed by rows that push them forward (extras/continuous/queued_data_reader.py), unless more rows
   are waiting already.
4. When all senders have ended, the batch has ended: the task evicts, commits version N + 1, and reports. If the query was
   stopped, it does none of this.

    pipeline 1     reader > Spark's operators, and the partition > sender
                                                                      | Arrow batches (channel.py)
    pipeline 2                                                     receiver and state > Spark's operators > writer

A version whose batch is not in the commit log is never read: the name of its files has an id, and only the commit log has that.

Differs from Spark: nothing.
Shown by tests/conformance/test_real_time_state.py::test_logs_and_reports_are_equal.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.state_task import StateTask, Stopwatch, own_partition, record_batches
from minispark_stream.engine.operators.worker_tuning import acknowledged, tune_worker, written_out
from minispark_stream.engine.state.state_store import StateStore
from minispark_stream.extras.real_time.channel import Receiver, Sender
from minispark_stream.extras.real_time.low_latency_batch import LowLatencyBatch
from minispark_stream.extras.real_time.low_latency_reader import AtEnd, ReportsOfReaders, first_attempt
from minispark_stream.extras.real_time.ways import COMPUTED, RECEIVED, Passed, names_of_rows, now
from minispark_stream.extras.rpc import RpcEndpointRef


@dataclass(frozen=True)
class Channel:
    """The way to the partitions of an operator.

    Attributes:
        control: the position of the column of PUSH in the rows.
        follows: where tasks report which rows have passed, if rows are followed on their way (ways.py).
    """

    switchboard: RpcEndpointRef
    operator_id: int
    control: int
    follows: ReportsOfReaders | None = None


@dataclass(frozen=True)
class SendingTask:
    """(1) The function that `mapInArrow` runs; the last column of the rows is the partition. Nothing comes out of it.

    `of_state` is what the end of a pipeline does for an aggregation in it (low_latency_aggregate.py).
    """

    channel: Channel
    partitions: int
    of_state: AtEnd | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first_attempt()
        number, rows = own_partition(batches)
        channel, passed = self.channel, list[Passed]()
        sender = Sender(channel.switchboard, channel.operator_id, self.partitions)
        batches = acknowledged(rows)
        for batch in batches if self.of_state is None else self.of_state(number, batches):
            names = names_of_rows(batch.column(channel.control)) if channel.follows is not None else []
            for partition, part, of_part in _by_partition(batch, channel.control, names):
                passed += (now(name, COMPUTED, number) for name in of_part)
                sender.send(partition, part, of_part)
        sender.end()
        if channel.follows is not None:
            channel.follows.add(passed)
        yield from ()


def _by_partition(
    batch: pa.RecordBatch, control: int, names: Sequence[str | None] = ()
) -> Iterator[tuple[int, pa.RecordBatch, list[str]]]:
    """The rows of data and their names, for each partition that has any. `names` are those of the rows of the batch."""
    last, is_data = batch.num_columns - 1, batch.column(control).is_null()
    data = batch.filter(is_data)
    of_row = np.asarray(data.column(last))
    rows, named = data.remove_column(last), [name for name, one in zip(names, is_data.to_pylist()) if one] if names else []
    for partition in np.unique(of_row).tolist():
        own = (name for name, at in zip(named, of_row) if at == partition and name is not None)
        yield partition, rows.filter(pa.array(of_row == partition)), list(dict.fromkeys(own))


@dataclass(frozen=True, kw_only=True)
class RowByRowTask(StateTask):
    """(2) The function that `mapInArrow` runs over partitions without rows; the rows come from `senders` tasks.

    `counts` are those of the batch so far: `updated` and `late` rows, the `ms` that they took, and `own_metrics`.
    """

    channel: Channel
    senders: int
    counts: Counter[str] = field(default_factory=Counter)
    own_metrics: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def take(self, store: StateStore, rows: pa.RecordBatch, arriving: Receiver) -> Iterator[pa.RecordBatch]:
        """Process rows that have come; yields what to emit, rows that push others forward included."""

    @abstractmethod
    def evicted(self, store: StateStore) -> tuple[Sequence[bytes], int]:
        """The keys that no later row needs, and how many rows are read to find them."""

    def _finish(self, store: StateStore) -> StateMetrics:  # (4)
        """Evict and commit; returns what has happened in the batch."""
        clock = Stopwatch()
        gone, read = self.evicted(store)
        removed = store.remove(gone)
        removals_ms = clock.lap()
        own = {name: self.counts[name] for name in self.own_metrics}
        return self.committed(
            clock,
            [store],
            None,
            num_rows_updated=self.counts["updated"],
            num_rows_removed=removed,
            num_rows_dropped_by_watermark=self.counts["late"],
            all_updates_time_ms=self.counts["ms"],
            all_removals_time_ms=removals_ms,
            custom={**own, "numRowsIncrementallyRemoved": 0, "numRowsReadDuringEviction": read},
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return LowLatencyBatch.of_task(first_attempt()).with_state(self).in_batch(batches)

    def in_batch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        partition, nothing = own_partition(batches)
        for _ in nothing:
            pass
        channel, passed = self.channel, list[Passed]()
        arriving = Receiver(channel.switchboard, channel.operator_id, partition, self.senders, self.output)
        try:
            with self.info.open_stores(partition, *self.store_names) as [store]:
                for rows in arriving:
                    passed += (now(name, RECEIVED, partition) for name in arriving.names)
                    for emitted in self.take(store, rows, arriving):  # (3)
                        yield from written_out(record_batches(emitted, self.output))
                if arriving.is_cut_off:
                    return
                self.metrics.add([(partition, self._finish(store))])
                if channel.follows is not None:
                    channel.follows.add(passed)
        finally:
            arriving.close()
