"""Joins in state formats 3 and 4 do what the plain rows of a join say."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT, ROWS, TIMES, store_name
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.join.symmetric_hash_join_row_by_row import JoinRowByRow, NewRow
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Join, JoinSide
from minispark_stream.engine.operators.state_task import OperatorWatermarks
from minispark_stream.engine.state.loaded_providers import get_store
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.extras.join_in_families.column_family import FourFamilies, keys_of
from minispark_stream.extras.join_in_families.rows_by_time import JoinSideByTime, TimedFamilies
from tests.unit.engine.operators.join.test_joins_row_by_row import (
    EVICTED,
    KEY,
    KINDS,
    ROW,
    accepts,
    batches_of,
    flat,
    run_columns,
)

TIME = EventTime(0, is_window=False)
TIMES_OF_ROWS = st.integers(0, 12).map(lambda minute: minute * 1000)
NEW_ROWS = st.tuples(
    st.sampled_from([LEFT, RIGHT]), st.sampled_from([None, 1, 2]), TIMES_OF_ROWS, st.integers(0, 3), st.sampled_from([True] * 4 + [False]),
)
BATCHES = st.lists(st.tuples(st.lists(NEW_ROWS, max_size=8), st.integers(0, 4)), min_size=1, max_size=5)


def waiting(folder: str, join: Join, buffers: FourFamilies | TimedFamilies, version: int) -> list[Any]:
    """The rows of each side, and which of them have been matched, where that is of use."""
    store = get_store(StateStoreId(folder, 0, 0), StateStoreConf(), version)
    found = []
    for number, side in enumerate(buffers.sides(join, [store])):
        if isinstance(side, JoinSideByTime):
            keys, times = (keys_of(store, buffers.numbers(store).prefix(store_name(number, kind))) for kind in (ROWS, TIMES))
            assert len(times) == (len(keys) if join.sides[number].event_time else 0)
            under = list(dict.fromkeys(key[3:-8] for key in keys))
            values = side.rows_of(side.decode_keys(under), side.counts(under)).values
        else:
            values = side.rows().values
        columns = side.decode(values) if values else []
        rows = list(zip(*(column.to_pylist() for column in columns)))
        matched = side.is_matched(values).tolist() if join.is_outer(number) and values else [None] * len(rows)
        found.append(sorted(zip(rows, matched), key=repr))
    return found


@settings(max_examples=60, deadline=None)
@given(KINDS, EVICTED, BATCHES, st.booleans())
def test_columns_do_what_rows_do(join_type: str, evicted: str, drawn: list[Any], by_time: bool) -> None:
    plain = JoinRowByRow(accepts)
    with tempfile.TemporaryDirectory() as folder:
        for batch_id, join, rows, watermarks in batches_of(join_type, evicted, drawn):
            after_ms = (watermarks.late_ms, watermarks.late_ms) if batch_id else (None, None)
            buffers: FourFamilies | TimedFamilies = TimedFamilies(after_ms=after_ms) if by_time else FourFamilies()
            emitted = run_columns(folder, batch_id, join, rows, watermarks, buffers)
            assert emitted == flat(plain.run(join, rows, watermarks.late_ms), join_type == "LeftSemi")
            expected = [
                sorted(
                    ((row.values, row.matched if join.is_outer(number) else None) for of_key in keys.values() for row in of_key),
                    key=repr,
                )
                for number, keys in enumerate(plain.state)
            ]
            assert waiting(folder, join, buffers, batch_id + 1) == expected


def test_rows_lie_in_the_order_of_their_times() -> None:
    """Also those before 1970, whose times are negative; what is under each time counts as often as there are rows."""
    side = JoinSide(ROW, TIME, None, None)
    join = Join("Inner", KEY, None, (side, side))
    buffers, minutes = TimedFamilies(), [5, -7, 0, 5, -8]
    with tempfile.TemporaryDirectory() as folder:
        rows = [NewRow(LEFT, (1,), (minute * 60_000_000, i), True) for i, minute in enumerate(minutes)]
        run_columns(folder, 0, join, rows, OperatorWatermarks(-(10**9), -(10**9), False), buffers)
        store = get_store(StateStoreId(folder, 0, 0), StateStoreConf(), 1)
        left, _ = buffers.sides(join, [store])
        [key] = {key[3:-8] for key in keys_of(store, buffers.numbers().prefix(store_name(LEFT, ROWS)))}
        found = left.rows_of(left.decode_keys([key]), np.array([5])).values
        assert left.decode(found)[1].to_pylist() == [4, 1, 2, 0, 3]
        times = sorted(keys_of(store, buffers.numbers().prefix(store_name(LEFT, TIMES))))
        assert [len(value) for value in store.get(times)[1]] == [21, 21, 21, 42]
