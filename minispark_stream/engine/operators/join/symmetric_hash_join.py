"""A stream-stream join, seen from the driver: which rows may be joined, and how long they must be kept.

To see first what a join does with its rows, read symmetric_hash_join_row_by_row.py, which does the same a row at a time.

Models: StreamingSymmetricHashJoinExec, StreamingJoinStrategy and StreamingSymmetricHashJoinHelper (About state; SIGMOD'18
paper, 4.3: joins; From query to the plan).

1. Once: read the equal keys and the rest of the condition off Spark's Join node. A part of the condition that is about one side
   only is checked before a row is stored; the rest is checked for each pair.
2. In each batch: how long must the rows of a side wait? This is the *state watermark* of the side:
       a join key has a watermark             the watermark: a row with an older key cannot find a partner any more
       l.ts >= r.ts - 10 min and the like     the watermark, moved by the range that the condition allows
       neither                                none: the state grows for ever
3. The rows of both sides are shuffled by key to the partition that has the state of the key. There, in one stage, a task finds
   candidate pairs (symmetric_hash_join_probe.py), Spark filters them, and a second task changes the state
   (symmetric_hash_join_build.py).

       mapInArrow Build                                   state/0/<p>/{left,right}-{keyToNumValues,keyWithIndexToValue}
         Filter  rest of the condition
           mapInArrow Probe
             Union, partition by partition
               Repartition by key into N   (left, key, row)
               Repartition by key into N   (right, key, row)

    l.k = r.k and r.ts <= l.ts + 10 min, watermark 12:30      left rows up to 12:19:59.999 are evicted

The state is in format 2, Spark's default. Formats 3 and 4, which need RocksDB, are in extras/join_in_families.

Differs from Spark: state in format 1 is refused; in Spark, it is deprecated, and accepted for inner joins only. If keys are
structs, their fields may have different names on the two sides; Spark's operator takes them for different types, and refuses
them.
Shown by tests/spark/test_differences.py::test_what_only_the_model_refuses,
tests/spark/test_differences.py::test_structs_with_other_names_are_keys_of_a_join.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.join_stores import COUNTS, LEFT, RIGHT, SIDES, VALUES, store_name
from minispark_stream.engine.checkpointing.unsafe_row.plain import unique_names
from minispark_stream.engine.jvm import expressions, physical, plans, scala, sessions
from minispark_stream.engine.jvm.errors import extended_analysis_error
from minispark_stream.engine.jvm.expressions import without_names
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.base import StatefulOperator, state_schema
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.event_times import check_event_time, event_time_column, event_time_names
from minispark_stream.engine.operators.explained import ROWS, Decision, Entry
from minispark_stream.engine.operators.join.symmetric_hash_join_buffers import Buffers, FourStores
from minispark_stream.engine.operators.join.symmetric_hash_join_build import Build
from minispark_stream.engine.operators.join.symmetric_hash_join_condition import (
    columns_read,
    pairs_that_match,
    shifts_ms,
    split,
)
from minispark_stream.engine.operators.join.symmetric_hash_join_probe import Probe
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import TAGS, Join, JoinSide, check_join_type
from minispark_stream.engine.operators.join.symmetric_hash_join_shuffle import RowsByKey
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import COUNT_SCHEMA, indexed, with_matched
from minispark_stream.engine.operators.state_task import OperatorWatermarks
from minispark_stream.engine.operators.told import EMITTED
from minispark_stream.engine.plan.checked_plan import is_stream_stream_join, read
from minispark_stream.engine.state.state_store import PROVIDER_CLASS, ROCKS_DB_PROVIDER

STATE_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
MERGE_OPERATOR = "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion"


@dataclass(frozen=True, kw_only=True)
class SymmetricHashJoin(StatefulOperator):
    """A join of two streams.

    Attributes:
        key_schema, state_keys: the schema of the keys in tasks, and that of each side's keys in the state.
        rows, state_rows: the schemas of each side's rows, as they come and as the state has them.
        event_times: the column of each side that has a watermark.
        event_time_names: the names of all columns of each side that have one.
        key_event_time: the join key that has a watermark.
        shifts_ms: what to add to the watermark to get the state watermark of each side.
        keys: the keys of each side, as Catalyst expressions.
        rows_by_key, probes, builds: plan the rows of both sides up to the first task; the first task; the second task.
        pairs_that_match: the filter between the two tasks, if there is one.
        filtered_by: the positions of the columns of each side that it reads.
        may_put_aside: whether many new rows may wait in a file meanwhile.
    """

    join_type: str
    key_schema: StructType
    state_keys: tuple[StructType, StructType]
    rows: tuple[StructType, StructType]
    state_rows: tuple[StructType, StructType]
    event_times: tuple[EventTime | None, EventTime | None]
    event_time_names: tuple[tuple[str, ...], tuple[str, ...]]
    key_event_time: EventTime | None
    shifts_ms: tuple[int | None, int | None]
    keys: tuple[tuple[JavaObject, ...], tuple[JavaObject, ...]] = field(repr=False, compare=False)
    rows_by_key: RowsByKey = field(repr=False, compare=False)
    pairs_that_match: JavaObject | None = field(repr=False, compare=False)
    filtered_by: tuple[frozenset[int], frozenset[int]] = field(repr=False, compare=False)
    may_put_aside: bool
    probes: MapPartitions = field(repr=False, compare=False)
    builds: MapPartitions = field(repr=False, compare=False)
    operator_name = "symmetricHashJoin"

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return [
            store
            for i, (key, row) in enumerate(zip(self.state_keys, self.state_rows))
            for store in ((store_name(i, COUNTS), key, COUNT_SCHEMA), (store_name(i, VALUES), indexed(key), with_matched(row)))
        ]

    def readable(self, store: str, rows: Sequence[tuple[bytes, bytes]], batch: BatchContext) -> list[dict[str, Any]]:
        """Keys have the column names of the side that the store belongs to; in the files, they are field0, field1, ..."""
        return [{**row, "key": self.named(store, row["key"])} for row in super().readable(store, rows, batch)]

    def named(self, store: str, key: Mapping[str, Any]) -> dict[str, Any]:
        """A key of a store under those names."""
        names = self._key_names(LEFT if store.startswith(SIDES[LEFT]) else RIGHT)
        return dict(zip(unique_names([*names, *list(key)[len(names) :]]), key.values()))

    def _key_names(self, side: int) -> list[str]:
        """The names of the key's columns on one side; an expression is named by its SQL text."""
        return unique_names(key.name() if expressions.is_column(key) else key.sql() for key in self.keys[side])

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        return dict(zip(SIDES, self.rows)) if what == EMITTED else {"row": self.rows[side]}

    def entries(self) -> Sequence[Entry]:
        rows = [scala.items(side.output()) for side in (self.plan.left(), self.plan.right())]
        return tuple(
            Entry.of(dict(zip(self._key_names(side), keys)), keys, rows[side], self.event_times[side], rows[side])
            for side, keys in enumerate(self.keys)
        )

    @property
    def lateness(self) -> EventTime | None:
        return self.event_times[0] or self.event_times[1]

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        join = self.join(watermarks.eviction_ms)
        bounds = tuple(side.evict_value_ms if side.evict_key_ms is None else side.evict_key_ms for side in join.sides)
        return Decision(ROWS, self.late_ms(watermarks), bounds, join_type=self.join_type)

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        bounded = self.key_event_time is not None or self.shifts_ms != (None, None)
        return bounded and watermark_ms > eviction_ms

    def output_watermark(self, watermark_ms: int) -> int | None:
        """The least of the watermark and both state watermarks, because a row may be emitted at any time while it waits."""
        if self.key_event_time is not None:
            return watermark_ms
        return min([watermark_ms, *(watermark_ms + shift for shift in self.shifts_ms if shift is not None)])

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        session = context.session
        if not self.keys[LEFT]:  # refused where Spark refuses it: when the first batch is planned
            raise extended_analysis_error(session, self.plan, "_LEGACY_ERROR_TEMP_1181")
        check_join_type(self.join_type, context.output_mode)
        for names in self.event_time_names:
            check_event_time(session, names)
        join = self.join(context.watermarks[self.operator_id].eviction_ms)
        partitions = self.partitions(context.num_partitions)
        by_key = self.rows_by_key.over(session, [context.rows(child) for child in children], partitions)  # (3)
        buffers = self.buffers(context)
        probe = Probe(join=join, buffers=buffers, filtered_by=self.filtered_by, may_put_aside=self.may_put_aside)
        pairs = context.map_partitions(self.probes, by_key, self.of_batch(context, probe, self.probes))
        if self.pairs_that_match is not None:
            pairs = physical.filtered(session, pairs, self.pairs_that_match)
        build = self.of_batch(context, Build(join=join, buffers=buffers), self.builds)
        return context.leaf(context.map_partitions(self.builds, pairs, build, gathered=True))

    def buffers(self, context: BatchContext) -> Buffers:
        """Where the tasks of a batch find the waiting rows."""
        return FourStores()

    def join(self, watermark_ms: int) -> Join:
        """What the tasks need to know of the join, in a batch whose eviction watermark is `watermark_ms`."""
        sides = (self.side(LEFT, watermark_ms), self.side(RIGHT, watermark_ms))
        return Join(self.join_type, without_names(self.key_schema), self.key_event_time, sides)

    def side(self, number: int, watermark_ms: int) -> JoinSide:
        """(2) One side in a batch whose eviction watermark is `watermark_ms`."""
        shift_ms = self.shifts_ms[number]
        by_key = watermark_ms if self.key_event_time is not None else None
        by_value = watermark_ms + shift_ms if by_key is None and shift_ms is not None else None
        return JoinSide(without_names(self.rows[number]), self.event_times[number], by_key, by_value)


