"""A stream-stream join whose rows are in column families, seen from the driver: state formats 3 and 4.

Models: StreamingSymmetricHashJoinExec with `join.stateFormatVersion` 3 and 4 (About state: RocksDB).

1. All rows are in one store. In format 3, each store of format 2 is a family of this store (column_family.py). In format 4,
   rows are stored by key and event time, and another family finds those that the watermark has passed (rows_by_time.py).
2. Before the first batch of a run, the schemas of the families are compared with those of the checkpoint, or written.
3. The operator's metadata have version 2, and say that there are families.
4. In format 4, what the state watermark had passed a batch earlier has already been evicted, so it is not searched for again.
   This is right if no new row can be one that the state watermark of its side has already passed: if this watermark is never
   ahead of the query's watermark, or if the side's own event time is in the key.

    format 2    state/0/1/left-keyToNumValues/3.zip, state/0/1/left-keyWithIndexToValue/3.zip, ...
    format 3    state/0/1/3.zip

Differs from Spark: nothing.
Shown by tests/conformance/test_joins_in_families.py::test_each_engine_goes_on_where_the_other_stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql.types import LongType, NullType, StructField, StructType, TimestampType

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT, ROWS, TIMES, store_name
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, long_row
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_rows
from minispark_stream.engine.jvm import scala, sessions
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.batch_context import BatchContext, StateVariables
from minispark_stream.engine.operators.join.symmetric_hash_join import MERGE_OPERATOR, STATE_FORMAT, SymmetricHashJoin
from minispark_stream.engine.operators.join.symmetric_hash_join_buffers import Buffers
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import with_matched
from minispark_stream.extras.join_in_families.column_family import FourFamilies
from minispark_stream.extras.join_in_families.rows_by_time import (
    TIME_SIZE,
    TimedFamilies,
    micros_of,
    rows_in,
)
from minispark_stream.extras.rocksdb.column_family_schemas import NO_PREFIX, POSTFIX_TIME, PREFIX_TIME, Family
from minispark_stream.extras.rocksdb.family_numbers import SIZE
from minispark_stream.extras.transform_with_state.variable_schemas import check_or_write

PROPERTIES: Mapping[str, Any] = {"useVirtualColumnFamilies": True}  # (3)
EVENT_TIME = "__event_time"


@dataclass(frozen=True, kw_only=True)
class JoinInFamilies(SymmetricHashJoin):
    """State format 3."""

    @property
    def store_names(self) -> Sequence[str]:
        return self.layout().store_names

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return []  # those of the column families are in a file of their own

    def families(self) -> Sequence[Family]:
        return [Family(name, key, value, NO_PREFIX) for name, key, value in super().schemas()]

    def layout(self) -> FourFamilies | TimedFamilies:  # (1)
        return FourFamilies()

    def buffers(self, context: BatchContext) -> Buffers:
        return self.layout()

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        if self.operator_id not in context.state_variables:  # (2)
            paths, files = check_or_write(
                context.session, context.state_dir, self.operator_id, context.batch_id, PROPERTIES, self.families()
            )
            context.state_variables[self.operator_id] = StateVariables({}, PROPERTIES, paths, files)
        return super().plan_batch(context, children)

    # -- for a person -------------------------------------------------------------------------------------------

    def without_indexes(self, rows: Mapping[bytes, bytes], batch: BatchContext) -> Mapping[bytes, bytes]:
        shown = self._by_number()
        return {key: value for key, value in rows.items() if key[:SIZE] in shown}

    def readable(self, store: str, rows: Sequence[tuple[bytes, bytes]], batch: BatchContext) -> list[dict[str, Any]]:
        shown, found = self._by_number(), list[dict[str, Any]]()
        for key, value in rows:
            found += self._readable_row(shown[key[:SIZE]], key[SIZE:], value)
        return found

    def _by_number(self) -> dict[bytes, Family]:
        """The families whose rows are shown, by what their keys begin with."""
        numbers = self.layout().numbers()
        return {numbers.prefix(family.name): family for family in self.families() if not family.name.endswith(TIMES)}

    def _readable_row(self, family: Family, key: bytes, value: bytes) -> list[dict[str, Any]]:
        [of_key] = decode_rows(UnsafeRowCodec(family.key), [key[1:]])
        [of_value] = decode_rows(UnsafeRowCodec(family.value), [value[1:]])
        return [{"store": family.name, "key": self.named(family.name, of_key), "value": of_value}]


@dataclass(frozen=True, kw_only=True)
class JoinByTime(JoinInFamilies):
    """State format 4."""

    def families(self) -> Sequence[Family]:
        keys = [StructType([*key.fields, StructField(EVENT_TIME, LongType())]) for key in self.state_keys]
        return [
            family
            for side, (key, row) in enumerate(zip(keys, self.state_rows))
            for family in (
                Family(store_name(side, ROWS), key, with_matched(row), POSTFIX_TIME),
                Family(store_name(side, TIMES), key, StructType().add("__dummy__", NullType()), PREFIX_TIME),
            )
        ]

    def layout(self) -> TimedFamilies:
        return TimedFamilies()

    def buffers(self, context: BatchContext) -> Buffers:
        late_ms = context.watermarks[self.operator_id].late_ms if context.batch_id and context.allow_multiple else None
        return TimedFamilies(after_ms=(self._after_ms(LEFT, late_ms), self._after_ms(RIGHT, late_ms)))

    def _after_ms(self, side: int, late_ms: int | None) -> int | None:  # (4)
        event_time, shift_ms = self.event_times[side], self.shifts_ms[side]
        if late_ms is None or event_time is None:
            return None
        if self.key_event_time is not None:
            own = scala.items((self.plan.left() if side == LEFT else self.plan.right()).output())[event_time.position]
            return late_ms if own.semanticEquals(self.keys[side][self.key_event_time.position]) else None
        return late_ms + shift_ms if shift_ms is not None and shift_ms <= 0 else None

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        if (version := str(sessions.conf(context.session, MERGE_OPERATOR))) != "2":
            raise spark_error(
                context.session, IllegalArgumentException, "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",
                stateFormatVersionConfig=STATE_FORMAT, stateFormatVersion="4", mergeOperatorVersionConfig=MERGE_OPERATOR,
                mergeOperatorVersion=version, requiredMergeOperatorVersion="2",
            )
        return super().plan_batch(context, children)

    def _readable_row(self, family: Family, key: bytes, value: bytes) -> list[dict[str, Any]]:
        [of_key] = decode_rows(UnsafeRowCodec(self.key_schema), [key[1:-TIME_SIZE]])
        [at] = decode_rows(UnsafeRowCodec(StructType().add("time", TimestampType())), [long_row(micros_of(key[-TIME_SIZE:]))])
        rows = decode_rows(UnsafeRowCodec(family.value), rows_in(value))
        named = {**self.named(family.name, of_key), **at}
        return [{"store": family.name, "key": {**named, "index": i}, "value": row} for i, row in enumerate(rows)]
