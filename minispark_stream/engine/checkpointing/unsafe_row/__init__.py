"""UnsafeRow, Spark's binary row (About state: state files; org.apache.spark.sql.catalyst.expressions.UnsafeRow).

State files hold their keys and values in this format, so it must be Spark's to the byte. One row is

    | null bits: ceil(n/64) words | one 8-byte slot per field | variable region |          little-endian

1. A fixed-width value lies at the low end of its slot, the rest is zero. A null has its bit set and a zero slot.
2. A string, binary, struct, array or map has `offset << 32 | size` in its slot; its bytes are in the variable region,
   in field order, zero-padded to 8. A struct is a nested row, and so begins again with null bits.
3. An array is `count: i64 | null bits | elements at their natural width, padded to 8 | variable region`;
   a map is `size of the key array: i64 | key array | value array`. Offsets in an array are relative to the array.
4. A decimal of up to 18 digits is its unscaled i64; a longer one is big-endian two's complement of minimal length in
   the variable region, where a row always keeps 16 bytes for it, even for null; an array keeps what is needed. A calendar
   interval (months i32, days i32, microseconds i64) has its 16 bytes there likewise.
5. A variant or a geometry is there as the bytes that it consists of; nothing here looks into them.

A whole batch goes in and out as Arrow columns, column by column, with numpy (codec.py): positions are arrays of byte offsets,
one per value, into one buffer that holds all rows (columns.py). How a value is written and read stands beside its type: values
without parts (values.py), structs, arrays and maps (nested.py). One row at a time is single_row.py.

Rows read from disk are not trusted: every offset and size is checked against the bytes of its container, and all values of
one depth may not be larger than all rows together (they would have to share bytes), so memory is bounded.

    schema (count long), row (5)          0000000000000000 0500000000000000
    schema (s string, d double), ('ab', null)
                                          0200000000000000 0200000018000000 0000000000000000 6162000000000000

Differs from Spark: a malformed row is refused, where Spark reads whatever bytes are there.
Shown by tests/unit/engine/checkpointing/test_unsafe_row.py::test_damaged_rows_are_refused_or_decode_to_something_sound.
"""

from minispark_stream.engine.checkpointing.unsafe_row.codec import UnsafeRowCodec, rows_of
from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows, Shape, as_arrow, chosen
from minispark_stream.engine.checkpointing.unsafe_row.single_row import FixedField, binary_fields, binary_row, long_row

__all__ = [
    "FixedField", "Rows", "Shape", "UnsafeRowCodec", "as_arrow", "binary_fields", "binary_row", "chosen", "long_row", "rows_of",
]
