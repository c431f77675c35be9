"""The files of RocksDB's provider: what is in them, what a load reads, and what happens when something is missing."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql.types import DoubleType, LongType, StringType, StructType, TimestampType

from minispark_stream.engine.checkpointing.unsafe_row import Rows
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.maintenance import MaintenanceResult, MaintenanceRound, find_stores
from minispark_stream.engine.state.operator_state_metadata import (
    OperatorStateMetadata,
    StateStoreMetadata,
    write_operator_metadata,
)
from minispark_stream.engine.state.state_schema_compatibility_checker import validate_or_write_schema
from minispark_stream.engine.state.state_store import ROCKS_DB_PROVIDER, StateStoreConf, StateStoreId
from minispark_stream.extras.rocksdb.rocksdb_state_encoder import RocksDBStateEncoder
from minispark_stream.extras.rocksdb.rocksdb_state_files import RocksDBStateFiles
from tests.unit.hand_made import encode

pytestmark = pytest.mark.usefixtures("fresh_process")
ZIPS = StateStoreConf(new_files=RocksDBStateFiles, min_versions_to_retain=3)
CHANGELOGS = StateStoreConf(
    new_files=RocksDBStateFiles, changelog_checkpointing_enabled=True, min_deltas_for_snapshot=3, min_versions_to_retain=3
)
HDFS = StateStoreConf(min_deltas_for_snapshot=2, min_versions_to_retain=3)
KEYS = [b"%16d" % i for i in range(6)]


@pytest.fixture
def store_id(tmp_path: Path) -> StateStoreId:
    return StateStoreId(str(tmp_path / "state"), 0, 0)


def worker(store_id: StateStoreId, conf: StateStoreConf) -> HDFSBackedStateStoreProvider:
    return HDFSBackedStateStoreProvider(store_id, conf)


def batch(of: HDFSBackedStateStoreProvider, version: int, puts: dict[bytes, bytes], *removes: bytes) -> None:
    store = of.get_store(version)
    store.put(list(puts), list(puts.values()))
    store.remove(removes)
    store.commit()


def rows(store_id: StateStoreId, conf: StateStoreConf, version: int) -> dict[bytes, bytes]:
    """As a worker of its own reads them."""
    return dict(zip(*worker(store_id, conf).get_store(version).rows()))


def maintain(store_id: StateStoreId, conf: StateStoreConf, committed: int) -> list[MaintenanceResult]:
    results, _ = MaintenanceRound(store_id.checkpoint_root, conf, committed, ((0, 0),)).run()
    assert [r.error for r in results if r.error] == []
    return results


def names(store_id: StateStoreId, folder: str = "") -> list[str]:
    found = [n for n in os.listdir(Path(store_id.location, folder)) if not n.startswith((".", "_", "SSTs"))]
    return sorted(found, key=lambda n: (int(n.split(".")[0].split("-")[0]), n))


def metadata(store_id: StateStoreId, version: int) -> dict:
    with zipfile.ZipFile(Path(store_id.location, f"{version}.zip")) as archive:
        return json.loads(archive.read("metadata").partition(b"\n")[2])


# --- rows ---------------------------------------------------------------------------------------------------------

KEY = StructType().add("k", StringType()).add("n", DoubleType()).add("start", TimestampType())


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_rows_come_back_as_they_were(prefix: int, checksum: bool) -> None:
    keys = encode(KEY, ["a", None, "a long one, é"], [1.5, None, -0.0], [0, 1, 2])
    values = [b"1" * 16, None, b"2" * 24]
    encoder = RocksDBStateEncoder(KEY, prefix, checksum)
    encoded = encoder.encode((keys, values))
    back, last = encoder.decode(encoded), encoded[1][2]
    assert ([*map(bytes, back[0])], list(back[1])) == (keys, values)
    assert encoder.decode(([], [])) == ([], [])
    if checksum:
        assert last is not None
        changed = [encoded[1][0], None, b"x" + last[1:]]
        with pytest.raises(ValueError, match="record 2"):
            encoder.decode((encoded[0], changed))


def test_rows_of_one_size_stay_a_table() -> None:
    encoder = RocksDBStateEncoder(StructType().add("k", LongType()), 0, False)
    keys = Rows.of([b"k" * 16, b"l" * 16])
    encoded, _ = encoder.encode((keys, keys))
    assert isinstance(encoded, Rows) and encoded[0] == b"\0" + b"k" * 16
    decoded, values = encoder.decode((encoded, encoded))
    assert isinstance(decoded, Rows) and list(decoded) == list(keys) == list(values)
    with pytest.raises(ValueError, match="does not begin with 0"):
        encoder.decode(([b"\1abc"], [b"\0abc"]))


# --- files --------------------------------------------------------------------------------------------------------


def test_a_snapshot_shares_tables_with_the_one_before(store_id: StateStoreId) -> None:
    of = worker(store_id, ZIPS)
    batch(of, 0, {KEYS[0]: b"1" * 16, KEYS[1]: b"1" * 16})
    batch(of, 1, {KEYS[0]: b"2" * 16}, KEYS[1])
    batch(of, 2, {})
    assert names(store_id) == ["1.zip", "2.zip", "3.zip"]
    tables = [{f["dfsSstFileName"] for f in metadata(store_id, v)["sstFiles"]} for v in (1, 2, 3)]
    assert tables[0] < tables[1] == tables[2] == set(names(store_id, "SSTs")) and len(tables[1]) == 2
    assert [metadata(store_id, v)["numKeys"] for v in (1, 2, 3)] == [2, 1, 1]
    assert rows(store_id, ZIPS, 1) == dict.fromkeys(KEYS[:2], b"1" * 16)
    assert rows(store_id, ZIPS, 2) == rows(store_id, ZIPS, 3) == {KEYS[0]: b"2" * 16}
    custom = of.metrics().custom
    assert custom["rocksdbFilesReused"] == 2 and custom["rocksdbFilesCopied"] == custom["rocksdbBytesCopied"] == 0
    assert custom["SnapshotLastUploaded.partition_0_default"] == 3


def test_tables_are_compacted_before_there_are_too_many(store_id: StateStoreId) -> None:
    of = worker(store_id, ZIPS)
    for version in range(12):
        batch(of, version, {KEYS[0]: b"0" * 16, KEYS[version % 6]: b"%16d" % version})
    assert [len(metadata(store_id, v)["sstFiles"]) for v in range(1, 13)] == [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5]
    assert rows(store_id, ZIPS, 12) == {KEYS[v % 6]: b"%16d" % v for v in range(6, 12)} | {KEYS[0]: b"0" * 16}


def test_changelogs_and_the_zips_that_maintenance_makes(store_id: StateStoreId) -> None:
    of = worker(store_id, CHANGELOGS)
    for version in range(7):
        batch(of, version, {KEYS[version % 6]: b"%16d" % version})
        made = [result.snapshot for result in maintain(store_id, CHANGELOGS, version + 1) if result.snapshot]
        assert made == {2: [3], 5: [6]}.get(version, [])
    assert [s.store_name for s in find_stores(store_id.checkpoint_root, 0, 0)] == ["default"]
    assert names(store_id) == ["3.changelog", "3.zip", "4.changelog", "5.changelog", "6.changelog", "6.zip", "7.changelog"]
    assert metadata(store_id, 3)["sstFiles"] == metadata(store_id, 6)["sstFiles"][:1], "its table is shared"
    assert rows(store_id, CHANGELOGS, 7) == {KEYS[v % 6]: b"%16d" % v for v in range(1, 7)}


def test_what_no_zip_needs_is_deleted(store_id: StateStoreId) -> None:
    of = worker(store_id, ZIPS)
    for version in range(11):
        batch(of, version, {KEYS[0]: b"0" * 16, KEYS[version % 6]: b"%16d" % version})
    for table in names(store_id, "SSTs"):  # as if each had been written a minute after the one before
        os.utime(Path(store_id.location, "SSTs", table), (60 * int(table.split("-")[0]), 60 * int(table.split("-")[0])))
    on_its_way = Path(store_id.location, "SSTs", "000099-11111111-1111-1111-1111-111111111111.sst")
    on_its_way.write_bytes(b"of a task that is about to write 11.zip")
    assert len(names(store_id, "SSTs")) == 7 + 4 + 1
    maintain(store_id, ZIPS, 11)
    assert names(store_id) == ["8.zip", "9.zip", "10.zip", "11.zip"]
    named = {f["dfsSstFileName"] for v in (8, 9, 10, 11) for f in metadata(store_id, v)["sstFiles"]}
    assert set(names(store_id, "SSTs")) == named | {on_its_way.name} and len(named) == 4
    assert rows(store_id, ZIPS, 8) == {KEYS[v % 6]: b"%16d" % v for v in range(2, 8)} | {KEYS[0]: b"0" * 16}


@pytest.mark.parametrize(("before", "after"), [(ZIPS, CHANGELOGS), (CHANGELOGS, ZIPS), (ZIPS, ZIPS), (CHANGELOGS, CHANGELOGS)])
def test_a_batch_that_runs_again_replaces_what_it_wrote(
    store_id: StateStoreId, before: StateStoreConf, after: StateStoreConf
) -> None:
    """Also when the conf is another one in the next run."""
    first = worker(store_id, before)
    for version in range(3):
        batch(first, version, {KEYS[version]: b"1" * 16})
    again = worker(store_id, after)
    batch(again, 2, {KEYS[5]: b"2" * 16})
    assert len([n for n in names(store_id) if n.startswith("3.")]) == 1
    expected = {KEYS[0]: b"1" * 16, KEYS[1]: b"1" * 16, KEYS[5]: b"2" * 16}
    assert rows(store_id, after, 3) == rows(store_id, before, 3) == expected
    batch(first, 3, {KEYS[4]: b"3" * 16})  # a worker that has the first run's version 3 in memory
    assert rows(store_id, after, 4) == expected | {KEYS[4]: b"3" * 16}


@pytest.mark.parametrize("conf", [ZIPS, CHANGELOGS], ids=["zips", "changelogs"])
def test_of_two_tasks_the_first_to_commit_wins(store_id: StateStoreId, conf: StateStoreConf) -> None:
    stores = [worker(store_id, conf).get_store(0) for _ in range(3)]
    for store, value in zip(stores, (b"1", b"1", b"2")):
        store.put([KEYS[0]], [value * 16])
    stores[0].commit()
    stores[1].commit()  # the same
    with pytest.raises(SparkRuntimeException, match="another task has written other changes"):
        stores[2].commit()
    assert rows(store_id, conf, 1) == {KEYS[0]: b"1" * 16}


def test_a_zip_that_appears_while_the_tables_are_written_stays(
    store_id: StateStoreId, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = worker(store_id, ZIPS)
    store = of.get_store(0)
    store.put([KEYS[0]], [b"1" * 16])
    make = RocksDBStateFiles._zip

    def and_the_other_first(files: RocksDBStateFiles, *arguments: Any) -> bytes:
        made = make(files, *arguments)
        monkeypatch.undo()
        batch(worker(store_id, ZIPS), 0, {KEYS[0]: b"2" * 16})
        return made

    monkeypatch.setattr(RocksDBStateFiles, "_zip", and_the_other_first)
    with pytest.raises(SparkRuntimeException, match="another task has written other changes"):
        store.commit()
    assert rows(store_id, ZIPS, 1) == {KEYS[0]: b"2" * 16}


# --- damage -------------------------------------------------------------------------------------------------------


def with_two_zips(store_id: StateStoreId) -> dict[bytes, bytes]:
    of = worker(store_id, CHANGELOGS)
    for version in range(6):
        batch(of, version, {KEYS[version]: b"%16d" % version})
        maintain(store_id, replace(CHANGELOGS, min_versions_to_retain=99), version + 1)
    assert {"3.zip", "6.zip"} < set(names(store_id))
    return {KEYS[v]: b"%16d" % v for v in range(6)}


def rewrite(path: Path, change: dict) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    version, _, body = files["metadata"].partition(b"\n")
    files["metadata"] = version + b"\n" + json.dumps(json.loads(body) | change).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def test_a_zip_that_lacks_keys_is_refused(store_id: StateStoreId) -> None:
    expected = with_two_zips(store_id)
    rewrite(Path(store_id.location, "6.zip"), {"numKeys": 7})
    with pytest.raises(SparkRuntimeException, match="it says that it has 7 keys, and RocksDB finds 6"):
        RocksDBStateFiles(store_id, CHANGELOGS).read_snapshot(6)
    of = worker(store_id, CHANGELOGS)
    assert dict(zip(*of.get_store(6).rows())) == expected, "an older zip and the changelogs give the same"
    assert of.metrics().custom["rocksdbNumSnapshotsAutoRepaired"] == 1
    rewrite(Path(store_id.location, "6.zip"), {"numKeys": -1})  # nobody has counted
    assert len(RocksDBStateFiles(store_id, CHANGELOGS).read_snapshot(6)[0][0]) == 6


@pytest.mark.parametrize("damage", ["missing", "short", "other bytes"])
def test_a_damaged_table_is_found_and_the_next_zip_is_whole(store_id: StateStoreId, damage: str) -> None:
    expected = with_two_zips(store_id)
    for table in metadata(store_id, 6)["sstFiles"]:
        path = Path(store_id.location, "SSTs", table["dfsSstFileName"])
        data = path.read_bytes()
        path.unlink()
        if damage != "missing":
            path.write_bytes(data[:-9] if damage == "short" else data[:5] + bytes([data[5] ^ 255]) + data[6:])
    files = RocksDBStateFiles(store_id, CHANGELOGS)
    with pytest.raises(SparkRuntimeException, match="CANNOT_LOAD_STATE_STORE") as raised:
        files.read_snapshot(6)
    assert f"{store_id.location}/{'SSTs' if damage == 'missing' else '6.zip'}" in str(raised.value)
    assert damage == "other bytes" or "SSTs/0000" in str(raised.value)
    keys, values = list(expected), list(expected.values())
    assert files.write_snapshot(6, keys, values) > 0
    assert rows(store_id, CHANGELOGS, 6) == expected and files.read_snapshot(6)


def test_a_gap_is_one_clear_error(store_id: StateStoreId) -> None:
    with_two_zips(store_id)
    for name in ("6.zip", "3.zip", "2.changelog"):
        Path(store_id.location, name).unlink()
    with pytest.raises(SparkRuntimeException, match=r"CANNOT_READ_STREAMING_STATE_FILE.*2\.changelog does not exist"):
        rows(store_id, CHANGELOGS, 6)


def test_a_damaged_zip_is_one_clear_error_where_there_are_no_changelogs(store_id: StateStoreId) -> None:
    of = worker(store_id, ZIPS)
    for version in range(3):
        batch(of, version, {KEYS[version]: KEYS[0]})
    path = Path(store_id.location, "3.zip")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(SparkRuntimeException, match=r"STORE.UNCATEGORIZED\] .*3\.zip of ") as raised:
        rows(store_id, ZIPS, 3)
    assert "changelog" not in str(raised.value) and "does not exist" not in str(raised.value)


def test_without_rocksdb_the_error_says_how_to_get_it(store_id: StateStoreId, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(SparkRuntimeException, match=re.escape("pip install rocksdict")):
        batch(worker(store_id, ZIPS), 0, {KEYS[0]: KEYS[0]})


# --- all of it ----------------------------------------------------------------------------------------------------


def test_all_providers_hold_the_same(tmp_path: Path) -> None:
    """Batches that put and remove, run again, are given up, wander between workers; maintenance in between; confs that change."""
    rng = random.Random(7)
    schema = StructType().add("k", StringType()).add("start", LongType())
    keys = encode(schema, [rng.choice("abc") * rng.randrange(1, 12) for _ in range(20)], list(range(20)))
    confs = [HDFS, ZIPS, CHANGELOGS, replace(CHANGELOGS, row_checksum_enabled=True)]
    ids = [StateStoreId(str(tmp_path / str(i)), 0, 0) for i in range(len(confs))]
    for store_id in ids:
        one = StateStoreMetadata("default", 1, 1)
        write_operator_metadata(store_id.checkpoint_root, OperatorStateMetadata(0, "session", (one,)))
        validate_or_write_schema(store_id.checkpoint_root, 0, "default", schema, schema)
    workers = [[worker(store_id, conf) for _ in range(3)] for store_id, conf in zip(ids, confs)]
    expected: dict[int, dict[bytes, bytes]] = {0: {}}
    version = 0
    for _ in range(20):
        which, puts, removes = rng.randrange(3), rng.sample(keys, rng.randrange(6)), rng.sample(keys, rng.randrange(5))
        value = b"%d" % rng.randrange(10) * 8
        again = version > 0 and rng.random() < 0.2
        version -= again
        gives_up = rng.random() < 0.1
        for of in workers:
            store = of[which].get_store(version)
            assert dict(zip(*store.rows())) == expected[version]
            store.put(puts, [value] * len(puts))
            store.remove(removes)
            store.abort() if gives_up else store.commit()
        if not gives_up:
            state = expected[version] | dict.fromkeys(puts, value)
            version += 1
            expected[version] = {k: v for k, v in state.items() if k not in removes}
        for store_id, conf in zip(ids, confs):
            maintain(store_id, conf, version - 1)
    for store_id, conf in zip(ids, confs):
        assert rows(store_id, conf, version) == expected[version]
    for store_id, conf in ((ids[1], CHANGELOGS), (ids[2], ZIPS)):  # the conf changes between runs
        batch(worker(store_id, conf), version, {keys[0]: b"x" * 8})
        assert rows(store_id, conf, version + 1) == expected[version] | {keys[0]: b"x" * 8}


def test_the_memory_of_a_state_is_that_of_its_table(store_id: StateStoreId) -> None:
    """Which is the other provider's; and no conf of RocksDB's memory is read."""
    rows_of_16 = Rows(np.arange(1 << 16, dtype="<i8").repeat(2).view(np.uint8).reshape(-1, 16))
    taken = []
    for partition, conf in enumerate((HDFS, ZIPS, CHANGELOGS)):
        store = worker(replace(store_id, partition_id=partition), conf).get_store(0)
        store.put(rows_of_16, rows_of_16)
        store.commit()
        taken.append(store.metrics().memory_used_bytes)
    assert len(set(taken)) == 1 and taken[0] < 200 << 16
    bounded = {f"spark.sql.streaming.stateStore.rocksdb.{name}": "1" for name in ("maxMemoryUsageMB", "blockCacheSizeMB")}
    assert StateStoreConf.from_conf(bounded.get) == StateStoreConf.from_conf(dict[str, str]().get)


def test_the_provider_is_chosen_by_sparks_conf() -> None:
    from minispark_stream import on_request, registry  # noqa: F401 - the registry registers it

    confs = {
        "spark.sql.streaming.stateStore.providerClass": ROCKS_DB_PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    conf = StateStoreConf.from_conf(confs.get)
    assert conf.new_files is on_request.rocks_db_files and conf.changelog_checkpointing_enabled
    in_format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    assert StateStoreConf.from_conf({**confs, in_format: "2"}.get).new_files is on_request.rocks_db_files_with_ids
    with pytest.raises(SparkRuntimeException, match="RocksDBStateStoreProvider does not support checkpointFormatVersion > 2"):
        StateStoreConf.from_conf({**confs, in_format: "3"}.get)
