"""The Kafka source of the continuous engine without Kafka: which partitions it reads, and what it does about lost records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from minispark_stream.extras.jvm.kafka import KafkaException
from minispark_stream.extras.jvm.kafka_clients import OffsetOutOfRange
from minispark_stream.extras.kafka import continuous_stream as kafka_continuous
from minispark_stream.extras.kafka import offset_reader
from minispark_stream.extras.kafka.continuous_stream import KafkaContinuousStream
from minispark_stream.extras.kafka.offsets import TopicPartition

A0, A1, A2 = (TopicPartition("a", i) for i in range(3))
SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))


class Reader:
    """Has the records from `first` to `end` of a partition, and gives none."""

    group = "group-executor"

    def __init__(self, session: Any, params: Any, group: str, partition: TopicPartition, offset: int, with_headers: bool):
        self.position, self.first, self.end = offset, 4, 9

    def poll(self, timeout_ms: int) -> None:
        if not self.first <= self.position <= self.end:
            raise OffsetOutOfRange(message="out of range")

    def seek(self, offset: int) -> None:
        self.position = offset

    def offset(self) -> int:
        return self.position

    def available(self) -> tuple[int, int]:
        return self.first, self.end

    def wake_up(self) -> None:
        pass

    close = wake_up


class Offsets:
    there = {A0, A1}

    def __init__(self, *arguments: Any):
        pass

    def fetch_partitions(self) -> set[TopicPartition]:
        return set(self.there)

    def fetch_earliest(self, partitions: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 7)

    def close(self) -> None:
        pass


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`make(fail_on_data_loss)`: a stream over a topic whose partitions are `Offsets.there`."""
    options = SimpleNamespace(strategy="Subscribe[a]", fail_on_data_loss=True)
    numbers = SimpleNamespace(getLong=lambda name, default: default, getBoolean=lambda name, default: default)
    monkeypatch.setattr(kafka_continuous, "KafkaPartitionReader", Reader)
    monkeypatch.setattr(kafka_continuous, "KafkaOffsetReader", Offsets)
    monkeypatch.setattr(kafka_continuous.KafkaOptions, "of", lambda session, given: options)
    monkeypatch.setattr(kafka_continuous, "case_insensitive", lambda session, given: numbers)
    monkeypatch.setattr(kafka_continuous, "_LOOK_AGAIN_S", 0.001)
    monkeypatch.setattr(
        offset_reader, "kafka_error", lambda session, condition, **parameters: KafkaException(message=f"{condition} {parameters}")
    )
    monkeypatch.setattr(kafka_continuous, "from_json", lambda session, text: {
        TopicPartition("a", int(i)): n for i, n in json.loads(text)["a"].items()
    })
    monkeypatch.setattr(kafka_continuous, "offsets_to_json", lambda session, offsets: json.dumps({
        "a": {str(one.partition): n for one, n in offsets.items()}
    }))
    monkeypatch.setattr(Offsets, "there", {A0, A1})
    made = []

    def stream(fail_on_data_loss: bool = True, **given: str) -> KafkaContinuousStream:
        options.fail_on_data_loss = fail_on_data_loss
        made.append(KafkaContinuousStream(SESSION, given))
        return made[-1]

    yield stream
    for one in made:
        one.stop()


def test_a_new_partition_is_read_from_its_beginning(make, monkeypatch):
    stream = make()
    assert [p.start_offset for p in stream.plan_input_partitions('{"a":{"0":5}}')] == [5, 7]
    assert stream.merge_offsets({0: 6, 1: 8}) == '{"a": {"0": 6, "1": 8}}'
    assert not stream.needs_reconfiguration()
    monkeypatch.setattr(Offsets, "there", {A0, A1, A2})
    assert stream.needs_reconfiguration()
    assert [p.start_offset for p in stream.plan_input_partitions('{"a":{"0":6,"1":8}}')] == [6, 8, 7]
    assert not stream.needs_reconfiguration()


def test_a_partition_that_is_gone_is_data_loss(make):
    start = '{"a":{"0":5,"1":5,"2":5}}'
    with pytest.raises(KafkaException, match=r"KAFKA_DATA_LOSS.PARTITIONS_DELETED .*Set\(a-2\)"):
        make().plan_input_partitions(start)
    with pytest.raises(KafkaException, match="PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT"):
        make(**{"kafka.group.id": "own"}).plan_input_partitions(start)
    assert len(make(fail_on_data_loss=False).plan_input_partitions(start)) == 2


@pytest.mark.parametrize(("offset", "goes_on_at"), [(2, 4), (100, 100)], ids=["too old", "still to come"])
def test_a_record_that_kafka_does_not_have(make, offset, goes_on_at):
    stream = make()
    [partition, _] = stream.plan_input_partitions(f'{{"a":{{"0":{offset}}}}}')
    task = partition.endpoint.connect()
    for _ in range(2):  # the endpoint is still there after an error
        with pytest.raises(RuntimeError, match=f"COULD_NOT_READ_OFFSET_RANGE .*'startOffset': '{offset}'"):
            task.ask("poll")
    task.close()
    stream = make(fail_on_data_loss=False)
    [partition, _] = stream.plan_input_partitions(f'{{"a":{{"0":{offset}}}}}')
    task = partition.endpoint.connect()
    assert task.ask("poll") is None
    task.close()
    assert stream._consumers[A0]._reader.position == goes_on_at
