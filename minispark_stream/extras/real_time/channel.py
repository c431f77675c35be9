"""Rows on their way between two sets of tasks that run at the same time.

Models: the shuffle of a PipelinedShuffleDependency, "streaming" (in no document: it is newer).

A shuffle of Spark's keeps rows until all tasks before it have ended. Here, the tasks after it run at the same time, and rows go
from worker to worker:

1. A receiving task listens, and tells the driver where (`Switchboard`).
2. A sending task asks the driver until all receivers are known, and opens a connection to each (extras/rpc.py, which proves
   to each other that both know the secret of the query).
3. A message is an Arrow batch without its schema, and is answered when the receiver has put it into its queue. If more than
   `QUEUE_BYTES` would wait there, the answer waits, and with it the sender, the pipe that fills the sender, and the reader of
   the source. What waits in the queue is taken out together.
4. When a sender has seen the last row of its batch, it says so. A receiver that has heard this of all senders has seen
   everything, and ends.

5. The end of the receiver's own pipeline may send something back to it. This has an endpoint of its own, so that it comes also
   while senders wait for room in the queue, which may wait for it.

    sender 0    a c   ->  receiver 0     a c e, then end, end
    sender 1    b e   ->  receiver 1     b, then end, end

6. When the query is stopped, the readers end, and so do the senders. Before a sender says so, it asks the driver whether the
   batch is over. If it was cut off instead, its receivers do not commit.

A sender that dies does not say that it has ended, so its receivers do not end either. Its task has failed, and with it the job:
Spark ends the other tasks.

Differs from Spark: there, rows go from JVM to JVM; here from one Python worker to another one.
Shown by tests/unit/extras/real_time/test_channel.py::test_rows_of_all_senders_arrive.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from minispark_stream.engine.operators.columns import concat
from minispark_stream.extras.rpc import RpcEndpoint, RpcEndpointRef

QUEUE_BYTES = 2 * 2**20  # of rows that wait at a receiver, unless a single message has more
_LOOK_AGAIN_S = 0.005  # how long a sender waits before it asks again
_FULL_S = 0.1  # how long a full queue is waited for before looking whether the receiver has ended


@dataclass(frozen=True)
class Listening:
    """A receiver says where it listens, to senders and to the end of its own pipeline; the answer is None."""

    operator_id: int
    partition: int
    at: RpcEndpointRef
    way_back: RpcEndpointRef


@dataclass(frozen=True)
class WhoListens:
    """The answer is what the receivers of an operator have said, by their partitions."""

    operator_id: int


@dataclass(frozen=True)
class IsCutOff:
    """A sender that has seen its last row asks whether the query has been stopped."""


@dataclass(frozen=True)
class Message:
    """Rows, or None: the end, which may be that of a batch that was cut off; and the names of their readings (ways.py).

    The answer is None.
    """

    rows: pa.Buffer | None
    names: tuple[str, ...] = ()
    is_cut_off: bool = False


class Switchboard:
    """(1) The driver's list of the receivers of the current batch."""

    def __init__(self, host: str):
        self._receivers: dict[int, dict[int, Listening]] = {}
        self._is_cut_off = False
        self._endpoint = RpcEndpoint(host, self._answer)
        self.ref = self._endpoint.ref

    def forget(self) -> None:
        """Another batch begins, with other receivers."""
        self._receivers = {}

    def cut_off(self) -> None:  # (6)
        self._is_cut_off = True

    def stop(self) -> None:
        self._endpoint.stop()

    def _answer(self, message: Listening | WhoListens | IsCutOff) -> dict[int, Listening] | bool | None:
        if isinstance(message, IsCutOff):
            return self._is_cut_off
        receivers = self._receivers.setdefault(message.operator_id, {})
        if isinstance(message, WhoListens):
            return dict(receivers)
        receivers[message.partition] = message
        return None


class Sender:
    """(2) The connections of a task to the receivers of an operator. Raises OSError, EOFError: the driver has ended."""

    def __init__(self, switchboard: RpcEndpointRef, operator_id: int, receivers: int):
        self._driver = switchboard.connect()
        while len(found := self._driver.ask(WhoListens(operator_id))) < receivers:
            time.sleep(_LOOK_AGAIN_S)
        self._receivers = {partition: one.at.connect() for partition, one in found.items()}

    def send(self, partition: int, rows: pa.RecordBatch, names: Iterable[str] = ()) -> None:  # (3)
        self._receivers[partition].ask(Message(rows.serialize(), tuple(names)))

    def end(self) -> None:  # (4)
        is_cut_off = self._driver.ask(IsCutOff())  # (6)
        self._driver.close()
        for receiver in self._receivers.values():
            receiver.ask(Message(None, is_cut_off=is_cut_off))
            receiver.close()


class WayBack:
    """(5) The connection from the end of a pipeline to the receiver at its beginning."""

    def __init__(self, switchboard: RpcEndpointRef, operator_id: int, partition: int):
        driver = switchboard.connect()
        try:
            self._receiver = driver.ask(WhoListens(operator_id))[partition].way_back.connect()
        finally:
            driver.close()

    def send(self, rows: pa.RecordBatch) -> None:
        self._receiver.ask(rows)


class Receiver:
    """The rows of one partition, from `senders` tasks. `names` are those of the rows that were taken last."""

    def __init__(self, switchboard: RpcEndpointRef, operator_id: int, partition: int, senders: int, schema: pa.Schema):
        self._schema, self._running, self.names = schema, senders, tuple[str, ...]()
        self.is_cut_off = False  # known at the end
        self._queue, self._bytes = list[Message](), 0
        self._changed = threading.Condition()
        self._merged: queue.SimpleQueue[pa.RecordBatch] = queue.SimpleQueue()
        self._closed = threading.Event()
        with socket.create_connection(switchboard.address) as probe:  # this machine, as those see it who find the driver
            host = probe.getsockname()[0]
        self._endpoint, self._way_back = RpcEndpoint(host, self._put), RpcEndpoint(host, self._merged.put)
        driver = switchboard.connect()
        driver.ask(Listening(operator_id, partition, self._endpoint.ref, self._way_back.ref))
        driver.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:  # (3)
        """The rows as they come, those that wait together, until all senders have ended."""
        while self._running:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                messages, self._queue, self._bytes = self._queue, [], 0
                self._changed.notify_all()
            of_rows = [one for one in messages if one.rows is not None]
            self._running -= len(messages) - len(of_rows)
            self.is_cut_off |= any(one.is_cut_off for one in messages)
            if of_rows:
                self.names = tuple(dict.fromkeys(name for one in of_rows for name in one.names))
                yield concat(pa.ipc.read_record_batch(one.rows, self._schema) for one in of_rows)

    def merged(self, number: int) -> Iterator[pa.RecordBatch]:
        """Wait for so many rows that come back."""
        while number > 0:
            rows = self._merged.get()
            number -= rows.num_rows
            yield rows

    def is_empty(self) -> bool:
        """Whether nothing waits in the queue."""
        return not self._queue

    def close(self) -> None:
        self._closed.set()
        self._endpoint.stop()
        self._way_back.stop()

    def _put(self, message: Message) -> None:  # (3)
        size = 0 if message.rows is None else message.rows.size
        with self._changed:
            while self._queue and self._bytes + size > QUEUE_BYTES:
                if self._closed.is_set():
                    raise RuntimeError("The receiver has ended")
                self._changed.wait(_FULL_S)
            self._queue.append(message)
            self._bytes += size
            self._changed.notify_all()
