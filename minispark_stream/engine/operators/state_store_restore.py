"""The first task of a streaming aggregation: beside the new buffers of each key, the old ones.

Models: StateStoreRestoreExec (the StructuredStreaming analysis, "About state"; SIGMOD'18 paper, section 6.1).

1. Read the new rows, one for each key: group keys and aggregation buffers.
2. Look each key up in version N of the store.
3. Emit the old rows, then the new ones. Spark merges the rows of equal keys, the old one first.

    version 3    a -> (sum 6.0, count 3)
    new rows     a, sum 10.0, count 1      b, sum 2.0, count 1
    emitted      a, sum 6.0, count 3       a, sum 10.0, count 1      b, sum 2.0, count 1

Nothing is changed: the store is open for reading only.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, chosen
from minispark_stream.engine.operators.columns import Columns
from minispark_stream.engine.operators.state_task import StatefulOperatorStateInfo, own_partition
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, StateStore


@dataclass(frozen=True, kw_only=True)
class StateStoreRestore:
    """What the task needs to know; calling it runs one partition (for mapInArrow).

    `keys` and `values` are the schemas of the state rows, `output` that of the rows that come in and leave.
    """

    info: StatefulOperatorStateInfo
    output: pa.Schema
    keys: StructType
    values: StructType

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, rows = own_partition(batches)
        with self.info.open_stores(partition, DEFAULT_STORE_NAME) as [store]:
            for batch in rows:  # (1)
                for columns in (self.old_rows(store, batch.columns, batch.num_rows), batch.columns):  # (3)
                    yield pa.RecordBatch.from_arrays(columns, schema=self.output)

    def old_rows(self, store: StateStore, new: Columns, size: int) -> Columns:
        """(2) The rows of the state that have the keys of the new rows."""
        keys = UnsafeRowCodec(self.keys).encode_rows(new[: len(self.keys)], size)
        is_there, values = store.values_of(keys)
        return state_columns(self.keys, self.values, chosen(keys, is_there), values)


def state_columns(key_schema: StructType, value_schema: StructType, keys: Sequence[bytes], values: Sequence[bytes]) -> Columns:
    """State rows as columns: group keys, then buffers."""
    return [*UnsafeRowCodec(key_schema).decode(keys), *UnsafeRowCodec(value_schema).decode(values)]
