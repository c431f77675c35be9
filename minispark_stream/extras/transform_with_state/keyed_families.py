"""Column families under the *implicit key*: the grouping key whose rows a StatefulProcessor is processing.

Models: ImplicitGroupingKeyTracker and StateTypesEncoder (About state; SIGMOD'18 paper, 4.3.2: a state of the user's own).

1. The task sets the implicit key before it calls the processor; state variables and timers only name their family and element.
2. `TupleRows` turns a Python tuple into an UnsafeRow and back, as in applyInPandasWithState
   (engine/operators/groups/group_state_rows.py). With a time to live, the row has two fields: a struct of the tuple's fields,
   and the time of expiry.
3. `updated` and `removed` count, for the progress report, what the state variables put and remove.
4. What is appended to a list waits until the implicit key changes or the list is read, because a list that grows is written as
   a whole.
5. In Spark, the JVM does what the processor asks for, over a socket. If it fails, it answers with the error, and closes the
   socket: a processor that catches the error gets a BrokenPipeError from then on, and so does the task.

    set_implicit_key(("ann",)); total.update((3,))      total: 00 row of ann -> 00 row of 3

Differs from Spark: nothing.
"""

from __future__ import annotations

import errno
import operator
import os
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql.streaming import stateful_processor_api_client
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import binary_row
from minispark_stream.engine.operators.columns import Columns
from minispark_stream.engine.operators.groups.group_state_rows import NO_TIMESTAMP, GroupStateRows
from minispark_stream.extras.transform_with_state.column_families import ColumnFamilies

_BEFORE_STRUCT = 16  # bytes of a row whose first field is a struct, if it is the only one


def text_of(value: Any) -> str:
    """A text, as a message to Spark's JVM takes it. Raises TypeError or UnicodeDecodeError if it does not take the value."""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError("bad argument type for built-in operation")
    return value


def number_of(value: Any) -> int:
    """A number, as a message to Spark's JVM takes it. Raises TypeError or ValueError if it does not take the value."""
    if isinstance(value, bool):
        raise TypeError("Expected an int, got a boolean.")
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"Value out of range: {number}")
    return number


class TupleRows:
    """(2) Python tuples as UnsafeRows of a schema. `ttl_ms`: the time to live of a row; 0 if it lives for ever."""

    def __init__(self, schema: StructType, ttl_ms: int = 0):
        self.schema, self.ttl_ms = schema, ttl_ms
        self._rows = GroupStateRows(schema, bool(ttl_ms))
        stateful_processor_api_client._load_numpy()

    def encode(self, value: Iterable[Any], expires_ms: int = NO_TIMESTAMP) -> bytes:
        plain = tuple(map(stateful_processor_api_client._normalize_state_value, value))
        [row] = self._rows.encode([plain], [expires_ms])
        return row if self.ttl_ms else row[_BEFORE_STRUCT:]

    def decode(self, rows: list[bytes]) -> list[Any]:
        return self._rows.decode(self._as_fields(rows))

    def columns(self, rows: list[bytes]) -> Columns:
        """Rows of a family as columns, in Spark's internal form."""
        return self._rows.columns(self._as_fields(rows))

    def expiries(self, rows: list[bytes]) -> list[int]:
        """When each of some rows expires, in milliseconds."""
        times: list[int] = self._rows.timeouts(rows).tolist()
        return times

    def is_expired(self, row: bytes, now_ms: int) -> bool:
        return self.ttl_ms > 0 and self.expiries([row])[0] <= now_ms

    def _as_fields(self, rows: list[bytes]) -> list[bytes]:
        """Rows whose first field is the struct of a tuple."""
        return rows if self.ttl_ms else [binary_row(row) for row in rows]


class Request:
    """(5) A block that the JVM does in Spark; `doing` says in Spark's words what that is.

    A class, because a generator would take three times as long for each request of each key.

    Raises:
        PySparkRuntimeError: it has failed.
        BrokenPipeError: an earlier request has failed.
    """

    def __init__(self, keyed: KeyedFamilies, doing: str):
        self._keyed, self._doing = keyed, doing

    def __enter__(self) -> None:
        self._keyed.check_open()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, PySparkException):
            self._keyed.close()
            raise PySparkRuntimeError(f"Error {self._doing}: {error}") from error


class KeyedFamilies:
    """The families of a store, as the variables of one processor see them in a batch at the time `now_ms`."""

    def __init__(self, families: ColumnFamilies, keys: StructType, now_ms: int):
        self.families, self.now_ms = families, now_ms
        self.keys = TupleRows(keys)
        self.updated = self.removed = 0  # (3)
        self._waiting: list[Callable[[], None]] = []  # (4)
        self._is_closed = False
        self._key: bytes | None = None

    def check_open(self) -> None:
        """Raises BrokenPipeError: an earlier request has failed."""
        if self._is_closed:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def close(self) -> None:
        self._is_closed = True

    def set_implicit_key(self, key: Iterable[Any] | None) -> None:  # (1)
        self.check_open()
        self.write_what_waits()
        self._key = None if key is None else self.keys.encode(key)

    def wait(self, write: Callable[[], None]) -> None:
        """Call `write` before the implicit key changes; there must be one."""
        if self.implicit_key:
            self._waiting.append(write)

    def write_what_waits(self) -> None:
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write()

    @property
    def implicit_key(self) -> bytes:
        """The row of the grouping key. Raises PySparkRuntimeError: there is none."""
        if self._key is None:
            raise PySparkRuntimeError("Implicit key not found in state store. SQLSTATE: 42802")
        return self._key
