"""The state of applyInPandasWithState: a user's function sees a tuple, and the state store has an UnsafeRow.

Models: FlatMapGroupsWithStateExecHelper.StateManagerImplV2 (state format version 2), and EvaluatePython, which converts
values between the JVM and Python (About state).

1. A state row is `groupState: struct | timeoutTimestamp: long (ms, -1 for none)`; the second column is there only if the
   function may set timeouts. The struct is null if the function removed the state but set a timeout.
2. To Python: the columns of the row are read as Arrow, and then as plain Python values in Spark's *internal* form (a date is a
   number of days, a timestamp a number of microseconds). PySpark's own type makes dates and Rows of these (`fromInternal`).
3. From Python: PySpark's own type makes the internal form (`toInternal`). As in Spark, a value that does not fit its column
   becomes null, and an integer that is too large loses its upper bits.

    state schema (n long, last date), state (3, 2024-01-01), no timeout     (3, 19723), -1

Between the row and the internal form, dates and times are integers, so this module uses `internal_type`: int for a date, long
for a timestamp. The bytes of the rows are the same.

Differs from Spark: Spark 4.3.0's worker fails to read a state schema that contains an array or a map; here such a state
works. A value that is stored as a string, and is neither text nor boolean, is written as Python writes it, because the task
has no Java to convert it.
Shown by tests/conformance/test_arbitrary_state.py::test_a_state_may_hold_arrays_and_maps,
tests/unit/engine/operators/test_state_tasks.py::test_a_value_in_the_place_of_a_string_is_written_as_python_writes_it.
"""

from __future__ import annotations

import decimal
import json
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import ArithmeticException, IllegalArgumentException, PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    Row,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.jvm.expressions import by_position
from minispark_stream.engine.operators.columns import Columns

NO_TIMESTAMP = -1
_SIZE = struct.Struct("<i")

Convert = Callable[[Any], Any]


def state_row_schema(state: StructType, has_timeout: bool) -> StructType:
    """(1) The schema of the state rows for the schema of a user's state."""
    schema = StructType().add("groupState", without_metadata(state), True)
    return schema.add("timeoutTimestamp", LongType(), False) if has_timeout else schema


def without_metadata(schema: StructType) -> StructType:
    """The schema without comments and collations: of the fields of a row that has been in Python, Spark knows neither."""
    plain = json.loads(schema.json(), object_hook=lambda part: part | {"metadata": {}} if "metadata" in part else part)
    return StructType.fromJson(plain)


class GroupStateRows:
    """Turns state rows into states and timeouts, and back. A state is a Row, or None if there is none."""

    def __init__(self, state: StructType, has_timeout: bool):
        self.state = state
        self.has_timeout = has_timeout
        self._internal = internal_type(state)
        self._codec = UnsafeRowCodec(state_row_schema(self._internal, has_timeout))

    @cached_property
    def _to_python(self) -> Convert:
        return _from_arrow_value(self.state)

    @cached_property
    def _to_columns(self) -> Convert:
        return _fitted(self.state)

    def decode(self, rows: Sequence[bytes]) -> list[Row | None]:
        """(2) The states of some rows."""
        if not rows:
            return []
        values = self._codec.decode(rows)[0].to_pylist()
        return [None if value is None else self.state.fromInternal(self._to_python(value)) for value in values]

    def columns(self, rows: Sequence[bytes]) -> Columns:
        """Some states as columns, in Spark's internal form."""
        return self._codec.decode(rows)[0].flatten()

    def timeouts(self, rows: Sequence[bytes]) -> np.ndarray[Any, Any]:
        """The timeout timestamps of some rows, in milliseconds."""
        if not self.has_timeout or not rows:
            return np.full(len(rows), NO_TIMESTAMP, np.int64)
        return np.asarray(self._codec.decode(rows, only=[1])[1])

    def encode(self, states: Iterable[tuple[Any, ...] | None], timeouts: Sequence[int]) -> list[bytes]:
        """(3) One row for each state (None for one that was removed) and its timeout timestamp."""
        internal = [None if state is None else self._to_columns(self.state.toInternal(state)) for state in states]
        columns = [pa.array(internal, type=self._codec.arrow_types[0]), pa.array(timeouts, type=pa.int64())]
        return self._codec.encode(columns[: len(self._codec.arrow_types)], len(internal))


def internal_type(kind: Any) -> Any:
    """A type in Spark's internal form; fields are named after their positions, so that names cannot clash."""
    return by_position(kind, _internal)


def _internal(kind: DataType) -> DataType:
    match kind:
        case DateType():
            return IntegerType()
        case TimestampType() | TimestampNTZType() | DayTimeIntervalType():
            return LongType()
    return kind


