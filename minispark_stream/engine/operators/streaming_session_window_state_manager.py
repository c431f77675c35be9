"""The sessions of one partition as its store keeps them.

Models: StreamingSessionWindowStateManagerImplV1 (About state).

1. The key of a state row is the grouping columns without the session, then the start of the session; the value is the whole
   row. So sessions of one group have keys that differ in the start only. With 0 there, the key is the *group*.
2. `get_sessions`: all sessions of some groups. They are found by the group, a prefix of their keys; the rest of the state is
   not looked at.
3. `update_sessions`: the sessions of some groups are now these. Those that are there no longer (another one has swallowed them)
   are removed.

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
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import FixedField, UnsafeRowCodec, as_arrow, chosen, rows_of
from minispark_stream.engine.operators.columns import WINDOW_END, WINDOW_START, Columns, Distinct, Ints, distinct
from minispark_stream.engine.state.state_store import Found, StateStore


@dataclass(frozen=True)
class StreamingSessionWindowStateManager:
    """Reads and writes the sessions of a store.

    `keys` and `values` are the schemas of its rows; `session` is the position of the session in `values`.
    """

    keys: StructType
    values: StructType
    session: int

    def groups(self, rows: Columns) -> Distinct:
        """(1) The groups of some rows."""
        return distinct(self._keys(rows, np.zeros(len(rows[0]), np.int64)))

    def groups_of(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """(1) The group of each state key."""
        return FixedField(len(self.keys) - 1, of=len(self.keys)).with_long(keys, 0)

    def get_sessions(self, store: StateStore, groups: Distinct) -> Found:
        """(2) The state rows of some groups."""
        return store.prefix_scan(rows_of(groups.rows), self.groups_of)

    def update_sessions(self, store: StateStore, rows: Columns) -> int:
        """(3) `rows` are all sessions of their groups. Returns how many others were removed."""
        start, _ = session_times(rows[self.session])
        keys = self._keys(rows, start)
        old = self.get_sessions(store, self.groups(rows)).keys
        is_kept = np.asarray(pc.is_in(as_arrow(old), keys))
        swallowed = store.remove(chosen(old, ~is_kept))
        store.put(rows_of(keys), UnsafeRowCodec(self.values).encode_rows(rows))
        return swallowed

    def columns(self, values: Sequence[bytes]) -> Columns:
        """State rows as columns."""
        return UnsafeRowCodec(self.values).decode(values)

    def _keys(self, rows: Columns, start: Ints) -> pa.LargeBinaryArray:
        codec = UnsafeRowCodec(self.keys)
        grouping = [column for i, column in enumerate(rows[: len(self.keys)]) if i != self.session]
        return codec.encode_array([*grouping, pa.array(start).cast(codec.arrow_types[-1])], len(start))


def session_times(session: pa.Array) -> tuple[Ints, Ints]:
    """Start and end of session windows, in microseconds."""
    if session.null_count:
        raise ValueError("A session window is null: it cannot be a key of cube, rollup or grouping sets.")
    start, end = (pc.struct_field(session, field).cast(pa.int64()) for field in (WINDOW_START, WINDOW_END))
    return np.asarray(start), np.asarray(end)
