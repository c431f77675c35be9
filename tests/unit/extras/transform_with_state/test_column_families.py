"""Column families in one state store: rows are UnsafeRows, scans see what was written, broken rows are refused."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, binary_row
from minispark_stream.engine.state.loaded_providers import get_store, unload_stores
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.extras.transform_with_state import family_indexes
from minispark_stream.extras.transform_with_state.column_families import KEY_SCHEMA, VALUE_SCHEMA, ColumnFamilies
from minispark_stream.extras.transform_with_state.family_indexes import key_fields
from minispark_stream.extras.transform_with_state.keyed_families import Rows
from minispark_stream.extras.transform_with_state.readable_variables import readable_variables


def open_store(folder: Path, version: int):
    return get_store(StateStoreId(str(folder), 0, 0), StateStoreConf(), version)


@pytest.mark.parametrize("family, key, element", [("a", b"", None), ("fünf", b"12345678", b"x" * 9), ("", b"k", b"")])
def test_rows_are_those_of_the_codec(tmp_path: Path, family: str, key: bytes, element: bytes | None):
    store = open_store(tmp_path, 0)
    ColumnFamilies(store).put(family, key, b"value", element)
    columns = [pa.array([family]), pa.array([key], pa.binary()), pa.array([element], pa.binary())]
    assert list(zip(*store.rows())) == [
        (UnsafeRowCodec(KEY_SCHEMA).encode(columns)[0], UnsafeRowCodec(VALUE_SCHEMA).encode([pa.array([b"value"])])[0])
    ]


def test_scans_see_all_versions_and_all_changes(tmp_path: Path):
    store = open_store(tmp_path, 0)
    families = ColumnFamilies(store)
    families.put("m", b"ann", b"1", b"y")
    families.put("m", b"ann", b"2", b"x")
    families.put("$t", b"ann", b"", b"t")
    store.commit()
    assert (tmp_path / "0" / "0" / "1.delta").exists()  # a file of the state store, and none of RocksDB
    families = ColumnFamilies(open_store(tmp_path, 1))
    assert families.elements("m", b"ann") == [b"x", b"y"]
    families.put("m", b"bob", b"3", b"z")
    assert families.remove("m", b"ann", [b"y", b"none"]) == 1
    assert sorted(families.rows("m"), key=repr) == [(b"ann", b"x"), (b"bob", b"z")]
    assert families.get_many("m", b"ann", [b"x", b"y"]) == [b"2", None]
    assert families.num_rows() == 2
    families.put("m", b"bob", b"4", b"zz")
    assert (families.num_rows(), families.num_rows(["m"])) == (3, 2)
    assert families.drop("m") and not families.drop("m") and families.rows("m") == []


def time_of(element: bytes | None, value: bytes) -> int:
    """A row is due when its value says so."""
    return value[0] if value else 0


def times_of(elements: list[bytes | None], values: list[bytes]) -> list[int]:
    return list(map(time_of, elements, values))


ROW = st.tuples(st.sampled_from("ab"), st.sampled_from([b"ann", b"bob"]), st.sampled_from([None, b"x", b"y"]), st.integers(0, 9))
BATCH = st.tuples(st.lists(st.tuples(ROW, st.booleans())), st.sampled_from(["commit", "abort", "load anew"]))


@settings(max_examples=100, deadline=None)
@given(st.lists(BATCH, max_size=6))
def test_indexes_follow_every_change(batches: list[Any]):
    """Whatever is put, put again and removed; whether a batch commits, is forgotten, or the next one reads the files."""
    rows: dict[Any, int] = {}
    version = 0
    with tempfile.TemporaryDirectory() as folder:
        for changes, end in batches:
            store = open_store(Path(folder), version)
            families, after = ColumnFamilies(store), dict(rows)
            for (family, key, element, time), is_removed in changes:
                if is_removed:
                    assert families.remove(family, key, [element]) == (after.pop((family, key, element), None) is not None)
                else:
                    families.put(family, key, bytes([time]), element)
                    after[family, key, element] = time
                for name in "ab":
                    due = [(time, *row[1:]) for row, time in after.items() if row[0] == name and time <= 5]
                    found = families.due(name, times_of, 5)
                    assert sorted(found, key=repr) == sorted(due, key=repr) and [t for t, *_ in found] == sorted(t for t, *_ in found)
                    assert sorted(families.rows(name), key=repr) == sorted((row[1:] for row in after if row[0] == name), key=repr)
                assert families.num_rows() == len(after)
                assert families.num_rows(["a", "b"]) == len({row[:2] for row in after})
            if end == "abort":
                store.abort()
                continue
            store.commit()
            rows, version = after, version + 1
            if end == "load anew":
                unload_stores()


def test_rows_that_are_due_are_found_without_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A batch reads as many rows as it changes, or finds due."""
    store = open_store(tmp_path, 0)
    families = ColumnFamilies(store)
    for i in range(2_000):
        families.put("t", b"%d" % i, bytes([200 if i else 3]))
    assert families.num_rows() == 2_000 and families.due("t", times_of, 1) == []
    store.commit()
    read: list[bytes] = []

    def noted(row: bytes) -> tuple[bytes, bytes, bytes | None]:
        read.append(row)
        return key_fields(row)

    monkeypatch.setattr(family_indexes, "key_fields", noted)
    families = ColumnFamilies(open_store(tmp_path, 1))
    families.put("t", b"7", bytes([4]))
    assert families.due("t", times_of, 5) == [(3, b"0", None), (4, b"7", None)]
    assert families.num_rows() == 2_000
    assert len(read) < 10


@pytest.mark.parametrize("row", [b"", bytes(8), bytes(16), bytes(8) + (16 << 32 | 9).to_bytes(8, "little") + bytes(8)])
def test_a_row_that_is_none_is_refused(tmp_path: Path, row: bytes):
    store = open_store(tmp_path, 0)
    families = ColumnFamilies(store)
    families.put("a", b"k", b"v")
    [key] = store.rows()[0]
    store.put([key], [row])
    with pytest.raises(ValueError, match="no UnsafeRow"):
        families.get("a", b"k")


def test_variables_and_timers_are_shown_as_a_person_would_write_them() -> None:
    keys, count = StructType().add("user", "string"), StructType().add("count", "long")
    key, with_ttl = StructType().add("key", keys), StructType().add("value", count).add("ttlExpirationMs", "long")
    known = {
        "total": (key, StructType().add("value", count)),
        "pages": (StructType().add("key", keys).add("map", StructType().add("page", "string")), with_ttl),
    }
    ann, home = Rows(keys).encode(("ann",)), Rows(StructType().add("page", "string")).encode(("/",))
    three, expires = Rows(count).encode((3,)), Rows(count, ttl_ms=1).encode((4,), 60_000)
    noon = struct.pack("<q", 1_704_110_400_000)
    rows = [(b"total", None, three), (b"pages", home, expires), (b"$eventTimers", noon, b"")]
    entries = [(binary_row(family, ann, element), binary_row(value)) for family, element, value in rows]
    assert readable_variables(entries, keys, known.__getitem__) == [
        {"store": "total", "key": {"user": "ann"}, "value": {"count": 3}},
        {"store": "pages", "key": {"user": "ann", "page": "/"}, "value": {"count": 4, "expires": "1970-01-01 00:01:00"}},
        {"store": "timers", "key": {"user": "ann", "timer": "2024-01-01 12:00:00"}, "value": {}},
    ]
