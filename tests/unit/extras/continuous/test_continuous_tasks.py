"""Reader, writer and coordinator together, without Spark: what the tasks of a continuous query say to the driver and to the sink."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import DataType, LongType, StringType, StructType

from minispark_stream.engine.sources.base import ContinuousInputPartition, StreamedRows
from minispark_stream.extras import rpc
from minispark_stream.extras.continuous.continuous_queued_data_reader import ContinuousReaderTask
from minispark_stream.extras.continuous.continuous_write import ContinuousWriterTask
from minispark_stream.extras.continuous.epoch_coordinator import (
    EpochCoordinator,
    IncrementAndGetEpoch,
    SetReaderPartitions,
    SetWriterPartitions,
)
from minispark_stream.extras.continuous.python_udfs import ForRows
from minispark_stream.extras.continuous.queued_data_reader import BATCH_BYTES, PUSH
from minispark_stream.extras.rpc import RpcEndpoint

SCHEMA = StructType().add("_0", StringType()).add("epoch", StringType())
WITHIN_S = 60


@dataclass
class Letters(ContinuousInputPartition):
    """Gives a letter each time that the test says so; an offset is the number of letters before it."""

    letters: Sequence[str]
    go: threading.Semaphore
    start_offset: int = 0
    given: int = 0

    def read(self, stopped: threading.Event) -> Iterator[tuple[StreamedRows, Any]]:
        for offset, letter in enumerate(self.letters[self.start_offset :], self.start_offset + 1):
            while not self.go.acquire(timeout=0.01):
                if stopped.is_set():
                    return
            if letter == "!":
                raise OSError("the disk is on fire")
            self.given = offset
            yield [(letter,)], offset
        stopped.wait()


def through_spark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Spark gathers rows for a Python worker, and gives on a batch that is full when it has seen that there is another row."""
    gathered: list[pa.RecordBatch] = []
    for row in (batch.slice(i, 1) for batch in batches for i in range(batch.num_rows)):
        if sum(one.nbytes for one in gathered) >= BATCH_BYTES:
            yield pa.concat_batches(gathered)
            gathered = []
        gathered.append(row)
    yield pa.concat_batches(gathered)


