"""Task halves of stateful operators, without Spark: which version they read, what a join's tasks do with a few rows."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT
from minispark_stream.engine.checkpointing.unsafe_row import FixedField, Rows, UnsafeRowCodec, long_row
from minispark_stream.engine.operators import told as told_of_tasks
from minispark_stream.engine.operators.groups.group_state_rows import GroupStateRows
from minispark_stream.engine.operators.groups.grouped_map_pandas_with_state import Group, GroupedMapPandasWithState, PandasConf
from minispark_stream.engine.operators.instance_metrics import reported
from minispark_stream.engine.operators.join import symmetric_hash_join_aside as aside
from minispark_stream.engine.operators.join import symmetric_hash_join_partners, symmetric_hash_join_probe
from minispark_stream.engine.operators.join.symmetric_hash_join_build import Build
from minispark_stream.engine.operators.join.symmetric_hash_join_probe import Probe
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Join, JoinSide, number_keys
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import COUNT_SCHEMA, indexed, with_matched
from minispark_stream.engine.operators.limit.streaming_global_limit import GlobalLimit
from minispark_stream.engine.operators.metrics import Reports
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StatefulOperatorStateInfo
from minispark_stream.engine.operators.told import MOST_TOLD
from minispark_stream.engine.state.loaded_providers import this_worker
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import records
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.lens.trace import facts

NO_WATERMARK = OperatorWatermarks(late_ms=0, eviction_ms=0, moved=False)


class Accumulator:
    def __init__(self) -> None:
        self.value: list[Any] = []

    def add(self, reports: list[Any]) -> None:
        self.value = Reports().addInPlace(self.value, reports)


def in_partition(number: int, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The rows of a partition as Spark hands them to a task: first a row that has nothing but its number."""
    nulls = pa.RecordBatch.from_arrays([pa.nulls(1, column.type) for column in rows.columns], schema=rows.schema)
    both = pa.Table.from_batches([nulls, rows]).combine_chunks().to_batches()[0]
    numbers = pa.array([(number << 33) + i for i in range(both.num_rows)])
    return [pa.RecordBatch.from_arrays([numbers, *both.columns], names=["number", *both.schema.names])]


def info(state: Path, batch_id: int) -> StatefulOperatorStateInfo:
    return StatefulOperatorStateInfo(
        state_dir=str(state), operator_id=0, store_version=batch_id, num_partitions=4, conf=StateStoreConf()
    )


# --- one row's bytes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [1, 2, 64, 65])
def test_a_field_of_one_row_is_where_the_codec_has_it(fields: int) -> None:
    schema = StructType()
    for i in range(fields):
        schema = schema.add(f"f{i}", LongType())
    codec = UnsafeRowCodec(schema)
    [row] = codec.encode([pa.array([-i]) for i in range(fields)])
    last = FixedField(fields - 1, of=fields)
    assert last.longs([row]) == [1 - fields]
    assert [c.to_pylist() for c in codec.decode(last.with_long([row], 7))] == [[-i] for i in range(fields - 1)] + [[7]]


def test_the_row_of_one_long() -> None:
    assert [long_row(-5)] == UnsafeRowCodec(StructType().add("n", LongType())).encode([pa.array([-5])])


# --- the version --------------------------------------------------------------------------------------------------


def test_batch_n_reads_version_n_and_writes_the_next_one(tmp_path: Path) -> None:
    def limit(batch_id: int, rows: int) -> int:
        task = GlobalLimit(
            info=info(tmp_path, batch_id), watermarks=NO_WATERMARK, output=pa.schema([("n", pa.int64())]),
            metrics=Accumulator(), limit=5,  # type: ignore[arg-type]
        )
        new = pa.RecordBatch.from_arrays([pa.array(range(rows), pa.int64())], names=["n"])
        return sum(batch.num_rows for batch in task(in_partition(3, new)))

    assert limit(0, 3) == 3
    assert limit(1, 4) == 2
    assert limit(1, 4) == 2, "a batch that runs again reads the same version"
    assert limit(2, 4) == 0
    assert sorted(p.name for p in (tmp_path / "0/3").iterdir()) == ["1.delta", "2.delta", "3.delta"]


