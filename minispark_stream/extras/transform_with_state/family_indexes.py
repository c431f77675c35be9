"""What column families are found by: their rows by grouping key, and rows by the time at which they are due.

Models: the prefix scans of column families, and the secondary indexes of timers and of state with a ttl (About state).

1. `FamilyRows` has the elements of each grouping key of each family, and the number of rows.
2. `DueRows` has the rows of one family by their time. Each time has its rows; the earliest times are at the top of a heap, in
   which a time may stay that has no rows any more.

    rows     ("$eventTimers", ann, 12:05)   ("$eventTimers", bob, 12:05)   ("$eventTimers", ann, 12:09)
    heap     12:05, 12:09                   rows_at 12:05: ann, bob        due(12:07): ann and bob at 12:05

The state store keeps both up to date, from batch to batch, so that they cost what changes. A process that loads the store makes
them anew.

Differs from Spark: RocksDB has its rows in order, and Spark keeps the index of a ttl as rows of the state; here nothing of the
index is on the disk.
Shown by tests/unit/extras/transform_with_state/test_column_families.py::test_rows_that_are_due_are_found_without_the_others.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence

from minispark_stream.engine.checkpointing.unsafe_row import binary_fields

Element = bytes | None
TimesOf = Callable[[list[Element], list[bytes]], list[int]]  # of rows, given their elements and values: milliseconds


def key_fields(row: bytes) -> tuple[bytes, bytes, Element]:
    """Family, grouping key and element, of a key in the store."""
    family, key, element = binary_fields(row, 3)
    return family or b"", key or b"", element


class FamilyRows:
    """(1) `elements`: by family and grouping key. `num_rows`: by family."""

    def __init__(self) -> None:
        self.elements: dict[bytes, dict[bytes, set[Element]]] = {}
        self.num_rows: Counter[bytes] = Counter()

    def change(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        for row, was, now in zip(keys, before, after):
            if (was is None) == (now is None):
                continue
            family, key, element = key_fields(row)
            of_family = self.elements.setdefault(family, {})
            elements = of_family.setdefault(key, set())
            self.num_rows[family] += (element not in elements) if now is not None else -(element in elements)
            if now is not None:
                elements.add(element)
            else:
                elements.discard(element)
                if not elements:
                    del of_family[key]


class DueRows:
    """(2) The rows of one family by their times."""

    def __init__(self, family: bytes, times_of: TimesOf):
        self._family, self._times_of = family, times_of
        self._time_of: dict[bytes, int] = {}
        self._rows_at: dict[int, dict[bytes, None]] = {}
        self._heap: list[int] = []

    def change(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        elements: dict[bytes, Element] = {}
        values: dict[bytes, bytes | None] = {}
        for row, now in zip(keys, after):
            family, _, element = key_fields(row)
            if family == self._family:
                elements[row], values[row] = element, now
        for row in values:
            self._remove(row)
        left = {row: value for row, value in values.items() if value is not None}
        if left:
            for row, time in zip(left, self._times_of([elements[row] for row in left], list(left.values()))):
                self._add(row, time)

    def due(self, at_ms: int) -> list[tuple[int, bytes]]:
        """Time and key of the rows whose time has come, the earliest first; they stay until they are removed."""
        due: list[int] = []
        while self._heap and self._heap[0] <= at_ms:
            time = heapq.heappop(self._heap)
            if time in self._rows_at and due[-1:] != [time]:
                due.append(time)
        for time in due:
            heapq.heappush(self._heap, time)
        return [(time, row) for time in due for row in self._rows_at[time]]

    def _add(self, row: bytes, time: int) -> None:
        if time not in self._rows_at:
            self._rows_at[time] = {}
            heapq.heappush(self._heap, time)
        self._rows_at[time][row] = None
        self._time_of[row] = time

    def _remove(self, row: bytes) -> None:
        time = self._time_of.pop(row, None)
        if time is None:
            return
        del self._rows_at[time][row]
        if not self._rows_at[time]:
            del self._rows_at[time]
        if len(self._heap) > 2 * len(self._rows_at) + 100:  # most of them have no rows any more
            self._heap = sorted(self._rows_at)
