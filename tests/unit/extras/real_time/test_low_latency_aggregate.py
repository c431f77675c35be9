"""An aggregation in real-time mode without Spark: the groups that Catalyst is to merge, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.columns import record_batch
from minispark_stream.engine.operators.state_task import OperatorWatermarks
from minispark_stream.extras.real_time import low_latency_aggregate
from minispark_stream.extras.real_time.channel import Receiver, Switchboard
from minispark_stream.extras.real_time.low_latency_aggregate import LowLatencyAggregate, StateFromEnd
from minispark_stream.extras.real_time.streaming_state import Channel

KEYS, SUMS = StructType().add("k", StringType()), StructType().add("sum", LongType())
FIELDS = {"k": pa.string(), "control": pa.string(), "number": pa.int64(), "sum": pa.int64()}
OUTPUT = pa.schema(FIELDS)


class Store:
    """As much of a state store as the task needs."""

    def __init__(self, **sums: int):
        encoded = UnsafeRowCodec(KEYS).encode_rows([pa.array(list(sums))]), UnsafeRowCodec(SUMS).encode_rows([pa.array(list(sums.values()))])
        self.values = dict(zip(*encoded)) if sums else {}

    def get(self, keys: Sequence[bytes]) -> tuple[list[bool], list[bytes]]:
        return [key in self.values for key in keys], [self.values[key] for key in keys if key in self.values]

    def put(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        self.values.update(zip(keys, values))

    def sums(self) -> dict[str, int]:
        [keys], [sums] = UnsafeRowCodec(KEYS).decode(list(self.values)), UnsafeRowCodec(SUMS).decode(list(self.values.values()))
        return dict(zip(keys.to_pylist(), sums.to_pylist()))


class Catalyst:
    """Merges the groups that a task emits, as Spark does, and sends back what is to come back."""

    names = ()

    def __init__(self) -> None:
        self.groups: list[tuple[str | None, str, list[int]]] = []
        self._coming_back: list[pa.RecordBatch] = []
        self.rounds = 0

    def merge(self, emitted: pa.RecordBatch) -> None:
        of_numbers: dict[int, tuple[str | None, str, list[int]]] = {}
        for k, control, number, value in zip(*(column.to_pylist() for column in emitted.columns)):
            of_numbers.setdefault(number, (control, k, []))[2].append(value)
        groups = [group for number, group in of_numbers.items() if number >= 0]
        self.groups += groups
        self.rounds += 1
        merged = {k: sum(values) for control, k, values in groups if control is not None}
        assert list(merged) == [k for control, k, _ in groups if control is not None]
        self._coming_back = [record_batch([pa.array(list(merged)), pa.array(list(merged.values()), pa.int64())], len(merged))]

    def merged(self, number: int) -> Iterator[pa.RecordBatch]:
        assert number == sum(batch.num_rows for batch in self._coming_back)
        yield from self._coming_back


def taken(store: Store, *rows: tuple[str, int]) -> Catalyst:
    nowhere: Any = None
    task = LowLatencyAggregate(
        info=nowhere, watermarks=OperatorWatermarks(0, 0, False), output=OUTPUT, metrics=nowhere, output_mode="update", keys=KEYS,
        values=SUMS, event_time=None, channel=nowhere, senders=1,
    )
    columns = {"k": [k for k, _ in rows], "control": [None] * len(rows), "number": range(len(rows)), "sum": [v for _, v in rows]}
    catalyst: Any = Catalyst()
    of_task: Any = store
    for emitted in task.take(of_task, pa.RecordBatch.from_pydict(columns, schema=OUTPUT), catalyst):
        catalyst.merge(emitted)
    return catalyst


def test_each_row_makes_a_group_of_what_came_before_it() -> None:
    store = Store(a=5)
    found = taken(store, ("a", 1), ("b", 2), ("a", 3))
    assert found.groups == [(None, "a", [5, 1]), ("comes back", "b", [2]), ("comes back", "a", [5, 1, 3])]
    assert store.sums() == {"a": 9, "b": 2}


def test_a_key_that_comes_often_is_taken_in_rounds(monkeypatch: Any) -> None:
    monkeypatch.setattr(low_latency_aggregate, "MOST_REPEATED", 2)
    store = Store()
    found = taken(store, ("a", 1), ("b", 1), ("a", 1), ("a", 1), ("b", 1), ("a", 1), ("a", 1))
    assert [(k, sum(values)) for _, k, values in found.groups] == [
        ("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 4), ("a", 5),
    ]
    assert found.rounds == 3 and max(len(values) for _, _, values in found.groups) == 3 and store.sums() == {"a": 5, "b": 2}


def test_rows_with_different_keys_are_one_round() -> None:
    store = Store(a=1)
    found = taken(store, *((str(n), 1) for n in range(10_000)))
    assert found.rounds == 1 and store.sums() == {"a": 1, **{str(n): 1 for n in range(10_000)}}


def test_what_comes_back_goes_to_the_task_and_rows_go_on() -> None:
    switchboard = Switchboard("127.0.0.1")
    receiver = Receiver(switchboard.ref, 0, 1, 1, OUTPUT)
    state = pa.struct([("_0", pa.string()), ("_1", pa.int64())])
    control = pa.array(
        [None, {"_0": "comes back", "_1": {"_0": "a", "_1": 9}}, {"_0": "--", "_1": {"_0": "a", "_1": 9}}],
        pa.struct([("_0", pa.string()), ("_1", state)]),
    )
    batch = pa.RecordBatch.from_arrays([pa.array([9, None, None]), control, pa.array([0, 1, 1])], ["sum", "control", "partition"])
    [rows] = StateFromEnd(Channel(switchboard.ref, 0, 1), 1)(1, iter([batch]))
    assert rows.to_pydict() == {"sum": [9, None], "control": [None, "--"], "partition": [0, 1]}
    assert [one.to_pydict() for one in receiver.merged(1)] == [{"_0": ["a"], "_1": [9]}]
    receiver.close()
    switchboard.stop()
