"""Versions of a state store: files as Spark writes them, what is kept in memory, damage, and maintenance."""

from __future__ import annotations

import gc
import os
import shutil
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import SparkRuntimeException

from minispark_stream.engine.checkpointing.budget import Budget, LimitExceeded
from minispark_stream.engine.checkpointing.lz4_block import compress, decompress
from minispark_stream.engine.checkpointing.unsafe_row import Rows
from minispark_stream.engine.state import maintenance
from minispark_stream.engine.state.hdfs_backed_state_store_map import HDFSBackedStateStoreMap
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.loaded_providers import LoadedProviders, get_store, unload_stores
from minispark_stream.engine.state.maintenance import MaintenanceResult, MaintenanceRound, find_stores
from minispark_stream.engine.state.replay import bases, file_names
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import crc32c, decode_records, encode_records, records
from minispark_stream.engine.state.state_store import StateStore, StateStoreConf, StateStoreId, each, state_error_of

CONF = StateStoreConf()
A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
ONE, TWO, THREE = b"1" * 16, b"2" * 16, b"3" * 16
pytestmark = pytest.mark.usefixtures("fresh_process")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "ck" / "state"


def store_id(state: Path, partition: int = 0, name: str = "default") -> StateStoreId:
    return StateStoreId(str(state), 0, partition, name)


def batch(state: Path, version: int, puts: dict[bytes, bytes], removes: tuple[bytes, ...] = (), conf=CONF) -> None:
    """Run one batch on version `version` of partition 0."""
    store = get_store(store_id(state), conf, version)
    store.put(list(puts), list(puts.values()))
    store.remove(removes)
    assert store.commit() == version + 1


def contents(state: Path, version: int, conf: StateStoreConf = CONF) -> dict[bytes, bytes]:
    store = get_store(store_id(state), conf, version)
    try:
        return dict(zip(*store.rows()))
    finally:
        store.abort()


def entries(of: HDFSBackedStateStoreProvider) -> dict[bytes, bytes]:
    return dict(zip(*of.map.rows()))


def maintain(state: Path, conf: StateStoreConf = CONF, committed: int = 1000, **how: Any) -> list[MaintenanceResult]:
    results, left = MaintenanceRound(str(state), conf, committed, ((0, 0), (0, 1), (0, 2)), **how).run()
    assert not left
    return results


def names(state: Path, partition: str = "0/0") -> list[str]:
    found = [n for n in os.listdir(state / partition) if not n.startswith((".", "_"))]
    return sorted(found, key=lambda n: (int(n.split(".")[0]), n))


# --- one version after another -----------------------------------------------------------------------------------


def test_from_where_a_version_can_be_read() -> None:
    assert bases([4, 2, 8], 5) == [4, 2, 0] and bases([], 5) == [0]
    assert file_names(2, 5) == ["2.snapshot", "3.delta", "4.delta", "5.delta"]
    assert file_names(0, 2) == ["1.delta", "2.delta"] and file_names(4, 4) == ["4.snapshot"] and file_names(0, 0) == []


def test_a_batch_makes_the_next_version(state: Path) -> None:
    batch(state, 0, {A: ONE, B: TWO})
    batch(state, 1, {A: THREE, C: ONE}, removes=(B, b"never there"))
    assert contents(state, 2) == {A: THREE, C: ONE}
    assert names(state) == ["1.delta", "2.delta"]


def test_a_store_shows_its_own_changes(state: Path) -> None:
    store = get_store(store_id(state), CONF, 0)
    store.put([A], [ONE])
    assert each(store.get([A, B])) == [ONE, None] and store.num_keys == 1
    assert store.remove([A, B]) == 1 and store.remove([A]) == 0
    assert dict(zip(*store.rows())) == {}
    store.put([A, B, A], [ONE, TWO, THREE])
    store.put([B, C], [None, ONE])
    assert dict(zip(*store.rows())) == {A: THREE, C: ONE}


def test_abort_forgets_the_changes(state: Path) -> None:
    batch(state, 0, {A: ONE, B: TWO})
    store = get_store(store_id(state), CONF, 1)
    store.put([A, C], [TWO, TWO])
    store.put([A], [THREE])
    store.remove([B, C])
    store.abort()
    assert contents(state, 1) == {A: ONE, B: TWO}
    assert names(state) == ["1.delta"]


def test_a_delta_holds_the_changes_in_order_and_in_sparks_format(state: Path) -> None:
    store = get_store(store_id(state), CONF, 0)
    store.put([b"k1"], [b"v1"])
    store.remove([b"k1"])
    store.remove([b"k1"])  # not there any more: no record
    store.put([b"k2"], [b"v2"])
    store.commit()
    records = decompress((state / "0/0/1.delta").read_bytes())
    assert records.hex(" ", 2) == bytes.fromhex(
        "00000002 6b31 00000002 7631  00000002 6b31 ffffffff  00000002 6b32 00000002 7632  ffffffff"
    ).hex(" ", 2)


