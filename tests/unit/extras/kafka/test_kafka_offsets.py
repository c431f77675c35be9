"""How a limit is shared out over Kafka partitions, and the file with the initial offsets."""

from __future__ import annotations

import pytest
from pyspark.errors import SparkRuntimeException

from minispark_stream.extras.kafka.offset_reader import scala_map, scala_set
from minispark_stream.extras.kafka.offsets import KafkaSourceInitialOffsetWriter, TopicPartition, rate_limit

A, B, C, D = (TopicPartition("t", i) for i in range(4))


@pytest.mark.parametrize(
    ("limit", "ends"),
    [
        (20, [14, 4, 1]),  # the shares are 14.6, 4.9 and 0.5
        (1, [1, 1, 1]),  # nobody starves
        (0, [0, 0, 0]),
        (41, [30, 10, 1]),
        (1000, [30, 10, 1]),
    ],
)
def test_a_limit_is_shared_out(limit, ends):
    assert rate_limit(limit, {A: 0, B: 0, C: 0}, {A: 30, B: 10, C: 1}, {}) == dict(zip((A, B, C), ends))


def test_new_and_finished_partitions_under_a_limit():
    start, latest = {A: 5, B: 7}, {A: 15, B: 7, C: 30, D: 9}
    # C is new and begins with 20; D is new, and nobody knows where it begins.
    assert rate_limit(10, start, latest, {C: 20}) == {A: 10, B: 7, C: 25, D: 9}


def test_no_limit_where_nothing_waits():
    assert rate_limit(1, {A: 5, B: 9}, {A: 5, B: 3}, {}) == {A: 5, B: 3}


def test_the_initial_offsets_are_kept(tmp_path):
    log = KafkaSourceInitialOffsetWriter(str(tmp_path))
    assert log.get(0) is None and log.add(0, '{"t":{"0":5}}') and not log.add(0, "{}")
    assert (tmp_path / "0").read_bytes() == b'\0v1\n{"t":{"0":5}}'
    assert KafkaSourceInitialOffsetWriter(str(tmp_path)).get(0) == '{"t":{"0":5}}'


@pytest.mark.parametrize("content", [b"", b"\0", b"\0v1", b"\0v2\n{}", b"\0vx\n{}", b"\0\xff\n"])
def test_initial_offsets_that_cannot_be_read(tmp_path, content):
    (tmp_path / "0").write_bytes(content)
    with pytest.raises(SparkRuntimeException, match="Failed to read log file .*/0"):
        KafkaSourceInitialOffsetWriter(str(tmp_path)).get(0)


def test_partitions_as_spark_shows_them():
    assert scala_set([B, A]) == "Set(t-0, t-1)" and scala_map({B: 2, A: 1}) == "Map(t-0 -> 1, t-1 -> 2)"
    assert scala_set(TopicPartition("t", i) for i in range(5)).startswith("HashSet(")
