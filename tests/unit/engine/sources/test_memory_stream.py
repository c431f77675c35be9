"""The memory source: blocks of rows, and the queries that read them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkTypeError, PySparkValueError
from pyspark.sql import Row
from pyspark.sql.types import StructType

from minispark_stream.engine.sources.memory import MemoryStream, MemoryStreamReader
from minispark_stream.extras.continuous.memory_stream import ContinuousMemoryStream
from minispark_stream.extras.continuous.records import GetRecords

SESSION: Any = SimpleNamespace(createDataFrame=lambda rows, schema: rows)


def stream_of(*blocks: list[int]) -> MemoryStream:
    stream = MemoryStream(SESSION, StructType().add("value", "integer"))
    assert [stream.add_data((i,) for i in block) for block in blocks] == [str(i) for i in range(len(blocks))]
    return stream


def test_two_queries_read_one_stream_each_at_its_own_pace() -> None:
    stream = stream_of([1, 2], [3])
    fast, slow = MemoryStreamReader(SESSION, stream), MemoryStreamReader(SESSION, stream)
    assert fast.get_batch(None, "1") == [(1,), (2,), (3,)]
    fast.commit("1")
    assert slow.get_batch(None, "0") == [(1,), (2,)] and slow.get_batch("0", "1") == [(3,)]


def test_what_is_available_now_is_fixed_for_one_query_only() -> None:
    stream = stream_of([1])
    first, second = MemoryStreamReader(SESSION, stream), MemoryStreamReader(SESSION, stream)
    second.prepare_for_trigger_available_now()
    stream.add_data([(2,)])
    assert (first.latest_offset("0"), second.latest_offset("0")) == ("1", "0")


def test_a_stream_without_data_has_no_offset() -> None:
    reader = MemoryStreamReader(SESSION, stream_of())
    reader.prepare_for_trigger_available_now()
    assert reader.latest_offset(None) is None


@pytest.mark.parametrize(("start", "end"), [(None, "1"), ("0", "3")])
def test_blocks_that_are_not_there_are_never_skipped(start: str | None, end: str) -> None:
    reader = MemoryStreamReader(SESSION, stream_of([1]))
    with pytest.raises(RuntimeError, match=r"MemoryStream\[value\] cannot give the blocks .* it has 1 blocks"):
        reader.get_batch(start, end)


def test_a_batch_never_goes_back() -> None:
    with pytest.raises(AssertionError, match="assertion failed: sliceStart: 2 sliceEnd: 1"):
        MemoryStreamReader(SESSION, stream_of([1], [2])).get_batch("1", "0")


@pytest.mark.parametrize("row", [1, None, ("a",), (1, 2), (2**40,), {"value": "a"}, [1.5], ()])
@pytest.mark.parametrize("kind", [MemoryStream, ContinuousMemoryStream])
def test_rows_that_do_not_fit_are_refused_before_they_are_in_the_stream(kind: Any, row: Any) -> None:
    stream = kind(SESSION, StructType().add("value", "integer"))
    with pytest.raises((PySparkTypeError, PySparkValueError)):
        stream.add_data([(7,), row])
    assert stream.add_data([(8,)]) == ("0" if kind is MemoryStream else '{"0":1,"1":0}')


@pytest.mark.parametrize("row", [(1, "a"), [1, "a"], {"k": "a", "value": 1}, Row(value=1, k="a")])
@pytest.mark.parametrize("kind", [MemoryStream, ContinuousMemoryStream])
def test_rows_are_added_in_the_order_of_the_schema(kind: Any, row: Any) -> None:
    stream = kind(SESSION, StructType().add("value", "integer").add("k", "string"))
    stream.add_data([row])
    rows = stream.blocks[0] if kind is MemoryStream else stream.get(GetRecords(0, 0))
    assert rows == [(1, "a")]
