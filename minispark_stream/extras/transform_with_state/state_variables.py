"""The state variables of a StatefulProcessor: a value, a list or a map for each grouping key.

Models: ValueStateImpl, ListStateImpl, MapStateImpl and their ...WithTTL kin (SIGMOD'18 paper, 4.3.2: a state of the user's own;
About state).

1. A variable is a column family. All that it does, it does for the implicit key (keyed_families.py).
2. The element of a row is nothing for a value, the index for a list, and the user's key for a map.
3. With a time to live, a row has its time of expiry with it: the time of the batch that wrote it, plus the ttl. From that
   time on nobody sees it, and the end of the batch removes it.

    key ann, ttl 60 s, batch at 12:00:00     total.update((3,))     ("total", ann) -> (3), expires 12:01:00

Elements keep Spark's order: the keys of a map are ordered by the bytes of their UnsafeRows.

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState

from minispark_stream.extras.transform_with_state.family_indexes import Element
from minispark_stream.extras.transform_with_state.keyed_families import KeyedFamilies, Rows

_INDEX = struct.Struct(">q")  # big-endian, so that the order of the bytes is the order of the list


def index_of(element: bytes) -> int:
    """The index that an element of a list stands for."""
    return int(_INDEX.unpack(element)[0])


def _action(words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A method whose errors are PySparkRuntimeErrors that say what was being done; `words` is what Spark calls that.

    In Spark, what a variable does is done by the JVM, and this is the error of the worker that asked for it.
    """

    def checked(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Variable, *arguments: Any, **named: Any) -> Any:
            doing = words.format(kind=self.kind_in_errors)
            if self.is_deleted:
                raise PySparkRuntimeError(f"Error {doing}: {self.kind} state {self.name} is not initialized.")
            try:
                return method(self, *arguments, **named)
            except PySparkException as error:
                raise PySparkRuntimeError(f"Error {doing}: {error}") from error

        return call

    return checked


class Variable:
    """What the three kinds have in common: rows of the implicit key that have not expired."""

    kind: str
    kind_in_errors = "value"  # Spark says so of lists, too

    def __init__(self, keyed: KeyedFamilies, name: str, rows: Rows):
        self.name, self.rows, self.is_deleted = name, rows, False
        self._keyed = keyed

    def encoded(self, value: Iterable[Any]) -> bytes:
        return self.rows.encode(value, self._keyed.now_ms + self.rows.ttl_ms)

    def live(self, elements: list[Element]) -> Iterator[tuple[Element, Any]]:
        """Those of the elements that there are, with their values."""
        found = self._keyed.get_many(self.name, elements)
        live = [(e, row) for e, row in zip(elements, found) if row and not self.rows.is_expired(row, self._keyed.now_ms)]
        return zip([e for e, _ in live], self.rows.decode([row for _, row in live]))

    def all_live(self) -> Iterator[tuple[Element, Any]]:
        return iter(()) if self.is_deleted else self.live(self._keyed.elements(self.name))

    @_action("checking {kind} state exists")
    def exists(self) -> bool:
        return any(True for _ in self.all_live())

    def write(self, value: bytes, element: Element = None) -> None:
        self._keyed.put(self.name, value, element)  # (1)
        self._keyed.updated += 1

    @_action("clearing {kind} state")
    def clear(self) -> None:
        self._keyed.removed += self._keyed.remove(self.name, self._keyed.elements(self.name))

    def remove_expired(self) -> int:
        """(3) Remove what has expired, of all keys; how many rows that were."""
        families = self._keyed.families
        due = families.due(self.name, lambda _, values: self.rows.expiries(values), self._keyed.now_ms)
        return sum(families.remove(self.name, key, [element]) for _, key, element in due)


class ValueVariable(Variable, ValueState):
    kind = "Value"

    @_action("checking {kind} state exists")
    def exists(self) -> bool:
        return self.get() is not None

    @_action("getting {kind} state")
    def get(self) -> tuple[Any, ...] | None:
        return next((tuple(value) for _, value in self.live([None])), None)  # (2)

    @_action("updating {kind} state")
    def update(self, newValue: tuple[Any, ...]) -> None:  # noqa: N803
        self.write(self.encoded(newValue))

    @_action("clearing {kind} state")
    def clear(self) -> None:
        self._keyed.remove(self.name, [None])
        self._keyed.removed += 1


class ListVariable(Variable, ListState):
    kind = "List"

    def get(self) -> Iterator[tuple[Any, ...]]:
        for _, value in self.all_live():
            yield tuple(value)

    @_action("updating {kind} state")
    def put(self, newState: list[tuple[Any, ...]]) -> None:  # noqa: N803
        values = self._encoded(newState)
        if not self.rows.ttl_ms:
            self._keyed.updated = 0  # Spark begins to count anew
        self._keyed.remove(self.name, self._keyed.elements(self.name))
        self._append(values)

    @_action("updating {kind} state")
    def appendValue(self, newState: tuple[Any, ...]) -> None:  # noqa: N802, N803
        self._append([self.encoded(newState)])

    @_action("updating {kind} state")
    def appendList(self, newState: list[tuple[Any, ...]]) -> None:  # noqa: N802, N803
        self._append(self._encoded(newState))

    def _encoded(self, values: list[tuple[Any, ...]]) -> list[bytes]:
        encoded = [self.encoded(value) for value in values]
        if not encoded:
            raise PySparkRuntimeError(
                "[ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Illegal value provided to the State Store Cannot write empty "
                f"list values to State Store for StateName {self.name}. SQLSTATE: 42601"
            )
        return encoded

    def _append(self, values: list[bytes]) -> None:
        elements = self._keyed.elements(self.name)
        begin = index_of(elements[-1]) + 1 if elements and elements[-1] else 0
        for i, value in enumerate(values):
            self.write(value, _INDEX.pack(begin + i))  # (2)


class MapVariable(Variable, MapState):
    kind = "Map"
    kind_in_errors = "map"

    def __init__(self, keyed: KeyedFamilies, name: str, rows: Rows, keys: Rows):
        super().__init__(keyed, name, rows)
        self.keys_of_map = keys

    @_action("getting value")
    def getValue(self, key: tuple[Any, ...]) -> Any:  # noqa: N802
        return next((value for _, value in self.live([self.keys_of_map.encode(key)])), None)

    @_action("checking if {kind} state contains key")
    def containsKey(self, key: tuple[Any, ...]) -> bool:  # noqa: N802
        return any(True for _ in self.live([self.keys_of_map.encode(key)]))

    @_action("updating {kind} state value")
    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self.write(self.encoded(value), self.keys_of_map.encode(key))  # (2)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        for key, value in self.all_live():
            yield tuple(self.keys_of_map.decode([key or b""])[0]), tuple(value)

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[tuple[Any, ...]]:
        return (value for _, value in self.iterator())

    @_action("removing key from {kind} state")
    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        self._keyed.remove(self.name, [self.keys_of_map.encode(key)])
        self._keyed.removed += 1