def test_a_batch_without_changes_writes_an_empty_delta(state: Path) -> None:
    batch(state, 0, {})
    assert (state / "0/0/1.delta").read_bytes() == compress(b"\xff\xff\xff\xff")


def test_after_commit_or_abort_nothing_can_be_changed(state: Path) -> None:
    store = get_store(store_id(state), CONF, 0)
    store.commit()
    with pytest.raises(ValueError, match="Cannot put after already committed or aborted"):
        store.put([A], [ONE])
    with pytest.raises(SparkRuntimeException, match="CANNOT_COMMIT.*Cannot commit after already committed"):
        store.commit()
    store.abort()  # does nothing
    assert contents(state, 1) == {}


def test_opening_a_store_again_aborts_the_one_that_was_open(state: Path) -> None:
    forgotten = get_store(store_id(state), CONF, 0)
    forgotten.put([A], [ONE])
    again = get_store(store_id(state), CONF, 0)
    assert dict(zip(*again.rows())) == {}
    with pytest.raises(ValueError, match="Cannot put"):
        forgotten.put([A], [ONE])
    with pytest.raises(ValueError, match="opened again"):
        forgotten.get([A])


def test_each_key_has_a_value(state: Path) -> None:
    store = get_store(store_id(state), CONF, 0)
    with pytest.raises(ValueError, match="2 keys with 1 values"):
        store.put([A, B], [ONE])
    assert store.num_keys == 0


def test_stores_with_a_name_have_their_own_directory(state: Path) -> None:
    store = get_store(store_id(state, 3, "left-keyToNumValues"), CONF, 0)
    store.commit()
    assert names(state, "0/3/left-keyToNumValues") == ["1.delta"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.binary(max_size=3), st.binary(max_size=3), max_size=4),
            st.lists(st.binary(max_size=3), max_size=3),
            st.sampled_from(["commit", "commit", "commit", "abort", "crash", "again", "snapshot"]),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_a_store_is_a_dict_with_versions(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[dict[bytes, bytes], list[bytes], str]], checksum: bool
) -> None:
    """Whatever happens in between, a version holds what was committed last as that version."""
    unload_stores()
    state = tmp_path_factory.mktemp("state")
    conf = StateStoreConf(row_checksum_enabled=checksum, min_deltas_for_snapshot=2)
    versions: list[dict[bytes, bytes]] = [{}]
    for puts, removes, end in steps:
        if end == "again" and len(versions) > 1:
            versions.pop()
        store = get_store(store_id(state), conf, len(versions) - 1)
        assert dict(zip(*store.rows())) == versions[-1]
        store.put(list(puts), list(puts.values()))
        store.remove(removes)
        if end == "abort":
            store.abort()
            continue
        versions.append({k: v for k, v in {**versions[-1], **puts}.items() if k not in removes})
        store.commit()
        if end == "snapshot":
            maintain(state, conf)
        if end == "crash":
            unload_stores()
        weight = sum(len(k) + len(v) for k, v in versions[-1].items())
        assert store.metrics().num_keys == len(versions[-1]) and store.metrics().memory_used_bytes >= weight
    unload_stores()
    for version, expected in enumerate(versions):
        assert contents(state, version, conf) == expected


# --- what is kept in memory ----------------------------------------------------------------------------------------


def counts(state: Path) -> tuple[int, int]:
    store = get_store(store_id(state), CONF, 0)
    custom = store.metrics().custom
    return custom["loadedMapCacheHitCount"], custom["loadedMapCacheMissCount"]


def test_the_last_two_versions_are_in_memory(state: Path) -> None:
    batch(state, 0, {A: ONE})
    batch(state, 1, {A: TWO})  # hit
    batch(state, 2, {A: THREE})  # hit
    batch(state, 2, {A: ONE})  # the batch runs again: hit, by the undo record of version 3
    assert contents(state, 3) == {A: ONE}  # hit
    assert contents(state, 1) == {A: ONE}  # miss
    assert counts(state) == (4, 1)


def test_keys_are_found_by_their_prefix_whatever_happens_to_them(state: Path) -> None:
    provider = HDFSBackedStateStoreProvider(store_id(state), CONF)

    def found(store: StateStore, *prefixes: bytes) -> list[bytes]:
        return sorted(store.prefix_scan(prefixes, lambda keys: [key[:1] for key in keys]).keys)

    store = provider.get_store(0)
    store.put([b"a1", b"a2", b"b1"], [ONE] * 3)
    assert found(store, b"a") == [b"a1", b"a2"]
    store.remove([b"a1"])
    store.put([b"a3"], [TWO])
    assert found(store, b"a", b"b", b"c") == [b"a2", b"a3", b"b1"]
    store.commit()
    store = provider.get_store(1)
    store.remove([b"a2", b"a3"])
    assert found(store, b"a") == []
    store.abort()
    assert found(provider.get_store(1), b"a") == [b"a2", b"a3"]