class Run:
    """A task of one reader and one writer on a thread, and a driver that begins an epoch when the test says so."""

    def __init__(self, letters: Sequence[str], queue_size: int = 100):
        self.go, self.offsets, self.commits, self.errors = threading.Semaphore(0), [], [], []  # type: ignore[var-annotated]
        self._changed = threading.Condition()
        coordinator = EpochCoordinator(
            5, 100, lambda epoch, offsets: self._note(self.offsets, (epoch, offsets[0])),
            lambda epoch, messages: self._note(self.commits, (epoch, messages[0])),
        )
        coordinator.receive(SetReaderPartitions(1))
        coordinator.receive(SetWriterPartitions(1))
        self.endpoint = RpcEndpoint("127.0.0.1", coordinator.receive, self.errors.append)
        self.written: list[str] = []
        self.batches: list[int] = []
        self.source = Letters(letters, self.go)
        self.sink_may_write = threading.Event()
        self.sink_may_write.set()
        reader = ContinuousReaderTask((self.source,), SCHEMA, self.endpoint.ref, 5, queue_size, 0.01)
        writer = ContinuousWriterTask(self._write, self.endpoint.ref, 5)
        self.thread = threading.Thread(target=self._run, args=(reader, writer))
        self.thread.start()

    def _run(self, reader: ContinuousReaderTask, writer: ContinuousWriterTask) -> None:
        ids = iter([pa.RecordBatch.from_pydict({"id": [0]})])
        try:
            list(writer(through_spark(reader(ids))))
        except Exception as e:
            self.errors.append(e)

    def _write(self, partition_id: int, epoch_id: int, batches: Iterator[pa.RecordBatch]) -> str:
        rows = ""
        for batch in batches:
            assert self.sink_may_write.wait(WITHIN_S)
            self.batches.append(batch.num_rows)
            for letter in batch.column(0).to_pylist():
                rows += letter
                self._note(self.written, letter)
        return rows

    def _note(self, where: list[Any], what: Any) -> None:
        with self._changed:
            where.append(what)
            self._changed.notify_all()

    def read(self, number: int) -> None:
        """Let the source give some letters, and wait until the sink has them."""
        wanted = len(self.written) + number
        self.go.release(number)
        self.wait_for(lambda: len(self.written) == wanted)

    def end_epoch(self) -> None:
        wanted = len(self.commits) + 1
        self.endpoint.tell(IncrementAndGetEpoch())
        self.wait_for(lambda: len(self.commits) == wanted)

    def wait_for(self, condition: Any) -> None:
        with self._changed:
            assert any(self._changed.wait_for(condition, 0.01) for _ in range(100 * WITHIN_S))

    def stop(self) -> None:
        self.endpoint.stop()
        self.thread.join(WITHIN_S)
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def task_context(monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        def attemptNumber(self) -> int:  # noqa: N802
            return 0

        def partitionId(self) -> int:  # noqa: N802
            return 0

    monkeypatch.setattr("pyspark.TaskContext.get", Context)


def test_rows_come_at_once_and_epochs_when_the_driver_says_so():
    run = Run("abcd")
    run.read(2)
    run.end_epoch()
    run.end_epoch()
    run.read(1)
    run.end_epoch()
    run.stop()
    assert run.offsets == [(5, 2), (6, 2), (7, 3)]
    assert run.commits == [(5, "ab"), (6, ""), (7, "c")]
    assert run.errors == []


def test_rows_that_have_queued_travel_together_and_a_row_that_is_alone_waits_for_no_other():
    run = Run("abcdef")
    run.read(1)
    run.sink_may_write.clear()
    run.go.release()
    run.wait_for(lambda: run.source.given == 2)
    run.go.release(4)
    run.wait_for(lambda: run.source.given == 6)
    run.sink_may_write.set()
    run.wait_for(lambda: len(run.written) == 6)
    run.end_epoch()
    run.stop()
    assert run.commits == [(5, "abcdef")] and run.batches[0] == 1
    assert len(run.batches) < 5, "what came while the sink was busy came together"


def test_a_source_waits_for_a_slow_sink_and_no_row_is_lost():
    texts = [f"{i:05}" * 200 for i in range(500)]  # some 30 fill a batch
    run, ahead = Run(texts, queue_size=10), []
    note = run._note
    run._note = lambda where, what: (ahead.append(run.source.given - len(run.written)), note(where, what))  # type: ignore[method-assign, assignment, func-returns-value]
    run.go.release(len(texts))
    run.wait_for(lambda: len(run.written) == len(texts))
    run.end_epoch()
    run.stop()
    assert run.commits == [(5, "".join(texts))] and max(ahead) < 100


def test_a_task_ends_with_its_driver_and_leaves_no_thread():
    before = threading.active_count()
    run = Run("a" * 50, queue_size=2)
    run.read(1)
    run.go.release(49)
    run.stop()
    assert threading.active_count() == before
    assert run.commits == [] and run.errors == []


def test_an_error_of_the_source_ends_the_task():
    run = Run("a!")
    run.read(1)
    run.go.release()
    run.thread.join(WITHIN_S)
    run.stop()
    assert str(run.errors[0]) == "Data read failed: OSError: the disk is on fire"


def test_a_stranger_is_not_heard():
    run = Run("a")
    stranger = type(run.endpoint.ref)(run.endpoint.ref.address, b"guess")
    with pytest.raises(Exception, match="digest"):
        stranger.connect()
    run.read(1)
    run.end_epoch()
    run.stop()
    assert run.commits == [(5, "a")]


def test_what_an_endpoint_cannot_do_is_raised_where_it_was_asked():
    endpoint = RpcEndpoint("127.0.0.1", lambda message: 10 // message)
    asker = endpoint.ref.connect()
    with pytest.raises(RuntimeError, match="by zero"):
        asker.ask(0)
    assert asker.ask(5) == 2
    endpoint.stop()
    with pytest.raises((OSError, EOFError)):
        asker.ask(5)


def test_a_long_message_does_not_wait_for_an_acknowledgement():
    """For TCP, the length and the rest of a message are two, and it may keep the second back for 40 ms, on each way."""
    endpoint = RpcEndpoint("127.0.0.1", lambda message: message)
    connection = endpoint.ref.connect()
    took = []
    for _ in range(30):
        began = time.monotonic()
        assert len(connection.ask(b"x" * 40_000)) == 40_000
        took.append(time.monotonic() - began)
    connection.close()
    endpoint.stop()
    assert min(took[20:]) < 0.04, took  # at first, Linux acknowledges at once


def test_an_endpoint_ends_even_if_a_connection_came_just_before():
    endpoint = RpcEndpoint("127.0.0.1", lambda message: message)
    start = endpoint._start

    def not_before_the_end(*args: Any) -> threading.Thread:
        endpoint._stopped.wait(WITHIN_S)
        return start(*args)

    endpoint._start = not_before_the_end  # type: ignore[method-assign, assignment]
    socket.create_connection(endpoint.ref.address).close()
    ending = threading.Thread(target=endpoint.stop, daemon=True)
    ending.start()
    ending.join(10)
    assert not ending.is_alive()


def test_a_stranger_who_says_nothing_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(rpc, "PATIENCE_S", 1)
    endpoint = RpcEndpoint("127.0.0.1", lambda message: message)
    strangers = [socket.create_connection(endpoint.ref.address) for _ in range(5)]
    for stranger in strangers:
        stranger.settimeout(WITHIN_S)
        assert stranger.recv(1000), "the challenge"
    asker = endpoint.ref.connect()
    assert asker.ask(7) == 7
    for stranger in strangers:
        with stranger:
            assert stranger.recv(1000) == b"", "the connection was closed"
    began = time.monotonic()
    endpoint.stop()
    assert time.monotonic() - began < 3


def test_a_server_that_says_nothing_does_not_hold_a_task_up(monkeypatch):
    monkeypatch.setattr(rpc, "PATIENCE_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as another, pytest.raises(OSError):
        rpc.RpcEndpointRef(another.getsockname(), b"secret").connect()


def test_an_endpoint_without_files_left_goes_on_and_can_be_stopped(monkeypatch):
    endpoint = RpcEndpoint("127.0.0.1", lambda message: message)
    listener, failed = endpoint._listener, threading.Event()

    class WithoutFiles:
        def accept(self) -> Any:
            if not failed.is_set():
                failed.set()
                raise OSError(errno.EMFILE, "Too many open files")
            return listener.accept()

        def close(self) -> None:
            listener.close()

    endpoint._listener = WithoutFiles()  # type: ignore[assignment]
    assert failed.wait(WITHIN_S)
    asker = endpoint.ref.connect()
    assert asker.ask(7) == 7
    endpoint.stop()
    assert not endpoint._accepting.is_alive()


def called(function: Any, returns: DataType) -> ForRows:
    return ForRows(CloudPickleSerializer().dumps((function, returns)), returns)


def test_a_udf_is_called_for_rows_and_not_for_markers():
    plain = called(lambda value, by: value * by, LongType())
    assert plain(None, 3, by=2) == 6
    assert [plain(marker, None, by=None) for marker in ("0", PUSH)] == [None, None]
    row, marker, nothing = pd.Series([None]), pd.Series(["7"]), pd.Series([None])
    column = called(lambda values: values * 2, LongType())
    assert column(row, pd.Series([3])).tolist() == [6] and column(marker, nothing).tolist() == [None]
    frame = called(lambda values: pd.DataFrame({"n": values}), StructType().add("n", LongType()))
    assert frame(row, pd.Series([3])).n.tolist() == [3] and frame(marker, nothing).n.tolist() == [None]
    arrow = called(pc.negate, LongType())
    assert arrow(pa.array([None], pa.string()), pa.array([3])).to_pylist() == [-3]
    assert arrow(pa.array(["7"]), pa.array([None], pa.int64())) == pa.array([None], pa.int64())
