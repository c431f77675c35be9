"""Column families: many named maps of a key in one state store, each row a state value, an element of a list or map, a timer.

Models: what RocksDBStateStoreProvider offers to transformWithState, and the range and prefix scans on it (About state;
SIGMOD'18 paper, 4.3.2: a state of the user's own).

1. A row of the store has the name of its family before the grouping key, and an element after it:
       (family, grouping key, element) -> value        element: null, a map's key, an index in a list, a timer's time
   So a batch changes all variables of a key in one version, as one file.
2. Most calls name one row: `get`, `put`, `remove`.
3. `elements` of a key (a prefix scan) and `rows` of a family (a scan) need to know which rows there are. The first of them
   reads all keys of the store into an index, which is kept up from then on.

    ("clicks", ann, null) -> 3      ("pages", ann, "/home") -> 2      ("$eventTimers", ann, 12:05) -> nothing

A family that nobody declares any more stays, as in Spark. What differs on the disk is told in transform_with_state.py.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Container

from pyspark.sql.types import BinaryType, StringType, StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, binary_row, binary_value
from minispark_stream.engine.state.state_store import StateStore

# (1)
KEY_SCHEMA = StructType().add("family", StringType()).add("groupingKey", BinaryType()).add("element", BinaryType())
VALUE_SCHEMA = StructType().add("value", BinaryType())
INTERNAL = "$"  # families of the engine's own begin with it

Element = bytes | None


class ColumnFamilies:
    """The families of one store. Keys, elements and values are bytes."""

    def __init__(self, store: StateStore):
        self._store = store
        self._index: dict[str, dict[bytes, set[Element]]] | None = None

    def get(self, family: str, key: bytes, element: Element = None) -> bytes | None:  # (2)
        return self.get_many(family, key, [element])[0]

    def get_many(self, family: str, key: bytes, elements: list[Element]) -> list[bytes | None]:
        """The values of some elements of a key; None where there is none."""
        rows = self._store.get_many([binary_row(family.encode(), key, element) for element in elements])
        return [None if row is None else binary_value(row) for row in rows]

    def put(self, family: str, key: bytes, value: bytes, element: Element = None) -> None:
        self._store.put(binary_row(family.encode(), key, element), binary_row(value))
        if self._index is not None:
            self._index.setdefault(family, {}).setdefault(key, set()).add(element)

    def remove(self, family: str, key: bytes, elements: list[Element]) -> int:
        """Remove some elements of a key; how many of them there were."""
        if self._index is not None:
            known = self._index.get(family, {})
            left = known.get(key, set()).difference(elements)
            if left:
                known[key] = left
            else:
                known.pop(key, None)
        return self._store.remove_many([binary_row(family.encode(), key, element) for element in elements])

    def elements(self, family: str, key: bytes) -> list[Element]:  # (3)
        """The elements of a key, in the order of their bytes."""
        return sorted(self._known().get(family, {}).get(key, ()), key=lambda element: element or b"")

    def rows(self, family: str) -> list[tuple[bytes, Element]]:
        """Key and element of each row of a family."""
        return [(key, element) for key, elements in self._known().get(family, {}).items() for element in elements]

    def drop(self, family: str) -> bool:
        """Remove a family; False when it had no rows."""
        rows = self.rows(family)
        for key, element in rows:
            self.remove(family, key, [element])
        return bool(rows)

    def num_rows(self, lists: Container[str] = ()) -> int:
        """How many rows there are, without those of the engine's own; the elements of a list are one row, as in RocksDB."""
        shown = {f: keys for f, keys in self._known().items() if not f.startswith(INTERNAL)}
        return sum(len(keys) if f in lists else sum(map(len, keys.values())) for f, keys in shown.items())

    def _known(self) -> dict[str, dict[bytes, set[Element]]]:
        if self._index is None:
            self._index = {}
            keys = [key for key, _ in self._store.items()]
            if keys:
                for family, key, element in zip(*(column.to_pylist() for column in UnsafeRowCodec(KEY_SCHEMA).decode(keys))):
                    self._index.setdefault(family, {}).setdefault(key, set()).add(element)
        return self._index