def test_a_process_catches_up_with_what_others_wrote(state: Path) -> None:
    batch(state, 0, {A: ONE})
    ours = HDFSBackedStateStoreProvider(store_id(state), CONF)
    ours.load(1)
    kept = ours.map
    batch(state, 1, {B: TWO})
    batch(state, 2, {C: THREE}, removes=(A,))
    ours.load(3)
    assert ours.map is kept and entries(ours) == {B: TWO, C: THREE}


def test_a_version_that_another_process_wrote_again_is_not_trusted(state: Path) -> None:
    batch(state, 0, {A: ONE})
    batch(state, 1, {A: TWO})
    ours = HDFSBackedStateStoreProvider(store_id(state), CONF)
    ours.load(2)
    batch(state, 1, {A: THREE})
    ours.load(2)
    assert entries(ours) == {A: THREE}


def test_versions_built_on_one_that_was_written_again_are_not_trusted(state: Path) -> None:
    """A query is rolled back to version 1 by hand, and goes on in another process."""
    for version in range(4):
        batch(state, version, {A: b"old %d" % version})
    ours = HDFSBackedStateStoreProvider(store_id(state), CONF)
    ours.load(4)
    for version in range(1, 6):
        batch(state, version, {b"new %d" % version: ONE})
    ours.load(6)
    assert entries(ours) == contents(state, 6)
    assert b"new 2" in entries(ours)


def test_a_snapshot_of_an_earlier_run_does_not_hide_the_new_delta(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=1)
    for version in range(3):
        batch(state, version, {A: b"old %d" % version}, conf=conf)
    maintain(state, conf)
    assert "3.snapshot" in names(state)
    batch(state, 2, {A: b"new"}, conf=conf)
    unload_stores()
    assert contents(state, 3, conf) == {A: b"new"}


@pytest.mark.parametrize("committed", [False, True], ids=["the batch still runs", "its version is behind a snapshot"])
def test_a_task_that_outlived_its_query_cannot_replace_what_the_next_run_wrote(state: Path, committed: bool) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=1, min_versions_to_retain=1)
    batch(state, 0, {A: ONE}, conf=conf)
    late = [HDFSBackedStateStoreProvider(store_id(state), conf).get_store(1) for _ in range(2)]
    batch(state, 1, {B: ONE, C: TWO}, conf=conf)
    if committed:
        maintain(state, conf)
        for version in range(2, 4):
            batch(state, version, {B: TWO}, conf=conf)
        assert "2.snapshot" in names(state)
    same, other = late
    same.put([C, B, B], [TWO, THREE, ONE])  # the same in another order: a shuffle promises none
    other.put([B], [THREE])
    before = (state / "0/0/2.delta").stat().st_mtime_ns
    assert same.commit() == 2
    with pytest.raises(SparkRuntimeException, match="CANNOT_COMMIT.*another task has written other changes.*2.delta"):
        other.commit()
    other.abort()
    assert (state / "0/0/2.delta").stat().st_mtime_ns == before
    unload_stores()
    assert contents(state, 4 if committed else 2, conf) == {A: ONE, B: TWO if committed else ONE, C: TWO}


def test_a_batch_that_was_not_committed_runs_again_with_other_data(state: Path) -> None:
    batch(state, 0, {A: ONE})
    batch(state, 1, {B: ONE})
    unload_stores()
    for puts in ({B: TWO}, {C: THREE}):  # in a new process, and once more in this one
        batch(state, 1, puts)
        assert contents(state, 2) == {A: ONE, **puts}
    unload_stores()
    assert contents(state, 2) == {A: ONE, C: THREE}


def test_a_state_directory_may_be_a_uri(state: Path) -> None:
    for version in range(2):
        store = get_store(StateStoreId(f"file://{state}", 0, 0), CONF, version)
        store.put([A], [b"%d" % version])
        store.commit()
    assert store.metrics().custom["loadedMapCacheHitCount"] == 1
    assert contents(state, 2) == {A: b"1"}


def test_a_new_checkpoint_in_the_place_of_an_old_one(state: Path) -> None:
    batch(state, 0, {A: ONE})
    batch(state, 1, {A: TWO})
    (state / "0/0/1.delta").unlink()
    (state / "0/0/2.delta").unlink()
    assert contents(state, 0) == {}
    batch(state, 0, {B: ONE})
    assert contents(state, 1) == {B: ONE}


def test_a_process_far_behind_begins_at_the_snapshot(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=3, min_versions_to_retain=1)
    batch(state, 0, {A: ONE}, conf=conf)
    ours = HDFSBackedStateStoreProvider(store_id(state), conf)
    ours.load(1)
    for version in range(1, 6):
        batch(state, version, {b"%d" % version: ONE}, conf=conf)
        maintain(state, conf)
    assert names(state)[0] == "4.delta"  # 2.delta, which would be next, is gone
    ours.load(6)
    assert entries(ours) == contents(state, 6, conf) and len(ours.map) == 6


