"""The state variables of a StatefulProcessor: a value, a list or a map for each grouping key, and its timers.

Models: StatefulProcessorHandleImpl, ValueStateImpl, ListStateImpl, MapStateImpl (and ...WithTTL), TimerStateImpl (SIGMOD'18
paper, 4.3.2: a state of the user's own; About state).

1. `init` asks the handle for variables, each with a schema; a variable is a column family (column_families.py).
2. All that a variable does, it does for the *implicit key*: the grouping key whose rows are being processed.
3. A Python tuple becomes an UnsafeRow of the variable's schema, as in applyInPandasWithState (group_state_rows.py).
4. With a time to live, a row has its time of expiry with it: the time of the batch that wrote it, plus the ttl. From that
   time on nobody sees it, and the end of the batch removes it.
5. A timer is a row (key, time) without a value. The timers that are due are those of all keys, the earliest first.

    key ann, ttl 60 s, batch at 12:00:00     total.update((3,))     ("total", ann) -> (3), expires 12:01:00

Elements keep Spark's order: map keys and timers of a key by the bytes of their UnsafeRows (so timers are not sorted by time).
Differs from Spark: the processor talks to the store in its own process; Spark's talks to the JVM through a socket.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming import stateful_processor_api_client
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import Row, StructType

from minispark_stream.operators.column_families import INTERNAL, ColumnFamilies, Element
from minispark_stream.operators.group_state_rows import NO_TIMESTAMP, GroupStateRows

PROCESSING_TIME, EVENT_TIME, NO_TIME = "ProcessingTime", "EventTime", "NoTime"
TIMERS = {PROCESSING_TIME: f"{INTERNAL}procTimers", EVENT_TIME: f"{INTERNAL}eventTimers"}

Schemas = Mapping[str, StructType]


class Handle(StatefulProcessorHandle):
    """What the processor holds on to. `schemas`: what the driver read the schemas as that `init` gives as text."""

    def __init__(
        self, families: ColumnFamilies, keys: StructType, time_mode: str, batch_timestamp_ms: int, schemas: Schemas
    ):
        self.families, self.time_mode, self.now_ms, self.schemas = families, time_mode, batch_timestamp_ms, schemas
        self.keys = Rows(keys)
        self.key: bytes | None = None
        self.counts: Counter[str] = Counter()
        self.initialized = False
        self.variables: dict[str, Variable] = {}

    # -- (2) the implicit key ----------------------------------------------------------------------------------

    def set_implicit_key(self, key: Iterable[Any] | None) -> None:
        self.key = None if key is None else self.keys.encode(key)

    @property
    def implicit_key(self) -> bytes:
        if self.key is None:
            raise PySparkRuntimeError("Implicit key not found in state store. SQLSTATE: 42802")
        return self.key

    # -- (1) variables -----------------------------------------------------------------------------------------

    def getValueState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> ValueState:  # noqa: N802, N803
        return self._declare(ValueVariable(self, stateName, "Value", Rows(self._parsed(schema), self._ttl(ttlDurationMs))))

    def getListState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> ListState:  # noqa: N802, N803
        return self._declare(ListVariable(self, stateName, "List", Rows(self._parsed(schema), self._ttl(ttlDurationMs))))

    def getMapState(  # noqa: N802
        self, stateName: str, userKeySchema: StructType | str, valueSchema: StructType | str,  # noqa: N803
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> MapState:
        rows = Rows(self._parsed(valueSchema), self._ttl(ttlDurationMs))
        return self._declare(MapVariable(self, stateName, "Map", rows, Rows(self._parsed(userKeySchema))))

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        self._verify_init("delete_if_exists")
        self.counts["numDeletedStateVars"] += self.families.drop(stateName) or stateName in self.variables
        self.variables.pop(stateName, None)

    def _declare(self, variable: Any) -> Any:
        self._verify_init(f"get_{variable.kind.lower()}_state")
        if variable.name in self.variables:
            raise PySparkRuntimeError(
                f"Error initializing {variable.kind.lower()} state: {variable.kind} state {variable.name} already exists"
            )
        self.variables[variable.name] = variable
        ttl = "WithTTL" if variable.rows.ttl_ms else ""
        self.counts[f"num{variable.kind}State{ttl}Vars"] += 1
        return variable

    def _parsed(self, schema: StructType | str) -> StructType:
        if isinstance(schema, StructType):
            return schema
        if schema not in self.schemas:
            raise PySparkRuntimeError(f"init() must declare the same variables every time; {schema!r} is new.")
        return self.schemas[schema]

    def _ttl(self, ttl_ms: int | None) -> int:
        if not ttl_ms:
            return 0
        if self.time_mode != PROCESSING_TIME:
            raise PySparkRuntimeError(
                "[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] Cannot use TTL in timeMode="
                f"{self.time_mode}, use TimeMode.ProcessingTime() instead. SQLSTATE: 42802"
            )
        if ttl_ms < 0:
            raise PySparkRuntimeError("[STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] TTL duration must be greater than 0.")
        return ttl_ms

    def _verify_init(self, operation: str) -> None:
        if self.initialized:
            raise PySparkRuntimeError(
                "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] Failed to perform stateful processor "
                f"operation={operation} with invalid handle state=INITIALIZED. SQLSTATE: 42802"
            )

    # -- (5) timers --------------------------------------------------------------------------------------------

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        family, time = self._timers("register_timer"), _LONG.pack(expiryTimestampMs)
        if self.families.get(family, self.implicit_key, time) is None:
            self.families.put(family, self.implicit_key, b"", time)
        self.counts["numRegisteredTimers"] += 1

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        self.families.remove(self._timers("delete_timer"), self.implicit_key, [_LONG.pack(expiryTimestampMs)])
        self.counts["numDeletedTimers"] += 1

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        times = self.families.elements(self._timers("list_timers"), self.implicit_key)
        return iter([_LONG.unpack(time)[0] for time in times if time is not None])

    def expired_timers(self, at_ms: int) -> list[tuple[Row, int]]:
        """The timers of all keys that are due: key and time."""
        rows = self.families.rows(self._timers("get_expired_timers"))
        due = sorted((_LONG.unpack(time)[0], key) for key, time in rows if time and _LONG.unpack(time)[0] <= at_ms)
        return [(self.keys.decode([key])[0], time) for time, key in due]

    def _timers(self, operation: str) -> str:
        if self.time_mode == NO_TIME:
            raise PySparkRuntimeError(
                "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE] Failed to perform stateful processor "
                f"operation={operation} with invalid timeMode={self.time_mode} SQLSTATE: 42802"
            )
        if not self.initialized:
            raise PySparkRuntimeError(f"Failed to perform stateful processor operation={operation} in init(). SQLSTATE: 42802")
        return TIMERS[self.time_mode]

    def remove_expired(self) -> None:
        """(4) The end of the batch."""
        for variable in self.variables.values():
            if variable.rows.ttl_ms:
                removed = variable.remove_expired()
                self.counts["numValuesRemovedDueToTTLExpiry"] += removed
                self.counts["removed"] += removed


_LONG = struct.Struct("<q")
_INDEX = struct.Struct(">q")


class Rows:
    """(3) Python tuples as UnsafeRows of a schema, with a time of expiry when there is a time to live."""

    def __init__(self, schema: StructType, ttl_ms: int = 0):
        self.schema, self.ttl_ms = schema, ttl_ms
        self._rows = GroupStateRows(schema, bool(ttl_ms))
        stateful_processor_api_client._load_numpy()

    def encode(self, value: Iterable[Any], expires_ms: int = NO_TIMESTAMP) -> bytes:
        plain = tuple(map(stateful_processor_api_client._normalize_state_value, value))
        return self._rows.encode([plain], [expires_ms])[0]

    def decode(self, rows: list[bytes]) -> list[Any]:
        return self._rows.decode(rows)

    def is_expired(self, row: bytes, now_ms: int) -> bool:
        return self.ttl_ms > 0 and int(self._rows.timeouts([row])[0]) <= now_ms


class Variable:
    """What the three kinds have in common: rows of the implicit key that have not expired."""

    def __init__(self, handle: Handle, name: str, kind: str, rows: Rows):
        self.handle, self.name, self.kind, self.rows = handle, name, kind, rows

    def key(self) -> bytes:
        if self.handle.variables.get(self.name) is not self:
            raise PySparkRuntimeError(f"{self.kind} state {self.name} is not initialized.")
        return self.handle.implicit_key

    def encoded(self, value: Iterable[Any]) -> bytes:
        return self.rows.encode(value, self.handle.now_ms + self.rows.ttl_ms)

    def live(self, elements: list[Element]) -> Iterator[tuple[Element, Any]]:
        """Those of the elements that there are, with their values."""
        found = self.handle.families.get_many(self.name, self.key(), elements)
        live = [(e, row) for e, row in zip(elements, found) if row and not self.rows.is_expired(row, self.handle.now_ms)]
        return zip([e for e, _ in live], self.rows.decode([row for _, row in live]))

    def all_live(self) -> Iterator[tuple[Element, Any]]:
        return self.live(self.handle.families.elements(self.name, self.key()))

    def exists(self) -> bool:
        return any(True for _ in self.all_live())

    def write(self, value: bytes, element: Element = None) -> None:
        self.handle.families.put(self.name, self.key(), value, element)
        self.handle.counts["updated"] += 1

    def clear(self) -> None:
        elements = self.handle.families.elements(self.name, self.key())
        self.handle.counts["removed"] += self.handle.families.remove(self.name, self.key(), elements)

    def remove_expired(self) -> int:
        removed = 0
        for key, element in self.handle.families.rows(self.name):
            row = self.handle.families.get(self.name, key, element)
            if row and self.rows.is_expired(row, self.handle.now_ms):
                removed += self.handle.families.remove(self.name, key, [element])
        return removed


class ValueVariable(Variable, ValueState):
    def exists(self) -> bool:
        return self.get() is not None

    def get(self) -> tuple[Any, ...] | None:
        return next((tuple(value) for _, value in self.live([None])), None)

    def update(self, newValue: tuple[Any, ...]) -> None:  # noqa: N803
        self.write(self.encoded(newValue))

    def clear(self) -> None:
        self.handle.families.remove(self.name, self.key(), [None])
        self.handle.counts["removed"] += 1


class ListVariable(Variable, ListState):
    """The element of a row is its index."""

    def get(self) -> Iterator[tuple[Any, ...]]:
        for _, value in self.all_live():
            yield tuple(value)

    def put(self, newState: list[tuple[Any, ...]]) -> None:  # noqa: N803
        values = self._encoded(newState)
        if not self.rows.ttl_ms:
            self.handle.counts["updated"] = 0  # Spark begins to count anew
        self.handle.families.remove(self.name, self.key(), self.handle.families.elements(self.name, self.key()))
        self._append(values)

    def appendValue(self, newState: tuple[Any, ...]) -> None:  # noqa: N802, N803
        self._append([self.encoded(newState)])

    def appendList(self, newState: list[tuple[Any, ...]]) -> None:  # noqa: N802, N803
        self._append(self._encoded(newState))

    def _encoded(self, values: list[tuple[Any, ...]]) -> list[bytes]:
        encoded = [self.encoded(value) for value in values]
        if not encoded:
            raise PySparkRuntimeError(
                "Error updating value state: [ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Illegal value provided to the State "
                f"Store Cannot write empty list values to State Store for StateName {self.name}. SQLSTATE: 42601"
            )
        return encoded

    def _append(self, values: list[bytes]) -> None:
        elements = self.handle.families.elements(self.name, self.key())
        begin = _INDEX.unpack(elements[-1])[0] + 1 if elements and elements[-1] else 0
        for i, value in enumerate(values):
            self.write(value, _INDEX.pack(begin + i))


class MapVariable(Variable, MapState):
    """The element of a row is the user's key."""

    def __init__(self, handle: Handle, name: str, kind: str, rows: Rows, keys: Rows):
        super().__init__(handle, name, kind, rows)
        self.keys_of_map = keys

    def getValue(self, key: tuple[Any, ...]) -> Any:  # noqa: N802
        return next((value for _, value in self.live([self.keys_of_map.encode(key)])), None)

    def containsKey(self, key: tuple[Any, ...]) -> bool:  # noqa: N802
        return self.getValue(key) is not None

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self.write(self.encoded(value), self.keys_of_map.encode(key))

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        for key, value in self.all_live():
            yield tuple(self.keys_of_map.decode([key or b""])[0]), tuple(value)

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return (key for key, _ in self.iterator())

    def values(self) -> Iterator[tuple[Any, ...]]:
        return (value for _, value in self.iterator())

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        self.handle.families.remove(self.name, self.key(), [self.keys_of_map.encode(key)])
        self.handle.counts["removed"] += 1
