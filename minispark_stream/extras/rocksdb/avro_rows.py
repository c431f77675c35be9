"""Rows in Avro: from the UnsafeRows of a schema, and back.

Models: SchemaConverters.toAvroTypeWithDefaults, AvroSerializer, AvroDeserializer, as the state store uses them (About state:
RocksDB).

1. A row is a record. Each of its fields may be null; null is also what a reader takes for a field that the writer did not have.
   A struct in a row is such a record, too; an array or a map may be null.
2. Dates and times are numbers. A decimal is a number of as many bytes as its precision needs.
3. A row is read with the schema that it was written with, and becomes a row of the schema that the query has now: fields are
   found by their names, and a number may have become wider.

    (count int) 5, then (count long, last string)     020a     read: (5, null)

`fastavro` reads and writes the bytes (`pip install fastavro`). They are not trusted: if they do not fit the
schema, or others follow them, this is a ValueError. A byte may be a value, or even none: an array says how many elements it
has. So if a reader gives a `Budget`, its values are counted before they are made (avro_size.py).

Differs from Spark: values of the types byte and short are read back, where Spark 4.3.0 fails; the entries of a map may be
written in another order.
Shown by tests/conformance/test_state_in_avro.py::test_a_byte_is_read_back_by_the_model_alone.
"""

from __future__ import annotations

import decimal
import json
import struct
from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from typing import Any

import pyarrow as pa

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.state.schema_files import schema_json
from minispark_stream.engine.state.state_store import state_error
from minispark_stream.extras.rocksdb.avro_size import take_avro

ROOT = "topLevelRecord"
_WIDE = decimal.Context(prec=80)
_PLAIN = {  # (2)
    "boolean": "boolean", "byte": "int", "short": "int", "integer": "int", "long": "long", "float": "float", "double": "double",
    "string": "string", "binary": "bytes", "void": "null", "date": "int", "timestamp": "long", "timestamp_ntz": "long",
}
_AS_NUMBERS = {"date": "integer", "timestamp": "long", "timestamp_ntz": "long"}

FromAvro = Callable[[Any], Any]


class AvroRows:
    """The rows of one schema. Raises ValueError if Avro has no such schema."""

    def __init__(self, schema: StructType):
        try:
            import fastavro
        except ImportError as e:
            text = "An error occurred during loading state. Avro needs a package: pip install fastavro."
            raise state_error("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", text, "58030") from e
        self._fastavro: Any = fastavro
        self._json: dict[str, Any] = json.loads(schema_json(schema))
        try:
            self.avro = fastavro.parse_schema(avro_type(self._json))
        except (fastavro.schema.SchemaParseException, RecursionError) as e:
            raise ValueError(f"a schema that Avro does not have ({type(e).__name__}: {e})") from e

    @cached_property
    def _codec(self) -> UnsafeRowCodec:
        return UnsafeRowCodec(StructType.fromJson(_with_numbers(self._json)))

    @cached_property
    def _fields(self) -> list[tuple[str, FromAvro, FromAvro]]:
        """Of each field, the name and two functions: from its value to what Avro writes, and back."""
        return [(f["name"], *_converters(f["type"])) for f in self._json["fields"]]

    def encode(self, row: bytes) -> bytes:
        """An UnsafeRow in Avro."""
        columns, out = self._codec.decode([row]), BytesIO()
        record = {name: write(column[0].as_py()) for (name, write, _), column in zip(self._fields, columns)}
        self._fastavro.schemaless_writer(out, self.avro, record)
        return out.getvalue()

    def decode(self, data: bytes, written: AvroRows | None = None, budget: Budget | None = None) -> bytes:  # (3)
        """The UnsafeRow of a row that was written with this schema, or with that of `written`.

        Raises ValueError; LimitExceeded if its values need more memory than the budget has.
        """
        if budget is not None:
            with budget.lent():
                take_avro(data, (written or self).avro, self.avro, budget)
        source = BytesIO(data)
        try:
            record = self._fastavro.schemaless_reader(source, (written or self).avro, self.avro)
        except (EOFError, IndexError, KeyError, TypeError, OverflowError, struct.error, MemoryError,
                self._fastavro.read.SchemaResolutionError) as e:
            raise ValueError(f"a row that is not in Avro of its schema ({type(e).__name__}: {e})") from e
        if source.tell() != len(data):
            raise ValueError(f"a row in Avro that ends at byte {source.tell()} of {len(data)}")
        values = [read(record[name]) for name, _, read in self._fields]
        columns = [pa.array([value], kind) for value, kind in zip(values, self._codec.arrow_types)]
        [row] = self._codec.encode(columns, 1)
        return row