def test_the_cost_of_a_batch_does_not_grow_with_the_state(state: Path) -> None:
    batch(state, 0, {b"%016d" % i: ONE for i in range(5000)})
    store = get_store(store_id(state), CONF, 1)
    store.put([A], [ONE])
    store.commit()
    provider = store._provider  # type: ignore[attr-defined]
    assert [*records(provider.undo_records[2])] == [(A, None)]
    assert (state / "0/0/2.delta").stat().st_size < 120


def test_plain_and_fast_entries_write_the_same_files(tmp_path: Path) -> None:
    """Versions, a batch that was begun and forgotten, and one that runs again."""
    files = []
    for name, most in (("plain", 1000), ("fast", 0), ("grows", 2)):
        state = tmp_path / name
        provider = HDFSBackedStateStoreProvider(store_id(state), StateStoreConf(max_rows_in_dict=most))
        for version, keys in ((0, [A, B]), (1, [B, C]), (1, [C])):
            provider.get_store(version).put(keys, [TWO] * len(keys))
            store = provider.get_store(version)
            store.put(Rows.of(keys), Rows.of([ONE] * len(keys)))
            store.remove([A])
            store.commit()
        files.append([(state / f"0/0/{version}.delta").read_bytes() for version in (1, 2)])
    assert files[0] == files[1] == files[2]


def test_metrics_have_sparks_names(state: Path) -> None:
    batch(state, 0, {A: ONE})
    store = get_store(store_id(state, 0), CONF, 1)
    store.put([B], [TWO])
    store.commit()
    metrics = store.metrics()
    assert metrics.num_keys == 2
    assert 2 * 32 < metrics.custom["stateOnCurrentVersionSizeBytes"] < metrics.memory_used_bytes
    assert {k: v for k, v in metrics.custom.items() if not k.endswith("SizeBytes")} == {
        "loadedMapCacheHitCount": 1,
        "loadedMapCacheMissCount": 0,
        "numSnapshotsAutoRepaired": 0,
        "forceSnapshotCount": 0,
        "SnapshotLastUploaded.partition_0_default": -1,
    }


def test_confs_are_read_under_sparks_names() -> None:
    assert StateStoreConf.from_conf(dict[str, str]().get) == StateStoreConf()
    conf = {
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.stateStore.compression.codec": "zstd",
        "spark.sql.streaming.stateStore.rowChecksum.enabled": "true",
        "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled": "false",
    }
    assert StateStoreConf.from_conf(conf.get) == StateStoreConf(3, 2, 2, "zstd", True, False)
    with pytest.raises(SparkRuntimeException, match="RocksDB.* is not supported here"):
        StateStoreConf.from_conf({"spark.sql.streaming.stateStore.providerClass": "x.RocksDBStateStoreProvider"}.get)
    with pytest.raises(SparkRuntimeException, match="STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED"):
        StateStoreConf.from_conf({"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}.get)


# --- files: records, checksums, damage -----------------------------------------------------------------------------

PAIRS = st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=16)


@settings(max_examples=100, deadline=None)
@given(PAIRS, st.booleans())
def test_records_are_read_as_they_were_written(pairs: list[tuple[bytes, bytes | None]], checksum: bool) -> None:
    changes = [([k for k, _ in pairs], [v for _, v in pairs])]
    assert decode_records(encode_records(changes, checksum), checksum) == pairs


def test_of_many_records_those_of_a_key_keep_their_order() -> None:
    """The others may be sorted by the size of their keys."""
    pairs = [(b"k" * (1 + i % 3) + b"%d" % (i % 500), b"%d" % i * (i % 2 + 1)) for i in range(5_000)]
    keys, values = zip(*pairs)
    read = decode_records(encode_records([(keys, values)]))
    assert sorted(read) == sorted(pairs) and dict(read) == dict(pairs)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_garbage_is_refused_or_read_to_its_end_mark(data: bytes) -> None:
    try:
        pairs = decode_records(data)
    except ValueError:
        return
    assert sum(len(k) + len(v or b"") for k, v in pairs) <= len(data)


@pytest.mark.parametrize("last", [b"", b"\0\0\0\0\xff\xff\xff\xff"], ids=["records of one size", "others, too"])
def test_records_of_nothing_are_limited_by_the_memory_that_they_take(last: bytes) -> None:
    data = bytes(8 * 10_000) + last + b"\xff\xff\xff\xff"
    assert len(decode_records(data, budget=Budget(2_000_000))) == 10_000 + bool(last)
    with pytest.raises(LimitExceeded, match="more than 1,000,000 bytes of memory"):
        decode_records(data, budget=Budget(1_000_000))


def test_rows_of_one_size_are_read_like_others() -> None:
    keys, values = [b"%08d" % i for i in range(100)], [b"%016d" % i for i in range(100)]
    data = encode_records([(keys, values)])
    assert decode_records(data) == list(zip(keys, values))
    assert decode_records(data[:-4] + encode_records([([A], [None])])) == [*zip(keys, values), (A, None)]
    with pytest.raises(ValueError, match="byte 2412 of the records: a value of 16 bytes, but the file ends before"):
        decode_records(data[:2420])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 70), st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=5), st.booleans())
