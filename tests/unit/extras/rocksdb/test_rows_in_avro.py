"""Rows in Avro: Spark's bytes, rows of older schemas, and bytes that are no such rows."""

from __future__ import annotations

import random
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import binary_row, long_row
from minispark_stream.engine.operators.groups.group_state_rows import GroupStateRows
from minispark_stream.extras.rocksdb.avro_rows import AvroRows, avro_type
from minispark_stream.extras.rocksdb.avro_state_encoder import AvroStateEncoder
from minispark_stream.extras.rocksdb.column_family_schemas import Family, decode_column_families, encode_column_families
from minispark_stream.extras.rocksdb.key_encoding import UNSAFE_ROW, at_time, time_of, two_rows
from minispark_stream.extras.transform_with_state.column_families import ColumnFamilies
from minispark_stream.extras.transform_with_state.keyed_families import KeyedFamilies, TupleRows
from minispark_stream.extras.transform_with_state.state_variables import VOID
from minispark_stream.extras.transform_with_state.stateful_processor_handle import PROCESSING_TIME, Handle
from minispark_stream.extras.transform_with_state.variable_schemas import families_of, families_of_timers
from tests.unit.extras.transform_with_state.test_column_families import open_store, with_metadata

USER = StructType().add("user", "string")
COUNT = StructType().add("count", "integer")
PAGE = StructType().add("page", "string")


def declared(count: StructType = COUNT, value_id: int = 0) -> list[Family]:
    found = [
        *families_of("value", "total", USER, [count], True), *families_of("map", "pages", USER, [PAGE, count], True),
        *families_of("list", "seen", USER, [count], False), *families_of_timers(PROCESSING_TIME, USER),
    ]
    own = ("total", "pages", "seen")
    return [Family(f.name, f.key, f.value, f.encoder, f.user_key, 0, value_id if f.name in own else 0) for f in found]


# --- keys and values ----------------------------------------------------------------------------------------------


def test_bytes_are_those_of_spark() -> None:
    """The expected bytes are from files of Spark 4.3.0."""
    encoder = AvroStateEncoder([declared()], b"")
    user, page = TupleRows(USER).encode(("b",)), TupleRows(PAGE).encode(("m2",))
    pair = binary_row(user, page)
    for family, key, expected in [
        ("total", UNSAFE_ROW + user, "00 0000 020262"),
        ("pages", two_rows(binary_row(user), binary_row(page)), "05000000 00 02020262 00 0000 0202046d32"),
        ("$ttl_total", at_time(1795508811389, binary_row(user)), "0e000000 00 0202010210000001a20caa367d 00 0000 02020262"),
        ("$ttl_pages", at_time(-5, binary_row(pair)), "0e000000 00 0202000210fffffffffffffffb 00 0000 0202020262 0202046d32"),
        ("$procTimers_keyToTimestamp", two_rows(binary_row(user), long_row(3)), "05000000 00 02020262 00 0000 0206"),
    ]:
        stored = encoder.key(family, key)
        assert stored.hex() == expected.replace(" ", ""), family
        assert encoder.of_key(family, stored) == key
    for family, value, expected in [("$ttl_total", VOID, "00 0000"), ("$rowCounter_seen", UNSAFE_ROW + long_row(2), "00 0000 0204")]:
        stored = encoder.value(family, value)
        assert stored.hex() == expected.replace(" ", "") and encoder.of_value(family, stored) == value


def test_a_time_is_found_in_both_encodings() -> None:
    encoder = AvroStateEncoder([declared()], b"")
    for ms in (0, 7, -1, 1795508811389):
        key = at_time(ms, binary_row(TupleRows(USER).encode(("b",))))
        assert time_of(key) == time_of(encoder.key("$ttl_total", key)) == ms


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct_of(**fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [field(name, kind) for name, kind in fields.items()]}


