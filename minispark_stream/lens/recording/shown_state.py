"""The state of an operator before and after a batch (level "rows" of the trace).

Models: nothing of Spark, which does not keep rows to show them.

1. All rows of both versions of each store are compared, as bytes.
2. Rows that differ between the versions are shown first, up to `MAX_CHANGED` of a store in a partition; then others, until
   `MAX_ROWS` rows are shown. The number of all rows (`rows`) is recorded in any case.
3. A row that the batch has put and then removed is in neither version, but in the delta of the batch (`between`). Without a
   delta, as with RocksDB unless it writes changelogs, it is not known.
4. The operator decodes the rows (`readable`).
5. If the batch has written a whole version, as with RocksDB unless it writes changelogs, `zips` says which tables it has.

    version 3    a -> 1, b -> 2                  before    a -> 1, b -> 2
    version 4    b -> 3                          after     b -> 3              rows 2
    4.delta      a -> 5, b -> 3, a removed       between   a -> 5

This reads every state file of both versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minispark_stream.engine.checkpointing.commit_log import ids_by_store
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.state.loaded_providers import get_store
from minispark_stream.engine.state.state_files import StateFiles, files_of
from minispark_stream.engine.state.state_store import StateStoreId
from minispark_stream.lens.trace.events import MAX_ROWS

MAX_CHANGED = 500  # rows of a store in a partition


def shown_state(batch: BatchContext, operator: StatefulOperator) -> dict[str, Any]:
    """The rows before `batch`, after it and between, and how many rows there are (`rows`)."""
    version = batch.batch_id
    before: list[dict[str, Any]] = []
    after: list[dict[str, Any]] = []
    between: list[dict[str, Any]] = []
    zips: list[dict[str, Any]] = []
    rows = 0
    ids = operator.state_info(batch).unique_ids, None if batch.unique_ids is None else operator.new_unique_ids(batch)
    for name in operator.store_names:
        for partition in range(operator.partitions(batch.num_partitions)):
            store_id = StateStoreId(batch.state_dir, operator.operator_id, partition, name)
            old_id, new_id = (ids_by_store(of_version, partition).get(name) for of_version in ids)
            old = _all_rows(batch, operator, store_id, version, old_id)
            new = _all_rows(batch, operator, store_id, version + 1, new_id)
            files = files_of(store_id, batch.state_conf)
            files.opens(version + 1, new_id)
            put = _put_and_removed(files, version + 1, new)  # (3)
            if tables := files.tables(version + 1):  # (5)
                zips.append({"partition": partition, "store": name, "version": version + 1, "tables": dict(tables)})
            passed = operator.without_indexes(put, batch)
            every = old.keys() | new.keys() | passed.keys()
            changed = sorted(key for key in every if old.get(key) != new.get(key) or key in passed)  # (1)
            same = sorted(key for key in old if old[key] == new.get(key))
            shown = sorted([*changed[:MAX_CHANGED], *same[: max(0, MAX_ROWS - len(changed))]])  # (2)
            rows += len(every)
            for found, of_version in ((before, old), (after, new), (between, passed)):
                entries = [(key, of_version[key]) for key in shown if key in of_version]
                found += [{"partition": partition, **row} for row in operator.readable(name, entries, batch)]  # (4)
    return {"before": before, "after": after, "between": between, "rows": rows, **({"zips": zips} if zips else {})}


def _put_and_removed(files: StateFiles, version: int, after: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    """The rows that the batch which made `version` has put and then removed."""
    put: dict[bytes, bytes] = {}
    for keys, values in files.read_delta(version) if files.has_delta(version) else ():
        put |= {bytes(key): bytes(value) for key, value in zip(keys, values) if value is not None and bytes(key) not in after}
    return put


def _all_rows(
    batch: BatchContext, operator: StatefulOperator, store_id: StateStoreId, version: int, unique_id: str | None
) -> Mapping[bytes, bytes]:
    if version == 0:
        return {}
    store = get_store(store_id, batch.state_conf, version, unique_id)
    try:
        rows = {bytes(key): bytes(value) for key, value in zip(*store.rows())}
    finally:
        store.abort()
    return operator.without_indexes(rows, batch)