def test_runs_of_alike_records_are_read_as_they_were_written(
    runs: list[tuple[int, bytes, bytes | None]], checksum: bool
) -> None:
    pairs = [(key, value) for times, key, value in runs for _ in range(times)]
    changes = [([key] * times, [value] * times) for times, key, value in runs]
    assert decode_records(encode_records(changes, checksum), checksum) == pairs


def test_crc32c() -> None:
    assert crc32c([b"123456789", b"", bytes(32)]) == [0xE3069283, 0, 0x8A9136AA]


def test_row_checksums_are_verified(state: Path) -> None:
    conf = StateStoreConf(row_checksum_enabled=True)
    batch(state, 0, {A: ONE, B: TWO}, conf=conf)
    batch(state, 1, {}, removes=(A,), conf=conf)
    put = decompress((state / "0/0/1.delta").read_bytes())
    assert put[20:24] == b"\0\0\0\x14" and put[24:28] == crc32c([A + ONE])[0].to_bytes(4, "little")
    remove = decompress((state / "0/0/2.delta").read_bytes())
    assert remove[:8] == b"\0\0\0\x14" + crc32c([A])[0].to_bytes(4, "little")
    unload_stores()
    assert contents(state, 2, conf) == {B: TWO}
    unload_stores()
    (state / "0/0/1.delta").write_bytes(compress(put.replace(ONE, THREE)))
    with pytest.raises(SparkRuntimeException, match="Expected checksum.*record 0, in 1.delta"):
        contents(state, 2, conf)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0 of the records: the file ends without its end mark"),
        (b"garbage" * 9, "byte 0: not the beginning of an LZ4 block"),
        (compress(encode_records([([A], [ONE])])[:-4]), "byte 40 of the records: the file ends without its end mark"),
        (compress(b"\x7f\xff\xff\xffabc"), "byte 0 of the records: a key of 2147483647 bytes, but the file ends"),
        (compress(b"\0\0\0\1k\0\0\0\x09v"), "byte 5 of the records: a value of 9 bytes, but the file ends"),
        (compress(b"\xff\xff\xff\xfe"), "CANNOT_READ_DELTA_FILE_KEY_SIZE.*key size cannot be -2"),
    ],
)
def test_a_damaged_delta_is_one_clear_error(state: Path, data: bytes, message: str) -> None:
    batch(state, 0, {A: ONE})
    unload_stores()
    (state / "0/0/1.delta").write_bytes(data)
    with pytest.raises(SparkRuntimeException, match=message) as e:
        contents(state, 1)
    assert f"{state}/0/0/1.delta" in str(e.value) and "CANNOT_LOAD_STATE_STORE" in str(e.value)


def test_a_missing_delta_is_sparks_error(state: Path) -> None:
    batch(state, 0, {A: ONE})
    unload_stores()
    with pytest.raises(SparkRuntimeException, match="2.delta does not exist") as e:
        contents(state, 2)
    assert e.value.getCondition() == "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
    with pytest.raises(SparkRuntimeException, match="UNEXPECTED_VERSION.*Version cannot be -1"):
        contents(state, -1)
    assert contents(state, 1) == {A: ONE}


def test_a_new_run_begins_with_the_files(state: Path) -> None:
    """As in Spark, a run goes on with what is in its memory, whatever happens to older files; the next one needs them."""
    batch(state, 0, {A: ONE})
    batch(state, 1, {B: TWO})
    (state / "0/0/1.delta").unlink()
    assert contents(state, 2) == {A: ONE, B: TWO}
    with pytest.raises(SparkRuntimeException) as e:
        contents(state, 2, StateStoreConf(query_run_id="the next run"))
    assert e.value.getCondition() == "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
    assert (e.value.getMessageParameters() or {})["clazz"] == (
        "HDFSStateStoreProvider[stateStoreProviderId=StateStoreProviderId[ storeId=StateStoreId[ operatorId=0, partitionId=0, "
        "storeName=default ], queryRunId=the next run ]]"
    )
    cause = "SparkRuntimeException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] first SQLSTATE: 58030"
    of_worker = RuntimeError(f"Traceback ...\nx.y.{cause}\n\nTraceback ...\nx.y.SparkRuntimeException: {e.value}\n\nJVM stacktrace")
    on_driver = state_error_of(of_worker, str(of_worker))
    assert on_driver is not None and str(on_driver) == str(e.value) and on_driver.getCondition() == e.value.getCondition()
    assert state_error_of(RuntimeError(), "Traceback ...\nSparkRuntimeException: [OTHER] of a user SQLSTATE: 12345") is None


