"""What the tasks of a batch in real-time mode learn when its job starts, because its plan was made before it was known.

Models: nothing of Spark.

The next batch is planned while a batch still runs (planned_ahead.py). Where it begins is only known when that one has
ended; so are its watermarks, and the ids of the files with its state. So the driver writes them, and when the batch ends, into
a local property of the job, and each task looks there:

    {"end_ms": 1764547200000, "start_offsets": {"0": [46]}, "operators": {"0": {"store_version": 7, "unique_ids": [["5f2c"]],
     "watermarks": {"late_ms": 0, "eviction_ms": 5000, "moved": true, "output_ms": 5000}}}}

Spark writes such properties into its event log, so there is nothing secret among them.

Shown by tests/unit/extras/real_time/test_low_latency_batch.py::test_a_task_works_on_the_state_that_its_job_names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from pyspark import TaskContext

from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StateTask
from minispark_stream.engine.runtime.template import Template

_KEY = "minispark_stream.realTime.batch"
WithState = TypeVar("WithState", bound=StateTask)


@dataclass(frozen=True)
class LowLatencyBatch:
    """`start_offsets` are those of the partitions of each source, by its number; `operators` has what is said of each."""

    end_ms: int
    start_offsets: Mapping[str, Sequence[Any]]
    operators: Mapping[str, Mapping[str, Any]]

    @staticmethod
    def of(template: Template, batch: BatchContext, end_ms: int, start_offsets: Mapping[int, Sequence[Any]]) -> LowLatencyBatch:
        operators = {}
        for one in template.operators:
            info, watermarks = one.state_info(batch), asdict(batch.watermarks[one.operator_id])
            versions = {"store_version": info.store_version, "unique_ids": info.unique_ids}
            operators[str(one.operator_id)] = {**versions, "watermarks": watermarks}
        return LowLatencyBatch(end_ms, {str(source): offsets for source, offsets in start_offsets.items()}, operators)

    def local_property(self) -> tuple[str, str]:
        """The name of the property of the job, and its value."""
        return _KEY, json.dumps(asdict(self))

    @staticmethod
    def of_task(context: TaskContext) -> LowLatencyBatch:
        """Jobs that Spark starts while it plans, such as that of a sample, are of no batch: what they read has ended."""
        found = context.getLocalProperty(_KEY)
        return LowLatencyBatch(**json.loads(found)) if found else LowLatencyBatch(0, {}, {})

    def with_state(self, task: WithState) -> WithState:
        """A task of an operator, with the state that it works on in this batch, and its watermarks."""
        of_batch = dict(self.operators[str(task.info.operator_id)])
        watermarks = OperatorWatermarks(**of_batch.pop("watermarks"))
        return replace(task, info=replace(task.info, **of_batch), watermarks=watermarks)
