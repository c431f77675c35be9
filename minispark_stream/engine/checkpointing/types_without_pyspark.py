"""The types of a schema for readers without PySpark, as far as a checkpoint needs them.

Models: DataType (About state).

1. A type is made from its JSON: a name, or an object for a struct, an array or a map.
2. Four types have another name in SQL than in JSON; for example, a long is a bigint.
3. The collation of a string is in the metadata of its field, under the path to the string.
4. An interval type has the first and the last of its units (its `fields`), as numbers.

    {"type": "array", "elementType": "long", "containsNull": true}     typeName array, simpleString array<bigint>

One thing is shown differently than by PySpark: the coordinate system of a geometry, by its name instead of its number.

Differs from Spark: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from minispark_stream.engine.checkpointing.errors import PySparkValueError

_IN_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}  # (2)
_FIELDS = {"day": 0, "hour": 1, "minute": 2, "second": 3, "year": 0, "month": 1}  # (4)
_COLLATIONS = "__COLLATIONS"
_NAME = re.compile(
    r"(?P<plain>string|binary|boolean|float|double|byte|short|integer|long|date|timestamp|timestamp_ntz|void|variant|interval)"
    r"|(?P<decimal>decimal)(\(\s*(?P<precision>\d+)\s*,\s*(?P<scale>-?\d+)\s*\))?"
    r"|(?P<sized>char|varchar|time)\(\s*\d+\s*\)"
    r"|interval (?P<first>day|hour|minute|second|year|month)( to (?P<last>hour|minute|second|month))?"
    r"|(?P<place>geometry|geography)(\(.*\))?"
    r"|(?P<collated>string)\s+collate\s+\w+"
)


class DataType:
    """A type: its names, its JSON, and its parts as attributes that have PySpark's names."""

    def __init__(self, name: str, in_sql: str, json: str | dict[str, Any], **parts: Any):
        self._name, self._in_sql, self._json = name, in_sql, json
        self.__dict__.update(parts)

    def typeName(self) -> str:
        return self._name

    def simpleString(self) -> str:
        return self._in_sql

    def jsonValue(self) -> str | dict[str, Any]:
        return self._json


class StructType(DataType):
    def __init__(self, fields: Sequence[StructField]):
        in_sql = ",".join(f"{f.name}:{f.dataType.simpleString()}" for f in fields)
        super().__init__("struct", f"struct<{in_sql}>", {"type": "struct", "fields": [f.jsonValue() for f in fields]})
        self.fields, self.names = list(fields), [f.name for f in fields]

    @classmethod
    def fromJson(cls, value: Mapping[str, Any]) -> StructType:
        """Raises PySparkValueError, KeyError or TypeError if `value` is not the JSON of a schema."""
        return cls([StructField.fromJson(f) for f in value["fields"]])


class StructField:
    def __init__(self, name: str, dataType: DataType, nullable: bool = True, metadata: Mapping[str, Any] | None = None):
        self.name, self.dataType, self.nullable = name, dataType, nullable
        self._all_metadata = dict(metadata or {})
        self.metadata = {key: v for key, v in self._all_metadata.items() if key != _COLLATIONS}

    @classmethod
    def fromJson(cls, value: Mapping[str, Any]) -> StructField:
        metadata = value.get("metadata") or {}
        collations = {path: name.partition(".")[2] for path, name in metadata.get(_COLLATIONS, {}).items()}
        kind = type_of_json(value["type"], value["name"], collations)
        return cls(value["name"], kind, value.get("nullable", True), metadata)

    def jsonValue(self) -> dict[str, Any]:
        json = self.dataType.jsonValue()
        return {"name": self.name, "type": json, "nullable": self.nullable, "metadata": self._all_metadata}


class ArrayType(DataType):
    def __init__(self, elementType: DataType, containsNull: bool = True):
        json = {"type": "array", "elementType": elementType.jsonValue(), "containsNull": containsNull}
        super().__init__("array", f"array<{elementType.simpleString()}>", json)
        self.elementType, self.containsNull = elementType, containsNull


class MapType(DataType):
    def __init__(self, keyType: DataType, valueType: DataType, valueContainsNull: bool = True):
        json = {"type": "map", "keyType": keyType.jsonValue(), "valueType": valueType.jsonValue(),
                "valueContainsNull": valueContainsNull}
        super().__init__("map", f"map<{keyType.simpleString()},{valueType.simpleString()}>", json)
        self.keyType, self.valueType, self.valueContainsNull = keyType, valueType, valueContainsNull


class BinaryType(DataType):
    def __init__(self) -> None:
        super().__init__("binary", "binary", "binary")


def type_of_json(value: Any, path: str, collations: Mapping[str, str]) -> DataType:
    if not isinstance(value, dict):
        return _named(value, collations.get(path))
    match value["type"]:  # (1)
        case "struct":
            return StructType.fromJson(value)
        case "array":
            return ArrayType(type_of_json(value["elementType"], f"{path}.element", collations), value["containsNull"])
        case "map":
            key = type_of_json(value["keyType"], f"{path}.key", collations)
            item = type_of_json(value["valueType"], f"{path}.value", collations)
            return MapType(key, item, value["valueContainsNull"])
        case kind:
            raise PySparkValueError(f"Unsupported DataType `{kind}`.", "UNSUPPORTED_DATA_TYPE", {"data_type": str(kind)})


def _named(text: str, collation: str | None) -> DataType:
    found = _NAME.fullmatch(text)
    if found is None:
        raise PySparkValueError(f"Unable to parse datatype. {text}.", "CANNOT_PARSE_DATATYPE", {"msg": text})
    if collation is not None:  # (3)
        return DataType("string", f"string collate {collation}", "string")
    if found["decimal"]:
        precision, scale = int(found["precision"] or 10), int(found["scale"] or 0)
        name = f"decimal({precision},{scale})"
        return DataType("decimal", name, name, precision=precision, scale=scale)
    if first := found["first"]:
        name = "yearmonthinterval" if first in ("year", "month") else "daytimeinterval"
        return DataType(name, text, text, startField=_FIELDS[first], endField=_FIELDS[found["last"] or first])
    kind = found["plain"] or found["sized"] or found["place"] or found["collated"]
    return DataType(kind, _IN_SQL.get(text, text), text)
