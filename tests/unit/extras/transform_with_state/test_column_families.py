"""Column families in one state store: keys and values are Spark's, scans see what was written, broken rows are refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import SparkRuntimeException
from pyspark.sql.types import LongType, StringType, StructType

from minispark_stream.engine.checkpointing.lz4_block import decompress
from minispark_stream.engine.checkpointing.unsafe_row import binary_row
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.loaded_providers import get_store, unload_stores
from minispark_stream.engine.state.maintenance import MaintenanceRound
from minispark_stream.engine.state.operator_state_metadata import (
    OperatorStateMetadata,
    StateStoreMetadata,
    write_operator_metadata,
)
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.extras.rocksdb.changelog import read_changelog
from minispark_stream.extras.rocksdb.changes import DELETE, MERGE, PUT
from minispark_stream.extras.rocksdb.column_family_schemas import write_column_families
from minispark_stream.extras.rocksdb.key_encoding import at_time, rows_of, time_of, two_rows
from minispark_stream.extras.rocksdb.rocksdb_state_files import RocksDBStateFiles
from minispark_stream.extras.rocksdb.snapshot_zip import read_zip_metadata
from minispark_stream.extras.transform_with_state import family_indexes
from minispark_stream.extras.transform_with_state.column_families import ColumnFamilies
from minispark_stream.extras.transform_with_state.family_indexes import BY_PREFIX, BY_TIME, PLAIN
from minispark_stream.extras.transform_with_state.keyed_families import KeyedFamilies
from minispark_stream.extras.transform_with_state.list_variable import elements_of
from minispark_stream.extras.transform_with_state.readable_variables import ReadableVariables
from minispark_stream.extras.transform_with_state.stateful_processor_handle import PROCESSING_TIME, Handle
from minispark_stream.extras.transform_with_state.variable_schemas import families_of, families_of_timers, properties

LOGS = StateStoreConf(new_files=RocksDBStateFiles, changelog_checkpointing_enabled=True, min_deltas_for_snapshot=3)
KINDS = {"a": BY_PREFIX, "b": BY_TIME, "c": PLAIN}
USER = StructType().add("user", StringType())
COUNT = StructType().add("count", LongType())


def open_store(folder: Path, version: int, conf: StateStoreConf = LOGS):
    return get_store(StateStoreId(str(folder), 0, 0), conf, version)


def opened(folder: Path, version: int, conf: StateStoreConf = LOGS, kinds: dict[str, str] = KINDS) -> tuple[Any, ColumnFamilies]:
    store = open_store(folder, version, conf)
    families = ColumnFamilies(store, conf.list_delimiter)
    for family, kind in kinds.items():
        families.create(family, kind)
    return store, families


@pytest.fixture(autouse=True)
def _metadata(tmp_path: Path, fresh_process: None) -> None:
    with_metadata(tmp_path)


def with_metadata(folder: Path) -> None:
    store = StateStoreMetadata("default", 0, 1, ())
    write_operator_metadata(str(folder), OperatorStateMetadata(0, "transformWithStateExec", (store,), properties("NoTime", "Update", [("list", "c", False)])))


# --- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ms, sorts_as", [(1795508811389, "01000001a20caa367d"), (0, "010000000000000000"), (-1, "00ffffffffffffffff")])
def test_the_key_of_a_time_is_sparks(ms: int, sorts_as: str) -> None:
    key = at_time(ms, binary_row(b"12345678"))
    assert key.startswith(bytes.fromhex("2100000000" "0000000000000000" "0900000010000000" + sorts_as)) and time_of(key) == ms
    assert rows_of(key)[1] == binary_row(b"12345678")


def test_times_are_in_order() -> None:
    times = [-(1 << 62), -2, -1, 0, 1, 255, 256, 1 << 62]
    assert sorted(times, key=lambda ms: at_time(ms, b"")) == times


@pytest.mark.parametrize("key", [b"", b"\1\0\0\0", b"\2\0\0\0\0", b"\xff\xff\xff\xff\0\0", b"\2\0\0\0\1x\0y", b"\2\0\0\0\0x\1y"])
def test_a_key_that_is_none_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="a key of|begin with a zero"):
        rows_of(key)


def test_a_key_without_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="a key without a time"):
        time_of(two_rows(binary_row(b"123"), b""))


# --- scans --------------------------------------------------------------------------------------------------------

ROW = st.tuples(st.sampled_from("abc"), st.sampled_from([b"ann", b"bob"]), st.sampled_from([b"x", b"y"]), st.integers(-2, 9))
BATCH = st.tuples(st.lists(st.tuples(ROW, st.booleans())), st.sampled_from(["commit", "abort", "load anew", "maintain"]))


def key_of(row: Any) -> bytes:
    family, first, second, time = row
    if family == "b":
        return at_time(time, binary_row(first + second))
    return two_rows(binary_row(first), binary_row(second)) if family == "a" else first + second


@settings(max_examples=15, deadline=None)
@given(st.lists(BATCH, max_size=4), st.booleans())
def test_indexes_follow_every_change(batches: list[Any], logs: bool):
    """Whatever is put, put again and removed; whether a batch commits, is forgotten, or the next one reads the files."""
    rows: dict[Any, Any] = {}
    version = 0
    conf = LOGS if logs else StateStoreConf(new_files=RocksDBStateFiles)
    unload_stores()
    with tempfile.TemporaryDirectory() as folder:
        with_metadata(Path(folder))
        for changes, end in batches:
            store, families = opened(Path(folder), version, conf)
            after = dict(rows)
            for row, is_removed in changes:
                key = row[0], key_of(row)
                if is_removed:
                    assert families.remove(*key) == (after.pop(key, None) is not None)
                else:
                    families.put(*key, b"\0")
                    after[key] = row
                due = sorted((time, binary_row(a + b)) for family, a, b, time in after.values() if family == "b" and time <= 5)
                assert families.due("b", 5) == due
                assert families.scan("a", binary_row(row[1])) == sorted(
                    {binary_row(b) for family, a, b, _ in after.values() if family == "a" and a == row[1]}
                )
                assert families.num_rows() == len(after)
            if end == "abort":
                store.abort()
                continue
            store.commit()
            rows, version = after, version + 1
            if end == "maintain":
                results, _ = MaintenanceRound(folder, conf, version, ((0, 0),)).run()
                assert [r.error for r in results if r.error] == []
            if end != "commit":
                unload_stores()


def test_rows_that_are_due_are_found_without_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A batch reads as many keys as it changes, or finds due."""
    store, families = opened(tmp_path, 0)
    for i in range(2_000):
        families.put("b", at_time(200 if i else 3, binary_row(b"%d" % i)), b"\0")
    assert families.num_rows() == 2_000 and families.due("b", 1) == []
    store.commit()
    read: list[bytes] = []

    def noted(key: bytes) -> int:
        read.append(key)
        return time_of(key)

    monkeypatch.setattr(family_indexes, "time_of", noted)
    _, families = opened(tmp_path, 1)
    families.put("b", at_time(4, binary_row(b"7")), b"\0")
    assert families.due("b", 5) == [(3, binary_row(b"0")), (4, binary_row(b"7"))]
    assert families.num_rows() == 2_001
    assert len(read) < 10


