"""The files of a store as Spark's RocksDB provider has them: changelogs, and zips of versions that share their tables.

Models: RocksDBStateStoreProvider, RocksDBFileManager, StateStoreChangelogWriterV1 (About state: RocksDB).

    state/<operator>/<partition>[/<store>]/6.changelog             what batch 5 changed
                                           5.zip                   version 5: which tables it has
                                           SSTs/000008-<uuid>.sst  a table: a part of versions 5, 6 ...

1. `rocksdb.changelogCheckpointing.enabled` decides what a batch writes. Without it (Spark's default), each version is a zip.
   With it, a version is a changelog, whose records are those of a delta file, and maintenance makes a zip now and then.
2. To make the zip of a version, RocksDB opens the newest zip before it, receives what has changed since, and puts that into a
   table of its own. The zip names the old tables and the new one. The new table is put into `SSTs/` first, so that whoever sees
   the zip finds all of its tables.
3. A table gets a new name for each zip that adds it, so that two tasks that write the same version never write the same file.
   The zip decides which of the two counts, because only one of them can create it.
4. When RocksDB opens a zip to read it, it must find as many keys as the zip says.
5. When zips are deleted, so are the tables that no other zip names, if they are older than all of them: a younger one may
   belong to a zip that a task is about to write.
6. The state of transformWithState is in column families (family_numbers.py). Its rows are the same in memory and in RocksDB,
   and its changelogs have version 2. A batch that creates a family writes a zip, whatever (1) says.
7. A record of such a changelog may make a list longer, so the value that it makes depends on the one before.

    1.zip {A}    2.zip {A, B}    3.zip {A, B, C}       delete 1.zip: A, B and C are still needed

The rows themselves are in memory, in the same tables as those of every other store
(engine/state/hdfs_backed_state_store_provider.py), because an operator here works on a whole batch of rows at a time: from
Python, RocksDB takes about three microseconds for a row, and a table of columns a tenth of that. So the operators, the rules
for tasks that run twice, and what a worker does when another one has overtaken it are those of the other provider; only the
files differ.

Differs from Spark: the state is in memory, so Spark's settings for the memory of RocksDB have no effect; maintenance makes a
zip of the newest committed version, as for the HDFS-backed store; tables are compacted when eight have been added.
Shown by tests/unit/extras/rocksdb/test_rocksdb_state_files.py::test_a_snapshot_shares_tables_with_the_one_before,
tests/unit/extras/rocksdb/test_rocksdb_state_files.py::test_a_zip_that_lacks_keys_is_refused.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

from minispark_stream.engine.checkpointing.errors import SparkRuntimeException
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.state.hdfs_backed_state_store_map import Entries
from minispark_stream.engine.state.operator_state_metadata import OperatorStateMetadata, read_operator_metadata, variable_kinds
from minispark_stream.engine.state.replay import bases, deltas
from minispark_stream.engine.state.schema_files import read_schemas
from minispark_stream.engine.state.state_files import Loaded, StateFiles
from minispark_stream.engine.state.state_records import Change, decode_changes, encode_records, records
from minispark_stream.engine.state.state_store import each
from minispark_stream.extras.rocksdb.changelog import encode_header, encode_typed_records, read_changelog, read_header
from minispark_stream.extras.rocksdb.changes import Append, folded, num_bytes
from minispark_stream.extras.rocksdb.family_checksums import FamilyChecksums
from minispark_stream.extras.rocksdb.family_numbers import ROW, FamilyNumbers, numbers_in, records_of, without_numbers
from minispark_stream.extras.rocksdb.rocksdb import RocksDB, in_scratch
from minispark_stream.extras.rocksdb.rocksdb_state_encoder import RocksDBStateEncoder, checked_keys, with_key_checksums
from minispark_stream.extras.rocksdb.snapshot_zip import SnapshotMetadata, read_database, read_zip_metadata, zip_of

T = TypeVar("T")

TABLES = "SSTs"


class RocksDBStateFiles(StateFiles):
    """The files of one store (`StateFiles`)."""

    delta, snapshot, provider = "changelog", "zip", "RocksDBStateStoreProvider"
    checks_what_it_loads = False
    uploaded = -1  # the last version of which a zip was written here
    files_copied = files_reused = bytes_copied = 0  # in that zip

    @property
    def most_deltas(self) -> int:
        return self.conf.min_deltas_for_snapshot - 1

    @property
    def repairs(self) -> bool:
        return super().repairs and self.conf.changelog_checkpointing_enabled

    def write_version(self, version: int, changes: Sequence[Change], num_keys: int, overwrite: bool = True) -> object:  # (1)
        has_changelogs = self.conf.changelog_checkpointing_enabled
        if has_changelogs and not (self._has_families and numbers_in(changes)):
            return super().write_version(version, changes, num_keys, overwrite)
        self.delete(self.name(version, self.delta))
        self.manager.mkdirs(TABLES)
        base, name = self._base(version), self.name(version, self.snapshot)
        zipped = self._zip(version, base, [*self._changes(base, version - 1), *changes], num_keys)
        identity = name, self.manager.create_atomic(name, zipped, overwrite)
        return self.write_delta(version, changes, overwrite) if has_changelogs else identity

    def write_snapshot(self, version: int, keys: Sequence[bytes], values: Sequence[bytes]) -> int:
        name = self.name(version, self.snapshot)
        if not self.has_delta(version):
            raise FileNotFoundError(f"{self.root}/{name} cannot be written, because its changelog is gone")
        self.manager.mkdirs(TABLES)
        try:
            base = self._base(version)
            zipped = self._zip(version, base, self._changes(base, version), len(keys), is_read=True)
        except Exception:  # something is wrong with an older file, and nothing with the rows
            zipped = self._zip(version, 0, [(keys, values)], len(keys))
        self.manager.create_atomic(name, zipped, overwrite=True, new_folder=False)
        return len(zipped)

    def read_delta(self, version: int) -> list[Change]:
        name = self.name(version, self.delta)
        try:
            return [*self._read(name, "delta"), *(self._families_of(version) if self._has_families else ())]
        except FileNotFoundError as e:
            raise self._missing(name) from e

    def read_snapshot(self, version: int) -> list[Change]:  # (4)
        name = self.name(version, self.snapshot)
        try:
            rows, metadata = self._in_database_of(name, lambda db, folder, metadata: (db.rows(), metadata))
            if metadata.num_keys is not None and (says := metadata.num_keys + metadata.num_internal_keys) != len(rows[0]):
                raise ValueError(f"it says that it has {says} keys, and RocksDB finds {len(rows[0])}")
            if self._has_families:
                families = FamilyNumbers.of_zip(metadata)
                return [self._checksums(families).checked(rows), ([ROW], [families.to_row()])]
            return [self._encoder.decode(rows)]
        except SparkRuntimeException:
            raise
        except FileNotFoundError as e:
            raise self._damaged(name, "snapshot", FileNotFoundError(f"{e.filename or name} does not exist")) from e
        except Exception as e:  # RocksDB's own errors have no class of theirs
            raise self._damaged(name, "snapshot", e) from e

    def onto(self, entries: Entries, changes: Iterable[Change]) -> Iterable[Change]:  # (7)
        for keys, values in changes:
            grow = [i for i, value in enumerate(values) if isinstance(value, Append)] if self._has_families else []
            if grow:
                before = each(entries.get([keys[i] for i in grow]))
                whole = {i: cast(Append, values[i]).to(old) for i, old in zip(grow, before)}
                values = [whole.get(i, value) for i, value in enumerate(values)]
            yield keys, values

    def says_the_same(self, version: int, changes: Sequence[Change], rows: Change) -> bool:
        if not (self._has_families and self.has_delta(version)):
            return super().says_the_same(version, changes, rows)
        written = dict(records(without_numbers(self.read_delta(version))))
        return written == folded(records_of(changes), self.conf.list_delimiter)

    def tables(self, version: int) -> Mapping[str, int]:
        name = self.name(version, self.snapshot)
        return read_zip_metadata(self.manager.open(name)).ssts if self.manager.exists(name) else {}

    def unused(self, deleted: Sequence[str]) -> list[str]:  # (5)
        zips = {name: time for name, _, time in self.manager.list() if name.endswith(".zip") and name not in deleted}
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
        """The changes in the changelogs after `base`, up to `version`."""
        return [change for _, _, changes in deltas(self, base, version) for change in changes]

    def _zip(self, version: int, base: int, changes: Sequence[Change], num_keys: int, is_read: bool = False) -> bytes:
        """The zip of `version`: what the zip of `base` contains, and `changes`. Its new tables are written into the checkpoint.

        `is_read`: whether all rows are read once, so that rows which the tables of `base` have lost are noticed.
        """

        def zipped(db: RocksDB, folder: str, before: SnapshotMetadata) -> bytes:
            families, rows, expected = FamilyNumbers({}, 0), changes, num_keys
            if self._has_families:  # (6)
                families, expected = numbers_in(changes) or FamilyNumbers.of_zip(before), num_keys - 1
                rows = list(without_numbers(changes))
            encode = self._checksums(families).of_change if self._has_families else self._encoder.encode
            db.apply(map(encode, rows))
            db.flush()
            db.tidy()
            is_counted = is_read or self._has_families
            keys = db.keys() if is_counted else []
            if is_counted and len(keys) != expected:
                raise ValueError(f"the zip of version {base} and the changelogs after it do not make {expected} keys")
            contents = {name: f"{folder}/checkpoint/{name}" for name in db.checkpoint(f"{folder}/checkpoint")}
            tables = self._upload({name: path for name, path in contents.items() if name.endswith(".sst")}, before)
            kept = [name for name in contents if name.startswith(("CURRENT", "MANIFEST", "OPTIONS"))]
            internal, numbered = families.internal_keys(keys), {number: name for name, number in families.by_name.items()}
            local_names = {table: local for local, (table, _) in tables.items()}
            says = expected - internal, dict(tables.values()), numbered, local_names, internal, families.last, families.internal
            return zip_of({name: Path(contents[name]).read_bytes() for name in kept}, SnapshotMetadata(*says))

        data = self._in_database_of(self.name(base, self.snapshot) if base else None, zipped, changes)
        self.uploaded = version
        return data

    def _upload(self, tables: dict[str, str], before: SnapshotMetadata) -> dict[str, tuple[str, int]]:
        """Local name -> name in `SSTs/` and bytes. The tables of the zip before are there already."""
        reused = {local: (name, before.ssts[name]) for name, local in before.local_names.items() if local in tables}
        unique, copied = uuid.uuid4(), dict[str, tuple[str, int]]()
        for local in tables.keys() - reused.keys():  # (3)
            name, content = f"{local.removesuffix('.sst')}-{unique}.sst", Path(tables[local]).read_bytes()
            self.manager.create_atomic(f"{TABLES}/{name}", content, new_folder=False)
            copied[local] = name, len(content)
        self.files_copied, self.files_reused = len(copied), len(reused)
        self.bytes_copied = sum(size for _, size in copied.values())
        return dict(sorted((reused | copied).items()))

    def _in_database_of(
        self, name: str | None, work: Callable[[RocksDB, str, SnapshotMetadata], T], changes: Sequence[Change] = ()
    ) -> T:
        """What `work` returns for the database of a zip, or an empty one, which `changes` will be put into, and its folder."""
        data = self.manager.open(name) if name else b""
        metadata = read_zip_metadata(data) if name else SnapshotMetadata(0, {})
        if name and bool(metadata.families) != self._has_families:
            raise ValueError("it has column families, but the operator has none" if metadata.families else
                             "it has no column families, but the operator has some")

        def fetched(folder: str) -> T:
            for file, content in (read_database(data, metadata) if name else {}).items():
                Path(folder, file).write_bytes(content)
            for table, local in metadata.local_names.items():
                self.manager.copy_to(f"{TABLES}/{table}", f"{folder}/{local}")
                if (size := os.path.getsize(f"{folder}/{local}")) != metadata.ssts[table]:
                    raise ValueError(f"{TABLES}/{table} has {size} bytes, but the zip says {metadata.ssts[table]}")
            with RocksDB(folder, self.conf.list_delimiter.decode()) as db:
                return work(db, folder, metadata)

        return in_scratch(sum(metadata.ssts.values()) + num_bytes(changes), fetched)

    # -- changelogs ---------------------------------------------------------------------------------------------

    def _encoded(self, changes: Sequence[Change], version: int) -> bytes:
        header = encode_header(self._has_families, self._lineage(version))
        if self._has_families:
            return header + encode_typed_records(self._checksums(numbers_in(changes)).of_records(records_of(changes)))
        rows = [self._encoder.encode(change) for change in changes]
        return header + encode_records(map(with_key_checksums, rows) if self._encoder.checksum else rows)

    def _lineage(self, version: int) -> Mapping[int, str] | None:
        """The ids of the versions before, if the changelog of `version` names them."""
        return None

    def _decoded(self, data: bytes) -> list[Change]:
        if self._has_families:
            log = read_changelog(data, False, self.budget)
            found = folded(self._checksums().checked_records(log.records), self.conf.list_delimiter)
            return [(list(found), list(found.values()))]
        header = read_header(data)
        if header.has_families:
            raise ValueError("a changelog with column families, but the operator has none")
        changes = decode_changes(data[header.end :], budget=self.budget)
        return [self._encoder.decode(checked_keys(change) if self._encoder.checksum else change) for change in changes]

    def _missing(self, name: str) -> SparkRuntimeException:
        return self._error("CANNOT_READ_STREAMING_STATE_FILE", "state", name, "{f} does not exist")

    def _families_of(self, version: int) -> list[Change]:
        """(6) Which families a version has, if it has a zip: each version in which they changed has one."""
        try:
            metadata = read_zip_metadata(self.manager.open(self.name(version, self.snapshot)))
        except (FileNotFoundError, ValueError):
            return []
        return [([ROW], [FamilyNumbers.of_zip(metadata).to_row()])] if metadata.families else []

    def _checksums(self, families: FamilyNumbers | None = None) -> FamilyChecksums:
        """Of the families of a version, or of those that the newest zip names."""
        are_on, delimiter = self.conf.row_checksum_enabled, self.conf.list_delimiter
        if are_on and families is None:
            families = next((numbers_in(self._families_of(version)) for version in reversed(self.snapshots())), None)
        kinds = variable_kinds(self._operator.properties if self._operator else None)
        return FamilyChecksums(are_on, (families or FamilyNumbers()).of_lists(kinds), delimiter)

    @cached_property
    def _operator(self) -> OperatorStateMetadata | None:
        return read_operator_metadata(self.store_id.checkpoint_root, self.store_id.operator_id)

    @property
    def _has_families(self) -> bool:
        return self._operator is not None and self._operator.properties is not None

    @cached_property
    def _encoder(self) -> RocksDBStateEncoder:
        """The encoder, as the files that describe the operator and its state require it."""
        s = self.store_id
        prefixes = {one.store_name: one.num_cols_prefix_key for one in (self._operator.stores if self._operator else ())}
        prefix = prefixes.get(s.store_name, 0)
        key = read_schemas(s.checkpoint_root, s.operator_id, s.store_name)[0] if prefix else StructType()
        return RocksDBStateEncoder(key, prefix, self.conf.row_checksum_enabled)
