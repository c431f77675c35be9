"""The state variables of a StatefulProcessor: a value or a map for each grouping key (for lists, see list_variable.py).

Models: ValueStateImpl, ValueStateImplWithTTL, MapStateImpl, MapStateImplWithTTL, OneToOneTTLState (SIGMOD'18 paper, 4.3.2: a
state of the user's own; About state).

1. A variable is a column family. All that it does, it does for the implicit key (keyed_families.py).
2. Its key in the family is the row of the grouping key; in a map, it is that row and the row of the user's key.
3. With a time to live (ttl), a row contains its time of expiry: the time of the batch that wrote it, plus the ttl. From then on
   nobody sees it, and it is removed at the end of the batch.
4. What has expired is found in a family whose keys begin with the time of expiry.

    key ann, ttl 60 s, batch at 12:00:00
    total.update((3,))         total: ann -> (3), expires 12:01:00         $ttl_total: 12:01:00 | ann

The keys of a map are in Spark's order: that of the bytes of their UnsafeRows.

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import MapState, ValueState

from minispark_stream.engine.checkpointing.unsafe_row import binary_fields, binary_row
from minispark_stream.extras.rocksdb.key_encoding import UNSAFE_ROW, at_time, rows_of, two_rows, unsafe_row
from minispark_stream.extras.transform_with_state.family_indexes import BY_PREFIX, BY_TIME
from minispark_stream.extras.transform_with_state.keyed_families import KeyedFamilies, Request, TupleRows

VOID = bytes([0, 1, *bytes(15)])  # a row with a null
_long = struct.Struct("<q")


def long_of(row: bytes) -> int:
    """The number in the row of one long. Raises ValueError."""
    if len(row) != 16:
        raise ValueError(f"a row of one number has 16 bytes, and not {len(row)}")
    n: int = _long.unpack_from(row, 8)[0]
    return n


def action(words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A method that is a request (Request); `words` say in Spark's words what is done."""

    def checked(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Variable, *arguments: Any, **named: Any) -> Any:
            doing = words.format(kind=self.kind_in_errors)
            if self.is_deleted:
                raise PySparkRuntimeError(f"Error {doing}: {self.kind} state {self.name} is not initialized.")
            with Request(self._keyed, doing):
                return method(self, *arguments, **named)

        return call

    return checked


class Variable:
    """What the three kinds have in common. `element` is the row by which a value of the variable is found."""

    kind: str
    kind_in_errors = "value"  # Spark says so of lists, too

    def __init__(self, keyed: KeyedFamilies, name: str, rows: TupleRows):
        self.name, self.rows, self.is_deleted = name, rows, False
        self._keyed, self._families = keyed, keyed.families
        self._create()

    def _create(self) -> None:
        """The families of the variable, in Spark's order."""
        if self.rows.ttl_ms:
            self._families.create(self._by_time, BY_TIME)
        self._families.create(self.name)  # (1)

    @property
    def _by_time(self) -> str:
        """(4) The family of the times of expiry."""
        return f"$ttl_{self.name}"

    @property
    def expires_ms(self) -> int:
        """The time at which a row that is written now expires."""
        return self._keyed.now_ms + self.rows.ttl_ms

    def encoded(self, value: Iterable[Any]) -> bytes:
        return self.rows.encode(value, self.expires_ms)

    def live(self, keys: list[bytes]) -> Iterator[tuple[bytes, Any]]:
        """Those of some keys of the family that exist and have not expired, with their values."""
        found = [(key, unsafe_row(value)) for key, value in zip(keys, self._families.get_many(self.name, keys)) if value]
        live = [(key, row) for key, row in found if not self.rows.is_expired(row, self._keyed.now_ms)]
        return zip([key for key, _ in live], self.rows.decode([row for _, row in live]))

    def write(self, element: bytes, value: bytes) -> None:
        """Put a value that was encoded now, and (4) its time of expiry. With a ttl, an unchanged row is not written again."""
        key, row = self.key_of(element), UNSAFE_ROW + value
        before = self._families.get(self.name, key) if self.rows.ttl_ms else None
        if before == row:
            return
        self._families.put(self.name, key, row)
        self._keyed.updated += 1
        if self.rows.ttl_ms and (expired_ms := self._expiry(before)) != self.expires_ms:
            self._forget_expiry(expired_ms, element)
            self._families.put(self._by_time, at_time(self.expires_ms, binary_row(element)), VOID)

    def erase(self, element: bytes) -> None:
        """Remove a value, and (4) its time of expiry. With a ttl, a value that is not there is not counted."""
        key = self.key_of(element)
        before = self._families.get(self.name, key) if self.rows.ttl_ms else None
        if self.rows.ttl_ms and before is None:
            return
        self._families.remove(self.name, key)
        self._keyed.removed += 1
        self._forget_expiry(self._expiry(before), element)

    def _expiry(self, row: bytes | None) -> int | None:
        """When a row of the family expires, if there is one with a time of expiry."""
        return None if row is None else self.rows.expiries([unsafe_row(row)])[0]

    def _forget_expiry(self, expires_ms: int | None, element: bytes) -> None:
        if expires_ms is not None:
            self._families.remove(self._by_time, at_time(expires_ms, binary_row(element)))

    def key_of(self, element: bytes) -> bytes:  # (2)
        return UNSAFE_ROW + element

    def remove_expired(self) -> int:
        """(3) Remove what has expired, for all keys; returns how many rows there were.

        As in Spark, if a key of a map was removed and put again, its value is removed when the first one expires (`removeKey`).
        """
        due = self._families.due(self._by_time, self._keyed.now_ms)
        for expires_ms, row in due:
            element = only_field(row)
            self._forget_expiry(expires_ms, element)
            self._families.remove(self.name, self.key_of(element))
        return len(due)


