"""The sources of the continuous engine and its start, without Spark: offsets, partitions, rows, and the two logs."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException

from minispark_stream.engine.checkpointing.commit_log import CommitMetadata
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetMap, OffsetSeq, OffsetSeqMetadata
from minispark_stream.engine.clock import ManualClock
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.sources.base import MOST_ROWS
from minispark_stream.extras.continuous.continuous_execution import commit_epoch, get_start_offset
from minispark_stream.extras.continuous.rate_stream import RateStreamContinuousStream
from minispark_stream.extras.socket.continuous_stream import TextSocketContinuousStream
from tests.unit.fake_query import FakeQuery

SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))


def test_each_partition_of_rate_counts_by_itself_from_its_offset():
    stream = RateStreamContinuousStream(10, 2, "rate", created_ms=1000)
    assert stream.initial_offset() == '{"0":{"value":-2,"runTimeMs":1000},"1":{"value":-1,"runTimeMs":1000}}'
    offsets = {}
    for i, partition in enumerate(stream.plan_input_partitions(stream.initial_offset())):
        rows, offsets[i] = next(partition.read(threading.Event()))  # it is late, so they come together
        assert rows.column("value").to_pylist() == list(range(i, 2 * MOST_ROWS + i, 2))
    assert stream.merge_offsets(offsets) == '{"0":{"value":1998,"runTimeMs":201000},"1":{"value":1999,"runTimeMs":201000}}'
    rows, _ = next(stream.plan_input_partitions(stream.merge_offsets(offsets))[0].read(threading.Event()))
    assert rows.slice(0, 1).to_pylist() == [{"timestamp": datetime(1970, 1, 1, 0, 3, 21, 200_000, UTC), "value": 2000}]


def test_rate_refuses_offsets_that_are_not_its_own():
    stream = RateStreamContinuousStream(10, 2, "rate", created_ms=1000)
    with pytest.raises(ValueError, match="Expected an object"):
        stream.plan_input_partitions("3")
    with pytest.raises(IllegalArgumentException, match="contained 1 partitions, but 2 partitions are currently configured"):
        stream.plan_input_partitions('{"0":{"value":4,"runTimeMs":1600}}')


def read(reader: Any, number: int) -> tuple[list[str], int]:
    """The next lines of a partition, which may come together, and the offset after them."""
    lines: list[str] = []
    while len(lines) < number:
        rows, offset = next(reader)
        lines += [line for (line,) in rows]
    return lines, offset


def test_lines_of_a_socket_are_dealt_out_and_forgotten_when_their_epoch_is_over():
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        stream = TextSocketContinuousStream(SESSION, host, port, 2, False, ManualClock())
        connection, _ = server.accept()
        stopped = threading.Event()
        readers = [p.read(stopped) for p in stream.plan_input_partitions(stream.initial_offset())]
        connection.sendall(b"a\nb\r\nc\n")
        assert [read(readers[0], 2), read(readers[1], 1)] == [(["a", "c"], 2), (["b"], 1)]
        stream.commit(stream.merge_offsets({0: 2, 1: 1}))
        connection.sendall("d\né\n".encode())
        assert [read(readers[1], 1), read(readers[0], 1)] == [(["d"], 2), (["é"], 3)]
        again = [p.read(threading.Event()) for p in stream.plan_input_partitions("[2,1]")]
        assert [read(again[0], 1), read(again[1], 1)] == [(["é"], 3), (["d"], 2)]
        stream.stop()
        assert [list(one) for one in (*readers, *again)] == [[], [], [], []]
        connection.close()


class Stream:
    def __init__(self) -> None:
        self.committed: list[str] = []

    def initial_offset(self) -> str:
        return "first"

    def commit(self, end: str) -> None:
        self.committed.append(end)


def continuous(checkpoint: Path, keep: int = 100) -> Any:
    query: Any = FakeQuery(checkpoint, min_batches_to_retain=keep)
    query.context, query.stream, query.commits = MicroBatchExecutionContext(), Stream(), []
    query.sink = SimpleNamespace(description="sink")
    query._write = SimpleNamespace(commit=lambda epoch, messages: query.commits.append((epoch, messages)))
    return query


@pytest.mark.parametrize(
    ("offsets", "commits", "epoch", "start", "kept"),
    [
        ({}, [], 0, "first", []),
        ({0: "a"}, [], 0, "first", []),
        ({0: "a", 1: "b"}, [0, 1], 2, "b", [0, 1]),
        ({0: "a", 1: "b", 2: "c", 3: "d"}, [0, 1], 2, "b", [0, 1]),
    ],
    ids=["new", "nothing committed", "all committed", "read, but not written"],
)
def test_a_run_begins_after_the_last_epoch_that_was_committed(tmp_path, offsets, commits, epoch, start, kept):
    query = continuous(tmp_path)
    for n, offset in offsets.items():
        query.offset_log.add(n, OffsetSeq((offset,), None))
    for n in commits:
        query.commit_log.add(n, CommitMetadata())
    assert get_start_offset(query) == start
    assert query.context.batch_id == epoch
    assert query.offset_log.list_batches() == kept


def test_a_commit_without_offsets_is_an_error(tmp_path):
    query = continuous(tmp_path)
    query.commit_log.add(4, CommitMetadata())
    with pytest.raises(RuntimeError, match="Batch 4 was committed without end epoch offsets!"):
        get_start_offset(query)


def test_offsets_of_named_sources_are_those_of_another_engine(tmp_path):
    query = continuous(tmp_path)
    query.offset_log.add(0, OffsetMap({"clicks": "3"}, OffsetSeqMetadata(version=2)))
    query.commit_log.add(0, CommitMetadata())
    with pytest.raises(RuntimeError, match="offsets/0 was written by a query in micro-batches"):
        get_start_offset(query)


def test_the_sink_commits_before_the_log_and_old_entries_go(tmp_path):
    query = continuous(tmp_path, keep=2)
    for epoch in range(4):
        query.offset_log.add(epoch, OffsetSeq((str(epoch),), None))
        commit_epoch(query, epoch, ["rows"], str(epoch))
    assert query.commits == [(epoch, ["rows"]) for epoch in range(4)]
    assert query.stream.committed == ["0", "1", "2", "3"]
    assert query.offset_log.list_batches() == query.commit_log.list_batches() == [2, 3]

    def full(epoch: int, messages: Any) -> None:
        raise OSError("disk full")

    query._write.commit = full
    with pytest.raises(OSError, match="disk full"):
        commit_epoch(query, 4, [], "4")
    assert query.commit_log.get_latest_batch_id() == 3
