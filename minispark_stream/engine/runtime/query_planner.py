"""From the analysed plan of a query to the plan of each batch.

Models: the `logicalPlan` of MicroBatchExecution, and the checks that IncrementalExecution makes before the first batch of a run
(From query to the plan; About state).

1. `template`: the analysed plan, optimised and compiled (template.py): in the first batch, and in each one that may have
   another plan. What Spark's optimizer and planner refuse, and what the model does not have, fails in the first batch.
2. How the state lies: the number of its partitions and the confs of the stores, which do not change over a checkpoint's life.
3. Before the first batch of a run, the operators and schemas of the state must be those of the checkpoint.
4. `plan` gives the plan of one batch: IncrementalExecution.

Differs from Spark: when a partition was not written, the query's error is STATE_STORE_COMMIT_VALIDATION_FAILED itself; Spark's
says only that an exception was thrown in awaitResult, and has that one as its cause.
Shown by tests/spark/test_differences.py::test_what_an_error_tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from pyspark.accumulators import Accumulator
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import plans, sessions
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.base import ALLOW_MULTIPLE, BatchContext, OperatorWatermarks, StatefulOperator
from minispark_stream.engine.operators.metrics import Report, Reports
from minispark_stream.engine.plan import checked_plan
from minispark_stream.engine.plan.streaming_relation import Sources, without_file_relations
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.template import Template, changes_with_batch, compile_template
from minispark_stream.engine.runtime.watermark_propagator import operator_watermarks
from minispark_stream.engine.runtime.watermark_tracker import WatermarkTracker
from minispark_stream.engine.state.operator_state_metadata import check_operators
from minispark_stream.engine.state.state_schema_compatibility_checker import validate_or_write_schema
from minispark_stream.engine.state.state_store import StateStoreConf


class QueryPlanner:
    """Plans the batches of one query.

    Args:
        session: the query's own session; its confs decide how Spark optimises and how the state lies.
        analyzed: the analysed plan of the user's DataFrame.
        state_dir: `state/` in the checkpoint.
        run_id: of the query's run, for the state stores.
    """

    def __init__(self, session: SparkSession, analyzed: JavaObject, output_mode: str, state_dir: str, run_id: str):
        self.session = session
        self.analyzed = analyzed
        self.output_mode = output_mode
        self.state_dir = state_dir
        self._run_id = run_id
        self._allow_multiple = sessions.flag(session, ALLOW_MULTIPLE)
        self.sources = Sources.of_plan(session, analyzed)
        self._changes_with_batch = changes_with_batch(session, analyzed)
        self._over_rdds = without_file_relations(session, analyzed)
        self._template: Template | None = None
        self._compiled_in: int
        self.num_partitions: int
        self.state_conf: StateStoreConf
        self._accumulators: Mapping[int, Accumulator[list[Report]]] = {}
        self._state_variables: dict[int, Mapping[str, StructType]] = {}
        self.tells = False  # whether tasks tell what they decide, for the trace

    def begin(self, context: MicroBatchExecutionContext) -> None:
        """The confs are settled: those of a checkpoint have been taken over.

        To be called on the thread that runs the query.
        """
        sessions.propagate_confs(self.session)
        self.num_partitions = int(context.metadata.conf["spark.sql.shuffle.partitions"])  # (2)

    def template(self, context: MicroBatchExecutionContext) -> Template:  # (1)
        """The plan of a batch, compiled."""
        if self._template is None or self._changes_with_batch and self._compiled_in != context.batch_id:
            self._compiled_in = context.batch_id
            timestamp_ms = context.metadata.batch_timestamp_ms
            self._template = compile_template(self.session, self._over_rdds, self.sources, timestamp_ms, self.output_mode)
        return self._template

    def stop(self) -> None:
        """The run is over: nothing more is counted."""
        for accumulator in self._accumulators.values():
            sessions.forget_accumulator(accumulator)

    def _begin_state(self, operators: Sequence[StatefulOperator]) -> None:
        """(2)"""
        column_families = all(op.uses_column_families for op in operators)
        get = self._conf if operators else dict[str, str]().get  # a query without state may have any state store
        self.state_conf = StateStoreConf.from_conf(get, self._run_id, column_families)
        spark = self.session.sparkContext
        self._accumulators = {op.operator_id: spark.accumulator([], Reports()) for op in operators}

    def _check_state(self, operators: Sequence[StatefulOperator], batch_id: int) -> None:
        """(3) Compare the operators and schemas with those of the checkpoint, or write them down in a new one."""
        check = sessions.flag(self.session, "spark.sql.streaming.stateStore.stateSchemaCheck")
        check_operators(self.state_dir, [op.metadata(self.num_partitions) for op in operators], batch_id)
        for op in operators:
            for store, keys, values in op.schemas():
                validate_or_write_schema(self.state_dir, op.operator_id, store, keys, values, check, op.checks_values)

    def plan(self, context: MicroBatchExecutionContext, new_data: Mapping[int, JavaObject]) -> IncrementalExecution:  # (4)
        """The plan of one batch; before the first batch of a run, the state is checked, too."""
        template = self.template(context)
        if context.is_first_of_run:
            self._begin_state(template.operators)
        for accumulator in self._accumulators.values():
            accumulator.value = []
        batch = BatchContext(
            session=self.session,
            batch_id=context.batch_id,
            timestamp_ms=context.metadata.batch_timestamp_ms,
            state_dir=self.state_dir,
            state_conf=self.state_conf,
            output_mode=self.output_mode,
            num_partitions=self.num_partitions,
            watermarks=self.watermarks(context),
            allow_multiple=self._allow_multiple,
            accumulators=self._accumulators,
            state_variables=self._state_variables,
            tells=self.tells,
        )
        execution = IncrementalExecution(template, batch, new_data)
        if context.is_first_of_run:
            self._check_state(template.operators, context.batch_id)
        return execution

    def watermarks(self, context: MicroBatchExecutionContext) -> dict[int, OperatorWatermarks]:
        """Both watermarks of each stateful operator in this batch."""
        before_ms, now_ms = context.previous_watermark_ms, context.metadata.batch_watermark_ms
        return operator_watermarks(self.template(context), before_ms, now_ms, self._allow_multiple)

    def has_state(self, context: MicroBatchExecutionContext) -> bool:
        """Whether there is a stateful operator, in this batch as in the one before."""
        return bool((self._template or self.template(context)).operators)

    def state_partitions(self) -> list[tuple[int, int]]:
        """The number of each stateful operator, with that of each of its partitions."""
        return [(operator, partition) for operator in self._accumulators for partition in range(self.num_partitions)]

    def of_the_query(self, context: MicroBatchExecutionContext) -> tuple[int, int]:
        """The late and the eviction watermark that enter the plan in this batch."""
        now_ms = context.metadata.batch_watermark_ms
        return (context.previous_watermark_ms if self._allow_multiple else now_ms), now_ms

    def new_watermark_tracker(self) -> WatermarkTracker:
        """The tracker of a run that begins: no operator has seen a row yet."""
        policy = (self._conf("spark.sql.streaming.multipleWatermarkPolicy") or "min").lower()
        return WatermarkTracker(policy, dict.fromkeys(plans.watermark_nodes(self.analyzed)))

    def verify_commits(self, execution: IncrementalExecution) -> None:
        """Every partition of every operator must have written its version. A sink that reads a part of a batch prevents that.

        As in Spark, a query with a limit or with an aggregation of all rows is not checked.

        Raises:
            SparkRuntimeException: STATE_STORE_COMMIT_VALIDATION_FAILED.
        """
        is_on = sessions.flag(self.session, "spark.sql.streaming.stateStore.commitValidation.enabled")
        if not is_on or self._has_global_aggregate_or_limit:
            return
        operators = execution.template.operators
        expected = {(op.operator_id, p) for op in operators for p in range(op.partitions(self.num_partitions))}
        done = {(op.operator_id, p) for op in operators for p, what in self._accumulators[op.operator_id].value if what.stores}
        if missing := sorted(expected - done):
            raise spark_error(
                self.session,
                SparkRuntimeException,
                "STATE_STORE_COMMIT_VALIDATION_FAILED",
                batchId=str(execution.batch.batch_id),
                expectedCommits=str(len(expected)),
                actualCommits=str(len(done)),
                missingCommits=", ".join(f"(operatorId={o}, partitionId={p})" for o, p in missing),
            )

    @cached_property
    def _has_global_aggregate_or_limit(self) -> bool:
        return any(
            node.name == "GlobalLimit" or node.name == "Aggregate" and node.plan.groupingExpressions().isEmpty()
            for node in checked_plan.read(self.analyzed).down()
        )

    def _conf(self, key: str) -> str | None:
        return sessions.conf(self.session, key)