STATE_FORMATS: dict[str, Callable[..., SymmetricHashJoin]] = {"2": SymmetricHashJoin}


def register_join_state_format(version: str, operator: Callable[..., SymmetricHashJoin]) -> None:
    """Make joins with this state format an `operator`, which is a subclass of SymmetricHashJoin."""
    STATE_FORMATS[version] = operator


def confs_of_new_join(session: SparkSession, plan: JavaObject) -> dict[str, str]:
    """The confs that a new query in format 3 or 4 must set: both need RocksDB, and format 4 also lists without delimiters."""
    if not any(map(is_stream_stream_join, read(plan).down())):
        return {}
    if sessions.conf(session, PROVIDER_CLASS) != ROCKS_DB_PROVIDER:
        return {STATE_FORMAT: "2"}
    return {MERGE_OPERATOR: "2"} if int(str(sessions.conf(session, STATE_FORMAT))) == 4 else {}


def compile_symmetric_hash_join(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...]
) -> SymmetricHashJoin:
    """(1) Read the join off Spark's Join node.

    Raises:
        AnalysisException: the state format is 1, or another one that is not supported.
    """
    extract = scala.companion(session, "ExtractEquiJoinKeys")
    found = extract.unapply(plan)
    if (version := str(sessions.conf(session, STATE_FORMAT))) not in STATE_FORMATS:
        there_are = ", ".join(sorted(STATE_FORMATS))
        raise AnalysisException(
            message=f"minispark_stream implements stream-stream joins only with {STATE_FORMAT} of {there_are}, not {version}."
        )
    left_keys: list[JavaObject] = []
    right_keys: list[JavaObject] = []
    condition = plan.condition()
    if found.isDefined():
        _, left_seq, right_seq, condition, *_ = (found.get().productElement(i) for i in range(found.get().productArity()))
        left_keys, right_keys = scala.items(left_seq), scala.items(right_seq)
    left, right = scala.items(plan.left().output()), scala.items(plan.right().output())
    rows = (expressions.struct_type(left), expressions.struct_type(right))
    key_schema = expressions.as_nullable(session, _key_schema(left_keys))
    pairs = _pair_schema(key_schema, *rows)
    candidates = _pair_output(session, pairs, [*left, *right])
    parts = split(session, condition, plan)
    return STATE_FORMATS[version](
        operator_id=operator_id,
        join_type=str(plan.joinType().toString()),
        key_schema=key_schema,
        state_keys=(state_schema(session, _key_schema(left_keys)), state_schema(session, _key_schema(right_keys))),
        rows=rows,
        state_rows=(state_schema(session, rows[0]), state_schema(session, rows[1])),
        event_times=(event_time_column(left), event_time_column(right)),
        event_time_names=(event_time_names(left), event_time_names(right)),
        key_event_time=event_time_column(left_keys) or event_time_column(right_keys),
        shifts_ms=shifts_ms(session, plan, condition),
        keys=(tuple(left_keys), tuple(right_keys)),
        rows_by_key=RowsByKey(session, (left, right), (left_keys, right_keys), (parts.left, parts.right)),
        pairs_that_match=pairs_that_match(session, candidates, parts.both),
        filtered_by=(columns_read(parts.both, left), columns_read(parts.both, right)),
        may_put_aside=sessions.conf(session, "spark.io.encryption.enabled") != "true",
        probes=MapPartitions(session, pairs, pairs, candidates),
        builds=MapPartitions(session, pairs, expressions.struct_type(scala.items(plan.output())), plan.output()),
        plan=plan,
        children=children,
    )


def _pair_schema(keys: StructType, left: StructType, right: StructType) -> StructType:
    """The schema of the rows between the two tasks: tags, keys, left and right columns."""
    return StructType([*TAGS.fields, *expressions.positional(keys, left, right).fields])


def _pair_output(session: SparkSession, schema: StructType, rows: list[JavaObject]) -> JavaObject:
    """The attributes of these rows. The condition finds its columns by their expression ids; the names are different ones."""
    no_rows = plans.rdd_frame(session, plans.empty_rows(session), expressions.java_schema(session, schema))
    plan = plans.analyzed(no_rows)
    own = scala.items(plan.output())
    ids = [*own[: len(own) - len(rows)], *rows]
    return plans.rename(session, plan, [(a.name(), e.exprId()) for a, e in zip(own, ids)]).output()


def _key_schema(keys: Sequence[JavaObject]) -> StructType:
    fields = [
        {"name": f"field{i}", "type": json.loads(key.dataType().json()), "nullable": key.nullable(), "metadata": {}}
        for i, key in enumerate(keys)
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})
