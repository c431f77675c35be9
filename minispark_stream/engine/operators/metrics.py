"""What a stateful operator counts in each of its tasks, and how the driver adds it up.

Models: the SQL metrics of StateStoreWriter (numRowsUpdated, numRowsDroppedByWatermark, ...), which progress reports
show under `stateOperators`.

1. A task reports once each time it runs, through an accumulator. As in Spark, a batch that is evaluated twice counts its rows
   twice (a sort first takes a sample of its input; a foreachBatch function may run several actions).
2. The driver adds the reports up.

    partition 0: 3 rows updated, partition 1: 4 rows updated     "numRowsUpdated": 7

Differs from Spark: if a batch is evaluated twice and two operators have the same keys, the lower one counts its rows only once,
because there is a shuffle between them that does not run again; Spark runs both operators in one stage, and counts twice. A
task whose rows are not read to their end, as with `take(1)`, reports nothing, because a Python worker sends its counts after
its last row.
Shown by tests/spark/test_differences.py::test_what_two_operators_share,
tests/spark/test_differences.py::test_a_task_that_is_not_read_to_its_end_reports_nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.accumulators import AccumulatorParam

from minispark_stream.engine.operators.instance_metrics import reported
from minispark_stream.engine.operators.told import Told
from minispark_stream.engine.state.state_files import LAST_UPLOADED
from minispark_stream.engine.state.state_store import StateStoreMetrics


@dataclass(frozen=True)
class StateMetrics:
    """The report of one task of one stateful operator; times are in ms.

    Attributes:
        stores: the metrics of each store by its name.
        num_rows_total, num_state_stores: if not None, reported instead of what `stores` would add up to.
        told: what the task decided about its rows. This and the next two are only there if the driver `wants_told` (told.py).
        worker: the process in which it ran.
        loaded_from: for each store, how that process obtained the version that was read (`LoadedFrom`), and whether workers
            share its memory.
    """

    num_rows_updated: int = 0
    num_rows_removed: int = 0
    num_rows_dropped_by_watermark: int = 0
    all_updates_time_ms: int = 0
    all_removals_time_ms: int = 0
    commit_time_ms: int = 0
    stores: Mapping[str, StateStoreMetrics] = field(default_factory=dict)
    num_rows_total: int | None = None
    num_state_stores: int | None = None
    custom: Mapping[str, int] = field(default_factory=dict)
    told: tuple[Told, ...] | None = None
    worker: str | None = None
    loaded_from: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


Report = tuple[int, StateMetrics]
T = TypeVar("T")


class Reports(AccumulatorParam[list[T]]):
    """How an accumulator collects reports: those of a stateful operator, or of maintenance."""

    def zero(self, value: list[T]) -> list[T]:
        return []

    def addInPlace(self, value1: list[T], value2: list[T]) -> list[T]:
        value1.extend(value2)
        return value1


def state_operator_progress(
    operator_name: str, reports: Sequence[Report], num_shuffle_partitions: int, most_instances: int
) -> dict[str, Any]:
    """The reports of all tasks as one entry of `stateOperators` in a progress report.

    `most_instances`: for how many stores the report may contain metrics of a single store.
    """
    tasks = [metrics for _, metrics in reports]
    stores = [store for task in tasks for store in task.stores.values()]
    return {
        "operatorName": operator_name,
        "numRowsTotal": sum(
            sum(s.num_keys for s in t.stores.values()) if t.num_rows_total is None else t.num_rows_total for t in tasks
        ),
        "numRowsUpdated": sum(t.num_rows_updated for t in tasks),
        "allUpdatesTimeMs": sum(t.all_updates_time_ms for t in tasks),
        "numRowsRemoved": sum(t.num_rows_removed for t in tasks),
        "allRemovalsTimeMs": sum(t.all_removals_time_ms for t in tasks),
        "commitTimeMs": sum(t.commit_time_ms for t in tasks),
        "memoryUsedBytes": sum(s.memory_used_bytes for s in stores),
        "numRowsDroppedByWatermark": sum(t.num_rows_dropped_by_watermark for t in tasks),
        "numShufflePartitions": num_shuffle_partitions,
        "numStateStoreInstances": sum(len(t.stores) if t.num_state_stores is None else t.num_state_stores for t in tasks),
        "customMetrics": _custom([*(s.custom for s in stores), *(t.custom for t in tasks)], most_instances),
    }


def _custom(metrics: Iterable[Mapping[str, int]], most_instances: int) -> dict[str, int]:
    total: dict[str, int] = {}
    of_stores: dict[str, int] = {}
    for one in metrics:
        for name, value in one.items():
            if name.startswith(LAST_UPLOADED):
                of_stores[name] = value
            else:
                total[name] = total.get(name, 0) + value
    if len(of_stores) > most_instances:
        of_stores = reported(of_stores, most_instances)
    return dict(sorted((total | of_stores).items()))
