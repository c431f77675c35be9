"""What the first batch of a restart needs of the state: that it is there, fits the query's operators, and can be loaded.

Models: IncrementalExecution (its checks of metadata and schemas), StateStoreProvider.getStore, as far as they refuse.

1. If state/ is missing or empty, a query with stateful operators is refused. Whether it has any is known if the folder is
   there, if commits of checkpoint format 2 name its state, or if it ran a batch without data, which no other query does
   outside of real-time mode. If it has a watermark, this cannot be told. Without one, nothing on the disk tells a count whose
   state/ was deleted from a query that never had any: both logs have the same confs. Then no failure is foretold, and the
   answer says under which condition there is one; otherwise, every healthy checkpoint without state would be one of which
   nothing is known.
2. Metadata and schemas of the operators must be readable. If metadata of version 1 is not, the operators are not compared.
3. The logged formats of aggregations and joins decide which columns a state has. What a log lacks was written in format 1.
   Without schema and metadata, state is older than Spark 3.1: whether its values fit is known only if they are small.
4. Version N of every store is loaded, in as many partitions as the log says; only one, if there is no grouping key.

    batch 4, 2 partitions, state/0/1/3.delta missing      CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from minispark_stream.engine.checkpointing.checkpoint_file_manager import canonical_number
from minispark_stream.engine.checkpointing.join_stores import SIDES
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.state.state_store import HDFS_PROVIDER, PROVIDER_CLASS, ROCKS_DB_PROVIDER, StateStoreId
from minispark_stream.tools.inspection.contents import FIRST, Reasons, Refusal, StoredOperator, Unknown
from minispark_stream.tools.inspection.logs import Logs
from minispark_stream.tools.inspection.operators import FoundOperators
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles, is_unread
from minispark_stream.tools.inspection.restart.of_logs import (
    AGGREGATION_FORMAT,
    JOIN_FORMAT,
    PARTITIONS,
    confs_of,
    may_be_real_time,
    words,
)
from minispark_stream.tools.inspection.state_reader import StoreState
from minispark_stream.tools.inspection.store_versions import DAMAGED

NO_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
NOT_THERE = {
    HDFS_PROVIDER: "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS",
    ROCKS_DB_PROVIDER: "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE",
}
TOO_NEW = "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION"
WORD = 8  # bytes of a number in a row, and of what says which of its values are null
MOST_WORDS = 2  # of a value beside its key, that cannot be a sum of decimals or a statistic
OTHER_VALUE = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"


def of_state(files: ReadOnlyFiles, logs: Logs, found: FoundOperators, version: int) -> Reasons:
    """Why batch `version` cannot begin with its state."""
    if version == 0:
        return
    if "state" in files.files:
        yield Refusal(FIRST, "state", "it is a file", message="Parent path is not a directory")
    if not has_state(files):
        yield from _missing(files, logs)
        return
    confs = confs_of(logs.last_offsets)
    on_disk = ROCKS_DB_PROVIDER if any(one.provider == "RocksDB" for one in found.operators) else HDFS_PROVIDER
    provider = confs.get(PROVIDER_CLASS, on_disk)
    if provider not in NOT_THERE:
        yield Unknown("state", f"it is kept by {provider[:200]}, which this command does not know")
        return
    newest = max(logs.commits, default=None)
    if newest is not None and (commit := logs.commits[newest]) is not None and commit.state_unique_ids is not None:
        if provider == HDFS_PROVIDER and found.operators:
            says = "it is in checkpoint format 2, which the HDFS-backed store does not have"
            yield Refusal(FIRST, f"commits/{newest}", says, "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED")
    for operator in found.operators:
        yield from _of_files(files, found.errors, operator)  # (2)
        yield from _formats(operator, confs)  # (3)
    old = {operator.operator_id for operator in found.operators if operator.name is None}
    for store in found.stores:
        if store.operator_id in old and store.rows is None and store.not_decoded is None:
            yield from _without_schema(store, version, confs)
    if provider != on_disk:  # (4)
        says = f"the log says {provider.rpartition('.')[2]}, but these are files of {on_disk.rpartition('.')[2]}"
        yield Refusal(FIRST, "state", says, NOT_THERE[provider])
    for number in range(max((one.operator_id for one in found.folders), default=0)):
        if f"state/{number}" not in files.folders:
            yield Refusal(FIRST, f"state/{number}", "the state of this operator is missing", NOT_THERE[provider])
    for folders in found.folders:
        for partition in range(num_partitions(folders.key, folders.partitions, canonical_number(confs.get(PARTITIONS, "")))):
            where = folders.of(partition)
            if (error := found.errors.get(where)) is not None:
                yield _refused(files, where, error, getattr(error, "condition", None))
            elif partition not in folders.partitions:
                says = f"it is missing: batch {version} begins with version {version} in every partition"
                yield Refusal(FIRST, where, says, NOT_THERE[provider])


def has_state(files: ReadOnlyFiles) -> bool:
    """Whether there is anything in state/."""
    return any(name.startswith("state/") for name in (*files.files, *files.folders))


def _missing(files: ReadOnlyFiles, logs: Logs) -> Reasons:  # (1)
    says = "it is missing or empty, although the query has stateful operators: {}"
    if "state" in files.folders:
        yield Refusal(FIRST, "state", "it is empty; only a query with stateful operators has this folder", NO_STATE)
    batches = [entry for _, entry in sorted(logs.offsets.items()) if entry is not None]
    if any(commit is not None and commit.state_unique_ids for commit in logs.commits.values()):
        yield Refusal(FIRST, "state", says.format("the commits name their state"), NO_STATE)
    elif not (logs.commits and may_be_real_time(logs)) and any(a.by_id() == b.by_id() for a, b in zip(batches, batches[1:])):
        yield Refusal(FIRST, "state", says.format("it has run a batch without data"), NO_STATE)
    elif any(commit is not None and commit.next_batch_watermark_ms > 0 for commit in logs.commits.values()):
        says = f"it is missing. If the query does anything with its watermark, a restart fails: [{NO_STATE}]"
        yield Unknown("state", says)


def _of_files(files: ReadOnlyFiles, errors: Mapping[str, Exception], operator: StoredOperator) -> Reasons:
    folder = f"state/{operator.operator_id}"
    has_families = any(name.startswith(f"{folder}/_stateSchema/") for name in files.files)
    metadata = [name for name in files.files if name.startswith(f"{folder}/_metadata/v2/")]
    if has_families and not metadata:
        says = "the metadata of the operator is missing"
        yield Refusal(FIRST, f"{folder}/_metadata/v2", says, "STDS_FAILED_TO_READ_OPERATOR_METADATA")
    for where, error in errors.items():
        of_operator = where.startswith(f"{folder}/")
        if of_operator and where.endswith("/_metadata/schema"):
            yield _refused(files, where, error, TOO_NEW if "unsupported schema version" in str(error) else None)
        elif of_operator and ("/_stateSchema/" in where or "/_metadata/v2/" in where):
            yield _refused(files, where, error, None)
    for store in {store.name for store in operator.stores}:
        schema = f"state/{StateStoreId('', operator.operator_id, 0, store).relative_path}/_metadata/schema"
        if schema in files.folders:
            yield Refusal(FIRST, schema, "it is a folder", message="(Is a directory)")


def _formats(operator: StoredOperator, confs: Mapping[str, str]) -> Reasons:
    for store in operator.stores:
        if not store.schemas:
            continue
        key, value = (schema.names for schema in (store.schemas[0].key, store.schemas[0].value))
        where = f"state/{operator.operator_id}"
        if operator.name == "stateStoreSave" and confs.get(AGGREGATION_FORMAT, "1") == "1" and value[: len(key)] != key:
            says = "the log says format 1 of an aggregation, which keeps the keys in the values, too; these values lack them"
            yield Refusal(FIRST, where, says, OTHER_VALUE)
        if store.name.endswith("-keyWithIndexToValue") and confs.get(JOIN_FORMAT, "1") == "1" and value[-1:] == ["matched"]:
            yield Refusal(FIRST, where, "the log says format 1 of a join, but its state is in format 2", OTHER_VALUE)


def _without_schema(store: StoreState, version: int, confs: Mapping[str, str]) -> Reasons:
    """State of a Spark before 3.1, in which the values of some aggregates had another form."""
    where = f"state/{store.operator_id}"
    if store.name.partition("-")[0] in SIDES:
        if confs.get(JOIN_FORMAT, "1") == "1":
            says = "the log says format 1 of a join, for which no schema is written any more"
            yield Refusal(FIRST, where, says, message="Unsupported schema writer version: 1")
        return
    for on_disk in store.partitions.values():
        try:
            entries = on_disk.load(version).entries
        except DAMAGED:
            continue  # said already
        has_keys = confs.get(AGGREGATION_FORMAT, "1") == "1"
        if any(len(value) - (len(key) if has_keys else WORD) > MOST_WORDS * WORD for key, value in entries.items()):
            yield Unknown(where, "it is older than Spark 3.1; sums of decimals and statistics have another form since then")
            return


def _refused(files: ReadOnlyFiles, where: str, error: Exception, condition: str | None) -> Refusal | Unknown:
    says = words(files, where, error)
    return Unknown(where, says) if is_unread(error) else Refusal(FIRST, where, f"cannot be loaded: {says}", condition)


def num_partitions(key: StructType | None, there: Collection[int], logged: int | None) -> int:
    """In how many partitions a batch opens a store. Without a grouping key, all rows are in partition 0.

    Args:
        key: the schema of its keys; None if it is not known.
        there: the partitions that exist.
        logged: what the offset log says.
    """
    if key is None:
        is_global = set(there) == {0}
    else:
        is_global = all(f.dataType.typeName() == "void" or f.name == "sessionStartTime" for f in key.fields)
    return 1 if is_global else logged if logged is not None else max(there, default=0) + 1