def avro_type(kind: Any, path: str = ROOT) -> Any:  # (1)
    """The Avro schema of a type that is given as JSON. A record is named by its path, so that no two have the same name."""
    if isinstance(kind, str):
        return _PLAIN[kind] if kind in _PLAIN else _fixed(kind, path)
    match kind["type"]:
        case "struct":
            fields = [{"name": f["name"], "type": _or_null(avro_type(f["type"], f"{path}.{f['name']}")), "default": None}
                      for f in kind["fields"]]
            record = {"type": "record", "name": path, "fields": fields}
            return record if path == ROOT else ["null", record]
        case "array":
            if kind["elementType"] == "void":  # such elements take no bytes, so nothing would limit their number
                raise ValueError("an array of nothing, in Avro")
            return ["null", {"type": "array", "items": avro_type(kind["elementType"], path)}]
        case "map":
            return ["null", {"type": "map", "values": avro_type(kind["valueType"], path)}]
    raise ValueError(f"a type that Avro does not have: {str(kind)[:80]}")


def _or_null(kind: Any) -> Any:
    return kind if kind == "null" or isinstance(kind, list) else ["null", kind]


def _fixed(kind: str, path: str) -> dict[str, Any]:  # (2)
    precision, _ = _decimal(kind)
    size = next(n for n in range(1, 40) if 2 ** (8 * n - 1) >= 10**precision)
    return {"type": "fixed", "name": f"{path}.fixed", "size": size}


def _decimal(kind: str) -> tuple[int, int]:
    """Precision and scale. Raises ValueError if it is another type, which Avro does not have."""
    if not kind.startswith("decimal("):
        raise ValueError(f"a type that Avro does not have: {kind[:80]}")
    precision, scale = kind[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def _with_numbers(kind: Any) -> Any:
    """A type of Avro, with numbers for dates and times, whose UnsafeRows are the same."""
    if isinstance(kind, str):
        return _AS_NUMBERS.get(kind, kind)
    if isinstance(kind, list):
        return [_with_numbers(part) for part in kind]
    types = ("fields", "type", "elementType", "keyType", "valueType")
    return {name: _with_numbers(part) if name in types else part for name, part in kind.items()}


def _converters(kind: Any) -> tuple[FromAvro, FromAvro]:
    """From Arrow's Python values to Avro's, and back; only those of decimals and maps are different."""
    if isinstance(kind, str):
        if kind not in _PLAIN:
            precision, scale = _decimal(kind)
            size = _fixed(kind, "")["size"]
            return (
                _unless_none(lambda v: int(v.scaleb(scale, _WIDE)).to_bytes(size, "big", signed=True)),
                _unless_none(lambda v: decimal.Decimal(int.from_bytes(v, "big", signed=True)).scaleb(-scale, _WIDE)),
            )
        return (lambda v: v), (lambda v: v)
    match kind["type"]:
        case "struct":
            parts = [(f["name"], *_converters(f["type"])) for f in kind["fields"]]
            return (
                _unless_none(lambda v: {name: write(v[name]) for name, write, _ in parts}),
                _unless_none(lambda v: {name: read(v[name]) for name, _, read in parts}),
            )
        case "array":
            write, read = _converters(kind["elementType"])
            return _unless_none(lambda v: [write(x) for x in v]), _unless_none(lambda v: [read(x) for x in v])
    write, read = _converters(kind["valueType"])
    return (
        _unless_none(lambda v: {key: write(x) for key, x in v}),
        _unless_none(lambda v: [(key, read(x)) for key, x in v.items()]),
    )


def _unless_none(of: FromAvro) -> FromAvro:
    return lambda v: None if v is None else of(v)

