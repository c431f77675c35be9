"""How the sessions of a partition are kept in its store.

Models: StreamingSessionWindowStateManagerImplV1 (About state).

1. The key of a state row consists of the grouping columns without the session, and the start of the session; the value is the
   whole row. So the keys of one group's sessions differ only in the start. A key with the start 0 identifies the *group*.
2. `get_sessions` returns all sessions of some groups. It finds them by the group, which is a prefix of their keys, and does not
   look at the rest of the state.
3. `update_sessions` replaces all sessions of some groups. Old sessions that are not among the new ones, because they were
   merged into another one, are removed.

    store      (a, 12:00) -> [12:00, 12:05) count 1      (a, 12:08) -> [12:08, 12:13) count 2
    update     a: [12:00, 12:13) count 4
    store      (a, 12:00) -> [12:00, 12:13) count 4

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from minispark_stream.engine.checkpointing.unsafe_row import FixedField, UnsafeRowCodec, are_among, chosen
from minispark_stream.engine.operators.columns import WINDOW_END, WINDOW_START, Columns, Distinct, Ints, distinct, record_batch
from minispark_stream.engine.state.state_store import Found, StateStore

# Of these types, Arrow and Spark put values into the same order. (Of floating point numbers, NaN and -0.0 differ.)
SAME_ORDER = (
    BooleanType(), ByteType(), ShortType(), IntegerType(), LongType(), DateType(), TimestampType(), TimestampNTZType(),
    StringType(), BinaryType(),
)


@dataclass(frozen=True)
class StreamingSessionWindowStateManager:
    """Reads and writes the sessions in a store.

    `keys` and `values` are the schemas of its rows; `session` is the position of the session in `values`.
    """

    keys: StructType
    values: StructType
    session: int

    def groups(self, rows: Columns) -> Distinct:
        """(1) The groups of some rows."""
        return distinct(self._keys(rows, np.zeros(len(rows[0]), np.int64)))

    def order(self, rows: Columns) -> pa.Array:
        """The positions of the rows in the order of groups, and of sessions within a group: ascending, and nulls come first."""
        grouping = [column for i, column in enumerate(rows[: len(self.keys)]) if i != self.session]
        times = [pc.struct_field(rows[self.session], field) for field in (WINDOW_START, WINDOW_END)]
        by = [part for column in (*grouping, *times) for part in ([column.is_valid()] if column.null_count else []) + [column]]
        sorted_by = record_batch(by, len(rows[self.session]))
        return pc.sort_indices(sorted_by, sort_keys=[(name, "ascending") for name in sorted_by.schema.names])

    def groups_of(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """(1) The group of each state key."""
        return FixedField(len(self.keys) - 1, of=len(self.keys)).with_long(keys, 0)

    def get_sessions(self, store: StateStore, groups: Distinct) -> Found:
        """(2) The state rows of some groups."""
        return store.prefix_scan(groups.rows, self.groups_of)

    def update_sessions(self, store: StateStore, rows: Columns) -> int:
        """(3) Make `rows` all sessions of their groups; returns how many old ones were removed."""
        start, _ = session_times(rows[self.session])
        keys = self._keys(rows, start)
        old = self.get_sessions(store, distinct(self.groups_of(keys))).keys
        swallowed = store.remove(chosen(old, ~are_among(old, keys)))
        store.put(keys, UnsafeRowCodec(self.values).encode_rows(rows))
        return swallowed

    def columns(self, values: Sequence[bytes]) -> Columns:
        """State rows as columns."""
        return UnsafeRowCodec(self.values).decode(values)

    def _keys(self, rows: Columns, start: Ints) -> Sequence[bytes]:
        codec = UnsafeRowCodec(self.keys)
        grouping = [column for i, column in enumerate(rows[: len(self.keys)]) if i != self.session]
        return codec.encode_rows([*grouping, pa.array(start).cast(codec.arrow_types[-1])], len(start))


def session_times(session: pa.Array) -> tuple[Ints, Ints]:
    """The starts and ends of session windows, in microseconds."""
    if session.null_count:
        raise ValueError("A session window is null: it cannot be a key of cube, rollup or grouping sets.")
    start, end = (pc.struct_field(session, field).cast(pa.int64()) for field in (WINDOW_START, WINDOW_END))
    return np.asarray(start), np.asarray(end)
