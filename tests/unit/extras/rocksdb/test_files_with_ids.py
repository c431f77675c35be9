"""Checkpoint format 2: which file of a version counts, how the others are found, and what happens when one is missing."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import SparkRuntimeException

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.lz4_block import decompress
from minispark_stream.engine.operators.state_task import StatefulOperatorStateInfo
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.maintenance import MaintenanceResult, MaintenanceRound, find_stores
from minispark_stream.engine.state.state_records import crc32c
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.extras.rocksdb.changelog import read_header
from minispark_stream.extras.rocksdb.checksum_checkpoint_file_manager import crc32c_of
from minispark_stream.extras.rocksdb.files_with_ids import RocksDBStateFilesWithIds

pytestmark = pytest.mark.usefixtures("fresh_process")
ZIPS = StateStoreConf(new_files=RocksDBStateFilesWithIds, min_versions_to_retain=3)
CHANGELOGS = replace(ZIPS, changelog_checkpointing_enabled=True, min_deltas_for_snapshot=3)
BOTH = pytest.mark.parametrize("conf", [ZIPS, CHANGELOGS], ids=["zips", "changelogs"])
KEYS = [b"%16d" % i for i in range(6)]
Ids = dict[int, "str | None"]


@pytest.fixture
def store_id(tmp_path: Path) -> StateStoreId:
    return StateStoreId(str(tmp_path / "state"), 0, 0)


def worker(store_id: StateStoreId, conf: StateStoreConf) -> HDFSBackedStateStoreProvider:
    return HDFSBackedStateStoreProvider(store_id, conf)


def batch(of: HDFSBackedStateStoreProvider, version: int, unique_id: str | None, puts: dict[bytes, bytes]) -> str:
    """The id of the version that the batch makes."""
    store = of.get_store(version, unique_id)
    store.put(list(puts), list(puts.values()))
    store.commit()
    made = store.metrics().unique_id
    assert made is not None
    return made


def run(of: HDFSBackedStateStoreProvider, ids: Ids, last: int) -> Ids:
    """Batches up to version `last`; version n has the value n under a key of its own."""
    for version in range(max(ids), last):
        ids[version + 1] = batch(of, version, ids[version], {KEYS[version % 6]: b"%16d" % (version + 1)})
    return ids


def rows(store_id: StateStoreId, conf: StateStoreConf, version: int, unique_id: str | None) -> dict[bytes, bytes]:
    """As a worker of its own reads them."""
    return dict(zip(*worker(store_id, conf).get_store(version, unique_id).rows()))


def maintain(store_id: StateStoreId, conf: StateStoreConf, committed: int, unique_id: str | None) -> list[MaintenanceResult]:
    ids = {"0": [[unique_id]]}
    results, _ = MaintenanceRound(store_id.checkpoint_root, conf, committed, ((0, 0),), unique_ids=ids).run()
    assert [r.error for r in results if r.error] == []
    return results


def names(store_id: StateStoreId) -> list[str]:
    """Without ids; what is there more than once is there more than once."""
    found = [re.sub("_[0-9a-f-]{36}", "", name) for name in os.listdir(store_id.location) if not name.startswith((".", "SSTs"))]
    return sorted(found, key=lambda n: (int(n.split(".")[0]), n))


def lineage(store_id: StateStoreId, version: int, unique_id: str | None) -> dict[int, str]:
    return read_header(decompress(Path(store_id.location, f"{version}_{unique_id}.changelog").read_bytes())).lineage


# --- ids ----------------------------------------------------------------------------------------------------------


def test_a_changelog_says_which_files_are_before_it(store_id: StateStoreId) -> None:
    ids = run(worker(store_id, CHANGELOGS), {0: None}, 3)
    maintain(store_id, CHANGELOGS, 3, ids[3])
    run(worker(store_id, CHANGELOGS), ids, 5)
    assert [sorted(lineage(store_id, v, ids[v])) for v in range(1, 6)] == [[], [1], [1, 2], [3], [3, 4]]
    assert lineage(store_id, 5, ids[5]) == {v: ids[v] for v in (3, 4)}
    assert "3.zip" in names(store_id) and find_stores(store_id.checkpoint_root, 0, 0) == [store_id]
    assert rows(store_id, CHANGELOGS, 5, ids[5]) == {KEYS[v]: b"%16d" % (v + 1) for v in range(5)}
    os.unlink(Path(store_id.location, f"3_{ids[3]}.zip"))  # then the lineage of 3 leads further
    assert len(rows(store_id, CHANGELOGS, 5, ids[5])) == 5


@BOTH
def test_of_two_tasks_the_one_that_the_commit_log_names_counts(store_id: StateStoreId, conf: StateStoreConf) -> None:
    """They run at the same time; neither takes the place of the other, and whoever has the wrong version reads the right one."""
    winner, loser = worker(store_id, conf), worker(store_id, conf)
    ids = run(winner, {0: None}, 2)
    lost = batch(loser, 2, ids[2], {KEYS[5]: b"lost" * 4})
    ids[3] = batch(winner, 2, ids[2], {KEYS[5]: b"kept" * 4})
    for of in (winner, loser, worker(store_id, conf)):
        assert dict(zip(*of.get_store(3, ids[3]).rows()))[KEYS[5]] == b"kept" * 4
    assert dict(zip(*winner.get_store(3, lost).rows()))[KEYS[5]] == b"lost" * 4
    ids[4] = batch(loser, 3, ids[3], {KEYS[4]: b"4" * 16})
    assert rows(store_id, conf, 4, ids[4])[KEYS[5]] == b"kept" * 4


@BOTH
def test_a_batch_that_runs_again_begins_with_what_was_committed(store_id: StateStoreId, conf: StateStoreConf) -> None:
    of = worker(store_id, conf)
    ids = run(of, {0: None}, 2)
    first = batch(of, 2, ids[2], {KEYS[3]: b"1" * 16})
    again = batch(of, 2, ids[2], {KEYS[4]: b"2" * 16})
    assert first != again and set(rows(store_id, conf, 3, again)) == {KEYS[0], KEYS[1], KEYS[4]}


@BOTH
def test_maintenance_deletes_what_does_not_count_with_its_version(store_id: StateStoreId, conf: StateStoreConf) -> None:
    of = worker(store_id, conf)
    ids = run(of, {0: None}, 3)
    maintain(store_id, conf, 3, ids[3])
    batch(worker(store_id, conf), 3, ids[3], {KEYS[0]: b"lost" * 4})
    run(of, ids, 6)
    maintain(store_id, conf, 6, ids[6])
    assert sum(name.split(".")[0] == "4" for name in names(store_id)) >= 2
    run(of, ids, 11)
    maintain(store_id, conf, 11, ids[11])
    left = {int(name.split(".")[0]) for name in names(store_id)}
    first = 8 if conf is ZIPS else 6
    assert left == set(range(first, 12)) and len(rows(store_id, conf, 11, ids[11])) == 6
    tables = set(os.listdir(Path(store_id.location, "SSTs")))
    assert {name for name in tables if name.endswith(".sst")} and all(v in left for v in (first, 11))
    assert len(rows(store_id, conf, first, ids[first])) == 6


def test_changelogs_may_come_and_go(store_id: StateStoreId) -> None:
    ids = run(worker(store_id, CHANGELOGS), {0: None}, 2)
    run(worker(store_id, ZIPS), ids, 4)
    maintain(store_id, ZIPS, 4, ids[4])
    run(worker(store_id, CHANGELOGS), ids, 6)
    assert sorted(lineage(store_id, 6, ids[6])) == [4, 5]
    for conf in (ZIPS, CHANGELOGS):
        assert len(rows(store_id, conf, 6, ids[6])) == 6
    run(worker(store_id, ZIPS), ids, 12)
    maintain(store_id, ZIPS, 12, ids[12])
    assert len(rows(store_id, ZIPS, 12, ids[12])) == 6 and names(store_id)[0].startswith("9.")


def test_a_task_opens_the_file_of_its_partition(store_id: StateStoreId) -> None:
    """Of a join, which has four stores, each its own."""
    names = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
    ids: list[list[str]] = []
    for partition in (0, 1):
        stores = [StateStoreId(store_id.checkpoint_root, 0, partition, name) for name in names]
        values = (b"%d, %d" % (partition, i) for i in range(4))
        ids.append([batch(worker(one, CHANGELOGS), 0, None, {KEYS[0]: value}) for one, value in zip(stores, values)])
    info = StatefulOperatorStateInfo(store_id.checkpoint_root, 0, 1, 2, CHANGELOGS, ids)
    for partition in (0, 1):
        with info.open_stores(partition, *reversed(names)) as opened:
            assert [bytes(store.rows()[1][0]) for store in opened] == [b"%d, %d" % (partition, i) for i in (3, 2, 1, 0)]


# --- what is missing ----------------------------------------------------------------------------------------------


def test_what_is_missing_is_named(store_id: StateStoreId) -> None:
    ids = run(worker(store_id, CHANGELOGS), {0: None}, 4)
    with pytest.raises(SparkRuntimeException, match=r"4_\*.*the commit log has no id of it"):
        rows(store_id, CHANGELOGS, 4, None)
    other = "0" * 36
    with pytest.raises(SparkRuntimeException, match=rf"4_{other}.changelog does not exist"):
        rows(store_id, CHANGELOGS, 4, other)
    for missing in (4, 2):
        path = Path(store_id.location, f"{missing}_{ids[missing]}.changelog")
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(SparkRuntimeException, match=rf"{path.name} does not exist"):
            rows(store_id, CHANGELOGS, 4, ids[4])
        path.write_bytes(content)
    assert len(rows(store_id, CHANGELOGS, 4, ids[4])) == 4


def test_a_lineage_that_says_nothing_is_named(store_id: StateStoreId) -> None:
    ids = run(worker(store_id, CHANGELOGS), {0: None}, 1)
    os.rename(Path(store_id.location, f"1_{ids[1]}.changelog"), Path(store_id.location, f"2_{ids[1]}.changelog"))
    with pytest.raises(SparkRuntimeException, match=rf"INVALID_CHECKPOINT_LINEAGE.*2_{ids[1]}.changelog.*in which file version 1"):
        rows(store_id, replace(CHANGELOGS, file_checksum_enabled=False), 2, ids[1])


@BOTH
def test_a_torn_file_is_named(store_id: StateStoreId, conf: StateStoreConf) -> None:
    """With its checksum, and without."""
    ids = run(worker(store_id, conf), {0: None}, 2)
    suffix = "changelog" if conf is CHANGELOGS else "zip"
    path = Path(store_id.location, f"2_{ids[2]}.{suffix}")
    path.write_bytes(path.read_bytes()[:-9])
    alone = replace(conf, auto_snapshot_repair_enabled=False)
    with pytest.raises(SparkRuntimeException, match=f"UNCATEGORIZED.*{path.name}.*CHECKSUM_VERIFICATION_FAILED"):
        rows(store_id, alone, 2, ids[2])
    os.unlink(f"{path}.crc")
    with pytest.raises(SparkRuntimeException, match=f"CANNOT_LOAD_STATE_STORE.*{path.name}"):
        rows(store_id, alone, 2, ids[2])


def test_a_torn_zip_is_passed_over_where_there_are_changelogs(store_id: StateStoreId) -> None:
    ids = run(worker(store_id, CHANGELOGS), {0: None}, 3)
    maintain(store_id, CHANGELOGS, 3, ids[3])
    run(worker(store_id, CHANGELOGS), ids, 5)
    Path(store_id.location, f"3_{ids[3]}.zip").write_bytes(b"PK")
    assert len(rows(store_id, CHANGELOGS, 5, ids[5])) == 5


class Killed(BaseException):
    """No except clause of the engine is to catch it."""


@BOTH
def test_a_kill_between_any_two_file_operations(store_id: StateStoreId, conf: StateStoreConf, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed can be read, and the batch can run again, however many files of it were written or deleted."""
    ids = run(worker(store_id, conf), {0: None}, 7)
    left = 0

    def counted(name: str) -> None:
        real = getattr(CheckpointFileManager, name)

        def operation(*args: object, **more: object) -> object:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return real(*args, **more)

        monkeypatch.setattr(CheckpointFileManager, name, operation)

    for name in ("create_atomic", "delete", "mkdirs"):
        counted(name)
    kills, state = 0, {KEYS[v % 6]: b"%16d" % (v + 1) for v in range(7)}
    for allowed in range(30):
        left = allowed
        try:
            ids[8] = batch(worker(store_id, conf), 7, ids[7], {KEYS[0]: b"8" * 16})
            maintain(store_id, conf, 7, ids[7])
            break
        except Killed:
            kills += 1
        left = -1
        assert rows(store_id, conf, 7, ids[7]) == state
    left = -1
    assert kills >= 6 and rows(store_id, conf, 7, ids[7]) == state and rows(store_id, conf, 8, ids[8])[KEYS[0]] == b"8" * 16
    maintain(store_id, conf, 8, ids[8])
    assert rows(store_id, conf, 8, ids[8])[KEYS[0]] == b"8" * 16


# --- checksums ----------------------------------------------------------------------------------------------------


@BOTH
def test_each_file_has_its_checksum(store_id: StateStoreId, conf: StateStoreConf) -> None:
    ids = run(worker(store_id, conf), {0: None}, 1)
    suffix = "changelog" if conf is CHANGELOGS else "zip"
    assert names(store_id) == [f"1.{suffix}", f"1.{suffix}.crc"]
    path = Path(store_id.location, f"1_{ids[1]}.{suffix}")
    said, data = json.loads(Path(f"{path}.crc").read_bytes()), path.read_bytes()
    assert (said["algorithm"], said["mainFileSize"], said["value"] % 2**32) == ("CRC32C", len(data), crc32c([data])[0])
    without = StateStoreId(store_id.checkpoint_root, 0, 1)
    run(worker(without, replace(conf, file_checksum_enabled=False)), {0: None}, 1)
    assert names(without) == [f"1.{suffix}"]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 9, 16, 1000, 4567])
def test_the_sum_of_a_file_is_that_of_its_bytes_in_a_row(size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))
    assert [crc32c_of(data)] == crc32c([data]) and crc32c_of(b"123456789") == 0xE3069283
