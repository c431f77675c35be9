"""The stores of a RocksDB checkpoint, as an inspection shows them: each column family is one.

Models: RocksDBStateStoreProvider, for reading (About state: RocksDB).

1. Each partition of a store has a reader (store_reader.py), which knows from the commit log which files count.
2. A store without column families is shown as it is. If a store has families (a stream-stream join in state format 3 or 4, or
   transformWithState), each family is shown as a store with the family's name. A family whose name begins with "$" is one of
   the engine's own: an index, a counter or its timers.
3. The schemas do not say which families have lists as values: those of list variables, and those of a join in format 4, which
   keeps all rows of a key and a time together.

    transformWithState with variables v, l, m and timers
    stores     v, $rowCounter_l, l, m, $procTimers_keyToTimestamp, $procTimers_timestampToKey

4. Rows in Avro are read with the schemas of all schema files.

What cannot be decoded is named: rows in Avro if the package for them is missing, and families whose names are in no zip.

Differs from Spark: Spark's reader shows one variable at a time, and does not show the engine's own families.
Shown by tests/unit/tools/inspection/test_inspect_rocksdb.py::test_each_column_family_is_a_store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from minispark_stream.engine.checkpointing.commit_log import ids_by_store
from minispark_stream.engine.state.operator_state_metadata import variable_kinds
from minispark_stream.engine.state.state_store import StateStoreId
from minispark_stream.extras.rocksdb.avro_state_encoder import AvroStateEncoder, UnsafeRowDataEncoder
from minispark_stream.extras.rocksdb.column_family_schemas import Family
from minispark_stream.extras.rocksdb.family_numbers import SIZE, is_list
from minispark_stream.tools.inspection.logs import Logs
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.rocksdb.row_encoding import RocksDBRows
from minispark_stream.tools.inspection.rocksdb.store_reader import CACHED, FormatConf, RocksDBReader, SstCache
from minispark_stream.tools.inspection.state_reader import StoreState
from minispark_stream.tools.inspection.store_versions import StoreVersions

MERGE_VERSION = "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
NO_AVRO = "its rows are in Avro, which needs a package: pip install fastavro"
NO_NAMES = "no zip that can be read names its column families"


class RocksDBStores:
    """Opens the stores of the checkpoint with these `files`."""

    def __init__(self, files: ReadOnlyFiles, logs: Logs):
        self.files, self.logs = files, logs
        self.conf = FormatConf(logs.codec, logs.row_checksum, b"," if logs.conf.get(MERGE_VERSION, "1") == "1" else b"")
        self._cache = SstCache(min(CACHED, files.budget.limit // 4))

    def open(
        self, operator_id: int, name: str, partitions: Sequence[int], schemas: Sequence[Family], properties: Mapping[str, Any]
    ) -> list[StoreState]:
        """What is shown of a store, at least one."""
        readers = {p: self._reader(operator_id, name, p) for p in partitions}  # (1)
        on_disk = {p: StoreVersions(reader, reader.versions, self.files.budget) for p, reader in readers.items()}
        by_name = {family.name: family for family in schemas}
        in_avro = self.logs.conf.get(ENCODING, "unsaferow") == "avro"  # (4)
        not_decoded = NO_AVRO if in_avro and find_spec("fastavro") is None else None
        encoder = UnsafeRowDataEncoder()
        if in_avro and not not_decoded:
            encoder = AvroStateEncoder([schemas], self.conf.delimiter, self.files.budget)
        names = list(dict.fromkeys(family for reader in readers.values() for _, family in sorted(reader.families.items())))
        if not names:  # (2)
            if name not in by_name and by_name:
                return [StoreState(operator_id, name, None, on_disk, NO_NAMES)]
            rows = self._rows(by_name.get(name), b"", False, encoder)
            return [StoreState(operator_id, name, None if not_decoded else rows, on_disk, not_decoded)]
        kinds = variable_kinds(properties)
        found = []
        for family in names:
            if family not in by_name and family == "default":
                continue  # it exists, but is empty
            ids = {p: _bytes_of(reader, family) for p, reader in readers.items()}
            rows = self._rows(by_name.get(family), next(iter(ids.values())), is_list(family, kinds), encoder)  # (3)
            found.append(StoreState(operator_id, family, None if not_decoded else rows, on_disk, not_decoded, ids))
        return found or [StoreState(operator_id, name, None, on_disk, NO_NAMES)]

    def _rows(self, family: Family | None, prefix: bytes, lists: bool, encoder: UnsafeRowDataEncoder) -> RocksDBRows | None:
        if family is None:
            return None
        form = prefix, lists, self.conf.delimiter, self.conf.row_checksum, family.name, encoder
        return RocksDBRows(family.key, family.value, family.encoder, *form)

    def _reader(self, operator_id: int, name: str, partition: int) -> RocksDBReader:
        folder = f"state/{StateStoreId('', operator_id, partition, name).relative_path}"
        sizes = {path[len(folder) + 1 :]: size for path, size in self.files.files.items() if path.startswith(f"{folder}/")}
        ids = self._unique_ids(operator_id, name, partition)
        return RocksDBReader(self.files.folder(folder), sizes, self._cache, self.conf, ids)

    def _unique_ids(self, operator_id: int, name: str, partition: int) -> dict[int, str]:
        """Version -> unique id, as the commit log has it: one for each partition, or one for each store of a join.

        The version with which a restart begins has that of the newest commit, or "".
        """
        found = {}
        for batch_id, commit in self.logs.commits.items():
            of_operator = (commit.state_unique_ids or {}).get(str(operator_id)) if commit else None
            if (unique_id := ids_by_store(of_operator, partition).get(name)) is not None:
                found[batch_id + 1] = unique_id
        newest = max(self.logs.commits, default=None)
        commit = None if newest is None else self.logs.commits[newest]
        of_operator = (commit.state_unique_ids or {}).get(str(operator_id)) if commit else None
        found[self.logs.restart.batch_id] = ids_by_store(of_operator, partition).get(name, "")  # a restart has only these
        return found


def _bytes_of(reader: RocksDBReader, family: str) -> bytes:
    """What the keys of a family begin with."""
    numbers = [number for number, name in reader.families.items() if name == family]
    return numbers[0].to_bytes(SIZE, "little") if numbers else b"\xff\xff"
