"""Indexes of the keys of column families: by their first row, and by the time at which they are due.

Models: the prefix scans and range scans of column families (About state).

1. A key of a family for scans consists of two rows (extras/rocksdb/key_encoding.py). `FamilyIndex` has the keys of each first
   row.
2. `DueRows` has the keys of one family by their time. A heap has the earliest times at its top; a time may stay in it although
   it has no keys any more.

    keys     12:05 | ann     12:05 | bob     12:09 | ann
    heap     12:05, 12:09                    keys_at 12:05: ann, bob        due(12:07): ann and bob at 12:05

The state store keeps both up to date from batch to batch, so that only changes cost time. A process that loads the store builds
them again.

Differs from Spark: there, RocksDB keeps its keys in order.
Shown by tests/unit/extras/transform_with_state/test_column_families.py::test_rows_that_are_due_are_found_without_the_others.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from minispark_stream.extras.rocksdb.family_numbers import SIZE
from minispark_stream.extras.rocksdb.key_encoding import first_size, time_of

IndexKind = str
PLAIN, BY_PREFIX, BY_TIME = "plain", "prefix", "time"  # how the keys of a family are searched


class FamilyIndex:
    """`keys_of`: the keys by their beginning, up to the end of the first row (1). `num_rows` and `due_rows`: by family."""

    def __init__(self, kinds: Mapping[bytes, IndexKind]):
        self.keys_of: defaultdict[bytes, dict[bytes, None]] = defaultdict(dict)  # a dict as a set that keeps its order
        self.due_rows = {family: DueRows() for family, kind in kinds.items() if kind == BY_TIME}
        self.num_rows: Counter[bytes] = Counter()
        self._kinds = kinds

    def change(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        for key, was, now in zip(keys, before, after):
            if (was is None) == (now is None):
                continue
            family, is_there = key[:SIZE], now is not None
            self.num_rows[family] += 1 if is_there else -1
            kind = self._kinds.get(family)
            if kind == BY_PREFIX:
                self._change(key, is_there)
            elif kind == BY_TIME:
                self.due_rows[family].change(key, is_there)

    def _change(self, key: bytes, is_there: bool) -> None:
        begin = key[: SIZE + first_size(key, SIZE)]
        if is_there:
            self.keys_of[begin][key] = None
            return
        del self.keys_of[begin][key]
        if not self.keys_of[begin]:
            del self.keys_of[begin]


class DueRows:
    """(2) The keys of one family by their times."""

    def __init__(self) -> None:
        self._keys_at: defaultdict[int, dict[bytes, None]] = defaultdict(dict)
        self._heap: list[int] = []

    def change(self, key: bytes, is_there: bool) -> None:
        time = time_of(key[SIZE:])
        if is_there:
            if time not in self._keys_at:
                heapq.heappush(self._heap, time)
            self._keys_at[time][key] = None
            return
        del self._keys_at[time][key]
        if not self._keys_at[time]:
            del self._keys_at[time]
        if len(self._heap) > 2 * len(self._keys_at) + 100:  # most of them have no keys any more
            self._heap = sorted(self._keys_at)

    def due(self, at_ms: int) -> list[tuple[int, bytes]]:
        """Times and keys whose time has come, the earliest first; they stay until they are removed."""
        due: list[int] = []
        while self._heap and self._heap[0] <= at_ms:
            time = heapq.heappop(self._heap)
            if time in self._keys_at and due[-1:] != [time]:
                due.append(time)
        for time in due:
            heapq.heappush(self._heap, time)
        return [(time, key) for time in due for key in self._keys_at[time]]
