"""What an operator says of its own rules, for a trace."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.state import GroupStateTimeout

from minispark_stream.engine.operators.aggregation.streaming_aggregation import StreamingAggregation
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.deduplication.streaming_deduplicate import Deduplicate, StreamingDeduplicate
from minispark_stream.engine.operators.groups.apply_in_pandas_with_state import ApplyInPandasWithState
from minispark_stream.engine.operators.groups.flat_map_groups_with_state import FlatMapGroupsWithState
from minispark_stream.engine.operators.session.session_window import SessionWindowAggregation
from minispark_stream.engine.operators.state_task import OperatorWatermarks
from minispark_stream.extras.transform_with_state.transform_with_state import TransformWithState
from minispark_stream.extras.transform_with_state.transform_with_state_task import TransformWithStateTask

TIME = EventTime(0, is_window=False)
EVENT, CLOCK, NONE = GroupStateTimeout.EventTimeTimeout, GroupStateTimeout.ProcessingTimeTimeout, GroupStateTimeout.NoTimeout


def of_task(task: type, **fields: Any) -> dict[str, Any]:
    """The field of an operator that holds its task, of which only these fields count."""
    made: Any = object.__new__(task)
    vars(made).update(fields)
    return {"task": made}


@pytest.mark.parametrize(("operator", "fields", "late_ms"), [
    (FlatMapGroupsWithState, of_task(ApplyInPandasWithState, timeout=EVENT, event_time=TIME), 5),
    (FlatMapGroupsWithState, of_task(ApplyInPandasWithState, timeout=EVENT, event_time=None), None),
    (FlatMapGroupsWithState, of_task(ApplyInPandasWithState, timeout=CLOCK, event_time=TIME), None),
    (FlatMapGroupsWithState, of_task(ApplyInPandasWithState, timeout=NONE, event_time=TIME), None),
    (TransformWithState, of_task(TransformWithStateTask, time_mode="EventTime", event_time=TIME), 5),
    (TransformWithState, of_task(TransformWithStateTask, time_mode="NoTime", event_time=TIME), None),
    (StreamingAggregation, {"event_time": TIME}, 5), (StreamingAggregation, {"event_time": None}, None),
    (StreamingDeduplicate, of_task(Deduplicate, event_time=None, key_event_time=None, delay_ms=None), None),
])
def test_where_no_column_says_so_no_row_is_said_to_be_late(operator: Any, fields: dict[str, Any], late_ms: int | None) -> None:
    made = object.__new__(operator)
    vars(made).update(fields)
    assert made.decision(OperatorWatermarks(late_ms=5, eviction_ms=7, moved=True), "update").late_ms == late_ms


@pytest.mark.parametrize(("event_time", "leaves_ms"), [(TIME, 7), (None, None)])
def test_groups_without_a_time_are_said_to_stay(event_time: EventTime | None, leaves_ms: int | None) -> None:
    made = object.__new__(StreamingAggregation)
    vars(made).update(event_time=event_time)
    assert made.decision(OperatorWatermarks(late_ms=5, eviction_ms=7, moved=True), "update").leaves_ms == (leaves_ms,)


@pytest.mark.parametrize(("operator", "late_ms"), [(StreamingAggregation, None), (SessionWindowAggregation, 5)])
def test_in_complete_mode_only_sessions_are_said_to_be_late(operator: Any, late_ms: int | None) -> None:
    """Late sessions are dropped by restore, in every mode; late windows by save, in the other modes."""
    made = object.__new__(operator)
    vars(made).update(event_time=TIME)
    decided = made.decision(OperatorWatermarks(late_ms=5, eviction_ms=7, moved=True), "complete")
    assert (decided.late_ms, decided.leaves_ms) == (late_ms, (None,))
