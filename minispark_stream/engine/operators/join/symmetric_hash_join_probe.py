"""The first task of a stream-stream join: which rows can be joined? It changes nothing.

Models: StreamingSymmetricHashJoinExec.processPartitions (About state: SymmetricHashJoin).

1. Late rows, and rows that fail the part of the condition that is about their own side alone, have no partners.
2. Each new row of the side that comes first meets the other side's rows in the state.
3. Each new row of the other side meets the first side's rows in the state, and then those new rows of (2) that will be stored.
   So each pair is found once.
4. The new rows are emitted, and then the pairs, in the order in which Spark would find them, a chunk at a time
   (symmetric_hash_join_partners.py). Spark filters the pairs by the rest of the join condition, and passes the others on to
   `Build`. Many new rows are put aside instead (symmetric_hash_join_aside.py).

    state     left a: (12:00)
    batch     left a: (12:01), right a: (12:03)      pairs     (12:00, 12:03), (12:01, 12:03)

The left side comes first; in a semi join, the right side does.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from minispark_stream.engine.operators.join.symmetric_hash_join_aside import put_aside
from minispark_stream.engine.operators.join.symmetric_hash_join_buffers import JoinTask
from minispark_stream.engine.operators.join.symmetric_hash_join_partners import Meetings, Positions
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Ints, NewRows, number_keys
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import Sides
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.state.state_store import StateStore


@dataclass(frozen=True, kw_only=True)
class Probe(JoinTask):
    """Receives new rows, emits new rows and pairs; calling it runs one partition (for mapInArrow).

    `filtered_by`: the positions of the columns of each side that Spark's filter reads (None: all). `may_put_aside`: whether new
    rows may be in a file.
    """

    filtered_by: tuple[Positions, Positions] = (None, None)
    may_put_aside: bool = False

    def run(
        self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]
    ) -> tuple[Iterable[pa.RecordBatch], StateMetrics]:
        """The new rows and the pairs; all that there is to report are nulls that were skipped."""
        rows, _ = self.join.read(batches)
        if rows is None:
            return [], StateMetrics()
        meetings, joining = self.meetings(rows, self.sides(stores))
        pairs = meetings.pairs(meetings.all_pairs(joining), only=self.filtered_by)
        metrics = StateMetrics(custom=self.skipped(meetings.num_nulls(joining)))
        return chain([self.handed_on(rows)], map(self.join.write_pairs, pairs)), metrics  # (4)

    def handed_on(self, rows: NewRows) -> pa.RecordBatch:
        """(4) The new rows, or, if they are many, where they have been put aside."""
        written = self.join.write(rows)
        many = self.may_put_aside and written.num_rows > self.info.conf.max_rows_in_dict
        number = put_aside(written) if many else None
        return written if number is None else self.join.write_aside(number)

    def meetings(self, rows: NewRows, sides: Sides) -> tuple[Meetings, Ints]:
        """The possible partners of the new rows, and the new rows that look for partners, in the order in which they do."""
        joins = rows.passes & ~self.join.is_late(rows, self.watermarks.late_ms)  # (1)
        first, second = (np.flatnonzero(joins & (rows.side == side)) for side in self.join.order)
        joining = np.concatenate([first, second])  # (2), (3)
        keys = number_keys(self.join.keys, rows.keys, len(rows.side))
        return Meetings(rows, keys, sides, asking=joining, new=np.flatnonzero(self.join.is_found(rows, joins))), joining
