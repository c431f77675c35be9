"""The columnar tasks of a stream-stream join do what its plain rows say, whatever comes in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructType

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT, VALUES, store_name
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.join.symmetric_hash_join_buffers import Buffers, FourStores
from minispark_stream.engine.operators.join.symmetric_hash_join_build import Build
from minispark_stream.engine.operators.join.symmetric_hash_join_probe import Probe
from minispark_stream.engine.operators.join.symmetric_hash_join_row_by_row import JoinRowByRow, NewRow, Waiting
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Join, JoinSide
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import indexed, with_matched
from minispark_stream.engine.operators.metrics import Reports
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StatefulOperatorStateInfo
from minispark_stream.engine.state.loaded_providers import get_store
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId

KEY = StructType().add("field0", LongType())
ROW = StructType().add("time", LongType()).add("v", LongType())
TIME = EventTime(0, is_window=False)
EMPTY_PAIR = [None, None]
FOUR_STORES = FourStores()


class Metrics:
    """An accumulator."""

    def __init__(self) -> None:
        self.value: list[Any] = []

    def add(self, reports: list[Any]) -> None:
        self.value = Reports().addInPlace(self.value, reports)


def accepts(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return (left[1] + right[1]) % 3 != 0


def long_columns(rows: list[list[Any]], width: int) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], pa.int64()) for i in range(width)]


def run_columns(
    state: str, batch_id: int, join: Join, rows: list[NewRow], watermarks: OperatorWatermarks, buffers: Buffers = FOUR_STORES
) -> list[Any]:
    """A batch by `Probe` and `Build`, with a filter over the pairs between them, which is Spark's in a query."""
    halves = [[*(row.values if row.side == side else EMPTY_PAIR)] for row in rows for side in (LEFT, RIGHT)]
    table = pa.RecordBatch.from_arrays(
        [
            pa.array([row.side for row in rows], pa.int64()), pa.array([row.passes for row in rows], pa.bool_()),
            *[pa.nulls(len(rows), pa.int64())] * 2, *long_columns([[*row.key] for row in rows], 1),
            *long_columns(halves[::2], 2), *long_columns(halves[1::2], 2),
        ],
        names=["side", "passes", "row", "partner", "key", "left time", "left v", "right time", "right v"],
    )
    info = StatefulOperatorStateInfo(state_dir=state, operator_id=0, store_version=batch_id, num_partitions=1, conf=StateStoreConf())
    of_left = 2 if join.join_type == "LeftSemi" else 4
    of_task: dict[str, Any] = {"info": info, "watermarks": watermarks, "metrics": Metrics(), "join": join, "buffers": buffers}
    probed = pa.concat_batches(list(Probe(output=table.schema, **of_task)(numbered(table))) or [table])
    keep = [side is not None or accepts((lt, lv), (rt, rv)) for side, _, _, _, _, lt, lv, rt, rv in zip(*map(pa.Array.to_pylist, probed.columns))]
    output = pa.schema(list(table.schema)[5 : 5 + of_left])
    built = Build(output=output, **of_task)(numbered(probed.filter(pa.array(keep, pa.bool_()))))
    emitted = [row for batch in built for row in zip(*(column.to_pylist() for column in batch.columns))]
    return sorted(emitted, key=repr)


