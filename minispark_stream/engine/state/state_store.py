"""The state store: versioned keys and values, one store for each operator and partition.

Models: StateStore and StateStoreProvider (About state; SIGMOD'18 paper, section 6.1).

A stateful operator keeps what it must remember from batch to batch in a store: a map from key bytes to value bytes (UnsafeRows)
that has versions. Batch N opens version N, makes changes and commits version N + 1. What a committed batch has written never
changes, so a batch that runs again opens the same version N and writes N + 1 once more, over what it wrote the first time:
running it twice is the same as running it once.

1. `get_store(id, conf, version)` opens a version (loaded_providers.py).
2. The operator reads (`get`, `rows`, `prefix_scan`, `index`) and writes (`put`, `remove`), each for many keys in one call.
3. `commit` makes the changes version + 1; `abort` forgets them.

    store = get_store(StateStoreId("/ck/state", operator_id=0, partition_id=3), StateStoreConf(), version=7)
    store.put([key], [value])
    store.commit()                      # 8; the file is /ck/state/0/3/8.delta

This module defines stores, their ids, confs and metrics, and it knows the providers. Here, the conf `providerClass` only
decides how the files of a store are written: as state_files.py does it, or as a provider does that an extra has registered.

Differs from Spark: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

from minispark_stream.engine.checkpointing.errors import PySparkException, SparkRuntimeException
from minispark_stream.engine.checkpointing.metadata_log import is_true
from minispark_stream.engine.checkpointing.unsafe_row.rows import Table

PrefixesOf = Callable[[Sequence[bytes]], Sequence[bytes]]


class Index(Protocol):
    """A way to find entries by something other than their keys. It is given all entries once, and then each change."""

    def change(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        """Take in changed keys with their values before and after the change (None: no value). If a key comes twice, the last
        counts."""


class Found(NamedTuple):
    """The entries that a search for several prefixes or values has found; `positions` says by which of these each was found."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    positions: Table


DEFAULT_STORE_NAME = "default"
HDFS_PROVIDER = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKS_DB_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER_CLASS = "spark.sql.streaming.stateStore.providerClass"
COMPRESSION_CODEC = "spark.sql.streaming.stateStore.compression.codec"
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@dataclass(frozen=True)
class StateStoreId:
    """Identifies a store; `checkpoint_root` is the query's `state` directory (a path or URI)."""

    checkpoint_root: str
    operator_id: int
    partition_id: int
    store_name: str = DEFAULT_STORE_NAME

    def __str__(self) -> str:
        return f"StateStoreId[ operatorId={self.operator_id}, partitionId={self.partition_id}, storeName={self.store_name} ]"

    @property
    def relative_path(self) -> str:
        path = f"{self.operator_id}/{self.partition_id}"
        return path if self.store_name == DEFAULT_STORE_NAME else f"{path}/{self.store_name}"

    @property
    def location(self) -> str:
        """The directory of this store's files."""
        return f"{self.checkpoint_root}/{self.relative_path}"


NewFiles = Callable[[StateStoreId, Any], Any]  # makes a StateFiles (state_files.py) from an id and a StateStoreConf
PROVIDERS: dict[str, tuple[NewFiles | None, ...]] = {HDFS_PROVIDER: (None,)}  # one for each checkpoint format, from 1 on


def register_state_store_provider(name: str, *new_files: NewFiles) -> None:
    """Accept `name`, a class of Spark's, in the conf `stateStore.providerClass`.

    Args:
        new_files: what makes the files of a store: the first one for checkpoint format 1, the second one for format 2. Tasks
            receive them pickled, so each must be a class or function of a module.
    """
    PROVIDERS[name] = new_files


_PARSERS: Mapping[type, Callable[[str], Any]] = {bool: is_true, int: int, str: str}


def _conf(key: str, default: Any) -> Any:
    return field(default=default, metadata={"key": f"spark.sql.streaming.{key}"})


