"""A checkpoint in an object store (S3's protocol): files appear whole, versions of the state, maintenance, `inspect`."""

from __future__ import annotations

import threading

import pytest
from pyarrow import fs

from minispark_stream import inspect
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeq, OffsetSeqLog, OffsetSeqMetadata
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.maintenance import MaintenanceRound
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId, each

KEY, OTHER = b"k" * 16, b"o" * 16


def objects(location: str) -> list[str]:
    """The names of all objects under a location that has options."""
    filesystem, path = fs.FileSystem.from_uri(location)
    found = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    return sorted(i.path.removeprefix(f"{path}/") for i in found if i.is_file)


def provider(checkpoint: str, conf: StateStoreConf) -> HDFSBackedStateStoreProvider:
    """What one worker has of the store of partition 0."""
    return HDFSBackedStateStoreProvider(StateStoreId(f"{checkpoint}/state", 0, 0), conf)


def batch(worker: HDFSBackedStateStoreProvider, version: int, value: bytes) -> None:
    store = worker.get_store(version)
    store.put([KEY], [value])
    store.commit()


def test_a_file_is_created_once(object_store: str) -> None:
    files = CheckpointFileManager(object_store)
    files.create_atomic("offsets/0", b"first")
    with pytest.raises(FileExistsError):
        files.create_atomic("offsets/0", b"second")
    assert files.open("offsets/0") == b"first"
    [(name, size, modified_ms)] = files.list("offsets")
    assert (name, size) == ("0", 5) and modified_ms > 0
    assert objects(object_store) == ["offsets/0"], "no temporary object stays behind"


def test_a_file_that_is_not_there(object_store: str) -> None:
    files = CheckpointFileManager(object_store)
    assert not files.exists("offsets/0") and files.identity("offsets/0") is None and files.list("offsets") == []
    with pytest.raises(FileNotFoundError):
        files.open("offsets/0")
    files.delete("offsets/0")


def test_what_is_put_behind_a_uri_with_options_is_a_path(object_store: str) -> None:
    CheckpointFileManager(f"{object_store}/offsets").create_atomic("0", b"x")
    CheckpointFileManager(f"{object_store}/state/0/3").create_atomic("1.delta", b"y")
    assert objects(object_store) == ["offsets/0", "state/0/3/1.delta"]
    shown = CheckpointFileManager(f"{object_store}/offsets").root
    assert shown.startswith("s3://***@") and shown.endswith("/offsets") and "?" not in shown


def test_two_writers_leave_a_whole_file_of_one_of_them(object_store: str) -> None:
    contents = [bytes([writer]) * (6 << 20) for writer in range(3)]  # more than one part of an upload
    files = [CheckpointFileManager(object_store) for _ in contents]
    at_once = threading.Barrier(len(contents))

    def write(writer: int) -> None:
        at_once.wait()
        files[writer].create_atomic("1.delta", contents[writer], overwrite=True)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(len(contents))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files[0].open("1.delta") in contents


def test_a_second_run_is_told_that_the_batch_is_written(object_store: str) -> None:
    first, second = (OffsetSeqLog(f"{object_store}/offsets") for _ in range(2))
    entries = [OffsetSeq((offset,), OffsetSeqMetadata(0, 0, {})) for offset in ("1", "2")]
    assert first.add(0, entries[0]) and not second.add(0, entries[1])
    assert second.get(0) == entries[0]
    assert first.purge(1) == [0] and second.list_batches() == []


def test_a_version_that_another_worker_wrote_again_is_not_trusted(object_store: str) -> None:
    """The file has the size of the one before, and its time is the same second."""
    one, other = (provider(object_store, StateStoreConf()) for _ in range(2))
    batch(one, 0, b"1" * 16)
    batch(other, 0, b"2" * 16)
    assert each(one.get_store(1).get([KEY])) == [b"2" * 16]


def test_maintenance_writes_snapshots_and_deletes(object_store: str) -> None:
    conf = StateStoreConf(min_deltas_for_snapshot=2, min_versions_to_retain=2)
    worker = provider(object_store, conf)
    for version in range(6):
        batch(worker, version, bytes([version]) * 16)
        MaintenanceRound(f"{object_store}/state", conf, version + 1, ((0, 0),)).run()
    assert objects(object_store) == [f"state/0/0/{name}" for name in ("3.delta", "3.snapshot", "4.delta", "5.delta", "6.delta", "6.snapshot")]
    assert dict(zip(*provider(object_store, conf).get_store(6).rows())) == {KEY: bytes([5]) * 16}
    assert [f.version for f in StateFiles(worker.store_id, conf).store_files()] == [3, 4, 5, 6]


def test_inspect_reads_it_there(object_store: str) -> None:
    OffsetSeqLog(f"{object_store}/offsets").add(0, OffsetSeq(('{"logOffset":0}',), OffsetSeqMetadata(0, 0, {})))
    report = inspect(object_store)
    assert [b.batch_id for b in report.batches] == [0] and "***@" in report.path
