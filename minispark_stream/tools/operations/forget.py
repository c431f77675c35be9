"""Remove keys from the state of a checkpoint: `minispark_stream state CHECKPOINT --delete KEY`, in a copy.

1. The keys are found as `inspect --key` finds them, in the version with which the next batch begins.
2. In each partition that has some, this version gets a snapshot without them, which every restart loads; and its delta removes
   them, so that both say the same. Older versions stay as they are.
3. The result is copied, last of all its `metadata`.

    version 8, {"k": "a"} -> 3, {"k": "b"} -> 5      --delete a      8.snapshot: {"k": "b"} -> 5

It is refused for joins, whose stores refer to each other, and for state in RocksDB.

Models: nothing of Spark, which has no such tool.
Shown by tests/unit/tools/operations/test_forget.py, tests/spark/test_repair.py::test_a_key_that_was_deleted_begins_anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyarrow import fs

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.join_stores import SIDES
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_store import StateStoreId
from minispark_stream.lens.view.words import one_line, plural
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.contents import StateRow
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.state_reader import StoreState, wanted_columns
from minispark_stream.tools.inspection.store_versions import DeltaReader
from minispark_stream.tools.operations.rollback import is_left_out, write_copy
from minispark_stream.tools.operations.scratch import scratch_of

_SHOWN = 10


class ForgetRefused(ValueError):
    """The keys cannot be removed; the text says why."""


@dataclass(frozen=True)
class Forgotten:
    """The rows that are removed from a version. `done`: the checkpoint without them; None if nothing was changed."""

    checkpoint: str
    operator: int
    version: int
    rows: tuple[StateRow, ...]
    done: str | None = None

    def __str__(self) -> str:
        lines = [f"operator {self.operator}, version {self.version}: {plural(len(self.rows), 'row')} go"]
        lines += [f"  partition {row.partition}: {dict(row.key)} -> {dict(row.value)}" for row in self.rows[:_SHOWN]]
        lines += [f"  and {len(self.rows) - _SHOWN} more"] if len(self.rows) > _SHOWN else []
        lines.append(f"done: {self.done}" if self.done else "nothing was changed: --to COPY writes a copy without them")
        return "\n".join(map(one_line, lines))

    __repr__ = __str__


def forget(
    checkpoint: str | Path, key: Any, *, operator: int = 0, to: str | Path | None = None,
    filesystem: fs.FileSystem | None = None, max_bytes: int = 256 << 20,
) -> Forgotten:
    """Remove keys from the state with which the next batch begins, in a copy. Without `to`, nothing is changed.

    Args:
        key: as for `CheckpointReport.find`: a mapping of some or all key columns, a list of all, or the first column.
        operator: the id of the stateful operator.
        to: where to write the copy. It must not exist, or be what a killed call has left.
        filesystem, max_bytes: as for `inspect`.

    Raises:
        ForgetRefused: the state is of a kind that cannot be changed, or no row has such a key.
        FileNotFoundError, ValueError: as from `inspect`.
    """
    report = inspect(str(checkpoint), filesystem, max_bytes=max_bytes)
    store = _store(report, operator)
    rows = report.find(key, operator)  # (1)
    if not rows:
        raise ForgetRefused(f"version {report.next_version} of operator {operator} has no row with this key")
    answer = Forgotten(report.path, operator, report.next_version, rows)
    if to is None:
        return answer
    source, copy = CheckpointFileManager(str(checkpoint), filesystem), CheckpointFileManager(str(to), filesystem)
    files = ReadOnlyFiles(str(checkpoint), filesystem, Budget(max_bytes))
    with scratch_of(files, source) as folder:
        wanted = wanted_columns(key, store.key_schema)
        for partition in sorted({row.partition for row in rows}):
            _remove(store, partition, report.next_version, wanted, folder)
        names = [name for name in ReadOnlyFiles(folder, None, Budget(max_bytes)).files if not is_left_out(name)]
        write_copy(CheckpointFileManager(folder), copy, names, None, copy, ())  # (3)
    return replace(answer, done=copy.root)


def _store(report: CheckpointReport, operator: int) -> StoreState:
    stores = [store for store in report.states if store.operator_id == operator]
    if report.next.refused is not None:
        raise ForgetRefused(f"a restart fails: {report.next.refused}. `minispark_stream repair` comes first")
    if len(stores) != 1 or stores[0].name.partition("-")[0] in SIDES:
        raise ForgetRefused(f"operator {operator} has {plural(len(stores), 'store')}; only one that is alone is changed")
    if not all(isinstance(versions.reader, DeltaReader) for versions in stores[0].partitions.values()):
        raise ForgetRefused(f"the state of operator {operator} is in RocksDB, whose files are not written here")
    return stores[0]


def _remove(store: StoreState, partition: int, version: int, wanted: Mapping[str, Any], folder: str) -> None:  # (2)
    reader = store.partitions[partition].reader
    assert isinstance(reader, DeltaReader)
    entries = store.partitions[partition].load(version).entries
    gone = store.keys_like(partition, list(entries), wanted)
    kept = {key: value for key, value in entries.items() if key not in set(gone)}
    files = StateFiles(StateStoreId(f"{folder}/state", store.operator_id, partition, store.name), reader.files.conf)
    files.write_snapshot(version, list(kept), list(kept.values()))
    if files.has_delta(version):
        files.write_delta(version, [*files.read_delta(version), (gone, [None] * len(gone))])
