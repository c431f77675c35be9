"""Where RocksDB's temporary folders are, and that none of them stays."""

from __future__ import annotations

import os
import shutil
import time
from collections import namedtuple
from pathlib import Path

import pytest

from minispark_stream.extras.rocksdb import rocksdb
from minispark_stream.extras.rocksdb.rocksdb import RocksDB, in_scratch

Usage = namedtuple("Usage", "free")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for /dev/shm, with 20 MB free; Spark's own folder is beside it."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "spark").mkdir()
    monkeypatch.setattr(rocksdb, "MEMORY", tmp_path / "memory")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(20_000_000))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'spark'},/elsewhere")
    return tmp_path / "memory"


@pytest.mark.parametrize(("num_bytes", "where"), [(0, "memory"), (100_000, "memory"), (100_001, "spark")])
def test_a_small_database_is_in_memory_and_a_large_one_in_sparks_folder(memory: Path, num_bytes: int, where: str) -> None:
    def work(folder: str) -> Path:
        with RocksDB(folder) as db:
            db.apply([([b"a"], [b"1"])])
            db.flush()
            assert db.rows() == ([b"a"], [b"1"])
        return Path(folder)

    folder = in_scratch(num_bytes, work)
    assert folder.parent == memory.parent / where and not folder.exists()


def test_a_large_database_is_in_sparks_folder_however_much_memory_is_free(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10**12))
    assert in_scratch((16 << 20) + 1, Path).parent == memory.parent / "spark"


def test_a_full_memory_is_not_used(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0))
    assert in_scratch(0, Path).parent == memory.parent / "spark"


def test_without_such_a_memory_it_is_in_sparks_folder(memory: Path) -> None:
    memory.rmdir()
    assert in_scratch(0, Path).parent == memory.parent / "spark"


def test_what_a_killed_worker_has_left_is_deleted_an_hour_later(memory: Path) -> None:
    hour_ago, of_another = time.time() - 3601, memory / "something-else"
    left, in_use = (memory / f"minispark-rocksdb-{name}" for name in ("left", "in-use"))
    for folder in (left, in_use, of_another):
        folder.mkdir()
        (folder / "000008.sst").write_bytes(b"rows")
    for folder in (left, of_another):
        os.utime(folder, (hour_ago, hour_ago))
    in_scratch(0, Path)
    assert sorted(memory.iterdir()) == [in_use, of_another]


def test_a_folder_that_its_owner_deletes_meanwhile_is_no_error(memory: Path) -> None:
    (memory / "minispark-rocksdb-gone").symlink_to(memory / "nothing")
    assert in_scratch(0, os.path.isdir)


def test_what_fails_in_a_memory_that_others_have_filled_is_done_in_sparks_folder(memory: Path) -> None:
    tried = []

    def work(folder: str) -> str:
        tried.append(Path(folder))
        if memory in tried[-1].parents:
            raise Exception("IO error: No space left on device")  # the class of all errors of RocksDB
        return "done"

    assert in_scratch(0, work) == "done"
    assert [folder.parent.name for folder in tried] == ["memory", "spark"] and not any(folder.exists() for folder in tried)


def test_what_fails_everywhere_is_raised(memory: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        in_scratch(0, lambda folder: 1 // 0)
    assert os.listdir(memory) == os.listdir(memory.parent / "spark") == []
