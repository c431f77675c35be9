"""The state variable that is a list for each grouping key.

Models: ListStateImpl and ListStateImplWithTTL, OneToManyTTLState (SIGMOD'18 paper, 4.3.2: a state of the user's own; About
state).

1. The elements of a list are one value, each with its length before it, so that an element is appended by writing it at the
   end. The number of elements is in a family of its own.
2. With a time to live, each element has its time of expiry. The earliest time of each list is in a family by key, and in a
   family by time, in which the end of the batch finds the lists with elements that have expired.

    seen: ann -> 11000000 00 row of 7 | 11000000 00 row of 8        $rowCounter_seen: ann -> 2

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState

from minispark_stream.engine.checkpointing.unsafe_row import binary_row, long_row
from minispark_stream.extras.rocksdb.changes import elements, list_of
from minispark_stream.extras.rocksdb.key_encoding import UNSAFE_ROW, at_time, unsafe_row
from minispark_stream.extras.transform_with_state.family_indexes import BY_TIME
from minispark_stream.extras.transform_with_state.state_variables import VOID, Variable, action, long_of, only_field


class ListVariable(Variable, ListState):
    kind = "List"

    def _create(self) -> None:
        ttl = bool(self.rows.ttl_ms)
        self._count = f"$count_{self.name}" if ttl else f"$rowCounter_{self.name}"
        self._waiting: list[bytes] = []
        if ttl:
            self._families.create(self._by_time, BY_TIME)
            self._families.create(f"$min_{self.name}")
        self._families.create(self._count)
        self._families.create(self.name)

    @action("checking {kind} state exists")
    def exists(self) -> bool:
        return bool(self._live())

    def get(self) -> Iterator[tuple[Any, ...]]:
        self._keyed.check_open()
        if not self.is_deleted:
            yield from map(tuple, self.rows.decode(self._live()))

    @action("updating {kind} state")
    def put(self, newState: list[tuple[Any, ...]]) -> None:
        values = self._encoded(newState)
        if not self.rows.ttl_ms:
            self._keyed.updated = 0  # Spark begins to count again from 0
        self._waiting = []
        self._replace(self._keyed.implicit_key, values)
        self._keyed.updated += len(values)

    @action("updating {kind} state")
    def appendValue(self, newState: tuple[Any, ...]) -> None:
        self._append([self.encoded(newState)])

    @action("updating {kind} state")
    def appendList(self, newState: list[tuple[Any, ...]]) -> None:
        self._append(self._encoded(newState))

    @action("clearing {kind} state")
    def clear(self) -> None:
        self._keyed.removed += len(self._elements(self._keyed.implicit_key))
        self._replace(self._keyed.implicit_key, [])

    def remove_expired(self) -> int:
        """(2) Remove the elements that have expired; returns how many there were."""
        removed = 0
        for _, row in self._families.due(self._by_time, self._keyed.now_ms):
            key = only_field(row)
            elements = self._elements(key)
            left = [row for row in elements if not self.rows.is_expired(row, self._keyed.now_ms)]
            self._replace(key, left)
            removed += len(elements) - len(left)
        return removed

    def _encoded(self, values: list[tuple[Any, ...]]) -> list[bytes]:
        encoded = [self.encoded(value) for value in values]
        if not encoded:
            raise PySparkRuntimeError(
                "[ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Illegal value provided to the State Store Cannot write empty "
                f"list values to State Store for StateName {self.name}. SQLSTATE: 42601"
            )
        return encoded

    def _live(self) -> list[bytes]:
        elements = self._elements(self._keyed.implicit_key)
        return [row for row in elements if not self.rows.is_expired(row, self._keyed.now_ms)]

    def _elements(self, key: bytes) -> list[bytes]:
        """The rows of a list."""
        self._keyed.write_what_waits()
        return elements_of(self._families.get(self.name, UNSAFE_ROW + key) or b"", self._families.delimiter)

    def _list_of(self, rows: list[bytes]) -> bytes:
        return list_of((UNSAFE_ROW + row for row in rows), self._families.delimiter)

    def _append(self, values: list[bytes]) -> None:
        if not self._waiting:
            self._keyed.wait(self._write_what_waits)
        self._waiting += values
        self._keyed.updated += len(values)

    def _write_what_waits(self) -> None:
        values, self._waiting = self._waiting, []
        if values:
            key = self._keyed.implicit_key
            self._families.append(self.name, UNSAFE_ROW + key, self._list_of(values))
            self._add_to_count(key, len(values))
            self._expires(key, values)

    def _replace(self, key: bytes, values: list[bytes]) -> None:
        """Give a list other elements; if there are none, the list is removed."""
        self._families.remove(self._count, UNSAFE_ROW + key)
        if self.rows.ttl_ms and (earliest := self._earliest(key)) is not None:
            self._forget_earliest(key, earliest)
        if not values:
            self._families.remove(self.name, UNSAFE_ROW + key)
            return
        self._families.put(self.name, UNSAFE_ROW + key, self._list_of(values))
        self._add_to_count(key, len(values))
        self._expires(key, values)

    def _add_to_count(self, key: bytes, n: int) -> None:
        counted = self._families.get(self._count, UNSAFE_ROW + key)
        before = long_of(unsafe_row(counted)) if counted else 0
        self._families.put(self._count, UNSAFE_ROW + key, UNSAFE_ROW + long_row(before + n))

    def _expires(self, key: bytes, values: list[bytes]) -> None:
        """(2) Some elements are new; one of them may be the first that expires."""
        if not self.rows.ttl_ms:
            return
        earliest, now = self._earliest(key), min(self.rows.expiries(values))
        if earliest is not None and earliest <= now:
            return
        if earliest is not None:
            self._forget_earliest(key, earliest)
        self._families.put(f"$min_{self.name}", UNSAFE_ROW + key, UNSAFE_ROW + long_row(now))
        self._families.put(self._by_time, at_time(now, binary_row(key)), VOID)

    def _earliest(self, key: bytes) -> int | None:
        found = self._families.get(f"$min_{self.name}", UNSAFE_ROW + key)
        return None if found is None else long_of(unsafe_row(found))

    def _forget_earliest(self, key: bytes, earliest: int) -> None:
        self._families.remove(f"$min_{self.name}", UNSAFE_ROW + key)
        self._families.remove(self._by_time, at_time(earliest, binary_row(key)))


def elements_of(value: bytes, delimiter: bytes) -> list[bytes]:  # (1)
    """The rows of a list's elements. Raises ValueError."""
    return [unsafe_row(element[4:]) for element in elements(value, delimiter)]