def _from_arrow_value(kind: DataType) -> Convert:
    """Converts a value of Arrow's `to_pylist` (a struct is a dict, a map a list of pairs) to the internal form in Python."""
    match kind:
        case StructType():
            parts = [(f"_{i}", _from_arrow_value(f.dataType)) for i, f in enumerate(kind.fields)]
            return lambda v: None if v is None else tuple(part(v[name]) for name, part in parts)
        case ArrayType():
            element = _from_arrow_value(kind.elementType)
            return lambda v: None if v is None else [element(x) for x in v]
        case MapType():
            key, value = _from_arrow_value(kind.keyType), _from_arrow_value(kind.valueType)
            return lambda v: None if v is None else {key(k): value(x) for k, x in v}
        case UserDefinedType():
            return _from_arrow_value(kind.sqlType())
        case VariantType():
            return lambda v: None if v is None else _variant_parts(v)
        case _:
            return lambda v: v


_BITS: dict[type[DataType], int] = {
    ByteType: 8, ShortType: 16, IntegerType: 32, DateType: 32, LongType: 64, TimestampType: 64, TimestampNTZType: 64,
    DayTimeIntervalType: 64,
}


def _fitted(kind: DataType) -> Convert:
    """Converts the internal form in Python to what Arrow accepts in a column of this type (EvaluatePython.makeFromJava)."""
    match kind:
        case StructType():
            return _fitted_struct(kind)
        case ArrayType():
            element = _fitted(kind.elementType)
            return lambda v: [element(x) for x in v] if isinstance(v, (list, tuple)) else None
        case MapType():
            key, value = _fitted(kind.keyType), _fitted(kind.valueType)
            return lambda v: [(key(k), value(x)) for k, x in v.items()] if isinstance(v, dict) else None
        case UserDefinedType():
            return _fitted(kind.sqlType())
        case BooleanType():
            return lambda v: v if isinstance(v, bool) else None
        case FloatType() | DoubleType():
            return lambda v: v if isinstance(v, float) else None
        case DecimalType():
            return lambda v: _rounded(v, kind) if isinstance(v, decimal.Decimal) else None
        case StringType():
            return _text
        case BinaryType():
            return lambda v: v.encode() if isinstance(v, str) else bytes(v) if isinstance(v, (bytes, bytearray)) else None
        case NullType():
            return lambda v: None
        case VariantType():
            return lambda v: _SIZE.pack(len(v["value"])) + v["value"] + v["metadata"] if isinstance(v, dict) else None
        case _ if type(kind) in _BITS:
            bits = _BITS[type(kind)]
            return lambda v: _wrapped(v, bits) if isinstance(v, int) and not isinstance(v, bool) else None
        case _:
            return lambda v: v


def _variant_parts(row: bytes) -> dict[str, bytearray]:
    """The parts of a variant, which is stored as the size of its value, the value, and the metadata."""
    end = _SIZE.size + int(_SIZE.unpack_from(row)[0])
    return {"value": bytearray(row[_SIZE.size : end]), "metadata": bytearray(row[end:])}


def _fitted_struct(kind: StructType) -> Convert:
    parts = [_fitted(f.dataType) for f in kind.fields]

    def convert(v: Any) -> Any:
        if not isinstance(v, (tuple, list)):
            return None
        if len(v) != len(parts):
            raise _error(
                IllegalArgumentException, "STRUCT_ARRAY_LENGTH_MISMATCH", "Input row doesn't have expected number of values "
                f"required by the schema. {len(parts)} fields are required while {len(v)} values are provided.",
            )
        return tuple(part(x) for part, x in zip(parts, v))

    return convert


def _rounded(v: decimal.Decimal, kind: DecimalType) -> decimal.Decimal:
    rounded = v.quantize(decimal.Decimal(1).scaleb(-kind.scale), decimal.ROUND_HALF_UP, decimal.Context(prec=100))
    if len(rounded.as_tuple().digits) > kind.precision:
        raise _error(
            ArithmeticException, "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION",
            f"The {rounded} rounded half up from {v} cannot be represented as Decimal({kind.precision}, {kind.scale}).",
        )
    return rounded


def _error(kind: type[PySparkException], condition: str, text: str) -> PySparkException:
    """An error with Spark's text, which is written here because a task has no JVM to ask for it."""
    return kind(message=text, errorClass=condition, messageParameters={})


def _text(v: Any) -> str | None:
    if isinstance(v, bool):
        return "true" if v else "false"
    return v if v is None or isinstance(v, str) else str(v)


def _wrapped(v: int, bits: int) -> int | None:
    """The low bits of a long, as in Java's cast; None for a number that does not fit into a long."""
    if not -(1 << 63) <= v < 1 << 63:
        return None
    half = 1 << (bits - 1)
    return (v + half) % (2 * half) - half
