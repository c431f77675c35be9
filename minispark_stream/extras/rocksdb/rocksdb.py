"""An embedded RocksDB, open in a scratch folder for as long as a snapshot is read or made.

Models: RocksDB (About state: RocksDB).

1. RocksDB opens a database with the settings of the OPTIONS file in its folder, so this module writes that file first, with
   Spark's settings for tables, and with Spark's merge operator. RocksDB itself writes the name of this operator without its
   delimiter, and would read it back as one with a comma.
2. Nothing is compacted in the background, because the database is closed a moment later. `tidy` compacts it as soon as
   `MOST_TABLES` tables have been added since the last time (they are on level 0).
3. `checkpoint` makes a folder with the files of the database as they are now; they are links, not copies.

    folder with 000008.sst     apply(put a, remove b), flush     000008.sst, 000012.sst     the first one is what it was

4. RocksDB waits until the disk has each file that it writes. A scratch folder does not need this, so a small one is in memory
   (/dev/shm, on Linux). If a worker is killed, its folder stays there; an hour later, whoever makes the next one deletes it. A
   large folder is in Spark's folder for temporary files, which is deleted when Spark ends. What fails in memory, which others
   may have filled meanwhile, is done once more in Spark's folder.

Differs from Spark: Spark keeps each store open in RocksDB, and works on it there. Here the rows are in memory
(rocksdb_state_files.py says why), and RocksDB only creates and reads files.
Shown by tests/unit/extras/rocksdb/test_rocksdb_state_files.py::test_a_snapshot_shares_tables_with_the_one_before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from minispark_stream.engine.state.state_records import Change
from minispark_stream.engine.state.state_store import state_error
from minispark_stream.extras.rocksdb.changes import Append

T = TypeVar("T")

MOST_TABLES = 8
MEMORY, LEFT_S, PREFIX = Path("/dev/shm"), 3600, "minispark-rocksdb-"
SMALL, OWN = 16 << 20, 100_000  # bytes; OWN: of RocksDB's own files
SHARE = 0.01  # of what is free in memory: the folders of other tasks are there as well, and a compaction needs more
OPTIONS = """[Version]
  rocksdb_version=9.8.4
  options_file_version=1.1
[DBOptions]
  create_if_missing=true
[CFOptions "default"]
  compression=kLZ4Compression
  disable_auto_compactions=true
  merge_operator={id=StringAppendOperator;delimiter=%s;}
  table_factory=BlockBasedTable
[TableOptions/BlockBasedTable "default"]
  format_version=5
  block_size=4096
  filter_policy=bloomfilter:10:false
"""


def in_scratch(num_bytes: int, work: Callable[[str], T]) -> T:
    """(4) What `work` returns for a temporary folder for a database with so many bytes; the folder is deleted afterwards."""
    if num_bytes <= SMALL and os.access(MEMORY, os.W_OK) and num_bytes + OWN <= SHARE * shutil.disk_usage(MEMORY).free:
        _delete_what_was_left()
        with suppress(Exception):  # RocksDB's own errors have no class of theirs
            return _in_folder(str(MEMORY), work)
    spark_folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return _in_folder(spark_folder if os.path.isdir(spark_folder) else None, work)


def _in_folder(parent: str | None, work: Callable[[str], T]) -> T:
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as folder:
        return work(folder)


def _delete_what_was_left() -> None:
    for folder in MEMORY.glob(f"{PREFIX}*"):
        with suppress(FileNotFoundError):  # whoever made it has deleted it
            if time.time() - folder.stat().st_mtime > LEFT_S:
                shutil.rmtree(folder, ignore_errors=True)


class RocksDB:
    """The database in `folder`, a new one if nothing is there. Close it. `delimiter` is between the elements of a list.

    Raises SparkRuntimeException, CANNOT_LOAD_STATE_STORE.UNCATEGORIZED, if RocksDB for Python is not installed.
    """

    def __init__(self, folder: str, delimiter: str = ""):
        try:
            from rocksdict import Options, Rdict
        except ImportError as e:
            text = "An error occurred during loading state. RocksDB needs a package: pip install rocksdict."
            raise state_error("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", text, "58030") from e
        for name in os.listdir(folder):  # (1)
            if name.startswith("OPTIONS"):
                os.unlink(f"{folder}/{name}")
        with open(f"{folder}/OPTIONS-000007", "w") as file:
            file.write(OPTIONS % delimiter)
        self._db = Rdict(folder, Options(raw_mode=True))

    def __enter__(self) -> RocksDB:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def keys(self) -> list[bytes]:
        """All keys, in order."""
        keys: Any = self._db.keys()  # whose stub makes of it no iterator of bytes
        return list(keys)

    def rows(self) -> tuple[list[bytes], list[bytes]]:
        """All keys in order, and their values."""
        items: list[Any] = list(self._db.items())
        return [key for key, _ in items], [value for _, value in items]

    def apply(self, changes: Iterable[Change]) -> None:
        """Put values, or remove keys (None), in order. A list that grows is read first: RocksDB for Python cannot merge."""
        from rocksdict import WriteBatch, WriteOptions

        options: Any = WriteOptions()  # whose stub takes its properties for methods
        options.disable_wal = True
        for keys, values in changes:
            batch = WriteBatch(raw_mode=True)
            for key, value in zip(keys, values):
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value.to(self._db.get(key)) if isinstance(value, Append) else bytes(value))
            self._db.write(batch, options)

    def flush(self) -> None:
        """Write everything that was changed into tables."""
        self._db.flush()

    def tidy(self) -> None:  # (2)
        if sum(table["level"] == 0 for table in self._db.live_files()) >= MOST_TABLES:
            self._db.compact_range(None, None)

    def checkpoint(self, folder: str) -> Sequence[str]:  # (3)
        """Make `folder`; returns the names of the files in it."""
        from rocksdict import Checkpoint

        Checkpoint(self._db).create_checkpoint(folder)
        return sorted(os.listdir(folder))
