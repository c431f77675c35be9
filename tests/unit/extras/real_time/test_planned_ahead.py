"""When the next batch is planned, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.sources.base import ContinuousInputPartition
from minispark_stream.extras.continuous.records import ContinuousRecordPartition
from minispark_stream.extras.real_time import planned_ahead
from minispark_stream.extras.real_time.low_latency_scan import differ_in_offsets
from minispark_stream.extras.real_time.planned_ahead import AHEAD_MS, PlannedAhead

END_MS = 1_000_000


class Query:
    """As much of a query as this needs; each look at the clock moves it on by a second."""

    def __init__(self, error: Exception | None = None):
        self.now_ms, self.planned, self._error = END_MS - 10_000, list[tuple[int, int, int]](), error
        self.context = MicroBatchExecutionContext(batch_id=7)
        self.clock: Any = SimpleNamespace(get_time_millis=self._look)
        self.stop_requested: Any = SimpleNamespace(wait=lambda seconds: False)

    def _look(self) -> int:
        self.now_ms += 1000
        return self.now_ms

    def plan_ahead(self, context: MicroBatchExecutionContext, new_data: Any) -> None:
        self.planned.append((context.batch_id, context.metadata.batch_timestamp_ms, self.now_ms))
        if self._error is not None:
            raise self._error


def plan_next(query: Any, monkeypatch: pytest.MonkeyPatch, ends: bool = False, tables: bool = False) -> PlannedAhead:
    monkeypatch.setattr(planned_ahead, "reads_tables", lambda template: tables)
    ahead, execution, job = PlannedAhead(query, query), SimpleNamespace(template=None, new_data={}), SimpleNamespace(isCompleted=lambda: ends)
    ahead.plan_next(execution, job, END_MS)  # type: ignore[arg-type]
    return ahead


def test_the_next_batch_is_planned_before_the_batch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is that at which the batch before it ends to read; that of another one is the clock's."""
    query = Query()
    ahead = plan_next(query, monkeypatch)
    [(batch_id, time_ms, planned_at_ms)] = query.planned
    assert (batch_id, time_ms) == (8, END_MS) and END_MS - AHEAD_MS <= planned_at_ms < END_MS
    assert ahead.time_of_batch() == END_MS
    assert ahead.time_of_batch() == query.now_ms


def test_an_error_is_for_the_next_batch_to_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(ValueError("no such column"))
    assert plan_next(query, monkeypatch).time_of_batch() == END_MS and query.planned


@pytest.mark.parametrize("why_not", ["ends", "tables"])
def test_nothing_is_planned_ahead(monkeypatch: pytest.MonkeyPatch, why_not: str) -> None:
    """The job has ended already, since a task has failed; or the query reads tables, which may change until the batch begins."""
    query = Query()
    ahead = plan_next(query, monkeypatch, **{why_not: True})
    assert not query.planned and ahead.time_of_batch() == query.now_ms


def test_partitions_that_only_begin_later_are_the_same() -> None:
    nowhere: Any = None

    def partitions(*offsets: int) -> list[ContinuousInputPartition]:
        return [ContinuousRecordPartition(i, offset, nowhere) for i, offset in enumerate(offsets)]

    assert differ_in_offsets(partitions(5, 2), partitions(9, 4))
    assert not differ_in_offsets(partitions(5, 2), partitions(9, 4, 0))
    assert not differ_in_offsets(partitions(5, 2), partitions(9, 4)[::-1])