def test_rows_of_every_type_are_those_of_spark_and_come_back() -> None:
    """The expected bytes are what Spark's AvroSerializer makes of the same row."""
    schema = StructType.fromJson(struct_of(
        n="integer", s="string", d="decimal(20,3)", e="decimal(9,9)", f="float", g="double", v="void", b="binary", t="timestamp", dt="date",
        o="boolean", by="byte", sh="short", l="long", ai={"type": "array", "elementType": "integer", "containsNull": True},
        ast={"type": "array", "elementType": struct_of(x="decimal(4,1)"), "containsNull": True},
        m={"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True}, st=struct_of(value=struct_of(value="integer")),
    ))
    value = (
        7, "ü", Decimal("-12.345"), Decimal("0.999999999"), 0.5, -1e300, None, b"\0\xff", datetime(2024, 1, 1, 12, tzinfo=UTC),
        date(1969, 12, 31), True, -128, 300, 1 << 62, [1, -2], [(Decimal("1.5"),), (None,)], {"k": date(2024, 1, 1)}, ((5,),),
    )
    expected = (
        "020e 0204c3bc 02ffffffffffffffcfc7 023b9ac9ff 020000003f 029c7500883ce437fe 020400ff 0280c0e6f0a3f88606 0201 0201 02ff01 02d804"
        "0280808080808080808001 0204020300 0204 0202000f 0200 00 0202026b96b40200 0202020a"
    )
    rows = AvroRows(schema)
    [row] = GroupStateRows(schema, False).encode([value], [-1])
    assert rows.encode(row[16:]) == bytes.fromhex(expected)
    for given in (value, (None,) * len(value)):
        [row] = GroupStateRows(schema, False).encode([given], [-1])
        assert rows.decode(rows.encode(row[16:])) == row[16:]


def test_a_schema_that_avro_has_not() -> None:
    with pytest.raises(ValueError, match="a schema that Avro does not have"):
        AvroRows(StructType().add("twice", USER).add("twice", USER))


@pytest.mark.parametrize("kind", ["interval day", "variant", {"type": "array", "elementType": "void", "containsNull": True}])
def test_what_avro_has_no_type_for(kind: Any) -> None:
    with pytest.raises(ValueError, match="Avro"):
        avro_type(kind)


def test_bytes_that_are_no_row_are_refused() -> None:
    schema = StructType().add("n", "integer").add("s", "string").add("d", "decimal(20,3)")
    rows, chance = AvroRows(schema), random.Random(28)
    [row] = GroupStateRows(schema, False).encode([(7, "text", Decimal("1.5"))], [-1])
    good = rows.encode(row[16:])
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            rows.decode(bytes(data[: chance.randint(0, len(data))]))
        except ValueError:
            continue
    with pytest.raises(ValueError, match="ends at byte"):
        rows.decode(good + b"x")
    encoder = AvroStateEncoder([declared()], b"")
    with pytest.raises(ValueError, match="schema number 9, which no schema file contains"):
        encoder.of_value("total", b"\0\x09\0")
    with pytest.raises(ValueError, match="ends before the number of its schema"):
        encoder.of_value("total", b"\0\0")


# --- other schemas ------------------------------------------------------------------------------------------------


SCHEMAS = [{"n": "integer", "s": "string"}, {"n": "integer", "s": "string", "d": "double"}, {"d": "double", "n": "long", "s": "string"},
           {"n": "long", "m": "integer"}, {"m": "long", "n": "double"}]
VALUES: list[tuple[Any, ...]] = [(7, "s7"), (7, None, 1.75), (1.75, 7, "s7"), (7, -7), (-7, 7.0)]
WRITTEN = [
    "000000020e02047337",
    "000100020e0002000000000000fc3f",
    "00020002000000000000fc3f020e02047337",
    "000300020e020d",
    "000400020d020000000000001c40",
]
READ = [  # by each schema, what was written with it and with those before
    [
        "0000000000000000070000000000000002000000180000007337000000000000",
    ],
    [
        "04000000000000000700000000000000020000002000000000000000000000007337000000000000",
        "020000000000000007000000000000000000000000000000000000000000fc3f",
    ],
    [
        "01000000000000000000000000000000070000000000000002000000200000007337000000000000",
        "0400000000000000000000000000fc3f07000000000000000000000000000000",
        "0000000000000000000000000000fc3f070000000000000002000000200000007337000000000000",
    ],
    [
        "020000000000000007000000000000000000000000000000",
        "020000000000000007000000000000000000000000000000",
        "020000000000000007000000000000000000000000000000",
        "00000000000000000700000000000000f9ffffff00000000",
    ],
    [
        "010000000000000000000000000000000000000000001c40",
        "010000000000000000000000000000000000000000001c40",
        "010000000000000000000000000000000000000000001c40",
        "0000000000000000f9ffffffffffffff0000000000001c40",
        "0000000000000000f9ffffffffffffff0000000000001c40",
    ],
]


def test_values_of_every_schema_are_those_of_spark() -> None:
    """What Spark's AvroStateEncoder writes with each schema, and the UnsafeRow that it reads from what the earlier ones have written."""
    schemas = [StructType.fromJson(struct_of(**schema)) for schema in SCHEMAS]
    for i, schema in enumerate(schemas):
        encoder = AvroStateEncoder([[Family("v", USER, schemas[j], {}, None, 0, j)] for j in range(i + 1)], b"")
        [row] = GroupStateRows(schema, False).encode([VALUES[i]], [-1])
        assert encoder.value("v", UNSAFE_ROW + row[16:]).hex() == WRITTEN[i]
        assert [encoder.of_value("v", bytes.fromhex(value))[1:].hex() for value in WRITTEN[: i + 1]] == READ[i]


def test_a_schema_file_has_the_numbers_of_the_schemas() -> None:
    before = declared(value_id=3)
    assert decode_column_families(encode_column_families(before)) == sorted(before, key=lambda family: family.name)


def test_variables_are_read_by_the_schemas_that_they_were_written_with(tmp_path: Path, fresh_process: None) -> None:
    """A list has elements of both schemas; only what is written anew has the new one."""
    with_metadata(tmp_path)
    wider = StructType().add("last", "string").add("count", "long")
    files = [declared(), declared(wider, 1)]

    def begin(version: int, schema: StructType, known: list[list[Family]]) -> tuple[Any, Any, list[Any]]:
        store = open_store(tmp_path, version)
        keyed = KeyedFamilies(ColumnFamilies(store, b"", AvroStateEncoder(known, b"")), USER, 1000)
        handle = Handle(keyed, PROCESSING_TIME, {})
        made = [handle.getValueState("total", schema, 60_000), handle.getMapState("pages", PAGE, schema, 60_000), handle.getListState("seen", schema)]
        handle.initialize()
        keyed.set_implicit_key(("ann",))
        return store, handle, made

    store, handle, (total, pages, seen) = begin(0, COUNT, files[:1])
    total.update((3,))
    for page in ("b", "a", "ccc"):
        pages.updateValue((page,), (len(page),))
    seen.appendList([(7,), (8,)])
    handle.registerTimer(5)
    handle.keyed.set_implicit_key(None)
    store.commit()
    store, handle, (total, pages, seen) = begin(1, wider, files)
    assert total.get() == (None, 3) and list(seen.get()) == [(None, 7), (None, 8)]
    assert dict(pages.iterator()) == {("a",): (None, 1), ("b",): (None, 1), ("ccc",): (None, 3)}
    assert list(pages.keys()) == [("a",), ("b",), ("ccc",)]  # in the order of their bytes, as in RocksDB
    assert list(handle.listTimers()) == [5] and [time for _, time in handle.expired_timers(9)] == [5]
    seen.appendValue(("new", 1 << 40))
    handle.keyed.write_what_waits()
    assert list(seen.get()) == [(None, 7), (None, 8), ("new", 1 << 40)]
    values = {key[2:]: value for key, value in zip(*store.rows()) if value.startswith(struct.pack("<i", 5))}
    [stored] = values.values()  # elements of 5 and 5 bytes with number 0, then one with number 1
    assert stored[4:7] == b"\0\0\0" and stored[13:16] == b"\0\0\0" and stored[22:25] == b"\0\1\0"
