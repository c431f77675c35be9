"""From the analysed plan of a query to the plan of each batch.

Models: the `logicalPlan` of MicroBatchExecution, and the checks that IncrementalExecution makes before the first batch of a run
(From query to the plan; About state).

1. `template` is the analysed plan, optimised and compiled (template.py). It is made in the first batch, and again in each batch
   that may have another plan. A query that Spark's optimizer or planner refuses, or that the model cannot run, fails in the
   first batch.
2. `StateOfRun` says how the state is laid out: the number of its partitions and the confs of the stores.
3. In the first batch of a run, the operators and the schemas of their state are compared with those of the checkpoint.
4. `plan` makes the plan of one batch, an IncrementalExecution.

Differs from Spark: if a partition was not written, the query's error is STATE_STORE_COMMIT_VALIDATION_FAILED itself;
Spark's error says only that an exception was thrown in awaitResult, and has STATE_STORE_COMMIT_VALIDATION_FAILED as its
cause.
Shown by tests/spark/test_differences.py::test_what_an_error_tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from pyspark.accumulators import Accumulator
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.lz4_block import CODECS
from minispark_stream.engine.jvm import builders, plans, query_execution, sessions
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.observer import Observer
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.batch_context import BatchContext, StateVariables
from minispark_stream.engine.operators.event_times import ALLOW_MULTIPLE
from minispark_stream.engine.operators.metrics import Report, Reports
from minispark_stream.engine.plan import checked_plan
from minispark_stream.engine.plan.streaming_relation import SourceKeys, StreamingLeaf, over_rdds, without_rows
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.template import Template, changes_with_batch, compile_template
from minispark_stream.engine.runtime.watermark_propagator import late_watermark, operator_watermarks
from minispark_stream.engine.runtime.watermark_tracker import WatermarkTracker
from minispark_stream.engine.state.operator_state_metadata import check_operators
from minispark_stream.engine.state.state_schema_compatibility_checker import validate_or_write_schema
from minispark_stream.engine.state.state_store import COMPRESSION_CODEC, PROVIDER_CLASS, PROVIDERS, StateStoreConf

KEPT_TEMPLATES = 16  # at least 2: that of the batch, and that of all sources


@dataclass(frozen=True)
class StateOfRun:
    """(2) What all batches of a run have in common about their state; the first batch determines it.

    `accumulators` collect what the tasks of each operator report, by its id. For `variables` and `schemas`, see
    BatchContext.state_variables and state_schemas.
    """

    num_partitions: int
    conf: StateStoreConf
    accumulators: dict[int, Accumulator[list[Report]]] = field(default_factory=dict)
    variables: dict[int, StateVariables] = field(default_factory=dict)
    schemas: dict[int, Sequence[tuple[str, StructType, StructType]]] = field(default_factory=dict)


class QueryPlanner:
    """Plans the batches of one query.

    Args:
        session: the query's own session; its confs decide how Spark optimises, and how the state is laid out.
        analyzed: the analysed plan of the user's DataFrame.
        state_dir: `state/` in the checkpoint.
        run_id: the id of this run, for the state stores.
        observer: says whether tasks report what they decide, and may look at the tasks.
    """

    def __init__(
        self, session: SparkSession, analyzed: JavaObject, output_mode: str, state_dir: str, run_id: str, observer: Observer
    ):
        self.session = session
        self.analyzed = analyzed
        self._output_mode = output_mode
        self._state_dir = state_dir
        self._run_id = run_id
        self._observer = observer
        self._allow_multiple = sessions.flag(session, ALLOW_MULTIPLE)
        self.sources = SourceKeys.of_plan(session, analyzed)
        self._changes_with_batch = changes_with_batch(session, analyzed)
        self._depends_on_size = query_execution.depends_on_size(session, analyzed)
        self._depends_on_rows = len(self.sources.keys) > 1 and not query_execution.has_limit(session, analyzed)
        self._all_sources = frozenset(range(len(self.sources.keys)))
        # By the sources that have new rows: the template, and the batch for which it was made; of many, the newest.
        self._compiled: dict[frozenset[int], tuple[int, Template]] = {}
        self._state: StateOfRun | None = None

    @cached_property
    def _analyzed(self) -> JavaObject:
        """The plan to compile. It is asked for in the first batch, when the session has the confs of the checkpoint."""
        return query_execution.with_keys_in_order(self.session, self.analyzed)

    @cached_property
    def _over_rdds(self) -> JavaObject:
        return over_rdds(self.session, self._analyzed)

    def template(  # (1)
        self, context: MicroBatchExecutionContext, new_data: Mapping[int, JavaObject] | None = None
    ) -> Template:
        """The compiled plan of a batch. `new_data`, if known, says which streams have new rows, and how large they are."""
        by_size = self._depends_on_size and new_data is not None
        with_rows = frozenset(new_data) if self._depends_on_rows and new_data is not None else self._all_sources
        batch_id, before = self._compiled.get(with_rows, (None, None))
        if before is None or by_size or self._changes_with_batch and batch_id != context.batch_id:
            analyzed = self._over_rdds
            if by_size:
                analyzed = over_rdds(self.session, self._analyzed, partial(self._statistics, new_data or {}))
            analyzed = without_rows(self.session, analyzed, self.sources, self._all_sources - with_rows)
            timestamp_ms = context.metadata.batch_timestamp_ms
            template = compile_template(self.session, analyzed, self.sources, timestamp_ms, self._output_mode, before)
            self._compiled[with_rows] = context.batch_id, template
            if len(self._compiled) > KEPT_TEMPLATES:
                del self._compiled[next(kept for kept in self._compiled if kept not in (with_rows, self._all_sources))]
        return self._compiled[with_rows][1]

    def whole_template(self, context: MicroBatchExecutionContext) -> Template:
        """The compiled plan of a batch in which every source has new rows, of this batch or of an earlier one."""
        return self._compiled[self._all_sources][1] if self._all_sources in self._compiled else self.template(context)

    def _statistics(self, new_data: Mapping[int, JavaObject], leaf: JavaObject, stream: StreamingLeaf) -> JavaObject | None:
        """The statistics of a stream's new rows, if Spark knows any: the size of files, or that there are no rows."""
        if (data := new_data.get(self.sources.of(leaf, stream))) is None:
            return plans.statistics_of_nothing(self.session, leaf.output())
        return data.stats() if stream.relation.file_format is not None else None

    def stop(self) -> None:
        """The run has ended: the accumulators are no longer needed."""
        if self._state is not None:
            for accumulator in self._state.accumulators.values():
                sessions.forget_accumulator(accumulator)

    def _begin(self, operators: Sequence[StatefulOperator], context: MicroBatchExecutionContext) -> StateOfRun:  # (2)
        num_partitions = int(context.metadata.conf["spark.sql.shuffle.partitions"])
        if not operators:  # a query without state may have any state store
            return StateOfRun(num_partitions, StateStoreConf(query_run_id=self._run_id))
        if (provider := str(self._conf(PROVIDER_CLASS))) not in PROVIDERS:
            builders.check_state_store_provider(self.session, provider)
        if (codec := str(self._conf(COMPRESSION_CODEC))).lower() not in CODECS:
            builders.check_codec(self.session, codec)
        return StateOfRun(num_partitions, StateStoreConf.from_conf(self._conf, self._run_id))

    def _check_state(self, operators: Sequence[StatefulOperator], state: StateOfRun, batch_id: int) -> None:
        """(3) Compare the operators and schemas with those of the checkpoint, or write them if it is a new one."""
        check = sessions.flag(self.session, "spark.sql.streaming.stateStore.stateSchemaCheck")
        current = [op.metadata(state.num_partitions, state.variables.get(op.operator_id)) for op in operators]
        check_operators(self._state_dir, current, batch_id)
        for op in operators:
            for store, keys, values in op.schemas():
                validate_or_write_schema(self._state_dir, op.operator_id, store, keys, values, check, op.checks_values)

    def plan(self, context: MicroBatchExecutionContext, new_data: Mapping[int, JavaObject]) -> IncrementalExecution:  # (4)
        """The plan of one batch; before the first batch of a run, the state is checked, too."""
        execution = self.plan_without_check(context, new_data)
        if context.is_first_of_run:
            assert self._state is not None
            self._check_state(execution.template.operators, self._state, context.batch_id)
        return execution

    def plan_without_check(
        self, context: MicroBatchExecutionContext, new_data: Mapping[int, JavaObject]
    ) -> IncrementalExecution:
        """The plan of one batch, which touches no state."""
        template = self.template(context, new_data)
        batch, state = self._batch(context, template)
        for accumulator in state.accumulators.values():
            accumulator.value = []
        return self.new_execution(template, batch, new_data)

    def new_execution(
        self, template: Template, batch: BatchContext, new_data: Mapping[int, JavaObject]
    ) -> IncrementalExecution:
        return IncrementalExecution(template, batch, new_data)

    def check(self, context: MicroBatchExecutionContext) -> Mapping[int, StateVariables]:
        """Refuse what the first batch of a run would refuse before it reads, if every source had new rows for it.

        Returns the state variables that processors of transformWithState have declared, by operator id.
        """
        template = self.whole_template(context)
        batch, state = self._batch(context, template)
        for operator in template.operators[::-1]:  # in the order in which a batch is planned: the lowest one first
            operator.begin_run(batch)
        self._check_state(template.operators, state, context.batch_id)
        for operator in template.operators[::-1]:
            if (refusal := operator.refusal(self.session, self._output_mode)) is not None:
                raise refusal
        return state.variables

    def _batch(self, context: MicroBatchExecutionContext, template: Template) -> tuple[BatchContext, StateOfRun]:
        state = self._state = self._state or self._begin(template.operators, context)
        for operator in template.operators:
            if operator.operator_id not in state.accumulators:
                state.accumulators[operator.operator_id] = self.session.sparkContext.accumulator([], Reports())
        return BatchContext(
            session=self.session,
            batch_id=context.batch_id,
            timestamp_ms=context.metadata.batch_timestamp_ms,
            state_dir=self._state_dir,
            state_conf=state.conf,
            output_mode=self._output_mode,
            num_partitions=state.num_partitions,
            watermarks=operator_watermarks(
                template, context.previous_watermark_ms, context.metadata.batch_watermark_ms, self._allow_multiple
            ),
            allow_multiple=self._allow_multiple,
            accumulators=state.accumulators,
            state_variables=state.variables,
            state_schemas=state.schemas,
            unique_ids=context.unique_ids,
            wants_told=self._observer.wants_told,
            observed=self._observer.task,
        ), state

    def has_state(self, context: MicroBatchExecutionContext) -> bool:
        """Whether the query has a stateful operator, as its plan is in a batch in which every source has new rows."""
        return bool(self.whole_template(context).operators)

    def watermarks_of_query(self, context: MicroBatchExecutionContext) -> tuple[int, int]:
        """The late and the eviction watermark of the query in this batch, before they are propagated to the operators."""
        now_ms = context.metadata.batch_watermark_ms
        return late_watermark(context.previous_watermark_ms, now_ms, self._allow_multiple), now_ms

    def new_watermark_tracker(self) -> WatermarkTracker:
        """The tracker of a new run: no operator has had a row yet."""
        policy = (self._conf("spark.sql.streaming.multipleWatermarkPolicy") or "min").lower()
        return WatermarkTracker(policy, dict.fromkeys(plans.watermark_nodes(self.analyzed)))

    def verify_commits(self, execution: IncrementalExecution) -> None:
        """Check that every partition of every operator has written its version, because a sink may have read only a part.

        As in Spark, a query with a limit or with an aggregation without keys is not checked.

        Raises:
            SparkRuntimeException: a partition has not been written (STATE_STORE_COMMIT_VALIDATION_FAILED).
        """
        is_on = sessions.flag(self.session, "spark.sql.streaming.stateStore.commitValidation.enabled")
        if not is_on or self._has_global_aggregate_or_limit:
            return
        operators, batch = execution.template.operators, execution.batch
        expected = execution.partitions
        done = {(op.operator_id, p) for op in operators for p in op.written(batch)}
        if missing := sorted(expected - done):
            raise spark_error(
                self.session,
                SparkRuntimeException,
                "STATE_STORE_COMMIT_VALIDATION_FAILED",
                batchId=str(batch.batch_id),
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
