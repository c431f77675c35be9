"""Whether the first row that is read of a state has the form of the query's schema.

Models: StateStoreProvider.validateStateRowFormat and UnsafeRowUtils.validateStructuralIntegrityWithReason (no document).

The schema of a state is compared with that of the query before the first batch (state_schema_compatibility_checker.py). This
check finds what that one does not: it may be switched off, and files may be from elsewhere. It looks at one row of each store:

1. The row must have room for the null bits and for one word per field.
2. The word of a string, or of another value of variable size, must point into the row, behind the words.
3. The word of a value of fewer than 8 bytes must be zero in its other bytes. A date is not checked.
4. The word of a null must be zero. (A null decimal of more than 18 digits may keep its place in the row.)

    row of (string "a")     00.. | offset 16, size 1 | "a"     as a row of (int): the upper half of the word is 16, not 0

`stateStore.formatValidation.enabled` switches it off. The HDFS-backed store checks the first row of the first file that it
reads, and RocksDB the first row that a batch finds. Deduplication, which stores no values, only has its keys checked.

Differs from Spark: the message does not show where the row has which field.
Shown by tests/unit/engine/state/test_row_format.py::test_the_message.
"""

from __future__ import annotations

from dataclasses import dataclass

from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row.codec import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.columns import null_bytes
from minispark_stream.engine.checkpointing.unsafe_row.values import BigDecimal, Fixed, Null
from minispark_stream.engine.state.state_store import StateStoreId, state_error

BITS = {"boolean": 1, "byte": 8, "short": 16, "integer": 32, "float": 32}  # the types that Spark checks, and what they fill


@dataclass(frozen=True)
class RowFormat:
    """The schemas of the rows of a store. `value` is None if values are not checked."""

    key: StructType
    value: StructType | None

    def check(self, store_id: StateStoreId, key: bytes | None, value: bytes) -> None:
        """Check a row of a store; `key` is None if it need not be checked.

        Raises:
            SparkRuntimeException: STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE, or the same with VALUE.
        """
        if key is not None and (reason := fault(key, self.key)):
            raise _error("key", reason, store_id)
        if self.value is not None and (reason := fault(value[: len(value) & ~7], self.value)):
            raise _error("value", reason, store_id)


def fault(row: bytes, schema: StructType) -> str | None:
    """Why bytes are no row of this schema; None if they may be one."""
    types = UnsafeRowCodec(schema).row.fields
    bits = null_bytes(len(types))
    fixed_bytes = bits + 8 * len(types)
    if types and bits >= len(row):  # (1)
        return (
            f"rowSizeInBytes should not exceed bitSetWidthInBytes, bitSetWidthInBytes: {bits}, rowSizeInBytes: {len(row)}"
        )
    used = 0
    for index, (field, of_type) in enumerate(zip(schema.fields, types)):
        at = bits + 8 * index
        word = int.from_bytes(row[at : at + 8], "little")
        offset, size = word >> 32, word & 0xFFFFFFFF
        where = f"field: {field.name} {field.dataType.simpleString()}, index: {index}"
        is_null = row[index >> 3] >> (index & 7) & 1
        if is_null and isinstance(of_type, BigDecimal):  # (4)
            if size or offset and not fixed_bytes <= offset <= len(row):
                return f"Variable-length decimal field special case validation error: {where}"
        elif is_null:
            if word:
                return f"Variable-length offset-size validation error: {where}"
        elif isinstance(of_type, Fixed | Null):  # (3)
            if word >> BITS.get(field.dataType.typeName(), 64):
                return f"Fixed-length field validation error: {where}"
        else:  # (2)
            if offset < fixed_bytes or offset + size > len(row):
                return f"Variable-length field validation error: {where}"
            used += size
    if fixed_bytes + used > len(row):
        return f"Row total length invalid: calculated: {fixed_bytes + used} rowSizeInBytes: {len(row)}"
    return None


def _error(part: str, reason: str, store: StateStoreId) -> Exception:
    return state_error(
        f"STATE_STORE_{part.upper()}_ROW_FORMAT_VALIDATION_FAILURE",
        f"The streaming query failed to validate written state for {part} row for stateStore={store}.\n"
        "The following reasons may cause this:\n"
        "1. An old Spark version wrote the checkpoint that is incompatible with the current one\n"
        "2. Corrupt checkpoint files\n"
        "3. The query changed in an incompatible way between restarts\n"
        "For the first case, use a new checkpoint directory or use the original Spark version\n"
        f"to process the streaming state. Retrieved error_message=Error message is: {reason}",
        "XX000", errorMsg=reason, stateStoreID=store,
    )
