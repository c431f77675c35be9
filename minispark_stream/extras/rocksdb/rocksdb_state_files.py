"""The files of a store as Spark's RocksDB provider has them: changelogs, and zips of versions that share their tables.

Models: RocksDBStateStoreProvider, RocksDBFileManager, StateStoreChangelogWriterV1 (About state: RocksDB).

    state/<operator>/<partition>[/<store>]/6.changelog             what batch 5 changed
                                           5.zip                   version 5: which tables it has
                                           SSTs/000008-<uuid>.sst  a table: a part of versions 5, 6 ...

1. `rocksdb.changelogCheckpointing.enabled` decides what a batch writes. Without it (as is Spark's default), each version is a
   zip. With it, a version is a changelog, whose records are those of a delta file, and maintenance makes a zip now and then.
2. To make the zip of a version, RocksDB opens the newest zip before it, is told what has changed since, and puts that into
   a table of its own. The zip names the tables that were there before and the new one, which is put into `SSTs/` first: whoever
   sees the zip finds all of its tables.
3. A table gets a new name for each zip that brings it, so that two tasks that write the same version never meet in one file.
   Which of the two counts, the zip decides, which only one of them can create.
4. To read a zip, RocksDB opens it, and must find as many keys as it says.
5. When zips are deleted, so are the tables that no other zip names, if they are older than all of them: a younger one may
   belong to a zip that a task is about to write.

    1.zip {A}    2.zip {A, B}    3.zip {A, B, C}       delete 1.zip: A, B and C are still needed

The rows themselves are in memory, in the tables in which those of every other store are
(engine/state/hdfs_backed_state_store_provider.py), because an operator here works on a whole batch of rows at a time: from
Python, RocksDB takes some three microseconds for a row, and a table of columns a tenth of that. So all operators, the rules
for tasks that run twice, and what a worker does that another one has overtaken are those of the other provider; only the files
differ.

Differs from Spark: the state is in memory, so that Spark's confs for the memory of RocksDB have no meaning; maintenance makes a
zip of the newest committed version, as for the HDFS-backed store; tables are compacted when eight have been added; checkpoint
format 2, and changelogs and zips with column families, are refused.
Shown by tests/unit/extras/rocksdb/test_rocksdb_state_files.py::test_a_snapshot_shares_tables_with_the_one_before,
tests/unit/extras/rocksdb/test_rocksdb_state_files.py::test_a_zip_that_lacks_keys_is_refused,
tests/unit/extras/rocksdb/test_rocksdb_state_files.py::test_files_of_column_families_are_refused,
tests/conformance/test_rocksdb_provider.py::test_what_the_model_refuses.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from functools import cached_property

from minispark_stream.engine.checkpointing.errors import SparkRuntimeException
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.state.operator_state_metadata import read_operator_metadata
from minispark_stream.engine.state.replay import bases, deltas
from minispark_stream.engine.state.schema_files import read_schemas
from minispark_stream.engine.state.state_files import Loaded, StateFiles
from minispark_stream.engine.state.state_records import Change, decode_changes, encode_records
from minispark_stream.extras.rocksdb.rocksdb import RocksDB, scratch
from minispark_stream.extras.rocksdb.rocksdb_state_encoder import RocksDBStateEncoder, checked_keys, with_key_checksums
from minispark_stream.extras.rocksdb.snapshot_zip import SnapshotMetadata, read_database, read_zip_metadata, zip_of

TABLES = "SSTs"
_OF_FORMAT_2 = re.compile(r"[0-9]+_[0-9a-f-]+\.(zip|changelog)")


class RocksDBStateFiles(StateFiles):
    """The files of one store (`StateFiles`)."""

    delta, snapshot, provider = "changelog", "zip", "RocksDBStateStoreProvider"
    uploaded = -1  # the last version that was written whole here
    files_copied = files_reused = bytes_copied = 0  # in that

    @property
    def most_deltas(self) -> int:
        return self.conf.min_deltas_for_snapshot - 1

    def write_version(self, version: int, changes: Sequence[Change], num_keys: int, overwrite: bool = True) -> object:  # (1)
        if self.conf.changelog_checkpointing_enabled:
            return super().write_version(version, changes, num_keys, overwrite)
        self.delete(f"{version}.{self.delta}")
        self.manager.mkdirs(TABLES)
        base = self._base(version)
        zipped = self._zip(version, base, [*self._changes(base, version - 1), *changes], num_keys)
        return f"{version}.zip", self.manager.create_atomic(f"{version}.zip", zipped, overwrite)

    def write_snapshot(self, version: int, keys: Sequence[bytes], values: Sequence[bytes]) -> int:
        if not self.has_delta(version):
            raise FileNotFoundError(f"{self.root}/{version}.zip cannot be written, because its changelog is gone")
        self.manager.mkdirs(TABLES)
        try:
            base = self._base(version)
            zipped = self._zip(version, base, self._changes(base, version), len(keys), is_read=True)
        except Exception:  # something is wrong with an older file, and nothing with the rows
            zipped = self._zip(version, 0, [(keys, values)], len(keys))
        self.manager.create_atomic(f"{version}.zip", zipped, overwrite=True, new_folder=False)
        return len(zipped)

    def read_delta(self, version: int) -> list[Change]:
        name = f"{version}.changelog"
        try:
            return self._read(name, "delta")
        except FileNotFoundError as e:
            raise self._missing(name, e) from e

    def read_snapshot(self, version: int) -> list[Change]:  # (4)
        name = f"{version}.zip"
        try:
            with scratch() as folder:
                metadata = self._fetch(name, folder)
                with RocksDB(folder) as db:
                    keys, values = db.rows()
            if metadata.num_keys is not None and metadata.num_keys != len(keys):
                raise ValueError(f"it says that it has {metadata.num_keys} keys, and RocksDB finds {len(keys)}")
            return [self._encoder.decode((keys, values))]
        except FileNotFoundError as e:
            raise self._missing(name, e) from e
        except SparkRuntimeException:
            raise
        except Exception as e:  # RocksDB's own errors have no class of theirs
            raise self._damaged(name, "snapshot", e) from e

    def unused(self, deleted: Sequence[str]) -> list[str]:  # (5)
        zips = {name: time for name, _, time in self._names() if name.endswith(".zip") and name not in deleted}
        needed = {table for name in zips for table in read_zip_metadata(self.manager.open(name)).ssts}
        found = self.manager.list(TABLES) if zips else []
        return [f"{TABLES}/{name}" for name, _, time in found
                if name.endswith(".sst") and name not in needed and time < min(zips.values())]

    def custom_metrics(self, loaded: Loaded) -> dict[str, int]:
        return {
            "rocksdbBytesCopied": self.bytes_copied,
            "rocksdbFilesCopied": self.files_copied,
            "rocksdbFilesReused": self.files_reused,
            "rocksdbNumInternalColFamiliesKeys": 0,
            "rocksdbNumSnapshotsAutoRepaired": int(loaded.was_repaired),
            self.last_uploaded: self.uploaded,
        }

    # -- (2) zips -----------------------------------------------------------------------------------------------

    def _base(self, version: int) -> int:
        return bases((v for v in self.snapshots() if v < version), version)[0]

    def _changes(self, base: int, version: int) -> list[Change]:
        """What the changelogs after `base` say, up to `version`."""
        return [change for _, _, changes in deltas(self, base, version) for change in changes]

    def _zip(self, version: int, base: int, changes: Sequence[Change], num_keys: int, is_read: bool = False) -> bytes:
        """The zip of `version`: what is in that of `base`, and `changes`. Its tables are in the checkpoint then.

        `is_read`: all rows are, once, so that what the tables of `base` have lost is noticed.
        """
        with scratch() as folder:
            before = self._fetch(f"{base}.zip", folder) if base else SnapshotMetadata(0, {})
            with RocksDB(folder) as db:
                db.apply(map(self._encoder.encode, changes))
                db.flush()
                db.tidy()
                if is_read and len(db.rows()[0]) != num_keys:
                    raise ValueError(f"{base}.zip and the changelogs after it do not make {num_keys} keys")
                names = db.checkpoint(f"{folder}/checkpoint")
            contents = {name: f"{folder}/checkpoint/{name}" for name in names}
            tables = self._upload({name: contents[name] for name in names if name.endswith(".sst")}, before)
            kept = ("CURRENT", "MANIFEST", "OPTIONS")
            others = {name: _content(path) for name, path in contents.items() if name.startswith(kept)}
        self.uploaded = version
        sizes = dict(tables.values())
        metadata = SnapshotMetadata(num_keys, sizes, local_names={table: local for local, (table, _) in tables.items()})
        return zip_of(others, metadata)

    def _upload(self, tables: dict[str, str], before: SnapshotMetadata) -> dict[str, tuple[str, int]]:
        """Local name -> name in `SSTs/` and bytes. Those of the zip before are there."""
        reused = {local: (name, before.ssts[name]) for name, local in before.local_names.items() if local in tables}
        unique, copied = uuid.uuid4(), dict[str, tuple[str, int]]()
        for local in tables.keys() - reused.keys():  # (3)
            name, content = f"{local.removesuffix('.sst')}-{unique}.sst", _content(tables[local])
            self.manager.create_atomic(f"{TABLES}/{name}", content, new_folder=False)
            copied[local] = name, len(content)
        self.files_copied, self.files_reused = len(copied), len(reused)
        self.bytes_copied = sum(size for _, size in copied.values())
        return dict(sorted((reused | copied).items()))

    def _fetch(self, name: str, folder: str) -> SnapshotMetadata:
        """Put the database of a zip into a folder."""
        data = self.manager.open(name)
        metadata = read_zip_metadata(data)
        if metadata.families:
            raise ValueError("it has column families, which belong to transformWithState or to state format 3 of a join")
        for file, content in read_database(data, metadata).items():
            with open(f"{folder}/{file}", "wb") as out:
                out.write(content)
        for table, local in metadata.local_names.items():
            self.manager.copy_to(f"{TABLES}/{table}", f"{folder}/{local}")
            if (size := os.path.getsize(f"{folder}/{local}")) != metadata.ssts[table]:
                raise ValueError(f"{TABLES}/{table} has {size} bytes, it says {metadata.ssts[table]}")
        return metadata

    # -- changelogs ---------------------------------------------------------------------------------------------

    def _encoded(self, changes: Sequence[Change]) -> bytes:
        rows = [self._encoder.encode(change) for change in changes]
        return encode_records(map(with_key_checksums, rows) if self._encoder.checksum else rows)

    def _decoded(self, records: bytes) -> list[Change]:
        if records[:3] == b"\0\2v":
            raise ValueError("a changelog with column families, or of checkpoint format 2")
        changes = decode_changes(records, max_bytes=self.max_bytes)
        return [self._encoder.decode(checked_keys(change) if self._encoder.checksum else change) for change in changes]

    def _missing(self, name: str, error: FileNotFoundError) -> SparkRuntimeException:
        what = "{f} does not exist"
        if name.endswith(".zip") and error.filename:
            what = f"{error.filename} does not exist, which it needs"
        if any(_OF_FORMAT_2.fullmatch(other) for other, *_ in self._names()):
            what += "; the checkpoint is in checkpoint format 2, with which the model cannot go on, and Spark can"
        return self._error("CANNOT_READ_STREAMING_STATE_FILE", "state", name, what)

    @cached_property
    def _encoder(self) -> RocksDBStateEncoder:
        """As the files say that describe the operator and its state."""
        s = self.store_id
        operator = read_operator_metadata(s.checkpoint_root, s.operator_id)
        prefixes = {one.store_name: one.num_cols_prefix_key for one in (operator.stores if operator else ())}
        prefix = prefixes.get(s.store_name, 0)
        key = read_schemas(s.checkpoint_root, s.operator_id, s.store_name)[0] if prefix else StructType()
        return RocksDBStateEncoder(key, prefix, self.conf.row_checksum_enabled)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
