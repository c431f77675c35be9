"""A continuous query whose source gets another partition, with the tasks on threads: no Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from minispark_stream.engine.clock import SystemClock
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.trigger_executor import ContinuousTrigger
from minispark_stream.engine.sinks.base import StreamingWrite
from minispark_stream.engine.sinks.noop import NoopSink
from minispark_stream.engine.sources.base import ContinuousInputPartition, ContinuousStream, StreamedRows, offset_by_partition
from minispark_stream.extras.continuous import continuous_execution
from minispark_stream.extras.continuous.continuous_execution import ContinuousExecution
from minispark_stream.extras.continuous.continuous_queued_data_reader import ContinuousReaderTask
from minispark_stream.extras.continuous.continuous_write import ContinuousWriterTask
from tests.unit.fake_query import FakeQuery

SCHEMA = StructType().add("_0", StringType()).add("epoch", StringType())
WITHIN_S = 60
task = threading.local()


@dataclass
class Lines(ContinuousInputPartition):
    lines: list[str]
    start_offset: int

    def read(self, stopped: threading.Event) -> Iterator[tuple[StreamedRows, Any]]:
        offset = self.start_offset
        while not stopped.wait(0.001):
            while offset < len(self.lines):
                offset += 1
                yield [(self.lines[offset - 1],)], offset


class Topic(ContinuousStream):
    """Partitions that are lists of lines; a test may add another one."""

    description = "Topic"

    def __init__(self, *partitions: list[str]) -> None:
        self.partitions, self.known = list(partitions), 0

    def initial_offset(self) -> str:
        return "{}"

    def plan_input_partitions(self, start: str) -> Sequence[Lines]:
        begun = json.loads(start)
        self.known = len(self.partitions)
        return [Lines(lines, begun.get(str(i), 0)) for i, lines in enumerate(self.partitions)]

    def merge_offsets(self, offsets: Mapping[int, Any]) -> str:
        return offset_by_partition(offsets)

    def needs_reconfiguration(self) -> bool:
        return len(self.partitions) != self.known


class WithoutSpark(ContinuousExecution):
    """The engine itself; its job is a thread for each partition."""

    def __init__(self, checkpoint: Path, stream: Topic) -> None:
        vars(self).update(vars(FakeQuery(checkpoint)), conf=lambda key: "10000", conf_ms=lambda key: 1)
        self.stream, self.trigger, self.clock = stream, ContinuousTrigger(5), SystemClock()
        self.context, self.sink = MicroBatchExecutionContext(), NoopSink()
        self.stop_requested, self._failed, self.status = threading.Event(), None, {}
        self.jobs: list[int] = []  # how many tasks each one had
        self.written: list[str] = []
        self._write = StreamingWrite(self._keep)

    def plan(self, partitions: Sequence[ContinuousInputPartition], endpoint: Any) -> Any:
        self.jobs.append(len(partitions))
        self.endpoint = endpoint
        epoch = self.context.batch_id
        reader = ContinuousReaderTask(tuple(partitions), SCHEMA, endpoint.ref, epoch, 100, 0.001)
        return reader, ContinuousWriterTask(self._write.write, endpoint.ref, epoch), len(partitions)

    def _keep(self, partition_id: int, epoch_id: int, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            self.written += batch.column(0).to_pylist()


def run_on_threads(query: WithoutSpark, plan: Any) -> None:
    reader, writer, partitions = plan

    def run(partition_id: int) -> None:
        task.id = partition_id
        ids = iter([pa.RecordBatch.from_pydict({"id": [partition_id]})])
        list(writer(batch.slice(i, 1) for batch in reader(ids) for i in range(batch.num_rows)))

    with ThreadPoolExecutor(partitions) as pool:
        list(pool.map(run, range(partitions)))


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous_execution, "run_job", run_on_threads)
    monkeypatch.setattr(continuous_execution.sessions, "propagate_confs", lambda session: None)
    monkeypatch.setattr(continuous_execution.sessions, "driver_host", lambda session: "127.0.0.1")
    monkeypatch.setattr(
        "pyspark.TaskContext.get", lambda: SimpleNamespace(attemptNumber=lambda: 0, partitionId=lambda: task.id)
    )


def test_the_job_begins_anew_with_the_new_partition_after_the_last_epoch(tmp_path):
    topic = Topic(["a", "b"])
    query = WithoutSpark(tmp_path, topic)

    def wait_for(offset: str) -> None:
        with query.progress_lock:
            assert query.progress_lock.wait_for(lambda: query.context.start_offsets.get(0) == offset, WITHIN_S)

    thread = threading.Thread(target=query.run_activated_stream, daemon=True)
    thread.start()
    wait_for('{"0":2}')
    topic.partitions.append(["c"])
    wait_for('{"0":2,"1":1}')
    topic.partitions[0].append("d")
    wait_for('{"0":3,"1":1}')
    query.stop_requested.set()
    query.endpoint.stop()  # in place of the end of Spark's job
    thread.join(WITHIN_S)
    assert not thread.is_alive()
    assert query.jobs == [1, 2]
    assert sorted(query.written) == ["a", "b", "c", "d"]
    epochs = query.commit_log.list_batches()
    assert epochs == list(range(len(epochs))) and set(epochs) <= set(query.offset_log.list_batches())


def test_a_job_that_ends_by_itself_is_no_good_end(tmp_path, monkeypatch):
    monkeypatch.setattr(continuous_execution, "run_job", lambda query, plan: None)
    with pytest.raises(RuntimeError, match="although the query was not stopped. Can they reach the driver at"):
        WithoutSpark(tmp_path, Topic(["a"])).run_activated_stream()
