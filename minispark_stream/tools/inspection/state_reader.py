"""Questions about the rows of a state: all rows of a version, those with a key, the difference between two versions.

1. Find the stores in question: an operator, one of its stores, one or all partitions.
2. Load the version from the files (store_versions.py), as a mapping from bytes to bytes.
3. Work on the bytes as long as possible: rows that differ are found without a schema, and only they are decoded. A search
   decodes all keys, but only the values of those that match.

    report.find("be")    -> (StateRow(partition=1, key={"word": "be"}, value={"count": 6}),)

Differs from Spark: `spark.read.format("statestore")` returns the same rows, with a Spark job.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

from minispark_stream.engine.checkpointing.budget import Budget, LimitExceeded
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_columns, decode_rows, unique_names
from minispark_stream.tools.inspection.contents import DecodedRow, DecodedStateRow, StateChange
from minispark_stream.tools.inspection.store_versions import ReplayedState, StoreVersions

T = TypeVar("T")
_AT_ONCE = 10_000  # keys that are decoded together to compare them
NO_VALUE = b"\1" + bytes(15)  # a row of one null: the value of dropDuplicates; up to Spark 3.3, its schema is that of the input


@dataclass(frozen=True)
class UnsafeRows:
    """How keys and values are decoded with two schemas: here, each is one UnsafeRow."""

    key: StructType
    value: StructType

    def key_columns(self, keys: Sequence[bytes], budget: Budget) -> dict[str, list[Any]]:
        return decode_columns(UnsafeRowCodec(self.key), keys, budget)

    def value_rows(self, keys: Sequence[bytes], values: Sequence[bytes], budget: Budget) -> list[dict[str, Any]]:
        if len(self.value.fields) > 1 and all(value == NO_VALUE for value in values):
            return [{} for _ in values]
        return decode_rows(UnsafeRowCodec(self.value), values, budget)


@dataclass(frozen=True)
class StoreState:
    """A store of an operator over all partitions, or one of its column families. `not_decoded`: why its rows cannot be shown.

    `rows` is None if the schema is not known. `family`: partition -> what the keys of the column family begin with.
    """

    operator_id: int
    name: str
    rows: UnsafeRows | None
    partitions: Mapping[int, StoreVersions]
    not_decoded: str | None = None
    family: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def key_schema(self) -> StructType | None:
        """The schema of the keys; None if it is not known."""
        return self.rows.key if self.rows else None

    def entries(self, partition: int, state: ReplayedState) -> dict[bytes, bytes]:
        """Its keys and values in the state of a partition."""
        return state.of_family(self.family.get(partition, b""))

    def keys_like(self, partition: int, keys: Sequence[bytes], wanted: Mapping[str, Any]) -> list[bytes]:
        """Those of `keys` whose columns have the wanted values."""
        with self.partitions[partition].budget.lent():
            columns = self._decode("key", partition, lambda rows, budget: rows.key_columns(keys, budget))
        places: Sequence[int] = range(len(keys))
        for name, value in wanted.items():
            if name not in columns:
                raise ValueError(f"the key has two columns with the name of {name}")
            shown = columns[name]
            places = [i for i in places if shown[i] == value or may_differ(shown[i], value) and is_same(shown[i], value)]
        return [keys[i] for i in places]

    def decode(self, partition: int, entries: Sequence[tuple[bytes, bytes]]) -> list[DecodedStateRow]:
        """The rows of some entries. Raises ValueError, which names the store, if a row does not fit the schema."""
        keys, values = [k for k, _ in entries], [v for _, v in entries]
        columns = self._decode("key", partition, lambda rows, budget: rows.key_columns(keys, budget))
        shown_keys = [dict(zip(columns, row)) for row in zip(*columns.values())] if columns else [{} for _ in keys]
        shown_values = self._decode("value", partition, lambda rows, budget: rows.value_rows(keys, values, budget))
        return [DecodedStateRow(partition, k, v) for k, v in zip(shown_keys, shown_values)]

    def _decode(self, what: str, partition: int, decoder: Callable[[UnsafeRows, Budget], T]) -> T:
        root = self.partitions[partition].reader.root
        if self.rows is None:
            raise ValueError(f"{root}: the {what} schema is not known: its file in partition 0 is missing or cannot be read")
        try:
            return decoder(self.rows, self.partitions[partition].budget)
        except RecursionError as e:
            raise ValueError(f"{root}: the {what} schema is nested too deeply") from e
        except LimitExceeded as e:
            raise LimitExceeded(f"{root}: the {what}s of its rows: {e}") from e
        except ValueError as e:
            raise ValueError(f"{root}: a {what} does not fit the schema: {e}") from e


@dataclass(frozen=True, repr=False)
class StateReader:
    """The state of a checkpoint.

    `next_version`: the version with which the next batch begins. `budget`: the memory that an answer may take.
    """

    states: tuple[StoreState, ...] = field(compare=False, kw_only=True)
    next_version: int = field(compare=False, kw_only=True)
    budget: Budget = field(compare=False, kw_only=True)

    def rows(
        self, operator: int = 0, *, store: str | None = None, partition: int | None = None, version: int | None = None,
        limit: int | None = None,
    ) -> tuple[DecodedStateRow, ...]:
        """The decoded rows of a state, sorted by key within a partition.

        Args:
            operator: id of the stateful operator.
            store: name of its store; may be left out if it has only one.
            partition: one partition; all of them if left out.
            version: version N is the state before batch N; if left out, the one with which the next batch begins.
            limit: the greatest number of rows to decode.

        Raises:
            ValueError: there is no such operator, store, partition or version, or a row does not fit the schema, or the rows
                need more memory than the inspection may take (LimitExceeded).
            SparkRuntimeException: a file is missing or damaged.
        """
        with self.budget.lent():
            chosen = self._store(operator, store)
            found: list[DecodedStateRow] = []
            for p in self._partitions(chosen, partition):
                left = None if limit is None else limit - len(found)
                if left is not None and left <= 0:
                    break
                found += some_rows(chosen, p, self._load(chosen, p, version), left)
            return tuple(found)

    def find(
        self, key: Any, operator: int = 0, *, store: str | None = None, partition: int | None = None,
        version: int | None = None,
    ) -> tuple[DecodedStateRow, ...]:
        """The rows with this key.

        Args:
            key: a mapping from some or all key columns to values; or a list of all values; or the value of the first column.
                Values are written as the report shows them: `{"window": {"start": "2024-01-01 12:00:00"}, "k": "a"}`.

        Raises: as `rows` does.
        """
        with self.budget.lent():
            chosen = self._store(operator, store)
            wanted = wanted_columns(key, chosen.key_schema)
            found: list[DecodedStateRow] = []
            for p in self._partitions(chosen, partition):
                entries = self._load(chosen, p, version)
                keys = list(entries)
                parts = (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))
                matching = [key for part in parts for key in chosen.keys_like(p, part, wanted)]  # (3)
                found += by_key(chosen.decode(p, [(k, entries[k]) for k in matching]))
            return tuple(found)

    def diff(
        self, before: int, after: int, operator: int = 0, *, store: str | None = None, partition: int | None = None
    ) -> tuple[StateChange, ...]:
        """What has changed from version `before` to version `after`. Raises: as `rows` does."""
        with self.budget.lent():
            chosen = self._store(operator, store)
            changes: list[StateChange] = []
            for p in self._partitions(chosen, partition):
                old, new = (chosen.entries(p, state) for state in chosen.partitions[p].load_two(before, after))
                keys = [k for k in new if old.get(k) != new[k]] + [k for k in old if k not in new]  # (3)
                was = dict(self._decoded(chosen, p, [k for k in keys if k in old], old))
                now = dict(self._decoded(chosen, p, [k for k in keys if k in new], new))
                changes += sorted((StateChange.of(was.get(k), now.get(k)) for k in keys), key=lambda c: _text(c.key))
            return tuple(changes)

    def _decoded(
        self, store: StoreState, partition: int, keys: Sequence[bytes], entries: Mapping[bytes, bytes]
    ) -> list[tuple[bytes, DecodedStateRow]]:
        return list(zip(keys, store.decode(partition, [(k, entries[k]) for k in keys])))

    def _store(self, operator: int, name: str | None) -> StoreState:  # (1)
        of_operator = [s for s in self.states if s.operator_id == operator]
        if not of_operator:
            known = ", ".join(str(i) for i in sorted({s.operator_id for s in self.states})) or "no stateful operators"
            raise ValueError(f"there is no operator {operator} with state here: {known}")
        named = [s for s in of_operator if name is None or s.name == name]
        if len(named) != 1:
            known = ", ".join(s.name for s in of_operator)
            raise ValueError(f"operator {operator} has the stores {known}: choose one with store=")
        if named[0].not_decoded:
            raise ValueError(f"the state of operator {operator} is not decoded: {named[0].not_decoded}")
        return named[0]

    def _partitions(self, store: StoreState, partition: int | None) -> list[int]:
        if partition is None:
            return sorted(store.partitions)
        if partition not in store.partitions:
            known = ", ".join(map(str, sorted(store.partitions)))
            raise ValueError(f"operator {store.operator_id} has no partition {partition}, but {known}")
        return [partition]

    def _load(self, store: StoreState, partition: int, version: int | None) -> dict[bytes, bytes]:  # (2)
        state = store.partitions[partition].load(self.next_version if version is None else version)
        return store.entries(partition, state)


def some_rows(store: StoreState, partition: int, entries: Mapping[bytes, bytes], limit: int | None) -> list[DecodedStateRow]:
    """The rows, or `limit` of them, by key; always the same ones, whatever the order in which they were written."""
    keys = list(entries) if limit is None else heapq.nsmallest(max(0, limit), entries)
    return by_key(store.decode(partition, [(k, entries[k]) for k in keys]))


def by_key(rows: Sequence[DecodedStateRow]) -> list[DecodedStateRow]:
    """The rows in the order of their keys, as text."""
    return sorted(rows, key=lambda row: _text(row.key))


def _text(row: DecodedRow) -> str:
    return json.dumps(row, ensure_ascii=False)


def wanted_columns(key: Any, schema: StructType | None) -> dict[str, Any]:
    """The wanted values by column: a mapping as it is, a list for all columns, and anything else for the first column."""
    names = unique_names(schema.names) if schema is not None else []
    if isinstance(key, Mapping):
        unknown = [str(name) for name in key if name not in names]
        if unknown:
            raise ValueError(f"the key has no column {', '.join(unknown)}, but {', '.join(names) or 'none at all'}")
        return dict(key)
    values = list(key) if isinstance(key, (list, tuple)) else [key]
    if isinstance(key, (list, tuple)) and len(values) != len(names) or len(values) > len(names):
        raise ValueError(f"the key has {len(names)} columns ({', '.join(names)}), and {len(values)} values were given")
    return dict(zip(names, values))


def may_differ(shown: Any, wanted: Any) -> bool:
    """May two values that Python calls different be the same key? Not two numbers or two texts."""
    return type(shown) is not type(wanted) or isinstance(shown, (dict, list))


def is_same(shown: Any, wanted: Any) -> bool:
    """Is a decoded value the wanted one? A mapping may leave fields out; 7 and "7" are the same."""
    if isinstance(wanted, Mapping):
        return isinstance(shown, Mapping) and all(k in shown and is_same(shown[k], v) for k, v in wanted.items())
    if isinstance(wanted, (list, tuple)):
        return isinstance(shown, list) and len(shown) == len(wanted) and all(map(is_same, shown, wanted))
    if isinstance(wanted, datetime) and wanted.tzinfo is not None:
        wanted = wanted.astimezone(timezone.utc).replace(tzinfo=None)
    if isinstance(wanted, (bytes, bytearray)):
        wanted = "0x" + wanted.hex()
    if shown is None or wanted is None or isinstance(shown, bool):
        return shown is wanted or _text_of(shown) == _text_of(wanted)
    return bool(shown == wanted) or str(shown) == str(wanted)


def _text_of(value: Any) -> str:
    """`true`, `null` and the like as JSON has them."""
    return value if isinstance(value, str) else json.dumps(value, default=str)
