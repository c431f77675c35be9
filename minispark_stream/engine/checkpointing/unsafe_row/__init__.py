"""UnsafeRow, Spark's binary row (About state: state files; org.apache.spark.sql.catalyst.expressions.UnsafeRow).

State files hold their keys and values in this format, so it must be Spark's to the byte. One row is

    | null bits: ceil(n/64) words | one 8-byte slot per field | variable region |          little-endian

1. A fixed-width value is at the low end of its slot, and the rest of the slot is zero. A null has its bit set and a zero slot.
2. A string, binary, struct, array or map has `offset << 32 | size` in its slot; its bytes are in the variable region,
   in field order, padded with zeros to a multiple of 8. A struct is a nested row, and so begins again with null bits.
3. An array is `count: i64 | null bits | elements at their natural width, padded to 8 | variable region`;
   a map is `size of the key array: i64 | key array | value array`. Offsets in an array are relative to the array.
4. A decimal of up to 18 digits is stored as its unscaled i64. A longer one is in the variable region, as a big-endian two's
   complement number of minimal length; a row always reserves 16 bytes for it, even for null, but an array only reserves what
   is needed. A calendar interval (months i32, days i32, microseconds i64) has its 16 bytes there in the same way.
5. A variant or a geometry is stored like a binary; nothing here looks into its bytes.

A batch of rows is converted from and to Arrow columns, column by column, with numpy (codec.py): the positions of the values of
a column are an array of byte offsets into one buffer that holds all rows (columns.py). Each type says how its values are
written and read: types without parts in values.py, structs, arrays and maps in nested.py. A single row is changed in
single_row.py.

Rows read from disk are not trusted: every offset and size is checked against the bytes of its container. The values in the
variable regions may not take more bytes than all rows, times the levels of nesting (more is only possible if values share
bytes), so memory is bounded.

    schema (count long), row (5)          0000000000000000 0500000000000000
    schema (s string, d double), ('ab', null)
                                          0200000000000000 0200000018000000 0000000000000000 6162000000000000

Differs from Spark: a malformed row is refused; Spark reads whatever bytes are there.
Shown by tests/unit/engine/checkpointing/test_unsafe_row.py::test_damaged_rows_are_refused_or_decode_to_something_sound.
"""

from minispark_stream.engine.checkpointing.unsafe_row.codec import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows, Shape, are_among, as_arrow, chosen, comparable
from minispark_stream.engine.checkpointing.unsafe_row.single_row import FixedField, binary_fields, binary_row, long_row

__all__ = [
    "FixedField", "Rows", "Shape", "UnsafeRowCodec", "are_among", "as_arrow", "binary_fields", "binary_row", "chosen",
    "comparable", "long_row",
]