def test_a_task_tells_what_it_decided_when_it_is_asked_to(tmp_path: Path) -> None:
    """Otherwise it computes nothing of it. The kinds and words are those that a trace looks up."""
    def told(batch_id: int, rows: int, wants_told: bool) -> Any:
        found: Any = Accumulator()
        task = GlobalLimit(
            info=replace(info(tmp_path, batch_id), wants_told=wants_told), watermarks=NO_WATERMARK, output=pa.schema([("n", pa.int64())]),
            metrics=found, limit=2000,
        )
        assert list(task(in_partition(0, pa.RecordBatch.from_arrays([pa.array(range(rows), pa.int64())], names=["n"]))))
        [(_, done)] = pickle.loads(pickle.dumps(found.value))
        loaded_from = {"default": ("memory" if batch_id else "new", False)}
        assert (done.worker, done.loaded_from) == ((this_worker(), loaded_from) if wants_told else (None, {}))
        of_task = done.told
        return of_task and [(one.what, one.rows.num_rows, one.rows.column(0)[0].as_py()) for one in of_task]

    assert told(0, 3, wants_told=False) is None
    assert told(0, 3, wants_told=True) == [("passed", 3, 0)]
    assert told(1, 2500, wants_told=True) == [("passed", MOST_TOLD, 0), ("beyond the limit", 503, 1997)]
    words = ("LATE", "KEPT", "DUPLICATE", "BEYOND", "PASSED", "REMOVED", "EMITTED", "FIRED", "MOST_TOLD")
    assert [getattr(told_of_tasks, word) for word in words] == [getattr(facts, word) for word in words]


def test_the_task_of_a_join_tells_what_became_of_each_row_and_whom_it_met(tmp_path: Path) -> None:
    def told(batch_id: int, how: str, *rows: tuple[int, int, str]) -> list[Any]:
        decided: list[Any] = []
        join_batch(tmp_path / how, batch_id, how, list(rows), decided)
        return [
            (one.what, one.side, one.why, [tuple(v for v in row if isinstance(v, str)) for row in zip(*(c.to_pylist() for c in one.rows))])
            for one in decided
        ]

    assert told(0, "Inner", (LEFT, 1, "a"), (RIGHT, 1, "x")) == [
        ("kept", LEFT, "", [("a",)]), ("kept", RIGHT, "", [("x",)]), ("emitted", 0, "", [("a", "x")]),
    ]
    assert told(0, "LeftSemi", (LEFT, 1, "a"), (RIGHT, 1, "x"), (LEFT, 2, "b")) == [
        ("kept", LEFT, "", [("b",)]), ("passed", LEFT, "matched", [("a",)]), ("kept", RIGHT, "", [("x",)]), ("emitted", 0, "", [("a", "x")]),
    ]
    assert told(1, "LeftSemi", (RIGHT, 2, "y")) == [  # b waits in the state, and leaves it with y
        ("kept", RIGHT, "", [("y",)]), ("removed", LEFT, "", [("b",)]), ("emitted", 0, "", [("b", "y")]),
    ]


# --- a join -------------------------------------------------------------------------------------------------------

ROW = StructType().add("k", LongType()).add("v", StringType())


def build_task(state: Path, batch_id: int, join: Join, output: pa.Schema | None = None, wants_told: bool = False) -> Build:
    return Build(info=replace(info(state, batch_id), wants_told=wants_told), watermarks=NO_WATERMARK, output=output, metrics=Accumulator(), join=join)  # type: ignore[arg-type]