# --- files --------------------------------------------------------------------------------------------------------


def test_families_have_numbers_and_a_new_one_writes_a_zip(tmp_path: Path) -> None:
    store, families = opened(tmp_path, 0, kinds={"$i": PLAIN, "c": PLAIN})
    families.put("c", b"k", b"v")
    families.put("$i", b"k", b"v")
    store.commit()
    folder = tmp_path / "0/0"
    first = read_zip_metadata((folder / "1.zip").read_bytes())
    assert (first.families, first.max_family, first.num_keys, first.num_internal_keys) == ({1: "default", 2: "$i", 3: "c"}, 3, 1, 1)
    log = read_changelog(decompress((folder / "1.changelog").read_bytes(), "lz4", None), False)
    assert [(r.kind, r.key, r.value) for r in log.records] == [(PUT, b"\3\0k", b"v"), (PUT, b"\2\0k", b"v")]
    store, families = opened(tmp_path, 1, kinds={"c": PLAIN})
    families.put("c", b"l", b"v")
    store.commit()
    assert not (folder / "2.zip").exists()
    unload_stores()
    store, families = opened(tmp_path, 2, kinds={"c": PLAIN})
    assert families.drop("c") and not families.drop("c")
    families.create("d")
    store.commit()
    third = read_zip_metadata((folder / "3.zip").read_bytes())
    assert (third.families, third.max_family, third.num_keys) == ({1: "default", 2: "$i", 4: "d"}, 4, 0)
    unload_stores()
    _, families = opened(tmp_path, 3, kinds={"c": PLAIN})
    assert families.get("c", b"k") is None and families.get("$i", b"k") == b"v"


def test_a_processor_without_variables_has_a_state_without_rows(tmp_path: Path) -> None:
    for version in range(3):
        store, _ = opened(tmp_path, version, kinds={})
        store.commit()
    metadata = read_zip_metadata((tmp_path / "0/0/1.zip").read_bytes())
    assert metadata.families == {1: "default"} and metadata.num_keys == 0


