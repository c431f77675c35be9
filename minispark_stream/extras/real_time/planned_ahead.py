"""The next batch of a query in real-time mode is planned while a batch runs, so that rows wait less between the two.

Models: nothing of Spark.

1. Some time before a batch ends, the next one is planned, as if it read the same partitions of the sources.
2. What is not known yet, the tasks learn when their job starts (low_latency_batch.py): where they begin, the version of their
   state, and their watermarks. When the batch begins, it takes this plan, unless it has another template, or is to read other
   partitions: then it is planned anew.
3. The time of the batch is in its plan, too: that at which the batch before it ends to read.
4. A query that also reads tables is planned when its batch begins, and reads them as they are then.

    batch 7    ├─ read, compute and write ────────────┤ commit     batch 8    ├─ start of the job ─┤ read, ...
                                     ├─ plan batch 8 ─┤

Differs from Spark: there, a batch is planned when it begins, and its time (`batchTimestampMs`, `current_timestamp()`) is that
moment, some milliseconds after the end of the batch before it.
Shown by tests/unit/extras/real_time/test_planned_ahead.py::test_the_next_batch_is_planned_before_the_batch_ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from minispark_stream.engine.jvm import query_execution
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.plan.nodes import Node, Static, fold
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.query_planner import QueryPlanner
from minispark_stream.engine.runtime.stream_execution import StreamExecution
from minispark_stream.engine.runtime.template import Template

logger = logging.getLogger(__name__)

NewExecution = Callable[[Template, BatchContext, Mapping[int, JavaObject]], IncrementalExecution]
AHEAD_MS = 1500  # so long before the end of a batch
_LOOK_AGAIN_S = 0.1


class RealTimePlanner(QueryPlanner):
    """(2) The planner of a query, which keeps a plan that was made ahead; `make` makes the plan of a batch."""

    def __init__(self, make: NewExecution, *of_query: Any):
        super().__init__(*of_query)
        self._make = make
        self._ahead: IncrementalExecution | None = None

    def plan_ahead(self, context: MicroBatchExecutionContext, new_data: Mapping[int, JavaObject]) -> None:
        """Plan a batch while another one runs, whose reports are still to come."""
        template = self.template(context, new_data)
        self._ahead = self._make(template, self._batch(context, template)[0], new_data)

    def new_execution(
        self, template: Template, batch: BatchContext, new_data: Mapping[int, JavaObject]
    ) -> IncrementalExecution:
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.template is not template or ahead.new_data != new_data:
            return self._make(template, batch, new_data)
        ahead.batch = replace(batch, executed=ahead.batch.executed, of_inputs=ahead.batch.of_inputs)
        return ahead


class PlannedAhead:
    """What is known of the next batch: its time, if it has been planned. `reads_tables` is found out in the first batch."""

    def __init__(self, query: StreamExecution, planner: RealTimePlanner):
        self._query, self._planner = query, planner
        self._time_ms: int | None = None
        self._reads_tables: bool | None = None

    def plan_next(self, execution: IncrementalExecution, job: JavaObject, end_ms: int) -> None:
        """(1) Wait until the batch that runs in `job` is about to end, and plan the next one; an error is for that to raise."""
        query = self._query
        if self._reads_tables is None:
            self._reads_tables = reads_tables(execution.template)
        if self._reads_tables:  # (4)
            return
        while query.clock.get_time_millis() < end_ms - AHEAD_MS:
            if job.isCompleted() or query.stop_requested.wait(_LOOK_AGAIN_S):
                return
        self._time_ms = end_ms  # (3)
        metadata = replace(query.context.metadata, batch_timestamp_ms=end_ms)
        context = replace(query.context, batch_id=query.context.batch_id + 1, metadata=metadata)
        try:
            self._planner.plan_ahead(context, execution.new_data)
        except Exception:
            logger.debug("Batch %d could not be planned ahead", context.batch_id, exc_info=True)

    def time_of_batch(self) -> int:
        """The time of the batch that begins."""
        time_ms, self._time_ms = self._time_ms, None
        return self._query.clock.get_time_millis() if time_ms is None else time_ms


def reads_tables(template: Template) -> bool:
    def has_table(node: Node, below: list[Any]) -> bool:
        return isinstance(node, Static) or any(below)

    return fold(template.root, has_table) or query_execution.has_subquery(template.session, template.optimized)