@dataclass(frozen=True)
class StateStoreConf:
    """The confs that state stores read, with Spark's defaults, and the id of the query's run.

    Because of the id, a new run does not use the stores that an earlier run has in memory (StateStoreProviderId).
    `max_shared_memory_mb` is a conf of this engine: how much memory may be taken by the tables that the workers of an executor
    share (-1: half of the machine's memory, 0: they share none). So is `max_rows_in_dict`: a store with more rows is kept in
    arrays instead of a dict. A batch of half as many rows takes the same time in both; a smaller one is faster in a dict.
    (A join also puts the new rows of a partition aside if they are more.)
    `new_files` makes the files of a store (None: as the HDFS-backed provider does).
    """

    min_deltas_for_snapshot: int = _conf("stateStore.minDeltasForSnapshot", 10)
    min_versions_to_retain: int = _conf("minBatchesToRetain", 100)
    max_versions_to_retain_in_memory: int = _conf("maxBatchesToRetainInMemory", 2)
    compression_codec: str = _conf("stateStore.compression.codec", "lz4")
    row_checksum_enabled: bool = _conf("stateStore.rowChecksum.enabled", False)
    auto_snapshot_repair_enabled: bool = _conf("stateStore.autoSnapshotRepair.enabled", True)
    auto_snapshot_repair_num_failures: int = _conf("stateStore.autoSnapshotRepair.numFailuresBeforeActivating", 1)
    auto_snapshot_repair_max_replay: int = _conf("stateStore.autoSnapshotRepair.maxChangeFileReplay", 500)
    file_checksum_enabled: bool = _conf("checkpoint.fileChecksum.enabled", True)
    changelog_checkpointing_enabled: bool = _conf("stateStore.rocksdb.changelogCheckpointing.enabled", False)
    max_shared_memory_mb: int = _conf("stateStore.maxSharedMemoryMB", -1)
    max_rows_in_dict: int = _conf("stateStore.maxRowsInDict", 1000)
    merge_operator_version: int = _conf("stateStore.rocksdb.mergeOperatorVersion", 2)
    format_validation_enabled: bool = _conf("stateStore.formatValidation.enabled", True)
    skip_nulls_for_stream_stream_joins: bool = _conf("stateStore.skipNullsForStreamStreamJoins.enabled", False)
    query_run_id: str = ""
    new_files: NewFiles | None = None

    @property
    def list_delimiter(self) -> bytes:
        """What RocksDB puts between two elements of a list."""
        return b"," if self.merge_operator_version == 1 else b""

    @staticmethod
    def from_conf(conf_get: Callable[[str], str | None], query_run_id: str = "") -> StateStoreConf:
        """Read the confs through `conf_get`, which returns None for a conf that is not set.

        Raises:
            SparkRuntimeException: nobody has registered the provider, or it does not support the checkpoint format.
        """
        provider = conf_get(PROVIDER_CLASS) or HDFS_PROVIDER
        if provider not in PROVIDERS:
            text = f"The state store provider {provider} is not supported here; set it to {' or '.join(PROVIDERS)}."
            raise state_error("UNSUPPORTED_FEATURE.STATE_STORE_PROVIDER", text, "0A000", provider=provider)
        formats = PROVIDERS[provider]
        if (file_format := int(conf_get(CHECKPOINT_FORMAT) or 1)) > len(formats):
            text = f"{provider.rpartition('.')[2]} does not support checkpointFormatVersion > {len(formats)}"
            raise state_error("STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED", text, "KD002", msg=text)
        values: dict[str, Any] = {}
        for f in fields(StateStoreConf):
            value = conf_get(f.metadata["key"]) if f.metadata else None
            if value is not None:
                values[f.name] = _PARSERS[type(f.default)](value.strip())
        values["new_files"] = formats[file_format - 1]
        return StateStoreConf(**values, query_run_id=query_run_id)


@dataclass(frozen=True)
class StateStoreMetrics:
    """What is reported of a store.

    `memory_used_bytes` counts the entries and undo records that this process keeps; `custom` has Spark's own metrics of the
    provider by their names; `unique_id` is the id of the version in checkpoint format 2.
    """

    num_keys: int
    memory_used_bytes: int
    custom: Mapping[str, int]
    unique_id: str | None = None


class LoadedFrom:
    """How a process obtained a version of a store; a trace shows this."""

    NEW = "new"  # the store is still empty
    MEMORY = "memory"  # the process had this version in memory
    TAKEN_OVER = "taken over"  # another worker had it in shared memory (large/sharing.py)
    DELTAS = "deltas"  # the process had an older version, and read the deltas after it
    FILES = "files"  # it read the newest snapshot and all deltas after that


class StateStore(Protocol):
    """One version of a store, open for the changes that make the next version."""

    version: int

    def get(self, keys: Sequence[bytes]) -> tuple[Table, Sequence[bytes]]:
        """Which of the keys have a value, and the values of those."""

    def put(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set the value of each key, in order; None removes the key, which must have a value then."""

    def remove(self, keys: Sequence[bytes]) -> int:
        """Remove those of the keys that have a value; returns how many these were."""

    def rows(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """All keys, and their values, with the changes so far."""

    def prefix_scan(self, prefixes: Sequence[bytes], prefixes_of: PrefixesOf) -> Found:
        """The entries whose keys have one of some prefixes (all different); `prefixes_of` computes the prefixes of keys."""

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:
        """The index with this name, which `make` makes at the first call.

        It stays in memory as long as the entries do, through all versions, so a batch only pays for what it changes.
        """

    @property
    def num_keys(self) -> int: ...

    def commit(self) -> int:
        """Write the next version; returns its number."""

    def abort(self) -> None:
        """The store is no longer needed; its changes are forgotten unless they were committed."""

    def metrics(self) -> StateStoreMetrics: ...


def each(found: tuple[Table, Sequence[bytes]]) -> list[bytes | None]:
    """The result of `get` as one value for each key; None for a key without a value."""
    is_there, values = found
    remaining = iter(values)
    return [next(remaining) if there else None for there in is_there]


def state_error_of(error: BaseException, words: str) -> PySparkException | None:
    """The error that `state_error` made on a worker, read from the traceback in the text of `error`; None if it is another.

    That a version cannot be loaded or written is a SparkException in Spark, and PySpark has no class for it.
    """
    found = re.findall(r"^\S*SparkRuntimeException: \[(\w*STATE_STORE[\w.]*)\] (.*?(?: SQLSTATE: \w{5})+)", words, re.M | re.S)
    if not found:
        return None
    condition, text = found[-1]  # the ones before are its causes
    kind = PySparkException if condition.startswith("CANNOT_") else SparkRuntimeException
    raised = kind(message=text, errorClass=condition, messageParameters={})
    raised.__cause__ = error
    return raised


def state_error(condition: str, text: str, sql_state: str, **parameters: object) -> SparkRuntimeException:
    """An error as Spark words it; its `str` is `[CONDITION] text SQLSTATE: xxxxx`."""
    return SparkRuntimeException(
        message=f"{text} SQLSTATE: {sql_state}",
        errorClass=condition,
        messageParameters={name: str(value) for name, value in parameters.items()},
    )