@pytest.mark.parametrize(("merge_operator_version", "checksums", "logs"), [(1, False, True), (2, True, True), (2, False, True), (1, True, False)])
def test_a_list_grows_in_every_file(tmp_path: Path, merge_operator_version: int, checksums: bool, logs: bool) -> None:
    conf = StateStoreConf(
        new_files=RocksDBStateFiles, changelog_checkpointing_enabled=logs, merge_operator_version=merge_operator_version,
        min_deltas_for_snapshot=2, row_checksum_enabled=checksums,
    )
    whole = [b"\3\0\0\0\0%02d" % i for i in range(6)]
    for version in range(6):
        store, families = opened(tmp_path, version, conf)
        families.append("c", b"k", whole[version])
        families.remove("a", b"none")
        families.put("b", at_time(version, b""), b"\0")
        families.remove("b", at_time(version - 2, b""))
        store.commit()
        if version % 2:
            unload_stores()  # and read what is in the files
        if version == 3:
            assert [result.error for result in MaintenanceRound(str(tmp_path), conf, 4, ((0, 0),)).run()[0]] == [None] * logs
            assert (tmp_path / "0/0/4.zip").exists()
    provider = HDFSBackedStateStoreProvider(StateStoreId(str(tmp_path), 0, 0), conf)
    value = ColumnFamilies(provider.get_store(6), conf.list_delimiter).get("c", b"k")
    assert value == conf.list_delimiter.join(whole)
    assert elements_of(value, conf.list_delimiter) == [b"%02d" % i for i in range(6)]
    if logs:
        log = read_changelog(decompress((tmp_path / "0/0/6.changelog").read_bytes(), "lz4", None), False)
        assert [r.kind for r in log.records] == [MERGE, PUT, DELETE] and (log.records[0].value or b"").endswith(whole[5])
        assert (len(log.records[0].value or b""), len(log.records[2].key)) == ((15, 40 + 4) if checksums else (7, 40))


def test_two_tasks_that_write_the_same_agree_and_others_do_not(tmp_path: Path) -> None:
    store, families = opened(tmp_path, 0)
    families.append("c", b"k", b"\1\0\0\0\0")
    store.commit()
    two = [HDFSBackedStateStoreProvider(StateStoreId(str(tmp_path), 0, 0), LOGS) for _ in range(3)]
    stores = [of.get_store(1) for of in two]
    for store in stores[:2]:
        ColumnFamilies(store).append("c", b"k", b"same")
        store.commit()
    ColumnFamilies(stores[2]).append("c", b"k", b"other")
    with pytest.raises(SparkRuntimeException, match="another task has written other changes"):
        stores[2].commit()


def test_without_a_zip_nobody_knows_the_families(tmp_path: Path) -> None:
    for version in (0, 1):
        store, families = opened(tmp_path, version)
        families.put("c", b"k", b"v")
        store.commit()
    (tmp_path / "0/0/1.zip").unlink()
    unload_stores()
    with pytest.raises(SparkRuntimeException, match="No zip that can be read names the column families"):
        opened(tmp_path, 2)


@pytest.mark.parametrize("value", [b"\1", b"\5\0\0\0\0", b"\xff\xff\xff\xff\0", b"\0\0\0\0", b"\1\0\0\0\1"])
def test_a_list_that_is_none_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="does not fit into it|begin with a zero"):
        elements_of(value, b"")


# --- variables ----------------------------------------------------------------------------------------------------


def test_variables_and_timers_are_shown_as_a_person_would_write_them(tmp_path: Path) -> None:
    page = StructType().add("page", StringType())
    declared = [*families_of("value", "total", USER, [COUNT], False), *families_of("map", "pages", USER, [page, COUNT], True),
                *families_of("list", "seen", USER, [COUNT], False), *families_of_timers(PROCESSING_TIME, USER)]
    state = tmp_path / "state"
    path = write_column_families(str(state), 0, "default", 0, declared)
    store = StateStoreMetadata("default", 0, 1, (path,))
    write_operator_metadata(str(state), OperatorStateMetadata(0, "x", (store,), properties(PROCESSING_TIME, "Update", [])))
    store = open_store(state, 0)
    keyed = KeyedFamilies(ColumnFamilies(store), USER, 0)
    handle = Handle(keyed, PROCESSING_TIME, {})
    total, pages, seen = handle.getValueState("total", COUNT), handle.getMapState("pages", page, COUNT, 60_000), handle.getListState("seen", COUNT)
    handle.initialize()
    keyed.set_implicit_key(("ann",))
    total.update((3,))
    pages.updateValue(("/",), (4,))
    seen.appendList([(7,), (8,)])
    handle.registerTimer(1_704_110_400_000)
    keyed.set_implicit_key(None)
    store.commit()
    shown = ReadableVariables(str(state), 0, b"")
    rows = dict(zip(*open_store(state, 1).rows()))
    assert len(shown.of_variables(rows)) == 4
    found = shown.rows(list(rows.items()))
    assert sorted(found, key=str) == sorted([
        {"store": "total", "key": {"user": "ann"}, "value": {"count": 3}},
        {"store": "pages", "key": {"user": "ann", "page": "/"}, "value": {"count": 4, "expires": "1970-01-01 00:01:00"}},
        {"store": "seen", "key": {"user": "ann", "index": 0}, "value": {"count": 7}},
        {"store": "seen", "key": {"user": "ann", "index": 1}, "value": {"count": 8}},
        {"store": "clock timers", "key": {"user": "ann", "timer": "2024-01-01 12:00:00"}, "value": {}},
    ], key=str)
