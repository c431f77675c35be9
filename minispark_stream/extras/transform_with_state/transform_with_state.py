"""transformWithState and transformWithStateInPandas, seen from the driver: a processor with its own state variables.

Models: the TransformWithStateInPySpark node, TransformWithStateInPySparkExec and its driver worker (About state; SIGMOD'18
paper, 4.3.2: a state of the user's own).

A StatefulProcessor has any number of named state variables (values, lists, maps) and timers. They are kept in column families
of one store. Of Spark's state store providers only RocksDB's has column families: with the HDFS-backed one the first batch
fails, after its offsets have been logged.

1. Once: read the keys, schemas, modes and the pickled processor from Spark's logical node.
2. Before the first batch of a run: a job of one task (declare_variables.py) calls the processor's `init`, to learn the schemas
   of its variables. The context remembers them for the run. They must fit those of the checkpoint (variable_schemas.py).
3. Each batch: shuffle the rows by key to the partition whose store holds the key, and sort them by key. In the first batch of
   the query, the rows of the initial state are among them.
4. One task per partition calls the processor (transform_with_state_task.py).
5. A batch without data is run in processing-time mode always, because time has passed, and otherwise if the watermark has
   moved.

       mapInArrow TransformWithStateTask        state/0/<p>        (4)
         Sort by k
           Repartition by k into N                                 (3)
             new rows (union initial state)

The state is in Spark's files: the column families as RocksDB has them (column_families.py), their schemas, and the variables in
the operator's metadata (variable_schemas.py). So each engine can continue where the other has stopped.

With `stateStore.encodingFormat=avro`, rows are in Avro, and a variable may have another schema after a restart
(schema_evolution.py).

Differs from Spark: Spark 4.3.0's worker fails to read the schema of a key that contains an array or a map; here an array
works, and in pandas a map works, too. If `init` or `close` of the processor raises an error, the query ends with that error;
Spark's error says only that a "driver worker exited unexpectedly".
Shown by tests/conformance/test_transform_with_state.py::test_a_key_may_have_an_array_in_it,
tests/spark/test_differences.py::test_a_processor_that_fails_before_or_after_its_rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import SparkRuntimeException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from minispark_stream.engine.jvm import expressions, physical, plans, query_execution, scala, sessions
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.base import StatefulOperator, state_schema
from minispark_stream.engine.operators.batch_context import BatchContext, StateVariables
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.event_times import check_event_time, event_time_column, event_time_names
from minispark_stream.engine.operators.explained import Entry, parts_of_function
from minispark_stream.engine.operators.groups.flat_map_groups_with_state import pandas_conf
from minispark_stream.engine.operators.groups.group_state_rows import without_metadata
from minispark_stream.engine.operators.told import FIRED
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, HDFS_PROVIDER, PROVIDER_CLASS
from minispark_stream.extras.transform_with_state.declare_variables import DeclareVariables
from minispark_stream.extras.transform_with_state.readable_variables import ReadableVariables
from minispark_stream.extras.transform_with_state.rows_of_keys import Input
from minispark_stream.extras.transform_with_state.schema_evolution import avro_schema
from minispark_stream.extras.transform_with_state.stateful_processor_handle import EVENT_TIME, NO_TIME, PROCESSING_TIME
from minispark_stream.extras.transform_with_state.transform_with_state_task import TransformWithStateTask
from minispark_stream.extras.transform_with_state.variable_schemas import (
    check_or_write,
    families_of,
    families_of_timers,
    is_in_avro,
    properties,
    with_nulls,
)

SchemasByName = dict[str, StructType]


@dataclass(frozen=True, kw_only=True)
class TransformWithState(StatefulOperator):
    """A processor with state variables: what the node of the plan says about it.

    `attributes` and `initial_attributes` are the columns of the two `Input`s; `output_event_time` is the position of the output
    column that carries the watermark from here on.
    """

    task: TransformWithStateTask = field(repr=False)
    output_mode: str
    event_times: tuple[str, ...]
    function: JavaObject = field(repr=False, compare=False)
    tasks: MapPartitions = field(repr=False, compare=False)
    attributes: tuple[JavaObject, ...] = field(repr=False, compare=False)
    initial_attributes: tuple[JavaObject, ...] = field(repr=False, compare=False)

    @property
    def operator_name(self) -> str:
        return f"transformWithStateIn{'Pandas' if self.task.in_pandas else 'PySpark'}Exec"

    @property
    def store_names(self) -> Sequence[str]:
        return (DEFAULT_STORE_NAME,)

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return []  # those of the column families are in a file of their own

    def readable(self, store: str, rows: Sequence[tuple[bytes, bytes]], batch: BatchContext) -> list[dict[str, Any]]:
        return self._readable(batch).rows(rows)

    def without_indexes(self, rows: Mapping[bytes, bytes], batch: BatchContext) -> Mapping[bytes, bytes]:
        return self._readable(batch).of_variables(rows) if rows else rows

    def _readable(self, batch: BatchContext) -> ReadableVariables:
        delimiter = batch.state_conf.list_delimiter
        return ReadableVariables(batch.state_dir, self.operator_id, delimiter, is_in_avro(batch.session))

    def entries(self) -> Sequence[Entry]:
        keys = {self.attributes[i].name(): self.attributes[i] for i in self.task.input.grouping}
        return (Entry.of(keys, [*keys.values()], self.attributes, self.lateness, self.attributes),)

    @property
    def lateness(self) -> EventTime | None:
        return self.task.event_time if self.task.time_mode == EVENT_TIME else None

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        time = {"timer": StructType().add("ms", LongType())} if what == FIRED else {}
        return {**(parts_of_function(what, self.task.keys, self.task.result) or super().parts_of_told(what, side)), **time}

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        """(5)"""
        if self.task.time_mode == PROCESSING_TIME:
            return True
        return self.output_mode in ("Append", "Update") and watermark_ms > eviction_ms

    def output_watermark(self, watermark_ms: int) -> int | None:
        return None if self.task.time_mode == PROCESSING_TIME else watermark_ms

    def begin_run(self, context: BatchContext) -> None:
        session = context.session
        if (provider := sessions.conf(session, PROVIDER_CLASS) or HDFS_PROVIDER) == HDFS_PROVIDER:
            condition = "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"
            raise spark_error(session, UnsupportedOperationException, condition, stateStoreProvider=provider)
        check_event_time(session, self.event_times)
        if self.operator_id not in context.state_variables:
            context.state_variables[self.operator_id] = self._declare(context)  # (2)

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        session = context.session
        self.begin_run(context)
        with_initial = self.task.initial is not None and context.batch_id == 0
        declared = context.state_variables[self.operator_id]
        task = self.of_batch(
            context,
            self.task,
            self.tasks,
            initial=self.task.initial if with_initial else None,
            schemas=declared.schemas,
            families=declared.families if is_in_avro(session) else (),
            batch_timestamp_ms=context.timestamp_ms,
        )
        if with_initial:
            rows = physical.spark_plan(self._with_initial_state(context, children))
            columns = expressions.struct_type(scala.items(rows.output()))
            tasks = MapPartitions(session, columns, task.result, self.plan.output(), self.function)
        else:
            rows = physical.projected(session, context.rows(children[0]), scala.seq(session, self.attributes))
            tasks = self.tasks
        attributes = scala.items(rows.output())
        keys = [attributes[i] for i in (range(len(task.keys)) if with_initial else task.input.grouping)]
        sorted_rows = physical.sorted_by(session, physical.by_key(session, rows, keys, task.info.num_partitions), keys)  # (3)
        return context.leaf(context.map_partitions(tasks, sorted_rows, task))  # (4)

    def _with_initial_state(self, context: BatchContext, children: Sequence[JavaObject]) -> DataFrame:
        """The keys, a struct of a new row's columns, and a struct of the initial state's; one of the structs is null."""
        assert self.task.initial is not None
        new = self._side(context, children[0], self.attributes, self.task.input, "new")
        old = self._side(context, children[1], self.initial_attributes, self.task.initial, "old")
        nothing_new, nothing_old = (F.lit(None).cast(df.schema[-1].dataType) for df in (new, old))
        keys = new.columns[:-1]
        return new.withColumn("old", nothing_old).union(old.withColumn("new", nothing_new).select(*keys, "new", "old"))

    @staticmethod
    def _side(context: BatchContext, plan: JavaObject, attributes: Sequence[JavaObject], source: Input, name: str) -> DataFrame:
        session = context.session
        rows = _rows(session, context.leaf(context.rows(plan), of_inputs=True), attributes)
        keys = [rows[f"_{i}"].alias(f"k{n}") for n, i in enumerate(source.grouping)]
        return rows.select(*keys, F.struct(*rows.columns).alias(name))

    def _declare(self, context: BatchContext) -> StateVariables:
        """Ask the processor for its variables, and compare them with those of the checkpoint."""
        session, keys, time_mode = context.session, self.task.keys, self.task.time_mode
        one_row = session.range(0, 1, 1, 1).select(F.lit("").alias("variables"))
        tasks = MapPartitions(session, one_row.schema, one_row.schema, plans.analyzed(one_row).output(), self.function)
        job = tasks.over(physical.executable(one_row).execute(), DeclareVariables(self.task.command))
        [(text,)] = plans.of_rows(session, physical.leaf(session, query_execution.prepared(session, job))).collect()
        parse = scala.java_class(session, "StructType")
        schemas, families = SchemasByName(), list(families_of_timers(time_mode, keys))
        variables: list[tuple[str, str, bool]] = []
        fields: list[str] = []
        lives: dict[str, int] = {}
        for kind, name, texts, ttl_ms in json.loads(text):
            if name in (known for _, known, _ in variables):
                raise spark_error(
                    session, SparkRuntimeException, "STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED", stateVarName=name
                )
            variables.append((kind, name, bool(ttl_ms)))
            lives |= {name: ttl_ms} if ttl_ms else {}
            as_json = [parse.fromDDL(t).json() if is_ddl else t for is_ddl, t in texts]
            parsed = [without_metadata(StructType.fromJson(json.loads(t))) for t in as_json]
            for schema in (keys, *parsed):
                avro_schema(session, schema)  # however rows are encoded, a type that Avro does not have is refused
            schemas |= {t: schema for (is_ddl, t), schema in zip(texts, parsed) if is_ddl}
            fields += [f"{name}.{one.name} {one.dataType.simpleString()}" for schema in parsed for one in schema.fields]
            families += families_of(kind, name, keys, parsed, bool(ttl_ms))
        if is_in_avro(session):
            families = with_nulls(session, families)
        found = properties(time_mode, self.output_mode, variables)
        paths, files = check_or_write(session, context.state_dir, self.operator_id, context.batch_id, found, families)
        return StateVariables(schemas, found, paths, files, fields, lives, is_in_avro(session))


def _rows(session: SparkSession, plan: JavaObject, attributes: Sequence[JavaObject]) -> DataFrame:
    """Some columns of a plan, named _0, _1, ..."""
    columns = [expressions.column(session, a).alias(f"_{i}") for i, a in enumerate(attributes)]
    return plans.of_rows(session, plan).select(*columns)


def compile_transform_with_state(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...],
    output_event_time: JavaObject | None = None,
) -> TransformWithState:
    """(1) Read the operator from Spark's TransformWithStateInPySpark node `plan`.

    `output_event_time` is the column of the output that carries the watermark from here on.
    """
    names = scala.fields(plan)
    child = scala.items(names["child"].output())
    attributes, source = _input(child, names["groupingAttributesLen"])
    initial_attributes: list[JavaObject] = []
    initial = None
    if names["hasInitialState"]:
        initial_attributes, initial = _input(scala.items(names["initialState"].output()), names["initGroupingAttrsLen"])
    key_schema = expressions.struct_type(child[: names["groupingAttributesLen"]])
    result = expressions.struct_type(scala.items(plan.output()))
    ids = [a.exprId().id() for a in scala.items(plan.output())]
    function = names["functionExpr"].func()
    return TransformWithState(
        operator_id=operator_id,
        task=TransformWithStateTask(
            command=expressions.command(session, names["functionExpr"]),
            in_pandas=str(names["userFacingDataType"].toString()).lower() == "pandas",
            input=source,
            initial=initial,
            keys=without_metadata(state_schema(session, key_schema)),
            result=result,
            time_mode=str(names["timeMode"].toString()) or NO_TIME,
            event_time=event_time_column(attributes),
            output_event_time=ids.index(output_event_time.exprId().id()) if output_event_time is not None else None,
            pandas=pandas_conf(session),
        ),
        output_mode=str(names["outputMode"].toString()),
        event_times=event_time_names(attributes),
        function=function,
        tasks=MapPartitions(session, source.columns, result, plan.output(), function),
        attributes=tuple(attributes),
        initial_attributes=tuple(initial_attributes),
        plan=plan,
        children=children,
    )


def _input(columns: list[JavaObject], grouping: int) -> tuple[list[JavaObject], Input]:
    """The keys that are not among the data columns, then the data columns (PandasGroupUtils.resolveArgOffsets)."""
    keys, data = columns[:grouping], columns[grouping:]
    place = {column.exprId().id(): i for i, column in reversed(list(enumerate(data)))}
    own = [key for key in keys if key.exprId().id() not in place]
    at = {key.exprId().id(): i for i, key in enumerate(own)} | {column: len(own) + i for column, i in place.items()}
    return own + data, Input(
        expressions.struct_type(own + data), tuple(at[key.exprId().id()] for key in keys), len(own)
    )
