"""The first task of a streaming aggregation: put the old buffers of each key beside the new ones.

Models: StateStoreRestoreExec (the StructuredStreaming analysis, "About state"; SIGMOD'18 paper, section 6.1).

1. Read the new rows, one for each key: group keys and aggregation buffers.
2. Look up each key in version N of the store.
3. Emit the old rows, then the new ones. Spark then merges the rows of equal keys, beginning with the old one.

    version 3    a -> (sum 6.0, count 3)
    new rows     a, sum 10.0, count 1      b, sum 2.0, count 1
    emitted      a, sum 6.0, count 3       a, sum 10.0, count 1      b, sum 2.0, count 1

Nothing is changed: the task only reads the store.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.columns import record_batch
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.state_task import StateTask
from minispark_stream.engine.state.state_store import StateStore


@dataclass(frozen=True, kw_only=True)
class StateStoreRestore(StateTask):
    """The first task; calling it runs one partition (for mapInArrow).

    `keys` and `values` are the schemas of the state rows; `output` is the schema of the rows that come in and leave.
    """

    keys: StructType
    values: StructType

    def run(
        self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]
    ) -> tuple[Iterable[pa.RecordBatch], StateMetrics]:
        """The old and new rows, for one batch of new rows after the other; there is nothing to report."""
        [store] = stores
        some = (new for new in batches if new.num_rows)
        return chain.from_iterable((self.old_rows(store, new), new) for new in some), StateMetrics()  # (1), (3)

    def old_rows(self, store: StateStore, new: pa.RecordBatch) -> pa.RecordBatch:
        """(2) The rows of the state that have the keys of the new rows."""
        keys = new.columns[: len(self.keys)]
        is_there, values = store.get(UnsafeRowCodec(self.keys).encode_rows(keys, new.num_rows))
        known = [key.filter(pa.array(is_there)) for key in keys]
        return record_batch([*known, *UnsafeRowCodec(self.values).decode(values)], len(values))


def state_rows(
    key_schema: StructType, value_schema: StructType, keys: Sequence[bytes], values: Sequence[bytes]
) -> pa.RecordBatch:
    """State rows as a record batch: group keys, then buffers."""
    return record_batch([*UnsafeRowCodec(key_schema).decode(keys), *UnsafeRowCodec(value_schema).decode(values)], len(keys))
