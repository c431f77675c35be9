"""More than one attempt of a task: at the same time in two workers, again in the same worker, after one that was killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException

from minispark_stream.engine.operators.limit.streaming_global_limit import GlobalLimit
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StatefulOperatorStateInfo
from minispark_stream.engine.state.hdfs_backed_state_store_map import HDFSBackedStateStoreMap
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.loaded_providers import get_store
from minispark_stream.engine.state.maintenance import MaintenanceRound
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId, each

KEY, OTHER = b"k" * 16, b"o" * 16
pytestmark = pytest.mark.usefixtures("fresh_process")


@pytest.fixture
def store_id(tmp_path: Path) -> StateStoreId:
    return StateStoreId(str(tmp_path / "state"), 0, 0)


def worker(store_id: StateStoreId) -> HDFSBackedStateStoreProvider:
    """What a worker of its own has of the store."""
    return HDFSBackedStateStoreProvider(store_id, StateStoreConf())


def attempt(of: HDFSBackedStateStoreProvider, version: int, value: bytes) -> None:
    store = of.get_store(version)
    store.put([KEY], [value])
    store.commit()


def on_disk(store_id: StateStoreId, version: int) -> dict[bytes, bytes]:
    return dict(zip(*worker(store_id).get_store(version).rows()))


# --- two at a time ------------------------------------------------------------------------------------------------


def test_of_two_attempts_the_first_to_commit_wins(store_id: StateStoreId) -> None:
    """Both look, see no file, and write; their changes differ, as with random numbers before the state."""
    for version in range(10):
        at_once = threading.Barrier(2)

        def commits(value: bytes, version: int = version, at_once: threading.Barrier = at_once) -> bool:
            store = worker(store_id).get_store(version)
            store.put([KEY], [value])
            at_once.wait()
            try:
                store.commit()
            except SparkRuntimeException as e:
                assert "another task has written other changes" in str(e)
                return False
            return True

        values = [b"1" * 16, b"2" * 16]
        with ThreadPoolExecutor(2) as pool:
            committed = [value for value, done in zip(values, pool.map(commits, values)) if done]
        assert [on_disk(store_id, version + 1)[KEY]] == committed


def test_two_attempts_with_the_same_changes_both_commit(store_id: StateStoreId) -> None:
    workers = [worker(store_id) for _ in range(2)]
    stores = [of.get_store(0) for of in workers]
    for store in stores:
        store.put([KEY], [b"1" * 16])
        store.commit()
    for of in workers:
        attempt(of, 1, b"2" * 16)
    assert all(of.loaded_map_cache_hit_count == 1 for of in workers), "each goes on with what it has in memory"


def test_a_worker_does_not_trust_its_version_when_another_one_replaced_it_at_once(
    store_id: StateStoreId, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(worker(store_id), 0, b"0" * 16)  # an earlier run of the batch, whose file both replace
    ours, theirs = worker(store_id), worker(store_id)
    mine, other = ours.get_store(0), theirs.get_store(0)
    mine.put([KEY], [b"1" * 16])
    other.put([KEY], [b"2" * 16])
    write = ours.files.manager.create_atomic

    def and_then_the_other(name: str, data: bytes, overwrite: bool = False) -> object:
        identity = write(name, data, overwrite)
        theirs._found_at_opening = theirs.files.identity(1)  # as if it had looked in the same moment
        other.commit()
        return identity

    monkeypatch.setattr(ours.files.manager, "create_atomic", and_then_the_other)
    mine.commit()
    assert each(ours.get_store(1).get([KEY])) == [on_disk(store_id, 1)[KEY]] == [b"2" * 16]


def test_a_zombie_cannot_bring_back_a_version_that_is_gone(store_id: StateStoreId) -> None:
    """It opened version 0, and by the time it writes version 1, the query has gone on and deleted its file."""
    conf = StateStoreConf(min_deltas_for_snapshot=1, min_versions_to_retain=1)
    zombie, living = (HDFSBackedStateStoreProvider(store_id, conf) for _ in range(2))
    late = zombie.get_store(0)
    late.put([OTHER], [b"z" * 16])
    for version in range(5):
        attempt(living, version, bytes([version + 1]) * 16)
        MaintenanceRound(store_id.checkpoint_root, conf, version + 1, ((0, 0),)).run()
    assert living.files.store_files()[0].version > 1
    late.commit()
    assert dict(zip(*HDFSBackedStateStoreProvider(store_id, conf).get_store(5).rows())) == {KEY: bytes([5]) * 16}


# --- again in the same worker -------------------------------------------------------------------------------------


def test_a_task_that_failed_halfway_runs_again_in_the_same_worker(tmp_path: Path) -> None:
    def rows() -> list[pa.RecordBatch]:
        return [pa.RecordBatch.from_pydict({"number": [0, 1, 2], "n": [None, 1, 2]}) for _ in range(2)]

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows()[0]
        raise ConnectionError("the executor that had the rest of the rows is gone")

    def run(batch_id: int, batches: Iterator[pa.RecordBatch]) -> int:
        task = GlobalLimit(
            info=StatefulOperatorStateInfo(str(tmp_path / "state"), 0, batch_id, 1, StateStoreConf()),
            watermarks=OperatorWatermarks(0, 0, False), output=pa.schema([("n", pa.int64())]),
            metrics=_Unheard(), limit=8,  # type: ignore[arg-type]
        )
        return sum(batch.num_rows for batch in task(batches))

    assert run(0, iter(rows())) == 5
    with pytest.raises(ConnectionError):
        run(1, failing())
    assert run(1, iter(rows())) == 3


class _Unheard:
    def add(self, reports: object) -> None:
        pass


def test_nothing_is_used_again_of_a_change_that_broke_off(store_id: StateStoreId, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when memory ran out within it: the map holds part of it, and nothing says how to undo that."""

    put = HDFSBackedStateStoreMap.put

    def half_done(self: HDFSBackedStateStoreMap, keys: list[bytes], values: list[bytes]) -> None:
        put(self, keys[:1], values[:1])
        raise MemoryError

    of = worker(store_id)
    attempt(of, 0, b"1" * 16)
    store = of.get_store(1)
    store.put([OTHER], [b"3" * 16])
    with monkeypatch.context() as patch:
        patch.setattr(HDFSBackedStateStoreMap, "put", half_done)
        with pytest.raises(MemoryError):
            store.put([KEY], [b"2" * 16])
    with pytest.raises(ValueError, match="a change of it broke off"):
        store.put([KEY], [b"2" * 16])
    store.abort()
    assert dict(zip(*of.get_store(1).rows())) == {KEY: b"1" * 16}
    assert dict(zip(*of.get_store(0).rows())) == {}


# --- killed -------------------------------------------------------------------------------------------------------


def test_an_attempt_that_is_killed_while_it_writes_leaves_no_version(store_id: StateStoreId) -> None:
    def killed_before_the_file_has_its_name() -> None:
        os.link = os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        attempt(worker(store_id), 0, b"1" * 16)

    process = multiprocessing.get_context("fork").Process(target=killed_before_the_file_has_its_name)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    files = worker(store_id).files
    assert files.store_files() == [] and len(os.listdir(store_id.location)) == 1, "a temporary file, which nobody reads"
    store = get_store(store_id, StateStoreConf(), 0)
    store.put([KEY], [b"2" * 16])
    store.commit()
    assert on_disk(store_id, 1) == {KEY: b"2" * 16}