def join_batch(
    state: Path, batch_id: int, how: str, rows: list[tuple[int, int, str]], told: list[Any] | None = None, **of_probe: Any
) -> list[tuple[Any, ...]]:
    """Both tasks of a batch; `rows` are side, key, value. No condition beside the key. `told` is given what the second one wants_told."""
    join = Join(how, StructType().add("field0", LongType()), None, (JoinSide(ROW, None, None, None),) * 2)
    n = len(rows)
    k, v = pa.array([k for _, k, _ in rows]), pa.array([v for _, _, v in rows])
    own = [[side == number for side, _, _ in rows] for number in (LEFT, RIGHT)]
    halves = [pa.array([x if mine else None for x, mine in zip(c.to_pylist(), own[s])], c.type) for s in (LEFT, RIGHT) for c in (k, v)]
    tags = [pa.array([side for side, _, _ in rows]), pa.array([True] * n), pa.nulls(n, pa.int64()), pa.nulls(n, pa.int64())]
    table = [*tags, k, *halves]
    schema = pa.schema([pa.field(f"_{i}", column.type) for i, column in enumerate(table)])
    probe = Probe(info=info(state, batch_id), watermarks=NO_WATERMARK, output=schema, metrics=Accumulator(), join=join, **of_probe)  # type: ignore[arg-type]
    out = pa.schema(list(schema)[5:7] if how == "LeftSemi" else list(schema)[5:])
    build = build_task(state, batch_id, join, out, wants_told=told is not None)
    new = pa.RecordBatch.from_arrays(table, schema=schema)
    pairs = list(probe(in_partition(0, new)))
    with build.info.open_stores(0, *build.store_names) as stores:
        emitted, done = build.run(stores, pairs)
        if told is not None:
            told += done.told or ()
        return [row for batch in emitted for row in zip(*(column.to_pylist() for column in batch.columns))]


def test_new_rows_meet_the_state_and_each_other_once(tmp_path: Path) -> None:
    assert join_batch(tmp_path, 0, "Inner", [(LEFT, 1, "a"), (LEFT, 2, "b")]) == []
    pairs = join_batch(tmp_path, 1, "Inner", [(RIGHT, 1, "x"), (LEFT, 1, "c"), (RIGHT, 1, "y")])
    assert pairs == [(1, "a", 1, "x"), (1, "c", 1, "x"), (1, "a", 1, "y"), (1, "c", 1, "y")]
    assert join_batch(tmp_path, 2, "Inner", [(LEFT, 1, "d")]) == [(1, "d", 1, "x"), (1, "d", 1, "y")]


