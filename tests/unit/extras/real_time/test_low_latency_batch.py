"""What tasks learn from their job, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyspark.sql.types import LongType, StringType, StructType

from minispark_stream.engine.operators.state_task import OperatorWatermarks, StatefulOperatorStateInfo
from minispark_stream.extras.real_time.low_latency_aggregate import LowLatencyAggregate
from minispark_stream.extras.real_time.low_latency_batch import LowLatencyBatch

KEYS, SUMS = StructType().add("k", StringType()), StructType().add("sum", LongType())


def test_a_task_works_on_the_state_that_its_job_names() -> None:
    """It was planned while the batch before ran, when neither the ids nor the watermarks were known."""
    nowhere: Any = None
    planned = StatefulOperatorStateInfo("state", 3, 6, 2, nowhere, [["old"], ["older"]])
    task = LowLatencyAggregate(
        info=planned, watermarks=OperatorWatermarks(0, 0, False), output=nowhere, metrics=nowhere, output_mode="update", keys=KEYS,
        values=SUMS, event_time=None, channel=nowhere, senders=1,
    )
    operator: Any = SimpleNamespace(
        operator_id=3, state_info=lambda batch: StatefulOperatorStateInfo("state", 3, 7, 2, nowhere, [["new"], ["newer"]])
    )
    template: Any = SimpleNamespace(operators=[operator])
    batch: Any = SimpleNamespace(watermarks={3: OperatorWatermarks(5, 9, True, 9)})
    properties = dict([LowLatencyBatch.of(template, batch, 1000, {0: [46]}).local_property()])
    context: Any = SimpleNamespace(getLocalProperty=properties.get)
    of_task = LowLatencyBatch.of_task(context)
    assert of_task.end_ms == 1000 and of_task.start_offsets == {"0": [46]}
    changed = of_task.with_state(task)
    assert changed.info.store_version == 7 and changed.info.unique_ids == [["new"], ["newer"]]
    assert changed.watermarks == OperatorWatermarks(5, 9, True, 9) and changed.info.num_partitions == 2
