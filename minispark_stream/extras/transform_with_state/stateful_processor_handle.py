"""The handle of a StatefulProcessor, with which it declares state variables and sets timers.

Models: StatefulProcessorHandleImpl and TimerStateImpl (SIGMOD'18 paper, 4.3.2: a state of the user's own; About state).

1. `init` asks the handle for variables, each with a schema (state_variables.py, list_variable.py). After `init`, no variable
   can be added.
2. A timer is in two of the engine's own column families: one by key, and one by time. The timers of all keys that are due are
   called together, the earliest first.
3. At the end of the batch, `remove_expired` removes what has outlived its time to live.

    key ann: registerTimer(12:05)     due when the watermark is 12:05
    $eventTimers_keyToTimestamp       ann | 12:05 -> nothing
    $eventTimers_timestampToKey       12:05 | ann -> nothing

The timers of one key are listed in the order of the bytes of their times, as in Spark, and so are not sorted by time.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import Row, StructType

from minispark_stream.engine.checkpointing.unsafe_row import binary_row, long_row
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME
from minispark_stream.extras.rocksdb.key_encoding import at_time, two_rows
from minispark_stream.extras.rocksdb.snapshot_zip import INTERNAL
from minispark_stream.extras.transform_with_state.family_indexes import BY_PREFIX, BY_TIME
from minispark_stream.extras.transform_with_state.keyed_families import KeyedFamilies, Request, TupleRows, number_of, text_of
from minispark_stream.extras.transform_with_state.list_variable import ListVariable
from minispark_stream.extras.transform_with_state.state_variables import (
    VOID,
    MapVariable,
    ValueVariable,
    Variable,
    long_of,
    only_field,
)

PROCESSING_TIME, EVENT_TIME, NO_TIME = "ProcessingTime", "EventTime", "NoTime"
V = TypeVar("V", bound=Variable)
TIMERS = {PROCESSING_TIME: f"{INTERNAL}procTimers", EVENT_TIME: f"{INTERNAL}eventTimers"}


def by_key(time_mode: str) -> str:
    """The family with the timers of each key."""
    return f"{TIMERS[time_mode]}_keyToTimestamp"


def by_time(time_mode: str) -> str:
    return f"{TIMERS[time_mode]}_timestampToKey"


class Handle(StatefulProcessorHandle):
    """`schemas`: the parsed schemas of those that `init` gives as text. `counts`: Spark's metrics of the handle."""

    def __init__(self, keyed: KeyedFamilies, time_mode: str, schemas: Mapping[str, StructType]):
        self.keyed, self.time_mode, self.schemas = keyed, time_mode, schemas
        self.counts: Counter[str] = Counter()
        self.initialized = False
        self.variables: dict[str, Variable] = {}

    # -- (1) variables -----------------------------------------------------------------------------------------

    def getValueState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> ValueState:
        def make(name: str, ttl_ms: int) -> ValueVariable:
            return ValueVariable(self.keyed, name, TupleRows(self._parsed(schema), ttl_ms))

        return self._declare(ValueVariable, stateName, ttlDurationMs, make)

    def getListState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> ListState:
        def make(name: str, ttl_ms: int) -> ListVariable:
            return ListVariable(self.keyed, name, TupleRows(self._parsed(schema), ttl_ms))

        return self._declare(ListVariable, stateName, ttlDurationMs, make)

    def getMapState(
        self, stateName: str, userKeySchema: StructType | str, valueSchema: StructType | str, ttlDurationMs: int | None = None
    ) -> MapState:
        def make(name: str, ttl_ms: int) -> MapVariable:
            rows, keys = TupleRows(self._parsed(valueSchema), ttl_ms), TupleRows(self._parsed(userKeySchema))
            return MapVariable(self.keyed, name, rows, keys)

        return self._declare(MapVariable, stateName, ttlDurationMs, make)

    def deleteIfExists(self, stateName: str) -> None:
        stateName = text_of(stateName)
        with Request(self.keyed, "deleting state"):
            self._verify_init("delete_if_exists")
            variable = self.variables.pop(stateName, None)
            self.counts["numDeletedStateVars"] += self.keyed.families.drop(stateName) or variable is not None
        if variable is not None:
            variable.is_deleted = True

    def _declare(self, cls: type[V], name: str, ttl_ms: int | None, make: Callable[[str, int], V]) -> V:
        """A new variable; `make` makes it, with its time to live."""
        name, ttl_ms = text_of(name), None if ttl_ms is None else number_of(ttl_ms)
        kind = cls.kind.lower()
        doing = f"initializing {kind} state"
        if isinstance(self.variables.get(name), cls):
            raise PySparkRuntimeError(f"Error {doing}: {cls.kind} state {name} already exists")
        with Request(self.keyed, doing):
            self._verify_init(f"get_{kind}_state")
            ttl_ms = self._ttl(name, ttl_ms)
            if (why := _wrong_name(name)) is not None:
                raise PySparkRuntimeError(why)
            variable = self.variables[name] = make(name, ttl_ms)
        self.counts[f"num{cls.kind}State{'WithTTL' if ttl_ms else ''}Vars"] += 1
        return variable

    def _parsed(self, schema: StructType | str) -> StructType:
        if isinstance(schema, StructType):
            return schema
        if schema not in self.schemas:
            raise PySparkRuntimeError(f"init() must declare the same variables every time; the schema {schema!r} is new.")
        return self.schemas[schema]

    def _ttl(self, name: str, ttl_ms: int | None) -> int:
        if not ttl_ms:
            return 0
        if self.time_mode != PROCESSING_TIME:
            raise PySparkRuntimeError(
                f"[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] Cannot use TTL for state={name} in timeMode="
                f"{self.time_mode}, use TimeMode.ProcessingTime() instead. SQLSTATE: 42802",
            )
        if ttl_ms < 0:
            raise PySparkRuntimeError(
                "[STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] TTL duration must be greater than zero for State store "
                f"operation=update on state={name}. SQLSTATE: 42802",
            )
        return ttl_ms

    def _verify_init(self, operation: str) -> None:
        if self.initialized:
            raise PySparkRuntimeError(
                "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] Failed to perform stateful processor "
                f"operation={operation} with invalid handle state=INITIALIZED. SQLSTATE: 42802"
            )

    def remove_expired(self) -> None:
        """(3) The end of the batch."""
        for variable in self.variables.values():
            if variable.rows.ttl_ms:
                removed = variable.remove_expired()
                self.counts["numValuesRemovedDueToTTLExpiry"] += removed
                self.keyed.removed += removed

    # -- (2) timers --------------------------------------------------------------------------------------------

    def initialize(self) -> None:
        """`init` is over."""
        self.keyed.check_open()
        if self.time_mode != NO_TIME:
            self.keyed.families.create(by_key(self.time_mode), BY_PREFIX)
            self.keyed.families.create(by_time(self.time_mode), BY_TIME)
        self.initialized = True

    def registerTimer(self, expiryTimestampMs: int) -> None:
        expiryTimestampMs = _time_of(expiryTimestampMs)
        with Request(self.keyed, "register timer"):
            self._check("register_timer")
            (of_key, key), (of_time, timed) = self._timer(expiryTimestampMs)
            if self.keyed.families.get(of_key, key) is None:
                self.keyed.families.put(of_key, key, VOID)
                self.keyed.families.put(of_time, timed, VOID)
            self.counts["numRegisteredTimers"] += 1

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        expiryTimestampMs = _time_of(expiryTimestampMs)
        with Request(self.keyed, "deleting timer"):
            self._check("delete_timer")
            for family, key in self._timer(expiryTimestampMs):
                self.keyed.families.remove(family, key)
            self.counts["numDeletedTimers"] += 1

    def listTimers(self) -> Iterator[int]:
        """The times of the timers of the implicit key; as in Spark, there are none if the request fails."""
        rows: Iterable[bytes] = ()
        with suppress(PySparkRuntimeError), Request(self.keyed, "listing timers"):
            self._check("list_timers")
            rows = list(self.keyed.families.scan(by_key(self.time_mode), binary_row(self.keyed.implicit_key)))
        yield from map(long_of, rows)

    def expired_timers(self, at_ms: int) -> list[tuple[Row, int]]:
        """The timers that are due, of all keys: key and time."""
        self._check("get_expired_timers")
        due = self.keyed.families.due(by_time(self.time_mode), at_ms)
        return [(self.keyed.keys.decode([only_field(row)])[0], time) for time, row in due]

    def _timer(self, time_ms: int) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
        """A timer of the implicit key in the families by key and by time: of each, the family and the key in it."""
        row = binary_row(self.keyed.implicit_key)
        return (by_key(self.time_mode), two_rows(row, long_row(time_ms))), (by_time(self.time_mode), at_time(time_ms, row))

    def _check(self, operation: str) -> None:
        """Raises PySparkRuntimeError: the time mode has no timers, or `init` still runs."""
        if self.time_mode == NO_TIME:
            raise PySparkRuntimeError(
                "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE] Failed to perform stateful processor "
                f"operation={operation} with invalid timeMode={self.time_mode} SQLSTATE: 42802"
            )
        if not self.initialized:
            raise PySparkRuntimeError(f"Failed to perform stateful processor operation={operation} in init(). SQLSTATE: 42802")


def _time_of(expiry_ms: int | None) -> int:
    """The time of a timer; None is 0, as in Spark."""
    return 0 if expiry_ms is None else number_of(expiry_ms)


def _wrong_name(name: str) -> str | None:
    """Why no column family, and so no variable, can have this name."""
    if not name or name != name.strip() or name == DEFAULT_STORE_NAME:
        return (
            "[STATE_STORE_CANNOT_USE_COLUMN_FAMILY_WITH_INVALID_NAME] Failed to perform column family "
            f"operation=create_col_family with invalid name={name}. Column family name cannot be empty or include "
            f"leading/trailing spaces or use the reserved keyword={DEFAULT_STORE_NAME} SQLSTATE: 42802"
        )
    if name.startswith(INTERNAL):
        return (
            "[STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY_WITH_RESERVED_CHARS] Failed to create column family with unsupported "
            f"starting character and name={name}. SQLSTATE: 42802"
        )
    return None