@pytest.mark.parametrize("how", ["Inner", "LeftOuter", "LeftSemi"])
def test_many_new_rows_wait_in_a_file_and_pairs_have_only_the_columns_that_are_read(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are the same, and so is the state; a file is taken back once, and none is left."""
    folder = tmp_path / "executor"
    folder.mkdir()
    batches = [[(side, key % 700, f"{side} {key}") for key in range(n, n + 1500) for side in (LEFT, RIGHT)] for n in (0, 100)]
    plain = [join_batch(tmp_path / "plain", n, how, rows) for n, rows in enumerate(batches)]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{folder},/elsewhere")
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    put: list[int | None] = []
    monkeypatch.setattr(symmetric_hash_join_probe, "put_aside", lambda rows: put.append(aside.put_aside(rows)) or put[-1])  # type: ignore[func-returns-value]
    none = (frozenset[int](), frozenset[int]())
    assert plain == [
        join_batch(tmp_path / "aside", n, how, rows, may_put_aside=True, filtered_by=none) for n, rows in enumerate(batches)
    ]
    assert len(put) == 2 and None not in put and not list(folder.iterdir())
    assert deltas(tmp_path / "plain") == deltas(tmp_path / "aside")


def test_without_a_place_for_them_new_rows_go_through_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1])], names=["_0"])
    assert aside.put_aside(rows) is None  # not a worker
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "is not there"))
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    assert aside.put_aside(rows) is None


def deltas(state: Path) -> dict[Path, bytes]:
    return {path.relative_to(state): path.read_bytes() for path in state.rglob("*.delta")}


def test_the_last_rows_of_a_key_fill_the_holes_of_those_that_go(tmp_path: Path) -> None:
    """As Spark does it, one hole after the other; the delta file keeps every put and remove. A key with one row leaves no hole."""
    side = JoinSide(StructType().add("t", LongType()), None, None, None)
    join = Join("Inner", StructType().add("field0", LongType()), None, (side, side))
    keys, times = [1, 1, 1, 2, None, 1, 3], [5, 90, 6, 7, 8, 91, 92]
    task = build_task(tmp_path, 0, join)
    task = replace(task, info=replace(task.info, conf=StateStoreConf(max_rows_in_dict=0)))
    with task.info.open_stores(0, *task.store_names) as stores:
        left, _ = task.buffers.sides(task.join, stores)
        numbers = number_keys(join.keys, [pa.array(keys)], len(keys))
        left.append(numbers, np.arange(len(keys)), [pa.array(times)], np.zeros(len(keys), np.bool_))
        [removed] = left.decode(left.remove_rows(left.rows().some(np.array(times) < 50)))
        for store in stores[:2]:
            assert isinstance(store.rows()[0], Rows)  # rows of one size are still a table
            store.commit()

    def changes(store: str, *schemas: StructType) -> list[list[Any]]:
        """The puts and removes after the seven puts of the rows."""
        delta = StateFiles(StateStoreId(str(tmp_path), 0, 0, store), StateStoreConf()).read_delta(1)
        key, value = (UnsafeRowCodec(schema) for schema in schemas)
        return [
            [*(column[0].as_py() for column in key.decode([k])), v and value.decode([v])[0][0].as_py()] for k, v in list(records(delta))[7:]
        ]

    assert removed.to_pylist() == [7, 8, 5, 6]
    assert changes("left-keyWithIndexToValue", indexed(join.keys), with_matched(side.row)) == [
        [2, 0, None], [None, 0, None], [1, 0, 91], [1, 3, None], [1, 2, None],
    ]
    assert changes("left-keyToNumValues", join.keys, COUNT_SCHEMA) == [[2, None], [None, None], [1, 2]]


def test_a_count_that_is_damaged_is_refused(tmp_path: Path) -> None:
    join = Join("Inner", StructType().add("field0", LongType()), None, (JoinSide(ROW, None, None, None),) * 2)
    for count in (-1, 2, 1 << 60):
        task = build_task(tmp_path, 0, join)
        with task.info.open_stores(0, *task.store_names) as stores:
            left, _ = task.buffers.sides(task.join, stores)
            left.append(number_keys(join.keys, [pa.array([1])], 1), np.array([0]), [pa.array([1]), pa.array(["a"])], np.array([False]))
            [key] = left.keys()
            stores[0].put([key], [long_row(count)])
            with pytest.raises(ValueError, match="The state of a join has 1 rows, but a key with"):
                left.rows([key])


def test_a_left_row_of_a_semi_join_leaves_once(tmp_path: Path) -> None:
    assert join_batch(tmp_path, 0, "LeftSemi", [(LEFT, 1, "a"), (LEFT, 1, "b")]) == []
    assert join_batch(tmp_path, 1, "LeftSemi", [(RIGHT, 1, "x"), (LEFT, 1, "c")]) == [(1, "a"), (1, "b"), (1, "c")]
    assert join_batch(tmp_path, 2, "LeftSemi", [(RIGHT, 1, "y"), (LEFT, 1, "d")]) == [(1, "d")]


@pytest.mark.parametrize("how", ["Inner", "LeftSemi"])
def test_pairs_of_one_key_are_made_a_chunk_at_a_time(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker never holds all pairs, only who meets whom: here 90,000 pairs of 600 rows, 5,000 at a time."""
    monkeypatch.setattr(symmetric_hash_join_partners, "PAIRS_AT_A_TIME", 5_000)
    made: list[int] = []
    take = symmetric_hash_join_partners._take

    def watched(columns: list[Any], positions: Any) -> list[Any]:
        made.append(len(positions))
        return take(columns, positions)

    monkeypatch.setattr(symmetric_hash_join_partners, "_take", watched)
    rows = [(side, 1, str(i)) for i in range(300) for side in (LEFT, RIGHT)]
    tracemalloc.start()
    try:
        found = join_batch(tmp_path, 0, how, rows)
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()
    left_major = [(1, str(i)) for i in range(300)]
    assert found == (left_major if how == "LeftSemi" else [(*left, 1, str(i)) for i in range(300) for left in left_major])
    assert max(made) == 5_000 and made[0] == 5_000


# --- a function of the user's -------------------------------------------------------------------------------------


def test_the_nulls_of_a_frame_decide_on_its_types() -> None:
    """As if each frame were converted by itself, which is what Spark does; and no frame is a part of another."""
    seen: list[Any] = []

    def function(key: Any, frames: Any, state: Any) -> Any:
        for frame in frames:
            seen.append((key, list(frame.index), frame["n"].tolist(), str(frame["n"].dtype), frame["tags"][0].dtype.name))
            frame["n"] = 0
        return []

    conf = PandasConf("UTC", 10_000, 2**26, True, True, False, False)
    apply = GroupedMapPandasWithState(function, (0,), StructType().add("k", LongType()), pa.schema([("k", pa.int64())]), conf)
    state: Any = SimpleNamespace(hasTimedOut=False)
    groups = [Group(b"a", [(0, 1), (1, 2)], state), Group(b"b", [(2, 4)], state)]
    of_b = []
    for n, tags in ([1, 2, 3, 4], [[1], [2], [3], [4]]), ([1, 2, 3, None], [[1], [2], [3], [4]]), ([1, 2, 3, 4], [[1], [2], [3, None], [4]]):
        rows = pa.RecordBatch.from_arrays([pa.array(["a", "a", "b", "b"]), pa.array(n), pa.array(tags)], names=["k", "n", "tags"])
        assert list(apply.call(rows, groups)) == []
        assert seen[:2] == [(("a",), [0], [1], "int64", "int64"), (("a",), [0], [2], "int64", "int64")]
        of_b.append(seen.pop())
        seen.clear()
    assert list(map(str, of_b)) == [
        "(('b',), [0, 1], [3, 4], 'int64', 'int64')",
        "(('b',), [0, 1], [3.0, nan], 'float64', 'int64')",
        "(('b',), [0, 1], [3, 4], 'int64', 'object')",
    ]


# --- the report ---------------------------------------------------------------------------------------------------


def test_a_report_tells_of_the_same_five_stores_as_sparks() -> None:
    """Those that Spark 4.3.0 told of."""
    stores = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
    values = {f"SnapshotLastUploaded.partition_{p}_{store}": -1 for p in (0, 1) for store in stores}
    assert {name.partition("_")[2] for name in reported(values, 5)} == {
        "0_left-keyToNumValues", "0_right-keyWithIndexToValue", "1_left-keyToNumValues", "1_left-keyWithIndexToValue",
        "1_right-keyToNumValues",
    }
    uploaded = dict.fromkeys(values, 7) | {"SnapshotLastUploaded.partition_1_right-keyWithIndexToValue": 3}
    assert next(iter(reported(uploaded, 5).items())) == ("SnapshotLastUploaded.partition_1_right-keyWithIndexToValue", 3)


def test_a_task_beyond_the_partitions_of_the_state_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Partition 4 is out of range"), info(tmp_path, 0).open_stores(4, "default"):
        pass
    assert not list(tmp_path.iterdir())


# --- what a user's function keeps ---------------------------------------------------------------------------------


def test_a_value_in_the_place_of_a_string_is_written_as_python_writes_it() -> None:
    """Java would write [1, null] and 1.0E20."""
    rows = GroupStateRows(StructType().add("s", StringType()), has_timeout=False)
    assert rows.decode(rows.encode([([1, None],), (1e20,), (True,)], [-1] * 3)) == [("[1, None]",), ("1e+20",), ("true",)]