def with_snapshots(state: Path, conf: StateStoreConf) -> None:
    """Versions 1 to 7, with 3.snapshot and 6.snapshot, of which the newer one is damaged."""
    for version in range(7):
        batch(state, version, {b"%d" % version: ONE}, conf=conf)
        maintain(state, conf)
    assert [n for n in names(state) if "snap" in n] == ["3.snapshot", "6.snapshot"]
    (state / "0/0/6.snapshot").write_bytes(b"garbage" * 9)
    unload_stores()


def test_a_damaged_snapshot_is_skipped(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2)
    with_snapshots(state, conf)
    store = get_store(store_id(state), conf, 7)
    assert sorted(store.rows()[0]) == [b"%d" % i for i in range(7)]
    assert store.metrics().custom["numSnapshotsAutoRepaired"] == 1


def test_a_damaged_snapshot_is_an_error_without_repair(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2, auto_snapshot_repair_enabled=False)
    with_snapshots(state, conf)
    with pytest.raises(SparkRuntimeException, match="6.snapshot.*not the beginning of an LZ4 block"):
        contents(state, 7, conf)


def test_repair_replays_no_more_deltas_than_allowed(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2, auto_snapshot_repair_max_replay=2)
    with_snapshots(state, conf)
    with pytest.raises(SparkRuntimeException, match="REPAIR_FAILED.*version 6.*available snapshots .3, 0"):
        contents(state, 7, conf)


@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy"])
def test_other_codecs(state: Path, codec: str) -> None:
    conf = StateStoreConf(compression_codec=codec)
    batch(state, 0, {b"%d" % i: b"value" * 100 for i in range(100)}, conf=conf)
    unload_stores()
    assert len(contents(state, 1, conf)) == 100


# --- maintenance ---------------------------------------------------------------------------------------------------


def test_snapshots_and_clean_up_come_when_sparks_come(state: Path) -> None:
    """The listing that Spark 4.3.0 showed over 26 batches with minBatchesToRetain 3."""
    conf = StateStoreConf(min_versions_to_retain=3)
    seen: dict[int, tuple[str, str, int]] = {}
    for version in range(26):
        batch(state, version, {b"k%d" % version: ONE}, conf=conf)
        for _ in range(2):
            maintain(state, conf)
        files = names(state)
        seen[version + 1] = files[0], files[-1], len(files)
    assert seen[10] == ("1.delta", "10.delta", 10)
    assert seen[11] == ("1.delta", "11.snapshot", 12)
    assert seen[13] == ("1.delta", "13.delta", 14)
    assert seen[14] == ("11.delta", "14.delta", 5)
    assert seen[21] == ("11.delta", "21.delta", 12)
    assert seen[22] == ("11.delta", "22.snapshot", 14)
    assert seen[24] == ("11.delta", "24.delta", 16)
    assert seen[25] == ("22.delta", "25.delta", 5)
    unload_stores()
    assert contents(state, 26, conf) == {b"k%d" % v: ONE for v in range(26)}


def test_there_is_no_snapshot_of_a_version_that_a_batch_may_write_again(state: Path) -> None:
    """Of batch 2 only the write-ahead log and some partitions were written when the process died: it runs again."""
    conf = StateStoreConf(min_deltas_for_snapshot=1, min_versions_to_retain=1)
    for version in range(3):
        batch(state, version, {A: b"%d" % version}, conf=conf)
    (result,) = maintain(state, conf, committed=2)
    assert result.snapshot == 2 and names(state) == ["1.delta", "2.delta", "2.snapshot", "3.delta"]
    again = HDFSBackedStateStoreProvider(store_id(state), conf).get_store(2)  # in another worker
    maintain(state, conf, committed=2)  # while the batch runs
    again.put([A], [b"new"])
    again.commit()
    unload_stores()
    assert contents(state, 3, conf) == {A: b"new"}


