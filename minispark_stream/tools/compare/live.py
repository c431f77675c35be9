"""Watch a query while it runs, of the model or of real Structured Streaming.

    query = spark.readStream ... .start()
    live(query)                      as the last line of a cell: charts that grow with every batch

1. The charts show the progress reports of the query. The query keeps the newest hundred; the view keeps more.
2. A query of the model also has a trace, whose newest steps are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.tools.cause import of_import
from minispark_stream.tools.compare.engine_run import cause_of
from minispark_stream.tools.compare.spark_batch import SparkBatch, ran_a_batch
from minispark_stream.tools.compare.spark_trace import spark_trace
from minispark_stream.tools.held_query import as_model_query, error_of, is_query, reports

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from minispark_stream.lens.view.live_view import LiveView, QueryMoment

MOST_BATCHES = 200  # in the charts


def live(query: StreamingQuery, every_s: float = 1.0) -> LiveView:
    """A view of a query for Jupyter, which is updated until the query ends, or until its `close()` is called.

    Args:
        query: a query of real Structured Streaming or of the model.
        every_s: seconds between two updates.

    Returns:
        an ipywidgets view: rates, batch durations by phase, watermark, state, the numbers of the newest batch; for a query of
        the model also the flow diagram with the step that ended last.

    Raises:
        TypeError: `query` is not a query.
    """
    try:
        from minispark_stream.lens.view.live_view import LiveView
    except ModuleNotFoundError as e:  # ipywidgets is not among the packages that the other tools need
        raise of_import(e) from None
    if not is_query(query):
        raise TypeError(f"live takes the StreamingQuery that start() returned, not {type(query).__name__}")
    return LiveView(_looking(query), every_s)


def _looking(query: StreamingQuery) -> Callable[[], QueryMoment]:
    from minispark_stream.lens.view.live_view import QueryMoment

    batches: dict[tuple[str, int], SparkBatch] = {}
    engine = "Spark" if as_model_query(query) is None else "this engine"
    title = f"query {query.name or query.id} on {engine}"

    def look() -> QueryMoment:
        is_active = query.isActive  # asked first, so that the reports contain all that it did before it ended
        for progress in reports(query):  # (1)
            if ran_a_batch(progress):
                batches.setdefault((progress["runId"], progress["batchId"]), SparkBatch(progress, {}))
        while len(batches) > MOST_BATCHES:
            del batches[next(iter(batches))]
        error = None if is_active else error_of(query)
        return QueryMoment(
            title=title,
            is_active=is_active,
            message=query.status["message"],
            error=None if error is None else str(cause_of(error) or error),
            recording=spark_trace(list(batches.values())),
            steps=newest_steps(query),
        )

    return look


def newest_steps(query: Any) -> Recording | None:
    """(2) The steps of the newest trigger that runs a batch, and the trigger itself even if it still runs; None for Spark."""
    own = as_model_query(query)
    if own is None:
        return None
    events = own.trace.events
    with_a_batch = {e.trigger for e in events if e.step in ("walCommit", "getBatch", "runBatch")}
    newest = max((trigger for trigger in with_a_batch if trigger is not None), default=0)
    steps = [e for e in events if e.trigger == newest]
    if steps and steps[-1].step != "trigger":
        steps.append(replace(steps[-1], step="trigger", depth=0, inputs={}, outputs={}, error=None))
    return Recording(tuple(steps))
