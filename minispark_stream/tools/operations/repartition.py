"""Another number of state partitions: `minispark_stream repartition CHECKPOINT N --to COPY`, for a query that has ended.

1. It is looked at first: the last batch is committed, nothing keeps a query from starting, and each row of the state is in the
   partition that the hash of its key says (partition_of.py). Otherwise, nothing is written.
2. State of the HDFS-backed store is written here. As Spark does for RocksDB, a batch without data is added to both logs, whose
   conf has the new number; with it, a version of the state: each partition gets a snapshot with the rows that belong there.
3. State in RocksDB is given to Spark's own tool (4.2 and newer, with a session), which works on a copy.
4. The rows before and after are compared, and the result is copied, last of all its `metadata`.

    batch 7, 2 partitions      repartition 5      batch 8 in both logs, version 9: state/0/0 to state/0/4; batch 9 is next

The state of a limit, or of an aggregation without keys, stays in partition 0.

Models: OfflineStateRepartitionRunner (no document), which refuses the HDFS-backed store.
Differs from Spark: it never writes into the checkpoint itself. Spark's tool writes an offset before it refuses.
Shown by tests/unit/tools/operations/test_repartition.py,
tests/spark/test_repartition.py::test_a_query_goes_on_with_another_number_of_partitions.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyarrow import fs

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.commit_log import CommitLog
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqLog
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.state.operator_state_metadata import OperatorStateMetadata
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_store import StateStoreId
from minispark_stream.lens.view.words import one_line, plural
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.findings import SHUFFLE_PARTITIONS
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.state_reader import StoreState
from minispark_stream.tools.inspection.store_versions import DeltaReader
from minispark_stream.tools.operations.partition_of import NoPartition, hash_of_key
from minispark_stream.tools.operations.rollback import is_left_out, write_copy
from minispark_stream.tools.operations.scratch import scratch_of

IN_ONE_PARTITION = ("globalLimit",)
_LAST_IS_NOT_HASHED = ("sessionWindowStateStoreSaveExec",)  # the beginning of the session


class RepartitionRefused(ValueError):
    """The state cannot be repartitioned; the text says why."""


@dataclass(frozen=True)
class Repartition:
    """`rows`: how many rows each partition has afterwards; `by_spark`: it is not known, as Spark's own tool does the work.

    `done`: the checkpoint with the new partitions; None if nothing was changed.
    """

    checkpoint: str
    before: int
    after: int
    batch: int
    rows: Mapping[int, int]
    by_spark: bool = False
    done: str | None = None

    def __str__(self) -> str:
        lines = [f"{plural(self.before, 'partition')} become {self.after}: batch {self.batch} is added, without data"]
        lines += ["  the state is in RocksDB: Spark's own tool does it, on a copy"] if self.by_spark else []
        lines += [f"  partition {p}   {plural(n, 'row')}" for p, n in sorted(self.rows.items())]
        lines.append(f"done: {self.done}" if self.done else "nothing was changed: --to COPY writes a copy")
        return "\n".join(map(one_line, lines))

    __repr__ = __str__


def repartition(
    checkpoint: str | Path, partitions: int, *, to: str | Path | None = None, spark: Any = None,
    filesystem: fs.FileSystem | None = None, max_bytes: int = 256 << 20,
) -> Repartition:
    """Give the state of a checkpoint another number of partitions, in a copy. Without `to`, nothing is changed.

    Args:
        to: where to write the copy. It must not exist, or be what a killed call has left.
        spark: a session of Spark 4.2 or newer, for state in RocksDB.
        filesystem, max_bytes: as for `inspect`.

    Raises:
        RepartitionRefused: the state cannot be repartitioned.
        FileNotFoundError, ValueError: as from `inspect`.
    """
    report = inspect(str(checkpoint), filesystem, max_bytes=max_bytes)
    before = _checked(report, partitions)
    batch = report.batches[-1].batch_id + 1
    in_files = all(isinstance(v.reader, DeltaReader) for store in report.states for v in store.partitions.values())
    found = [places(report, store, before, partitions) for store in report.states] if in_files else []
    rows = Counter(p for of_store in found for p in of_store.values())
    answer = Repartition(report.path, before, partitions, batch, rows, not in_files)
    if to is None:
        return answer
    if not in_files and spark is None:
        raise RepartitionRefused("the state is in RocksDB, which Spark's own tool repartitions: a session of Spark is needed")
    source, copy = CheckpointFileManager(str(checkpoint), filesystem), CheckpointFileManager(str(to), filesystem)
    files = ReadOnlyFiles(str(checkpoint), filesystem, Budget(max_bytes))
    with scratch_of(files, source) as folder:
        if in_files:
            _write(report, folder, found, before, partitions)  # (2)
        else:
            spark._streamingCheckpointManager.repartition(folder, partitions)  # (3)
        after = inspect(folder, max_bytes=max_bytes)
        if after.next.refused is not None or _all_rows(after) != _all_rows(report):
            raise RepartitionRefused(f"the result has other rows, or no query can start on it: {after.next.says}")
        names = [name for name in ReadOnlyFiles(folder, None, Budget(max_bytes)).files if not is_left_out(name)]
        write_copy(CheckpointFileManager(folder), copy, names, None, copy, ())  # (4)
    return replace(answer, done=copy.root)


def _checked(report: CheckpointReport, partitions: int) -> int:  # (1)
    """The number of partitions until now."""
    if report.next.refused is not None:
        raise RepartitionRefused(f"a restart fails: {report.next.refused}. `minispark_stream repair` comes first")
    if not report.batches or not report.batches[-1].committed:
        raise RepartitionRefused("the last batch is not committed: let the query end with availableNow first")
    if not report.states:
        raise RepartitionRefused("the query has no state")
    before = int(report.batches[-1].conf.get(SHUFFLE_PARTITIONS, 0))
    if partitions < 1 or partitions == before:
        raise RepartitionRefused(f"the state has {plural(before, 'partition')}; it can get another number of 1 or more")
    return before


def hashed_columns(report: CheckpointReport, store: StoreState) -> tuple[StructType, int]:
    """The schema of the keys, and how many of its columns, the first ones, decide on the partition of a row."""
    operator = next(one for one in report.operators if one.operator_id == store.operator_id)
    schema = store.key_schema
    if operator.name is None or schema is None:
        raise RepartitionRefused(f"the metadata or the schema of operator {store.operator_id} is missing")
    at_end = store.name.endswith("keyWithIndexToValue") or operator.name in _LAST_IS_NOT_HASHED
    return schema, 0 if operator.name in IN_ONE_PARTITION else len(schema.fields) - at_end


def places(report: CheckpointReport, store: StoreState, before: int, after: int) -> dict[bytes, int]:
    """The new partition of each key. Raises RepartitionRefused, also if a row is not where the hash of its key puts it."""
    schema, columns = hashed_columns(report, store)
    found = {}
    for partition, versions in store.partitions.items():
        for key in store.entries(partition, versions.load(report.next_version)) if partition < before else ():
            try:
                hashed = hash_of_key(key, schema, columns) if columns else 0
            except NoPartition as e:
                raise RepartitionRefused(f"operator {store.operator_id}: {e}") from e
            if hashed % before != partition:
                raise RepartitionRefused(
                    f"operator {store.operator_id} has a row in partition {partition} that the hash of its key puts into "
                    "another one: its rows are distributed in another way"
                )
            found[key] = hashed % after
    return found


def _write(report: CheckpointReport, folder: str, found: Sequence[Mapping[bytes, int]], before: int, after: int) -> None:
    last = report.batches[-1].batch_id
    offsets, commits = OffsetSeqLog(f"{folder}/offsets"), CommitLog(f"{folder}/commits")
    entry, commit = offsets.get(last), commits.get(last)
    assert entry is not None and entry.metadata is not None and commit is not None
    for store, place in zip(report.states, found):
        some = next(iter(store.partitions.values())).reader
        assert isinstance(some, DeltaReader)
        gone: dict[int, list[bytes]] = {p: [] for p in store.partitions if p < before}
        rows: list[dict[bytes, bytes]] = [{} for _ in range(after)]
        for old in gone:
            for key, value in store.entries(old, store.partitions[old].load(last + 1)).items():
                rows[place[key]][key] = value
                if place[key] != old:
                    gone[old].append(key)
        for partition, there in enumerate(rows):
            files = StateFiles(StateStoreId(f"{folder}/state", store.operator_id, partition, store.name), some.files.conf)
            files.manager.mkdirs()
            keys, values = list(there), list(there.values())
            if partition in gone:
                left = gone[partition]
                files.write_delta(last + 2, [(left, [None] * len(left)), (keys, values)])
            files.write_snapshot(last + 2, keys, values)
        for partition in [p for p in store.partitions if p >= after]:
            shutil.rmtree(f"{folder}/state/{store.operator_id}/{partition}", ignore_errors=True)
    state = CheckpointFileManager(f"{folder}/state")
    for operator in report.operators:
        name = f"{operator.operator_id}/_metadata/metadata"
        metadata = OperatorStateMetadata.from_text(state.open(name).decode())
        stores = tuple(replace(one, num_partitions=after) for one in metadata.stores)
        state.create_atomic(name, replace(metadata, stores=stores).to_text().encode(), overwrite=True)
    conf = {**entry.metadata.conf, SHUFFLE_PARTITIONS: str(after)}
    offsets.add(last + 1, replace(entry, metadata=replace(entry.metadata, conf=conf)))
    commits.add(last + 1, commit)


def _all_rows(report: CheckpointReport) -> dict[tuple[int, str], list[tuple[bytes, bytes]]]:
    """The rows of the next batch, wherever they are."""
    number = int(report.batches[-1].conf.get(SHUFFLE_PARTITIONS, 0))
    return {
        (store.operator_id, store.name): sorted(
            pair for p, versions in store.partitions.items() if p < number
            for pair in store.entries(p, versions.load(report.next_version)).items()
        )
        for store in report.states
    }
