"""Column families in one state store: rows are UnsafeRows, scans see what was written, broken rows are refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.state.loaded_providers import get_store
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.extras.transform_with_state.column_families import KEY_SCHEMA, VALUE_SCHEMA, ColumnFamilies


def open_store(folder: Path, version: int):
    return get_store(StateStoreId(str(folder), 0, 0), StateStoreConf(), version)


@pytest.mark.parametrize("family, key, element", [("a", b"", None), ("fünf", b"12345678", b"x" * 9), ("", b"k", b"")])
def test_rows_are_those_of_the_codec(tmp_path: Path, family: str, key: bytes, element: bytes | None):
    store = open_store(tmp_path, 0)
    ColumnFamilies(store).put(family, key, b"value", element)
    columns = [pa.array([family]), pa.array([key], pa.binary()), pa.array([element], pa.binary())]
    assert list(store.items()) == [
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


@pytest.mark.parametrize("row", [b"", bytes(8), bytes(16), bytes(8) + (16 << 32 | 9).to_bytes(8, "little") + bytes(8)])
def test_a_row_that_is_none_is_refused(tmp_path: Path, row: bytes):
    store = open_store(tmp_path, 0)
    families = ColumnFamilies(store)
    families.put("a", b"k", b"v")
    [key] = [key for key, _ in store.items()]
    store.put(key, row)
    with pytest.raises(ValueError, match="no UnsafeRow"):
        families.get("a", b"k")