def test_maintenance_says_where_it_did_something(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2, min_versions_to_retain=1)
    for version in range(3):
        batch(state, version, {A: ONE}, conf=conf)
    other = get_store(store_id(state, 1, "left"), conf, 0)
    other.commit()
    assert find_stores(str(state), 0, 0) == [store_id(state)] and find_stores(str(state), 0, 1) == [store_id(state, 1, "left")]
    (result,) = maintain(state, conf)
    assert (result.store_id, result.snapshot, result.deleted, result.error) == (store_id(state), 3, (), None)
    assert result.num_bytes == (state / "0/0/3.snapshot").stat().st_size and result.worker.endswith(f":{os.getpid()}")
    batch(state, 3, {A: TWO}, conf=conf)
    (result,) = maintain(state, conf)
    assert result.snapshot is None and result.deleted == ("1.delta", "2.delta") and result.num_bytes == 0


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of state that are read from now on."""
    names = list[str]()
    read = StateFiles._read

    def noted(files: StateFiles, name: str, kind: str) -> Any:
        names.append(name)
        return read(files, name, kind)

    monkeypatch.setattr(StateFiles, "_read", noted)
    return names


def test_a_snapshot_is_written_from_what_is_in_memory(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2)
    for version in range(4):
        batch(state, version, {A: b"%d" % version, b"k%d" % version: ONE}, conf=conf)
    read = reads(monkeypatch)
    (result,) = maintain(state, conf, committed=3, may_read=False)  # the worker has run the next batch already
    assert (result.snapshot, result.from_memory, read) == (3, True, [])
    assert dict(records(StateFiles(store_id(state), conf).read_snapshot(3))) == {A: b"2", b"k0": ONE, b"k1": ONE, b"k2": ONE}
    read.clear()
    assert contents(state, 4, conf)[A] == b"3" and read == ["4.delta"]
    other = HDFSBackedStateStoreProvider(store_id(state), conf)
    for version in range(4, 6):
        store = other.get_store(version)
        store.put([A], [b"%d" % version])
        store.commit()
    read.clear()
    (result,) = maintain(state, conf, may_read=False)  # it lacks what another worker wrote
    assert (result.snapshot, result.from_memory, read) == (6, True, ["5.delta", "6.delta"])


def test_a_snapshot_waits_when_its_version_is_written_again_while_it_is_read(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a task that outlived its query, say: nobody can tell whether what was read is what is there now."""
    conf = StateStoreConf(min_deltas_for_snapshot=2)
    for version in range(3):
        batch(state, version, {A: b"%d" % version}, conf=conf)

    def another_one_writes(*which: Any) -> Any:
        StateFiles(store_id(state), conf).write_delta(3, [([A], [b"other"])])
        return store

    store = get_store(store_id(state), conf, 3)
    monkeypatch.setattr(maintenance, "get_store", another_one_writes)
    (result,) = maintain(state, conf)
    assert result.snapshot is None and "written again meanwhile" in str(result.error)
    assert names(state) == ["1.delta", "2.delta", "3.delta"]


def test_what_a_worker_has_not_in_memory_is_left_for_another_one(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2)
    for partition in range(3):
        for version in range(3):
            get_store(store_id(state, partition), conf, version).commit()
        if partition == 1:
            unload_stores()
    partitions = ((0, 0), (0, 1), (0, 2))
    (result,), left = MaintenanceRound(str(state), conf, 3, partitions, may_read=False).run()
    assert result.store_id.partition_id == 2 and left == [(0, 0), (0, 1)]
    (result,), left = MaintenanceRound(str(state), conf, 3, tuple(left), seconds=0).run()
    assert result.store_id.partition_id == 0 and not result.from_memory and left == [(0, 1)], "one at least, however long it takes"