def numbered(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    """As Spark hands rows to a task: first a row that has nothing but its number."""
    first = pa.RecordBatch.from_arrays([pa.nulls(1, column.type) for column in rows.columns], schema=rows.schema)
    both = pa.concat_batches([first, rows])
    return [pa.RecordBatch.from_arrays([pa.array(range(both.num_rows), pa.int64()), *both.columns], names=["number", *rows.schema.names])]


def waiting(state: str, side: int, version: int) -> dict[Any, list[Waiting]]:
    """The rows that the columnar state has under each key, in their order."""
    store = get_store(StateStoreId(state, 0, 0, store_name(side, VALUES)), StateStoreConf(), version)
    at, rows = (UnsafeRowCodec(schema).decode(found) for schema, found in zip((indexed(KEY), with_matched(ROW)), store.rows()))
    found: dict[Any, dict[int, Waiting]] = {}
    for key, index, *values, matched in zip(*(column.to_pylist() for column in [*at, *rows])):
        found.setdefault((key,), {})[index] = Waiting(tuple(values), matched)
    assert all(sorted(places) == list(range(len(places))) for places in found.values()), "the places of a key have no holes"
    return {key: [places[i] for i in range(len(places))] for key, places in found.items()}


def flat(joined: list[Any], is_semi: bool) -> list[Any]:
    """Rows as Spark has them: nulls for nobody; of a semi join the left columns alone."""
    rows = [(*(left or EMPTY_PAIR), *(() if is_semi else right or EMPTY_PAIR)) for left, right in joined]
    return sorted(rows, key=repr)


TIMES = st.one_of(st.none(), st.integers(0, 12).map(lambda minute: minute * 1000))
ROWS = st.tuples(st.sampled_from([LEFT, RIGHT]), st.sampled_from([None, 1, 2]), TIMES, st.integers(0, 3), st.sampled_from([True] * 4 + [False]))
BATCHES = st.lists(st.tuples(st.lists(ROWS, max_size=8), st.integers(0, 4)), min_size=1, max_size=5)


KINDS = st.sampled_from(["Inner", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi"])
EVICTED = st.sampled_from(["never", "by value", "by key"])


class Batch(NamedTuple):
    number: int
    join: Join
    rows: list[NewRow]
    watermarks: OperatorWatermarks


def batches_of(join_type: str, evicted: str, drawn: list[Any]) -> Iterator[Batch]:
    """What a join is given, batch by batch: of each batch, new rows and how far the watermark moves are drawn."""
    watermark_ms = 0
    for number, (found, more) in enumerate(drawn):
        late_ms, watermark_ms = watermark_ms, watermark_ms + more
        by_key, by_value = (watermark_ms if evicted == how else None for how in ("by key", "by value"))
        side = JoinSide(ROW, TIME if evicted != "never" else None, by_key, by_value)
        join = Join(join_type, KEY, TIME if evicted == "by key" else None, (side, side))
        rows = [NewRow(of, (time if evicted == "by key" else k,), (time, v), passes) for of, k, time, v, passes in found]
        yield Batch(number, join, rows, OperatorWatermarks(late_ms=late_ms, eviction_ms=watermark_ms, moved=more > 0))


@settings(max_examples=60, deadline=None)
@given(KINDS, EVICTED, BATCHES)
def test_columns_do_what_rows_do(join_type: str, evicted: str, drawn: list[Any]) -> None:
    """Any join type, way of eviction and input, late rows and nulls included: after each batch the same rows leave and wait."""
    plain = JoinRowByRow(accepts)
    with tempfile.TemporaryDirectory() as folder:
        for batch_id, join, rows, watermarks in batches_of(join_type, evicted, drawn):
            emitted = run_columns(folder, batch_id, join, rows, watermarks)
            assert emitted == flat(plain.run(join, rows, watermarks.late_ms), join_type == "LeftSemi")
            for number in (LEFT, RIGHT):
                assert waiting(folder, number, batch_id + 1) == plain.state[number]



def test_which_sides_of_a_join_are_outer() -> None:
    """Both of the above ask the join itself, so that they would not differ."""
    side = JoinSide(ROW, None, None, None)
    outer = {how: [Join(how, KEY, None, (side, side)).is_outer(number) for number in (LEFT, RIGHT)] for how in (
        "Inner", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi",
    )}
    assert outer == {
        "Inner": [False, False], "LeftOuter": [True, False], "RightOuter": [False, True], "FullOuter": [True, True],
        "LeftSemi": [False, False],
    }
