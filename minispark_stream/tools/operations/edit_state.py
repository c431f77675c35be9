"""Rows of a checkpoint's state are removed, changed, or added: `minispark_stream state CHECKPOINT ...`, in a copy.

1. Rows are found by their key, as `inspect --key` finds them, and by conditions on their columns, in the version with which the
   next batch begins. `--delete` removes them. `--set` gives columns of their values other values. `--add` brings new rows; each
   goes into the partition that the hash of its key says.
2. New values are encoded as the engine encodes them (given_values.py).
3. In each partition that changes, this version gets a snapshot, which every restart loads; and its delta gets the changes, so
   that both say the same. Older versions stay as they are.
4. The result is inspected: it must have these rows and no others, and a restart must not fail. Then it is copied, last of all
   its `metadata`.

    version 8, {"k": "a"} -> 3, {"k": "b"} -> 5      delete a               8.snapshot: {"k": "b"} -> 5
                                                     set {"count": 0}, a    8.snapshot: {"k": "a"} -> 0, {"k": "b"} -> 5
                                                     add {"k": "c", "count": 7}                  ... and {"k": "c"} -> 7

It is refused for joins, whose stores refer to each other, and for state in RocksDB. A new operator has a place for rows once it
has run a batch: run the query on a checkpoint of its own first, for example over a file without rows.

Models: nothing of Spark, which has no such tool.
Shown by tests/unit/tools/operations/test_edit_state.py, tests/spark/test_repair.py::test_a_key_that_was_deleted_begins_anew,
tests/spark/test_repair.py::test_a_query_goes_on_from_values_that_were_set_and_rows_that_were_added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.join_stores import SIDES
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_store import StateStoreId
from minispark_stream.lens.view.words import one_line, plural
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.command import parsed_key
from minispark_stream.tools.inspection.contents import DecodedStateRow
from minispark_stream.tools.inspection.findings import SHUFFLE_PARTITIONS
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.state_reader import StoreState, wanted_columns
from minispark_stream.tools.inspection.store_versions import DeltaReader
from minispark_stream.tools.operations.given_values import EditRefused, as_columns, part, with_values
from minispark_stream.tools.operations.partition_of import NoPartition, hash_of_key
from minispark_stream.tools.operations.repartition import RepartitionRefused, hashed_columns, places
from minispark_stream.tools.operations.rollback import is_left_out, write_copy
from minispark_stream.tools.operations.scratch import scratch_of

_SHOWN = 10
_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|!=|=|<|>)\s*(.+?)\s*", re.DOTALL)
_COMPARED = {"=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}

EditedRows = dict[int, dict[bytes, bytes | None]]  # partition -> key -> value, or None: the row goes


@dataclass(frozen=True)
class StateEdit:
    """The rows that a version loses, and those that it gets. `done`: the changed checkpoint; None if nothing was changed."""

    checkpoint: str
    operator: int
    version: int
    before: tuple[DecodedStateRow, ...]
    after: tuple[DecodedStateRow, ...]
    done: str | None = None

    def __str__(self) -> str:
        lines = [f"operator {self.operator}, version {self.version}"]
        for rows, word in ((self.before, "go"), (self.after, "come")):
            if rows:
                lines.append(f"{plural(len(rows), 'row')} {word}")
                lines += [f"  partition {row.partition}: {dict(row.key)} -> {dict(row.value)}" for row in rows[:_SHOWN]]
                lines += [f"  and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
        lines.append(f"done: {self.done}" if self.done else "nothing was changed: --to COPY writes a changed copy")
        return "\n".join(map(one_line, lines))

    __repr__ = __str__


def delete_rows(checkpoint: str | Path, key: Any, where: Sequence[str] = (), **more: Any) -> StateEdit:
    """Remove rows from the state with which the next batch begins, in a copy. Without `to`, nothing is changed.

    Args:
        key: as for `CheckpointReport.find`: a mapping of some or all key columns, a list of all, or the first; {} for all rows.
        where: conditions that must all hold: `count > 100`, of a column of the key or of the value.
        more: `operator`: the id of the stateful operator (0). `to`: where to write the copy; it must not exist, or be what a
            killed call has left. `filesystem`, `max_bytes`: as for `inspect`.

    Raises:
        EditRefused: the state is of a kind that cannot be changed, or there is no such row.
        FileNotFoundError, ValueError: as from `inspect`.
    """
    return _edit(checkpoint, lambda report, store: _found(report, store, key, where, lambda rows: [None] * len(rows)), **more)


def set_values(
    checkpoint: str | Path, values: Mapping[str, Any], key: Any, where: Sequence[str] = (), **more: Any
) -> StateEdit:
    """Give columns of some rows other values; the rest as for `delete_rows`.

    Args:
        values: the new values, by the column of the value.
    """

    def change(report: CheckpointReport, store: StoreState) -> EditedRows:
        whole = _schemas(store)[1]
        schema = part(whole, values)
        new = dict(zip(schema.names, as_columns([values], schema)))
        return _found(report, store, key, where, lambda rows: with_values(whole, rows, new))

    return _edit(checkpoint, change, **more)


def add_rows(checkpoint: str | Path, rows: Iterable[Mapping[str, Any]], **more: Any) -> StateEdit:
    """Add rows, whose keys must be new; the rest as for `delete_rows`.

    Args:
        rows: the columns of key and value by their names, as JSON has them; times are texts in UTC.
    """
    given = [dict(row) for row in rows]
    if not given:
        raise EditRefused("there is no row to add")

    def change(report: CheckpointReport, store: StoreState) -> EditedRows:
        key, value = _schemas(store)
        both = StructType([*key.fields, *value.fields])
        columns = as_columns(given, part(both, both.names))
        keys = UnsafeRowCodec(key).encode(columns[: len(key.fields)])  # (2)
        new = UnsafeRowCodec(value).encode(columns[len(key.fields) :])
        if len(set(keys)) < len(keys):
            raise EditRefused("two of the rows have one key")
        number = int(report.batches[-1].conf.get(SHUFFLE_PARTITIONS, 0))
        places(report, store, number, number)  # which refuses rows that are not distributed by the hash of their keys
        schema, hashed = hashed_columns(report, store)
        changes: EditedRows = {}
        for one, row in zip(keys, new):
            partition = hash_of_key(one, schema, hashed) % number if hashed else 0
            if partition not in store.partitions:
                raise EditRefused(f"partition {partition}, into which a row belongs, is missing")
            if one in store.partitions[partition].load(report.next_version).entries:
                raise EditRefused(f"the row {given[keys.index(one)]} is there already")
            changes.setdefault(partition, {})[one] = row
        return changes

    return _edit(checkpoint, change, **more)


def _edit(
    checkpoint: str | Path, change: Callable[[CheckpointReport, StoreState], EditedRows], *, operator: int = 0,
    to: str | Path | None = None, filesystem: fs.FileSystem | None = None, max_bytes: int = 256 << 20,
) -> StateEdit:
    report = inspect(str(checkpoint), filesystem, max_bytes=max_bytes)
    store = _store(report, operator)
    try:
        changes = {partition: rows for partition, rows in change(report, store).items() if rows}
    except (NoPartition, RepartitionRefused) as e:
        raise EditRefused(str(e)) from e
    if not changes:
        raise EditRefused(f"version {report.next_version} of operator {operator} has no such row")
    before, after = (tuple(_rows(store, report.next_version, changes, new)) for new in (False, True))
    answer = StateEdit(report.path, operator, report.next_version, before, after)
    if to is None:
        return answer
    source, copy = CheckpointFileManager(str(checkpoint), filesystem), CheckpointFileManager(str(to), filesystem)
    files = ReadOnlyFiles(str(checkpoint), filesystem, Budget(max_bytes))
    with scratch_of(files, source) as folder:
        for partition, changed in changes.items():
            _write(store, partition, report.next_version, changed, folder)
        written = _store(inspect(folder, max_bytes=max_bytes), operator)  # (4)
        for partition in store.partitions:
            expected = _changed(store, partition, report.next_version, changes.get(partition, {}))
            if _changed(written, partition, report.next_version, {}) != expected:
                raise EditRefused(f"partition {partition} of the result has other rows than it should have")
        names = [name for name in ReadOnlyFiles(folder, None, Budget(max_bytes)).files if not is_left_out(name)]
        write_copy(CheckpointFileManager(folder), copy, names, None, copy, ())
    return replace(answer, done=copy.root)


def _store(report: CheckpointReport, operator: int) -> StoreState:
    stores = [store for store in report.states if store.operator_id == operator]
    if report.next.refused is not None:
        raise EditRefused(f"a restart fails: {report.next.refused}. `minispark_stream repair` comes first")
    if len(stores) != 1 or stores[0].name.partition("-")[0] in SIDES:
        raise EditRefused(f"operator {operator} has {plural(len(stores), 'store')}; only one that is alone is changed")
    if not all(isinstance(versions.reader, DeltaReader) for versions in stores[0].partitions.values()):
        raise EditRefused(f"the state of operator {operator} is in RocksDB, whose files are not written here")
    return stores[0]


def _schemas(store: StoreState) -> tuple[StructType, StructType]:
    if store.rows is None:
        raise EditRefused("the schema of the state is missing or cannot be read")
    return store.rows.key, store.rows.value


def _rows(store: StoreState, version: int, changes: EditedRows, new: bool) -> Iterable[DecodedStateRow]:
    for partition, rows in sorted(changes.items()):
        old = store.partitions[partition].load(version).entries
        values = rows if new else {key: old.get(key) for key in rows}
        yield from store.decode(partition, [(key, value) for key, value in values.items() if value is not None])


# -- (1) which rows ----------------------------------------------------------------------------------------------


def _found(
    report: CheckpointReport, store: StoreState, key: Any, where: Sequence[str],
    change: Callable[[list[bytes]], Sequence[bytes | None]],
) -> EditedRows:
    wanted = wanted_columns(key, store.key_schema)
    changes: EditedRows = {}
    for partition, versions in store.partitions.items():
        entries = versions.load(report.next_version).entries
        keys = store.keys_like(partition, list(entries), wanted)
        values = [entries[one] for one in keys]
        if where and keys:
            holds = _holding(store, keys, values, where)
            keys, values = ([one for one, yes in zip(rows, holds) if yes] for rows in (keys, values))
        changes[partition] = dict(zip(keys, change(values))) if keys else {}
    return changes


def _holding(store: StoreState, keys: list[bytes], values: list[bytes], where: Sequence[str]) -> list[bool]:
    schemas = _schemas(store)
    both = StructType([field for schema in schemas for field in schema.fields])
    columns = [column for schema, rows in zip(schemas, (keys, values)) for column in UnsafeRowCodec(schema).decode(rows)]
    holds = pa.array([True] * len(keys))
    for condition in where:
        parts = _CONDITION.fullmatch(condition)
        if parts is None or both.names.count(parts[1]) != 1:
            known = ", ".join(both.names)
            raise EditRefused(f"{condition!r} is no condition such as count > 100, of one of the columns {known}")
        [limit] = as_columns([{parts[1]: parsed_key(parts[3])}], part(both, [parts[1]]))
        holds = pc.and_(holds, pc.fill_null(_COMPARED[parts[2]](columns[both.names.index(parts[1])], limit[0]), False))
    found: list[bool] = holds.to_pylist()
    return found


# -- (3) -----------------------------------------------------------------------------------------------------------


def _changed(store: StoreState, partition: int, version: int, changed: Mapping[bytes, bytes | None]) -> dict[bytes, bytes]:
    rows = {**store.partitions[partition].load(version).entries, **changed}
    return {key: value for key, value in rows.items() if value is not None}


def _write(store: StoreState, partition: int, version: int, changed: Mapping[bytes, bytes | None], folder: str) -> None:
    reader = store.partitions[partition].reader
    assert isinstance(reader, DeltaReader)
    kept = _changed(store, partition, version, changed)
    files = StateFiles(StateStoreId(f"{folder}/state", store.operator_id, partition, store.name), reader.files.conf)
    files.write_snapshot(version, list(kept), list(kept.values()))
    if files.has_delta(version):
        files.write_delta(version, [*files.read_delta(version), (list(changed), list(changed.values()))])
