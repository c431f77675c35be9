"""The files of one RocksDB store: changelogs, snapshot zips, and the SST files that these share.

Models: RocksDBFileManager, for reading (About state: RocksDB).

    state/<operator>/<partition>[/<store>]/6.changelog             what batch 5 changed
                                           5.zip                   version 5: names files in SSTs/
                                           SSTs/000008-<uuid>.sst  a part of versions 5, 6 ...
                                           6_<uuid>.changelog      in checkpoint format 2

1. In checkpoint format 2 a version may have been written more than once. The commit log says which file counts
   (`stateUniqueIds`); for versions that it does not have any more, the lineage in the next changelogs says it.
2. A changelog makes one change for each key in it (extras/rocksdb/changes.py).
3. A zip stands for the entries of all its SST files, in the order in which RocksDB received them (sst_file.py).

From these, ../store_versions.py makes any version, by the same rule as from delta and snapshot files.

Differs from Spark: Spark opens a snapshot with RocksDB itself; sst_file.py says why this module does not.
Shown by tests/unit/tools/inspection/test_inspect_rocksdb.py::test_rows_come_from_changelogs_and_from_snapshots.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from minispark_stream.engine.checkpointing.budget import BYTES_PER_RECORD, LimitExceeded
from minispark_stream.engine.checkpointing.lz4_block import decompress
from minispark_stream.extras.rocksdb.changelog import FILE, Changelog, read_changelog
from minispark_stream.extras.rocksdb.changes import Changes, folded
from minispark_stream.extras.rocksdb.family_numbers import SIZE
from minispark_stream.extras.rocksdb.snapshot_zip import SnapshotMetadata, read_zip_metadata
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.rocksdb.sst_file import SstEntry, read_sst
from minispark_stream.tools.inspection.store_versions import NotLoaded

T = TypeVar("T")
READS_ALL = 8 << 20  # bytes of files: SST files take a second for a megabyte or two
CACHED = 64 << 20  # bytes of entries

Sizes = dict[int, dict[str, int]]  # version -> suffix -> bytes


@dataclass(frozen=True)
class FormatConf:
    """What the confs of the query say about its files."""

    codec: str
    row_checksum: bool
    delimiter: bytes  # between two elements of a list


class SstCache:
    """The entries of the SST files that were read last, which are kept because many versions share the files."""

    def __init__(self, limit: int = CACHED):
        self.limit, self._entries = limit, OrderedDict[str, tuple[list[SstEntry], int]]()

    def read(self, path: str, decode: Callable[[], list[SstEntry]]) -> tuple[list[SstEntry], int]:
        """The entries of a file, and the bytes of memory that they take."""
        if path in self._entries:
            self._entries.move_to_end(path)
            return self._entries[path]
        entries = decode()
        size = sum(len(e.record.key) + len(e.record.value or b"") + BYTES_PER_RECORD for e in entries)
        self._entries[path] = entries, size
        while sum(size for _, size in self._entries.values()) > self.limit:
            self._entries.popitem(last=False)
        return entries, size


class RocksDBReader:
    """Reads the files of one store, in the folder `files`.

    Args:
        sizes: the names of the files in it, with their sizes in bytes.
        cache: the SST files that were read; one cache for a whole checkpoint.
        unique_ids: version -> unique id, as far as the commit log knows.
    """

    delta, snapshot, goes_back = "changelog", "zip", False
    missing = "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE"

    def __init__(
        self, files: ReadOnlyFiles, sizes: Mapping[str, int], cache: SstCache, conf: FormatConf, unique_ids: Mapping[int, str],
    ):
        self.files, self.root, self.sizes, self.conf, self.budget = files, files.root, sizes, conf, files.budget
        self.cache = cache
        self.reads_all = sum(sizes.values()) <= READS_ALL
        self._ids = dict(unique_ids)
        self._names: dict[tuple[int, str], dict[str | None, str]] = {}
        for name in sizes:
            if found := FILE.fullmatch(name):
                self._names.setdefault((int(found[1]), found[3]), {})[found[2]] = name
        self.families = self._families()
        self.family_size = SIZE if self.families else 0

    @property
    def versions(self) -> Sizes:
        """The versions that exist, with the sizes of their files (without SST files, which versions share)."""
        found: Sizes = {}
        for (version, suffix), names in sorted(self._names.items()):
            if None in names or self._ids.get(version) in (None, *names):  # otherwise, none of these files counts
                found.setdefault(version, {})[suffix] = sum(self.sizes[name] for name in names.values())
        return found

    def read_delta(self, version: int) -> Changes:  # (2)
        name = self._name(version, "changelog")
        return folded(self._changelog(name).records, self.conf.delimiter)

    def read_snapshot(self, version: int) -> Changes:  # (3)
        name = self._name(version, "zip")
        found: list[SstEntry] = []
        for sst, size in self._metadata(name).ssts.items():
            path = f"SSTs/{sst}"
            if path not in self.sizes:
                raise ValueError(f"{self.root}/{path}, which {name} names, is missing")
            if self.sizes[path] != size:
                text = f"{self.root}/{path} has {self.sizes[path]:,} bytes, but {name} says {size:,}"
                raise NotLoaded(text, "CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE")
            entries, taken = self.cache.read(f"{self.root}/{path}", partial(self._table, path))
            self.budget.take(taken)
            found += entries
        found.sort(key=lambda entry: entry.sequence)
        return folded((entry.record for entry in found), self.conf.delimiter)

    def _families(self) -> Mapping[int, str]:
        """The column families in the newest zip that can be read, whether it counts or not: no changelog has their names."""
        for version in sorted((v for v, suffix in self._names if suffix == "zip"), reverse=True):
            for name in self._names[version, "zip"].values():
                try:
                    return self._metadata(name).families
                except (ValueError, OSError):
                    continue
        return {}

    def _name(self, version: int, suffix: str) -> str:  # (1)
        names = self._names.get((version, suffix), {})
        if len(names) == 1 and (version not in self._ids or None in names):
            return next(iter(names.values()))
        if version not in self._ids:
            self._ids.update({v: i for v, i in self._lineage_after(version).items() if v not in self._ids})
        if not (unique_id := self._ids.get(version)) and None in names:
            return names[None]
        if unique_id is None:
            raise ValueError(f"{self.root}: version {version} was written {len(names)} times, and nothing says which counts")
        if unique_id not in names:
            raise NotLoaded(f"{self.root}/{version}_{unique_id}.{suffix}, which the commit log names, is missing", self.missing)
        return names[unique_id]

    def _lineage_after(self, version: int) -> dict[int, str]:
        """The lineage in the first of the next changelogs that has `version`."""
        later = sorted(v for v, suffix in self._names if suffix == "changelog" and v > version)
        for v in later:
            lineage = self._changelog(self._name(v, "changelog")).lineage
            if version in lineage:
                return lineage
        return {}

    def _changelog(self, name: str) -> Changelog:
        return self._named(name, lambda data: read_changelog(
            decompress(data, self.conf.codec, self.budget), self.conf.row_checksum, self.budget
        ))

    def _metadata(self, name: str) -> SnapshotMetadata:
        with self.budget.lent():
            return self._named(name, partial(read_zip_metadata, budget=self.budget))

    def _table(self, path: str) -> list[SstEntry]:
        with self.budget.lent():
            return self._named(path, partial(read_sst, budget=self.budget))

    def _named(self, name: str, decode: Callable[[bytes], T]) -> T:
        """The decoded content of a file. Every error names the file."""
        try:
            return decode(self.files.open(name))
        except LimitExceeded as e:
            raise e if str(e).startswith(self.root) else LimitExceeded(f"{self.root}/{name}: {e}") from e
        except FileNotFoundError as e:
            raise ValueError(f"{self.root}/{name} is gone") from e
        except ValueError as e:
            raise ValueError(str(e) if str(e).startswith(self.root) else f"{self.root}/{name}: {e}") from e
