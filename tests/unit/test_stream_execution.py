"""How a run of a query ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from minispark_stream.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.runtime.stream_execution import StreamExecution


class DeadJvm:
    """A plan that can no longer be asked."""

    def __str__(self) -> str:
        raise ConnectionError("the JVM is gone")


def test_a_query_whose_jvm_died_has_failed() -> None:
    query: Any = SimpleNamespace(
        id="1", run_id="2", analyzed=DeadJvm(), context=MicroBatchExecutionContext(), offsets_by_name=dict,
        _pretty=lambda: "counts",
    )
    query._progress_and_plan = lambda: StreamExecution._progress_and_plan(cast(StreamExecution, query))
    failure = StreamExecution._failure(cast(StreamExecution, query), OSError("broken pipe"))
    assert failure.getCondition() == "STREAM_FAILED" and "broken pipe" in str(failure)
    assert "Offsets and plan cannot be shown: the JVM is gone" in str(failure)
