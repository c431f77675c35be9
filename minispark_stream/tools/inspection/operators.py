"""The stateful operators of a checkpoint: their stores, partitions, versions, keys and some rows (About state).

1. The names of the files contain operators, partitions, stores and versions:

       state/<op>/<part>[/<store>]/<version>.delta | .snapshot               HDFS-backed
       state/<op>/<part>[/<store>]/<version>[_<uuid>].zip | .changelog       RocksDB

2. Metadata and schema files say what they are.
3. Each store is replayed (store_versions.py) to find the number of keys of every version. A few rows of the version with which
   the next batch begins are decoded; then its bytes are dropped, so that only one partition is in memory at a time.
4. A column family of RocksDB is shown as a store of its own (rocksdb/stores.py), with the files of the store that contains it.

What cannot be read is a finding. It is an error if the next batch needs it, and otherwise a warning.
Differs from Spark: nothing in what is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from minispark_stream.engine.checkpointing.budget import LimitExceeded
from minispark_stream.engine.checkpointing.checkpoint_file_manager import canonical_number
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.state.operator_state_metadata import OperatorStateMetadata, newest_metadata
from minispark_stream.engine.state.schema_files import decode_schemas
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, StateStoreConf, StateStoreId
from minispark_stream.extras.rocksdb.column_family_schemas import Family, decode_column_families, prefix
from minispark_stream.tools.inspection.contents import Finding, Schemas, Store, StoredOperator, StorePartition, VersionFiles
from minispark_stream.tools.inspection.logs import Findings, Logs, attempt
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles, is_unread
from minispark_stream.tools.inspection.rocksdb.store_reader import FILE as ROCKSDB_FILE
from minispark_stream.tools.inspection.rocksdb.stores import RocksDBStores
from minispark_stream.tools.inspection.state_reader import StoreState, UnsafeRows, some_rows
from minispark_stream.tools.inspection.store_versions import (
    DAMAGED,
    DeltaReader,
    ReplayedState,
    StoreVersions,
    num_bytes,
)

CHECK = "check CHECKPOINT --query MODULE:FUNCTION"
SAMPLE = 3  # rows to decode in each partition
_NUMBER = "(0|[1-9][0-9]{0,17})"
_PATH = re.compile(rf"state/{_NUMBER}/{_NUMBER}/(?:([^/]+)/)?([^/]+)")
_HDFS = re.compile(rf"{_NUMBER}\.(delta|snapshot)")

Versions = dict[int, dict[str, int]]  # version -> kind of file -> bytes


@dataclass(frozen=True)
class StoreFolders:
    """The folders of a store, one for each of its partitions. `key` is the schema of its keys, if it is known."""

    operator_id: int
    name: str
    partitions: tuple[int, ...]
    key: StructType | None

    def of(self, partition: int) -> str:
        """The folder of a partition."""
        return f"state/{StateStoreId('', self.operator_id, partition, self.name).relative_path}"


@dataclass(frozen=True)
class FoundOperators:
    """The operators, the stores from which their rows can be read, and what is wrong.

    `errors`: the files that could not be read, and the folders of the stores whose next version cannot be loaded, and why.
    """

    operators: tuple[StoredOperator, ...]
    stores: tuple[StoreState, ...]
    folders: tuple[StoreFolders, ...]
    findings: tuple[Finding, ...]
    errors: Mapping[str, Exception]


@dataclass(frozen=True)
class _Metadata:
    name: str | None = None
    num_partitions: int | None = None
    stores: tuple[str, ...] = ()
    num_cols_prefix_key: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    schema_files: Mapping[str, Sequence[str]] = field(default_factory=dict)  # their names, by store, the newest last


def read_operators(files: ReadOnlyFiles, logs: Logs, next_version: int) -> FoundOperators:
    """`next_version`: the version with which the next batch begins."""
    findings = Findings()
    operators, states, folders = [], [], []
    by_store = _list(files)
    opener = RocksDBStores(files, logs)
    for operator_id in _operator_ids(files):
        metadata = _metadata(files, operator_id, findings)
        of_operator = {name: parts for (i, name), parts in by_store.items() if i == operator_id}
        is_rocksdb = any(kind in ("zip", "changelog") for parts in of_operator.values()
                         for versions in parts.values() for kinds in versions.values() for kind in kinds)
        shown = []
        for name in sorted(of_operator.keys() | set(metadata.stores)):
            parts = of_operator.get(name, {})
            schemas = _schemas(files, operator_id, name, metadata, bool(parts), findings)
            if name in metadata.stores or not metadata.stores:  # otherwise, the query does not open it
                folders.append(StoreFolders(operator_id, name, tuple(sorted(parts)), schemas[0].key if schemas else None))
            if is_rocksdb:
                opened = opener.open(operator_id, name, sorted(parts), schemas, metadata.properties)
            else:
                ids = {p: StateStoreId("", operator_id, p, name) for p in sorted(parts)}
                on_disk = {p: _open(files, store_id, logs, parts[p]) for p, store_id in ids.items()}
                rows = UnsafeRows(schemas[0].key, schemas[0].value) if schemas else None
                opened = [StoreState(operator_id, name, rows, on_disk)]
            partitions = [_partition(opened, name, p, next_version, findings) for p in sorted(parts)]
            for i, state in enumerate(opened):
                own = tuple(Schemas(s.name, s.key, s.value) for s in schemas if s.name == state.name)[-1:]
                shown.append(Store(state.name, own, tuple(of_states[i] for of_states in partitions)))
            states += opened
        provider = "RocksDB" if is_rocksdb else "HDFS-backed"
        operators.append(StoredOperator(operator_id, metadata.name, metadata.num_partitions, tuple(shown), provider,
                                  metadata.properties))
    return FoundOperators(tuple(operators), tuple(states), tuple(folders), tuple(findings), findings.errors)


# -- (1) the files ---------------------------------------------------------------------------------------------


def _operator_ids(files: ReadOnlyFiles) -> list[int]:
    ids = {name.split("/")[1] for name in files.files if name.startswith("state/") and name.count("/") > 1}
    return sorted(i for name in ids if (i := canonical_number(name)) is not None)


def _list(files: ReadOnlyFiles) -> dict[tuple[int, str], dict[int, Versions]]:
    """(operator, store) -> partition -> version -> kind of file -> bytes."""
    found: dict[tuple[int, str], dict[int, Versions]] = {}
    for path, size in files.files.items():
        place = _PATH.fullmatch(path)
        if place is None:
            continue
        operator_id, partition, store, name = place.groups()
        file = _HDFS.fullmatch(name) or ROCKSDB_FILE.fullmatch(name)
        if file is None:
            continue
        kinds = (
            found.setdefault((int(operator_id), store or DEFAULT_STORE_NAME), {})
            .setdefault(int(partition), {}).setdefault(int(file.group(1)), {})
        )
        kind = file.groups()[-1]
        kinds[kind] = kinds.get(kind, 0) + size
    return found


def _open(files: ReadOnlyFiles, store_id: StateStoreId, logs: Logs, versions: Versions) -> StoreVersions:
    conf = StateStoreConf(compression_codec=logs.codec, row_checksum_enabled=logs.row_checksum)
    folder = files.folder(f"state/{store_id.relative_path}")
    reads_all = sum(sum(suffixes.values()) for suffixes in versions.values()) <= files.budget.limit
    return StoreVersions(DeltaReader(StateFiles(store_id, conf, folder, files.budget), reads_all), versions, files.budget)


# -- (2) what they are -----------------------------------------------------------------------------------------


def _metadata(files: ReadOnlyFiles, operator_id: int, findings: Findings) -> _Metadata:
    folder = f"state/{operator_id}/_metadata/"
    newest = newest_metadata([name.removeprefix(folder) for name in files.files if name.startswith(folder)])
    if newest is None:
        says = "missing: the next start compares the query's operators with nothing, and writes it again"
        findings.append(Finding("note", f"{folder}metadata", says, CHECK))
        return _Metadata()
    name = f"{folder}{newest}"
    found = attempt(lambda: OperatorStateMetadata.from_text(files.open_text(name).decode("utf-8")), name, findings)
    if found is None:
        return _Metadata()
    partitions = max((s.num_partitions for s in found.stores), default=0)
    prefixes = {s.store_name: s.num_cols_prefix_key for s in found.stores}
    schema_files = {s.store_name: [path.rpartition("/")[2] for path in s.schema_paths] for s in found.stores}
    return _Metadata(found.operator_name, partitions, tuple(prefixes), prefixes, found.properties or {}, schema_files)


def _newest_schema(files: ReadOnlyFiles, folder: str) -> str | None:
    """The schema file with the greatest batch id, which is before the "_" of its name."""
    numbered = {
        int(found.group(1)): name for name in files.files
        if name.startswith(folder) and (found := re.fullmatch(r"([0-9]{1,18})(?:_.*)?", name.removeprefix(folder)))
    }
    return numbered[max(numbered)] if numbered else None


def _schemas(
    files: ReadOnlyFiles, operator_id: int, store: str, metadata: _Metadata, has_state: bool, findings: Findings
) -> tuple[Family, ...]:
    """The schemas of a store, or of its column families, those of the newest file last."""
    name = f"state/{StateStoreId('', operator_id, 0, store).relative_path}/_metadata/schema"
    if name in files.files:
        one = attempt(lambda: decode_schemas(files.open_text(name)), name, findings)
        return (Family(store, *one, prefix(metadata.num_cols_prefix_key.get(store, 0))),) if one else ()
    folder = f"state/{operator_id}/_stateSchema/{store}/"
    named = [f"{folder}{name}" for name in metadata.schema_files.get(store, ()) if f"{folder}{name}" in files.files]
    if not named and (newest := _newest_schema(files, folder)):
        named = [newest]
    if named:
        read = (attempt(partial(_families, files, name), name, findings) for name in named)
        return tuple(family for families in read for family in families or ())
    if has_state:
        findings.append(Finding(
            "warning", name, "missing, so the rows cannot be decoded, neither here nor by Spark's statestore reader; the query "
            "itself writes it again at the next start", CHECK
        ))
    return ()


def _families(files: ReadOnlyFiles, name: str) -> list[Family]:
    return decode_column_families(files.open_text(name))


# -- (3) what is in them ---------------------------------------------------------------------------------------


def _partition(
    stores: Sequence[StoreState], name: str, partition: int, next_version: int, findings: Findings
) -> list[StorePartition]:
    """A partition, once for each of the stores that are in the same files."""
    on_disk = stores[0].partitions[partition]
    where = f"state/{StateStoreId('', stores[0].operator_id, partition, name).relative_path}"
    shown = [StorePartition(partition, ()) for _ in stores]
    versions: list[list[VersionFiles]] = [[] for _ in stores]
    damages: list[tuple[int, Exception]] = []
    is_known = next_version == 0
    for step in on_disk.replay(next_version):
        for store, of_store in zip(stores, versions):
            num_keys = step.state.num_keys(store.family.get(partition, b"")) if step.state else None
            of_store.append(VersionFiles(step.version, on_disk.versions[step.version], num_keys))
        if step.damage is not None:
            damages.append((step.version, step.damage))
        if step.version == next_version and step.state is not None:
            is_known = True
            shown = [_with_rows(s, step.version, store, step.state, where, findings) for s, store in zip(shown, stores)]
    if not is_known:
        error = findings.errors[where] = on_disk.why_not_loaded(next_version) or ValueError("its files contradict each other")
        says = f"version {next_version}, with which the next batch begins, cannot be loaded: {error}"
        findings.append(Finding("note" if is_unread(error) else "error", where, says))
        shown = [replace(s, not_decoded=says) for s in shown]
        damages = [(version, damage) for version, damage in damages if str(damage) != str(error)]
    for version, damage in damages:
        level = "note" if version > next_version or is_unread(damage) else "warning"
        again = f" (the next batch does not read version {version})" if version > next_version else ""
        findings.append(Finding(level, where, f"{damage}{again}"))
    return [replace(s, versions=tuple(of_store)) for s, of_store in zip(shown, versions)]


def _with_rows(
    shown: StorePartition, version: int, store: StoreState, state: ReplayedState, where: str, findings: Findings
) -> StorePartition:
    entries = store.entries(shown.partition, state)
    shown = replace(shown, version=version, num_keys=len(entries), num_bytes=num_bytes(entries))
    if store.rows is None:
        return replace(shown, not_decoded=store.not_decoded or "the schema is not known")
    try:
        return replace(shown, sample=tuple(some_rows(store, shown.partition, entries, SAMPLE)))
    except DAMAGED as e:
        findings.append(Finding("note" if isinstance(e, LimitExceeded) else "error", where, str(e)))
        return replace(shown, not_decoded=str(e))


def states_ahead(operators: Sequence[StoredOperator], version: int) -> list[tuple[int, int]]:
    """(operator, version) of stores with versions after `version`."""
    newest = {
        one.operator_id: max((v.version for store in one.stores for p in store.partitions for v in p.versions), default=0)
        for one in operators
    }
    return [(i, v) for i, v in newest.items() if v > version]