def test_a_snapshot_does_not_bring_a_deleted_checkpoint_back(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query was stopped, and its checkpoint deleted, while a worker was writing."""
    conf = StateStoreConf(min_deltas_for_snapshot=1)
    for version in range(2):
        batch(state, version, {A: ONE}, conf=conf)
    write = StateFiles.write_snapshot

    def deleted_before(files: StateFiles, *arguments: Any) -> int:
        shutil.rmtree(state)
        return write(files, *arguments)

    monkeypatch.setattr(StateFiles, "write_snapshot", deleted_before)
    (result,) = maintain(state, conf)
    assert result.snapshot is None and "folder is gone" in str(result.error) and not state.exists()


def test_maintenance_of_one_store_may_fail(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2)
    for partition in range(2):
        for version in range(3):
            get_store(store_id(state, partition), conf, version).commit()
    unload_stores()
    (state / "0/0/2.delta").write_bytes(b"garbage")
    failed, done = maintain(state, conf)
    assert (failed.store_id.partition_id, failed.snapshot) == (0, None) and "2.delta" in str(failed.error)
    assert (done.store_id.partition_id, done.snapshot, done.error) == (1, 3, None)
    assert names(state) == ["1.delta", "2.delta", "3.delta"]


def test_a_partition_that_cannot_be_listed_does_not_stop_the_others(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2)
    for version in range(3):
        get_store(store_id(state, 1), conf, version).commit()
    (state / "0/0").write_text("a file where the folder should be")
    failed, done = maintain(state, conf)
    assert (failed.store_id.partition_id, failed.snapshot, failed.deleted) == (0, None, ()) and failed.error
    assert (done.store_id.partition_id, done.snapshot, done.error) == (1, 3, None)


def test_only_what_was_deleted_is_said_to_be(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2, min_versions_to_retain=3)
    with_snapshots(state, conf)
    before, delete = set(names(state)), StateFiles.delete

    def delete_one(files: StateFiles, name: str) -> None:
        if len(names(state)) < len(before):
            raise OSError("no right to delete")
        delete(files, name)

    monkeypatch.setattr(StateFiles, "delete", delete_one)
    (result,) = maintain(state, replace(conf, min_versions_to_retain=1))
    assert set(result.deleted) == before - set(names(state)) and len(result.deleted) == 1 and "no right" in str(result.error)


def test_a_damaged_snapshot_does_not_keep_the_next_one_from_being_written(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2)
    with_snapshots(state, conf)
    for version in range(7, 9):
        batch(state, version, {b"%d" % version: ONE}, conf=conf)
    (result,) = maintain(state, conf)
    assert result.snapshot == 9
    unload_stores()
    assert StateFiles(store_id(state), conf).read_snapshot(9) and sorted(contents(state, 9, conf)) == [b"%d" % i for i in range(9)]


def test_clean_up_does_not_wait_for_a_snapshot_that_fails(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2, min_versions_to_retain=3)
    with_snapshots(state, conf)
    for version in range(7, 9):
        batch(state, version, {b"%d" % version: ONE}, conf=conf)
    (state / "0/0/8.delta").write_bytes(b"garbage")
    before = names(state)
    unload_stores()
    (result,) = maintain(state, conf)
    assert result.snapshot is None and result.deleted and "8.delta" in str(result.error)
    assert "3.snapshot" in before and names(state) == ["3.delta", "6.delta", "6.snapshot", "7.delta", "8.delta", "9.delta"]


def test_no_snapshot_and_no_clean_up_over_a_gap(state: Path) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=1, min_versions_to_retain=1)
    for version in range(4):
        batch(state, version, {A: ONE}, conf=conf)
    (state / "0/0/1.delta").unlink()
    (result,) = maintain(state, conf)
    assert "unexpected list of delta files for version 4" in str(result.error) and not result.deleted
    assert names(state) == ["2.delta", "3.delta", "4.delta"]


def test_junk_in_a_state_directory_is_ignored(state: Path) -> None:
    batch(state, 0, {A: ONE})
    for name in ("foo.bar", ".2.delta.tmp", "2.delta.tmp", "x.delta", "_metadata", "005.snapshot", "٣.delta", "+4.delta"):
        (state / "0/0" / name).write_bytes(b"junk")
    for folder in ("junk", "00/0", "0/01"):
        (state / folder).mkdir(parents=True)
        (state / folder / "1.delta").write_bytes(b"junk")
    assert [f.name for f in StateFiles(store_id(state), CONF).store_files()] == ["1.delta"]
    assert find_stores(str(state), 0, 0) == [store_id(state)] and find_stores(str(state), 0, 1) == []
    assert maintain(state / "nothing here") == []


def test_a_process_keeps_the_stores_that_it_used_last_and_that_fit(state: Path) -> None:
    loaded = LoadedProviders(max_bytes=500_000)

    def opened(partition: int) -> HDFSBackedStateStoreProvider:
        provider = loaded.provider(store_id(state, partition), CONF, 1)
        provider.load(1)
        return provider

    for partition in range(3):
        store = get_store(store_id(state, partition), CONF, 0)
        store.put([A], [b"x" * 400_000])
        store.commit()
    first, second = opened(0), opened(1)
    assert opened(0) is first
    third = opened(2)
    assert (opened(2), opened(0)) == (third, first), "only the second one had to go"
    assert opened(1) is not second


def test_a_process_drops_the_stores_that_are_of_no_use(state: Path) -> None:
    loaded = LoadedProviders(max_bytes=1_000_000)
    far_behind, behind = loaded.provider(store_id(state, 0), CONF, 1), loaded.provider(store_id(state, 1), CONF, 1)
    behind.version = 1
    loaded.provider(store_id(state, 2), CONF, 11)  # with 10 deltas, minDeltasForSnapshot, the second one can catch up
    assert loaded.provider(store_id(state, 1), CONF, 11) is behind
    assert loaded.provider(store_id(state, 0), CONF, 11) is not far_behind
    assert loaded.provider(store_id(state, 1), StateStoreConf(query_run_id="the next run"), 11) is not behind


def test_a_task_looks_only_at_the_store_that_was_used_last(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def takes(entries: HDFSBackedStateStoreMap) -> int:
        asked.append(entries)
        return 100

    monkeypatch.setattr(HDFSBackedStateStoreMap, "memory_used_bytes", property(takes))
    loaded = LoadedProviders(max_bytes=1_000_000)
    for partition in range(200):
        loaded.provider(store_id(state, partition), CONF, 0)
    asked.clear()
    for partition in range(200):
        loaded.provider(store_id(state, partition), CONF, 0)
    assert len(asked) == 200, "one for each call, however many stores are loaded"


def test_a_store_that_is_dropped_is_freed_without_the_collector(state: Path) -> None:
    """A worker spares what it keeps from the collector (engine/operators/worker_tuning.py)."""
    loaded = LoadedProviders(max_bytes=0)
    provider = loaded.provider(store_id(state, 0), CONF, 0)
    store = provider.get_store(0, None)
    store.put([A], [b"x" * 400_000])
    store.commit()
    store.abort()
    left = weakref.ref(provider)
    del provider, store
    gc.disable()
    try:
        for partition in (1, 2):
            loaded.provider(store_id(state, partition), CONF, 0)
        assert left() is None
    finally:
        gc.enable()