def only_field(row: bytes) -> bytes:
    """The struct in a row of one column."""
    [field] = binary_fields(row, 1)
    return field or b""


class ValueVariable(Variable, ValueState):
    kind = "Value"

    @action("checking {kind} state exists")
    def exists(self) -> bool:
        return self.get() is not None

    @action("getting {kind} state")
    def get(self) -> tuple[Any, ...] | None:
        return next((tuple(value) for _, value in self.live([self.key_of(self._keyed.implicit_key)])), None)

    @action("updating {kind} state")
    def update(self, newValue: tuple[Any, ...]) -> None:
        self.write(self._keyed.implicit_key, self.encoded(newValue))

    @action("clearing {kind} state")
    def clear(self) -> None:
        self.erase(self._keyed.implicit_key)


class MapVariable(Variable, MapState):
    kind = "Map"
    kind_in_errors = "map"

    def __init__(self, keyed: KeyedFamilies, name: str, rows: TupleRows, keys: TupleRows):
        super().__init__(keyed, name, rows)
        self.keys_of_map = keys

    def _create(self) -> None:
        super()._create()
        self._families.create(self.name, BY_PREFIX)

    @action("checking {kind} state exists")
    def exists(self) -> bool:
        return any(True for _ in self._all_live())

    @action("getting value")
    def getValue(self, key: tuple[Any, ...]) -> Any:
        return next((value for _, value in self.live([self.key_of(self._element(key))])), None)

    @action("checking if {kind} state contains key")
    def containsKey(self, key: tuple[Any, ...]) -> bool:
        return any(True for _ in self.live([self.key_of(self._element(key))]))

    @action("updating {kind} state value")
    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self.write(self._element(key), self.encoded(value))

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        for key, value in self._all_live():
            yield tuple(self.keys_of_map.decode([key])[0]), tuple(value)

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[tuple[Any, ...]]:
        return (value for _, value in self.iterator())

    @action("removing key from {kind} state")
    def removeKey(self, key: tuple[Any, ...]) -> None:
        """The time of expiry stays, as in Spark: when it has come, the value that the key then has is removed."""
        self._families.remove(self.name, self.key_of(self._element(key)))
        self._keyed.removed += 1

    @action("clearing {kind} state")
    def clear(self) -> None:
        for key in self._user_keys():
            self.erase(binary_row(self._keyed.implicit_key, key))

    def key_of(self, element: bytes) -> bytes:  # (2)
        key, user_key = binary_fields(element, 2)
        return two_rows(binary_row(key), binary_row(user_key))

    def _element(self, user_key: tuple[Any, ...]) -> bytes:
        return binary_row(self._keyed.implicit_key, self.keys_of_map.encode(user_key))

    def _user_keys(self) -> list[bytes]:
        return list(map(only_field, self._families.scan(self.name, binary_row(self._keyed.implicit_key))))

    def _all_live(self) -> Iterator[tuple[bytes, Any]]:
        """The rows of the user's keys, with their values."""
        self._keyed.check_open()
        if self.is_deleted:
            return
        keys = [self.key_of(binary_row(self._keyed.implicit_key, user_key)) for user_key in self._user_keys()]
        for key, value in self.live(keys):
            yield only_field(rows_of(key)[1]), value
