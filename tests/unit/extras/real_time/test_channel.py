"""The channel between two pipelines, without Spark: rows of several senders, back pressure, and a sender that dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from minispark_stream.extras.real_time import channel
from minispark_stream.extras.real_time.channel import Receiver, Sender, Switchboard, WayBack
from minispark_stream.extras.real_time.streaming_state import _by_partition

SCHEMA = pa.schema([("k", pa.string())])


@pytest.fixture
def switchboard() -> Iterator[Switchboard]:
    one = Switchboard("127.0.0.1")
    yield one
    one.stop()


def rows(*keys: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": list(keys)}, schema=SCHEMA)


def received(receiver: Receiver) -> list[str]:
    return [key for batch in receiver for key in batch.column(0).to_pylist()]


def test_rows_of_all_senders_arrive(switchboard: Switchboard) -> None:
    """Two senders, two receivers; one receiver gets a row of 1 MB, and the other one nothing from the second sender."""
    receivers = [Receiver(switchboard.ref, 0, partition, 2, SCHEMA) for partition in (0, 1)]
    first, second = (Sender(switchboard.ref, 0, 2) for _ in range(2))
    first.send(0, rows("a", "c"))
    first.send(1, rows("b"))
    first.end()
    arriving = iter(receivers[0])
    assert next(arriving).column(0).to_pylist() == ["a", "c"]
    second.send(0, rows("x" * 2**20))
    second.end()
    assert [batch.column(0).to_pylist() for batch in arriving] == [["x" * 2**20]] and received(receivers[1]) == ["b"]
    for receiver in receivers:
        receiver.close()


def test_rows_that_wait_are_received_together(switchboard: Switchboard) -> None:
    """So are the names of their readings; the end may wait with them."""
    receiver = Receiver(switchboard.ref, 0, 0, 1, SCHEMA)
    sender = Sender(switchboard.ref, 0, 1)
    sender.send(0, rows("a", "b"), ["0.0.1"])
    sender.send(0, rows("c"), ["0.0.1", "0.0.2"])
    sender.end()
    assert [(batch.column(0).to_pylist(), receiver.names) for batch in receiver] == [(["a", "b", "c"], ("0.0.1", "0.0.2"))]
    receiver.close()


def test_the_end_of_a_batch_that_was_cut_off(switchboard: Switchboard) -> None:
    """The driver has stopped the query; what came before is received."""
    receivers = [Receiver(switchboard.ref, 0, partition, 1, SCHEMA) for partition in (0, 1)]
    sender = Sender(switchboard.ref, 0, 2)
    sender.send(0, rows("a"))
    switchboard.cut_off()
    sender.end()
    assert [(received(one), one.is_cut_off) for one in receivers] == [(["a"], True), ([], True)]
    for receiver in receivers:
        receiver.close()


def test_a_sender_waits_for_receivers_and_for_room(switchboard: Switchboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits until all receivers listen, and while the queue of one has room for no more."""
    monkeypatch.setattr(channel, "QUEUE_BYTES", 2 * rows("0").serialize().size)
    sent: list[int] = []

    def send() -> None:
        sender = Sender(switchboard.ref, 3, 1)
        for number in range(5):
            sender.send(0, rows(str(number)))
            sent.append(number)
        sender.end()

    thread = threading.Thread(target=send)
    thread.start()
    receiver = Receiver(switchboard.ref, 3, 0, 1, SCHEMA)
    deadline = time.monotonic() + 20
    while len(sent) < 2 and time.monotonic() < deadline:
        thread.join(0.01)
    thread.join(0.2)
    assert sent == [0, 1]
    assert received(receiver) == list("01234") and receiver.is_empty()
    thread.join(20)
    receiver.close()


def test_what_comes_back_passes_a_full_queue(switchboard: Switchboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver may take no more rows before it has this, and then the sender waits for the receiver."""
    monkeypatch.setattr(channel, "QUEUE_BYTES", 1)
    receiver = Receiver(switchboard.ref, 0, 0, 1, SCHEMA)
    sender = Sender(switchboard.ref, 0, 1)

    def send() -> None:
        for key in "ab":
            sender.send(0, rows(key))
        sender.end()

    sending = threading.Thread(target=send)
    sending.start()
    while receiver.is_empty():
        time.sleep(0.01)
    sending.join(0.2)
    back = threading.Thread(target=WayBack(switchboard.ref, 0, 0).send, args=[rows("merged")], daemon=True)
    back.start()
    back.join(10)
    assert not back.is_alive()
    assert [one.column(0).to_pylist() for one in receiver.merged(1)] == [["merged"]] and received(receiver) == ["a", "b"]
    sending.join(20)
    receiver.close()


def test_a_receiver_that_has_ended_takes_nothing(switchboard: Switchboard) -> None:
    receiver = Receiver(switchboard.ref, 0, 0, 1, SCHEMA)
    sender = Sender(switchboard.ref, 0, 1)
    receiver.close()
    with pytest.raises((RuntimeError, OSError, EOFError)):
        sender.send(0, rows("a"))


def test_a_new_batch_has_other_receivers(switchboard: Switchboard) -> None:
    receiver = Receiver(switchboard.ref, 0, 0, 1, SCHEMA)
    switchboard.forget()
    later = threading.Timer(0.05, lambda: made.append(Receiver(switchboard.ref, 0, 0, 1, SCHEMA)))
    made: list[Receiver] = []
    later.start()
    sender = Sender(switchboard.ref, 0, 1)
    sender.send(0, rows("a"))
    sender.end()
    assert received(made[0]) == ["a"] and receiver.is_empty()
    for one in (receiver, *made):
        one.close()


def test_rows_go_to_their_partitions_and_control_rows_nowhere() -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["a", "b", None, "c"], "control": [None, None, "-", None], "partition": [1, 0, 1, 1]})
    parts = {partition: part.to_pydict() for partition, part, _ in _by_partition(batch, 1)}
    assert parts == {0: {"k": ["b"], "control": [None]}, 1: {"k": ["a", "c"], "control": [None, None]}}
