"""One batch: the template plan plus the new data of this batch, as a Spark batch job.

Models: IncrementalExecution (Execution flow, steps 5 to 8; From query to the plan).

1. Replace each source leaf of the template by the plan of its new rows, or by a plan without rows. The columns of the new plan
   get the names and expression ids of the leaf, so that the expressions above it still find them.
2. At a stateful operator, the plan is cut in two, and a Python task for each partition is put in between, which reads version N
   of its state store and writes version N+1. (An aggregation has two tasks, one that reads and one that writes:
   engine/operators/aggregation/streaming_aggregation.py.)
3. The part above the cut continues with the rows that the task emits. Each part goes directly to Spark's planner: the template
   has been optimised, and the analyzer does not accept every plan that the optimizer makes.
4. All parts together become a DataFrame, `next_batch`, whose columns have the names that the query gives them. Every action of
   the sink runs it, and its metrics are those of the batch.

       batch plan     Project <- final <- save x N <- merge <- restore x N <- merge <- shuffle <- partial <- observe <- files
       state                              writes version 8     reads version 7

Spark keeps state inside its own physical operators. The result is the same, row for row and file for file.

Differs from Spark: if two operators need the same rows by the same keys (two aggregations of one stream that are joined;
the two joins that a semi join over a union becomes), Spark shuffles these rows once and reads the stream once. Here each
operator has its own plan, and reads the stream itself, so numInputRows is larger.
Shown by tests/spark/test_differences.py::test_what_two_operators_share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame

from minispark_stream.engine.jvm import expressions, physical, plans, query_execution, scala, sessions
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators import instance_metrics
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.metrics import state_operator_progress
from minispark_stream.engine.plan.nodes import Node, SourceLeaf, Stateless, Static, Watermark, fold
from minispark_stream.engine.runtime.template import Template
from minispark_stream.engine.runtime.watermark_propagator import propagate
from minispark_stream.engine.runtime.watermark_tracker import EventTimeStats
from minispark_stream.engine.state.maintenance import Partition


class IncrementalExecution:
    """The plan of one batch, and, after the batch has run, what it measured.

    Args:
        new_data: the plans of the new rows, by the numbers of their sources; only for sources that have any.
    """

    def __init__(self, template: Template, batch: BatchContext, new_data: Mapping[int, JavaObject]):
        self.template = template
        self.batch = batch
        self.new_data = new_data
        self._session = batch.session
        self._optimized_data: dict[int, JavaObject] = {}
        self._may_be_read_again = False  # by a function of the user; any other sink reads it once
        plan = fold(template.root, self._sized_plan if template.reads_tables else self._plan)
        self.rows = plan.rdd() if isinstance(template.root, StatefulOperator) else batch.answer(plan)

    def _plan(self, node: Node, children: list[JavaObject]) -> JavaObject:
        match node:
            case Static():
                return node.plan_in(self.template.optimized)
            case SourceLeaf():  # (1)
                return node.renamed.of(self._new_rows(node)) if node.ordinal in self.new_data else node.empty
            case Stateless() | Watermark():  # (3)
                return plans.with_children(self._session, node.plan, children)
            case operator:  # (2)
                return operator.plan_batch(self.batch, children)

    def _sized_plan(self, node: Node, children: list[JavaObject]) -> JavaObject:
        """`_plan`; the rows of an operator have the size by which Spark decides how they are joined with a table."""
        rows = self._plan(node, children)
        if not isinstance(node, StatefulOperator):
            return rows
        size, partitioning = self._of_spark(node, children).stats(), rows.outputPartitioning()
        return plans.leaf_over(self._session, rows.rdd(), rows.output(), False, partitioning, statistics=size)

    def _new_rows(self, leaf: SourceLeaf) -> JavaObject:
        """The plan of a source's new rows, which is the same for all its leaves."""
        if leaf.ordinal not in self._optimized_data:
            data = self.new_data[leaf.ordinal]
            rows = data.withMetadataColumns() if leaf.asks_for_metadata else data
            if not leaf.is_of_files:  # the optimizer would not change a relation of files
                rows = query_execution.of_new_data(self._session, rows)
            self._optimized_data[leaf.ordinal] = rows
        return self._optimized_data[leaf.ordinal]

    @cached_property
    def next_batch(self) -> DataFrame:  # (4)
        """The rows of the batch. Spark, too, makes a DataFrame of a batch that has been planned."""
        return plans.rdd_frame(self._session, self.rows, self.template.schema)

    def sized_batch(self) -> DataFrame:
        """`next_batch` for a function of the user, which may read it more than once.

        It has the size that Spark's optimizer would give it, which decides how a join with it is planned.
        """
        self._may_be_read_again = True
        session, columns = self._session, expressions.new_attributes(self._session, self.template.schema)
        size = fold(self.template.root, self._of_spark).stats()
        return plans.of_rows(session, plans.leaf_over(session, self.rows, columns, streaming=False, statistics=size))

    def _of_spark(self, node: Node, children: list[JavaObject]) -> JavaObject:
        """Spark's own plan over the new data, with its logical node for each stateful operator."""
        if isinstance(node, StatefulOperator):
            return plans.with_children(self._session, node.plan, children)
        return self._plan(node, children)

    @property
    def began_ms(self) -> int:
        """How long Spark took, during the planning, to begin to run parts that were planned already."""
        return round(1000 * sum(self.batch.began))

    @property
    def partitions(self) -> frozenset[Partition]:
        """All partitions of the state of this batch's operators."""
        of_query = self.batch.num_partitions
        return frozenset((op.operator_id, p) for op in self.template.operators for p in range(op.partitions(of_query)))

    def explain(self) -> str:
        """The physical plans of this batch, from the sink down; between them is a stateful operator, or rows are shuffled."""
        return "\n-- over the rows of --\n".join(plan.toString() for plan in self.batch.executed[::-1])

    @cached_property
    def observed_metrics(self) -> dict[str, JavaObject]:
        """All observed metrics of the batch (`DataFrame.observe`), as Java rows by name; complete when the batch has run."""
        collect = scala.companion(self._session, "CollectMetricsExec").collect
        found: dict[str, JavaObject] = {}
        for plan in self.batch.of_inputs[::-1]:
            rows = collect(plan)
            if rows.nonEmpty():
                found |= {name: rows.apply(name) for name in scala.items(rows.keys().toSeq())}
        return found

    def event_time_stats(self) -> dict[str, EventTimeStats]:
        """What each watermark operator has measured, by the name of its observation.

        If a foreachBatch function reads its batch twice, its rows count twice, as in Spark, which takes only other observed
        metrics from the last time.
        """
        found = self._observed_each_time if self._may_be_read_again else self.observed_metrics
        seen: dict[str, EventTimeStats] = {}
        for observation in (w.observation for w in self.template.watermarks):
            if (metrics := found.get(observation)) is not None:
                row = json.loads(metrics.json())
                seen[observation] = EventTimeStats(row.get("max", 0), row.get("min", 0), row.get("avg", 0.0), row["count"])
        return seen

    @cached_property
    def _observed_each_time(self) -> dict[str, JavaObject]:
        plans_of_inputs = self.batch.of_inputs[::-1]
        return {name: row for plan in plans_of_inputs for name, row in physical.observed_each_time(self._session, plan).items()}

    def metrics_of_user(self) -> dict[str, JavaObject]:
        """The observed metrics without those of the watermarks."""
        ours = {w.observation for w in self.template.watermarks}
        return {name: row for name, row in self.observed_metrics.items() if name not in ours}

    def num_input_rows(self) -> dict[int, int]:
        """How many rows each source delivered, by its number: the `numOutputRows` of the scans in the executed plans."""
        owner: dict[int, int] = {}
        for ordinal, plan in self.new_data.items():
            for leaf in scala.items(plan.collectLeaves()):
                owner.update(dict.fromkeys(self._marks(leaf), ordinal))
        rows = dict.fromkeys(self.new_data, 0)
        for plan in self.batch.of_inputs:
            for leaf in scala.items(plan.collectLeaves()):
                ordinal_of_leaf = next((owner[mark] for mark in self._marks(leaf) if mark in owner), None)
                if ordinal_of_leaf is not None and (metric := leaf.metrics().get("numOutputRows")).isDefined():
                    rows[ordinal_of_leaf] += metric.get().value()
        return rows

    def _marks(self, leaf: JavaObject) -> Iterator[int]:
        """What identifies the leaf of a source: the ids of its columns, and its relation.

        A scan without columns (count(*)) has no such ids, and one of a stream that is united with itself has ids of its own.
        """
        yield from expressions.expression_ids(self._session, leaf)
        if (relation := plans.relation_id(self._session, leaf)) is not None:
            yield relation

    def state_operator_progress(self, operator: StatefulOperator) -> dict[str, Any]:
        """The entry of one operator under `stateOperators` of the progress report."""
        reports = self.batch.accumulators[operator.operator_id].value
        most = int(sessions.conf(self.batch.session, instance_metrics.CONF) or 5)
        return state_operator_progress(operator.operator_name, reports, self.batch.num_partitions, most)

    def new_unique_ids(self) -> Mapping[str, Any]:
        """The ids of the files with the new state of each operator, as they are written into the commit log."""
        return {str(op.operator_id): op.new_unique_ids(self.batch) for op in self.template.operators}

    def should_run_another_batch(self, watermark_ms: int) -> bool:
        """Whether a stateful operator has work to do without data, now that the watermark is at `watermark_ms`."""
        coming = propagate(self.template, watermark_ms, self.batch.allow_multiple)
        return any(
            op.should_run_another_batch(
                self.batch.output_mode, self.batch.watermarks[op.operator_id].eviction_ms, coming[op.operator_id].input_ms
            )
            for op in self.template.operators
        )
