"""The memory source: blocks of rows, and the queries that read them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from minispark_stream.engine.sources.memory import MemoryStream, MemoryStreamReader

SESSION: Any = SimpleNamespace(createDataFrame=lambda rows, schema: rows)


def stream_of(*blocks: list[int]) -> MemoryStream:
    stream = MemoryStream(SESSION, StructType().add("value", "integer"))
    assert [stream.add_data(block) for block in blocks] == [str(i) for i in range(len(blocks))]
    return stream


def test_two_queries_read_one_stream_each_at_its_own_pace() -> None:
    stream = stream_of([1, 2], [3])
    fast, slow = MemoryStreamReader(SESSION, stream), MemoryStreamReader(SESSION, stream)
    assert fast.get_batch(None, "1") == [1, 2, 3]
    fast.commit("1")
    assert slow.get_batch(None, "0") == [1, 2] and slow.get_batch("0", "1") == [3]


def test_what_is_available_now_is_fixed_for_one_query_only() -> None:
    stream = stream_of([1])
    first, second = MemoryStreamReader(SESSION, stream), MemoryStreamReader(SESSION, stream)
    second.prepare_for_trigger_available_now()
    stream.add_data([2])
    assert (first.latest_offset("0"), second.latest_offset("0")) == ("1", "0")


def test_a_stream_without_data_has_no_offset() -> None:
    reader = MemoryStreamReader(SESSION, stream_of())
    reader.prepare_for_trigger_available_now()
    assert reader.latest_offset(None) is None


@pytest.mark.parametrize(("start", "end"), [(None, "1"), ("0", "3"), ("5", "0")])
def test_blocks_that_are_not_there_are_never_skipped(start: str | None, end: str) -> None:
    reader = MemoryStreamReader(SESSION, stream_of([1]))
    with pytest.raises(RuntimeError, match=r"MemoryStream\[value\] cannot give the blocks .* it has 1 blocks"):
        reader.get_batch(start, end)
