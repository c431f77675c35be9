"""One run of a query over a prepared input, on one engine or on two in turn.

1. The input folder and the checkpoint are empty; the query is started with a sink that keeps the rows of each batch.
2. Each step of the feed is put into the folder (prepared.py), and the query processes all of it, including batches without
   data.
3. After a step in `restarts`, the query is stopped and started again from its checkpoint.
4. Progress, rows and log files of every batch are kept, and at the end, the files of the checkpoint.

    Runner([spark], word_count, inputs, checkpoint, ...).run([["a b a"], ["b c"]], {}, tick)    ->  EngineRun(batches=...)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from operator import methodcaller
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from minispark_stream.engine.jvm import plans, scala
from minispark_stream.engine.jvm.queries import look_at
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.trace.written import written
from minispark_stream.session import MiniSparkSession
from minispark_stream.streaming_query import StreamingQuery as ModelQuery
from minispark_stream.tools.compare.checkpoint_files import comparable_files
from minispark_stream.tools.compare.engine_run import Cause, EngineBatch, EngineRun, cause_of
from minispark_stream.tools.compare.mistakes import check_built, hint_at_inputs
from minispark_stream.tools.compare.prepared import Step, confs_set, put_files
from minispark_stream.tools.compare.shown_rows import shown_row
from minispark_stream.tools.compare.spark_batch import SparkBatch, ran_a_batch, spark_batches
from minispark_stream.tools.compare.spark_trace import spark_trace

Build = Callable[..., DataFrame]

COLLECT: Callable[[DataFrame], Iterable[Any]] = methodcaller("collect")
# How long a query with several inputs sleeps between two looks at them, so that it sees all of a step or nothing.
TOGETHER = {"spark.sql.streaming.pollingDelay": "300ms"}


class Runner:
    """One run over all steps, on the engines of `sessions` in turn."""

    def __init__(
        self, sessions: Sequence[Any], build: Build, inputs: str, checkpoint: str, output_mode: str,
        trigger: Mapping[str, Any] | None, confs: Mapping[str, str], collect: Callable[[DataFrame], Iterable[Any]] = COLLECT,
    ):
        self._sessions = cycle(sessions)
        self._only_spark = not any(isinstance(session, MiniSparkSession) for session in sessions)
        self._build = build
        self._inputs = Path(inputs)
        self._checkpoint = checkpoint
        self._output_mode = output_mode
        self._trigger = trigger
        self._confs = confs
        self._collect_rows = collect
        self._each_step = trigger is not None and not {"processingTime", "continuous", "realTime"} & set(trigger)
        self._written: list[Path] = []
        self._sink: list[tuple[int, list[tuple[Any, ...]]]] = []
        self._batches: list[EngineBatch] = []
        self._traces: list[Trace] = []
        self._spark_batches: list[SparkBatch] = []
        self._query: StreamingQuery | None = None
        self.columns: tuple[str, ...] = ()
        self.ordered = False

    def run(
        self, feed: Sequence[Step], restarts: Mapping[int, Callable[[str], object] | None], tick: Callable[[], object]
    ) -> EngineRun:
        self._inputs.mkdir(parents=True, exist_ok=True)
        for step in feed:  # folders that a source may require
            for name in step if isinstance(step, Mapping) else ():
                (self._inputs / name).mkdir(parents=True, exist_ok=True)
        condition: str | None = None
        cause: Cause | None = None
        plan = None
        try:
            for i, step in enumerate(feed):
                if self._query is None and not self._each_step:
                    plan = self._start()
                    self._drain()
                self._written += put_files(self._inputs, i, step)  # (2)
                if self._each_step:
                    plan = self._start()
                self._drain()
                if self._each_step or i in restarts:  # (3)
                    self._stop()
                    if (damage := restarts.get(i)) is not None:
                        damage(self._checkpoint)
                tick()
        except StreamingQueryException as e:
            condition, cause = str(e.getCondition()), cause_of(str(e))
            self._collect()  # the batches before it
        finally:
            self._stop()
            for path in self._written:
                path.unlink(missing_ok=True)
        trace = self._whole_trace(plan, None if cause is None else str(cause))
        return EngineRun(tuple(self._batches), trace, comparable_files(self._checkpoint), condition, cause)

    @property
    def shown(self) -> dict[int, Sequence[Mapping[str, Any]]]:
        """The rows that the sink received in each batch, as the trace shows them; those of a second run replace the first."""
        return {batch.batch_id: batch.rows or () for batch in self._spark_batches}

    def _start(self) -> str:  # (1)
        session = next(self._sessions)
        arguments = [session, str(self._inputs)][: len(inspect.signature(self._build).parameters)]
        try:
            df = self._build(*arguments)
        except AnalysisException as error:
            hint_at_inputs(error)
            raise
        check_built(df, session)
        self.columns, self._schema = tuple(df.columns), df.schema
        plan = plans.analyzed(df)
        self.ordered = self._output_mode == "complete" and scala.class_name(plan) == "Sort"
        writer = df.writeStream.outputMode(self._output_mode).foreachBatch(self._keep)
        if self._trigger is not None:
            writer = writer.trigger(**self._trigger)
        self._runs_so_far = len(self._batches)
        inputs = sum(leaf.isStreaming() for leaf in scala.items(plan.collectLeaves()))
        confs = {**TOGETHER, **self._confs} if inputs > 1 else {}
        with confs_set(df.sparkSession, confs):  # a query keeps the confs of its start
            self._query = writer.option("checkpointLocation", self._checkpoint).start()
        return str(plan)

    def _keep(self, data: DataFrame, batch_id: int) -> None:
        self._sink.append((batch_id, [tuple(row) for row in self._collect_rows(data)]))

    def _drain(self) -> None:
        assert self._query is not None
        if self._each_step:
            self._query.awaitTermination()
        else:
            self._query.processAllAvailable()
        self._collect()

    def _collect(self) -> None:  # (4)
        assert self._query is not None
        reports = [report for report in self._query.recentProgress if ran_a_batch(report)]
        known = len(self._batches) - self._runs_so_far
        for batch in spark_batches(self._checkpoint, reports[known:], _source_names(self._query)):
            rows = self._sink[len(self._batches)][1]
            self._batches.append(EngineBatch(batch.batch_id, batch.progress, rows, batch.logs))
            shown = [shown_row(row, self._schema, "UTC") for row in rows]
            self._spark_batches.append(replace(batch, rows=shown))

    def _stop(self) -> None:
        if self._query is None:
            return
        self._query.stop()
        if isinstance(self._query, ModelQuery):
            self._traces.append(self._query.trace)
        self._query = None

    def _whole_trace(self, plan: str | None, error: str | None) -> Trace:
        if self._only_spark:
            whole = spark_trace(self._spark_batches, plan=plan, error=error)
        else:
            whole = sum(self._traces, Trace((), "model", plan=plan))
        return replace(whole, query=written(self._build) or whole.query)


def _source_names(query: StreamingQuery) -> Sequence[str]:
    return query._execution.sources.names if isinstance(query, ModelQuery) else look_at(query).source_names
