"""Column families: many named maps of a key in one state store, each row a state value, an element of a list or map, a timer.

Models: what RocksDBStateStoreProvider offers to transformWithState, and the range and prefix scans on it (About state;
SIGMOD'18 paper, 4.3.2: a state of the user's own).

1. A row of the store has the name of its family before the grouping key, and an element after it:
       (family, grouping key, element) -> value        element: null, a map's key, an index in a list, a timer's time
   So a batch changes all variables of a key in one version, as one file.
2. Most calls name one row: `get`, `put`, `remove`.
3. `elements` of a key (a prefix scan), `due` (a range scan), and the number of rows come from indexes (family_indexes.py),
   which the store keeps from batch to batch: with 50,000 timers, a batch that changes ten of them costs ten.

    ("clicks", ann, null) -> 3      ("pages", ann, "/home") -> 2      ("$eventTimers", ann, 12:05) -> nothing

A family that nobody declares any more stays, as in Spark. What differs on the disk is told in transform_with_state.py.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Container
from typing import cast

from pyspark.sql.types import BinaryType, StringType, StructType

from minispark_stream.engine.checkpointing.unsafe_row import binary_fields, binary_row
from minispark_stream.engine.state.state_store import StateStore, each
from minispark_stream.extras.transform_with_state.family_indexes import DueRows, Element, FamilyRows, TimesOf, key_fields

# (1)
KEY_SCHEMA = StructType().add("family", StringType()).add("groupingKey", BinaryType()).add("element", BinaryType())
VALUE_SCHEMA = StructType().add("value", BinaryType())
INTERNAL = "$"  # families of the engine's own begin with it


class ColumnFamilies:
    """The families of one store. Keys, elements and values are bytes."""

    def __init__(self, store: StateStore):
        self._store = store

    def get(self, family: str, key: bytes, element: Element = None) -> bytes | None:  # (2)
        return self.get_many(family, key, [element])[0]

    def get_many(self, family: str, key: bytes, elements: list[Element]) -> list[bytes | None]:
        """The values of some elements of a key; None where there is none."""
        rows = each(self._store.get([binary_row(family.encode(), key, element) for element in elements]))
        return [None if row is None else _value(row) for row in rows]

    def put(self, family: str, key: bytes, value: bytes, element: Element = None) -> None:
        self._store.put([binary_row(family.encode(), key, element)], [binary_row(value)])

    def remove(self, family: str, key: bytes, elements: list[Element]) -> int:
        """Remove some elements of a key; how many of them there were."""
        return self._store.remove([binary_row(family.encode(), key, element) for element in elements])

    def elements(self, family: str, key: bytes) -> list[Element]:  # (3)
        """The elements of a key, in the order of their bytes."""
        return sorted(self._rows().elements.get(family.encode(), {}).get(key, ()), key=lambda element: element or b"")

    def rows(self, family: str) -> list[tuple[bytes, Element]]:
        """Key and element of each row of a family."""
        by_key = self._rows().elements.get(family.encode(), {})
        return [(key, element) for key, elements in by_key.items() for element in elements]

    def due(self, family: str, times_of: TimesOf, at_ms: int) -> list[tuple[int, bytes, Element]]:
        """Time, key and element of the rows of a family whose time has come; `times_of` is always the same."""

        def times(elements: list[Element], rows: list[bytes]) -> list[int]:
            return times_of(elements, [_value(row) for row in rows])

        index = cast(DueRows, self._store.index((DueRows, family), lambda: DueRows(family.encode(), times)))
        return [(time, *key_fields(row)[1:]) for time, row in index.due(at_ms)]

    def drop(self, family: str) -> bool:
        """Remove a family; False when it had no rows."""
        rows = self.rows(family)
        for key, element in rows:
            self.remove(family, key, [element])
        return bool(rows)

    def num_rows(self, lists: Container[str] = ()) -> int:
        """How many rows there are, without those of the engine's own; the elements of a list are one row, as in RocksDB."""
        rows = self._rows()
        shown = [family for family in rows.num_rows if not family.startswith(INTERNAL.encode())]
        return sum(len(rows.elements[f]) if f.decode() in lists else rows.num_rows[f] for f in shown)

    def _rows(self) -> FamilyRows:
        return cast(FamilyRows, self._store.index(FamilyRows, FamilyRows))


def _value(row: bytes) -> bytes:
    [value] = binary_fields(row, 1)
    return value or b""
