"""Run one query on real Structured Streaming and on the model, with the same input, and compare.

    def word_count(session, input_dir):
        lines = session.readStream.schema("value string").format("text").load(input_dir)
        return lines.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word").count()

    side_by_side(spark, word_count, feed=[["a b a"], ["b c"]], output_mode="update")

For each engine, Spark first:
1. An empty input folder and an empty checkpoint; the query is started with a sink that keeps the rows of each batch.
2. Each step of `feed` is put into the folder, and the query processes all of it, batches without data included.
   A file appears in one rename and with a fixed modification time, so that both engines see the same files.
3. After a step in `restart_after`, the query is stopped and started again on its checkpoint.
4. Progress, rows and log files of every batch are kept; at the end, the files of the checkpoint.

The engines run one after the other, so that neither slows the other down.

Differs from Spark: nothing of Spark is modelled here; both engines run as they are.
"""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from operator import methodcaller
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from tqdm.auto import tqdm

from minispark_stream.compare.checkpoint_files import comparable_files
from minispark_stream.compare.comparison import Comparison
from minispark_stream.compare.engine_run import Cause, EngineBatch, EngineRun, cause_of
from minispark_stream.compare.mistakes import check_trigger, hint_at_inputs, knows_camel_case
from minispark_stream.compare.shown_rows import shown_row
from minispark_stream.compare.spark_trace import SparkBatch, read_logs, spark_trace
from minispark_stream.jvm import plans, scala
from minispark_stream.session import MiniSparkSession
from minispark_stream.streaming_query import StreamingQuery as ModelQuery
from minispark_stream.trace.trace import Trace

Build = Callable[..., DataFrame]
Step = Sequence[str] | Mapping[str, Sequence[str]] | Callable[[str], object]

FIRST_FILE_TIME = 1_700_000_000  # seconds; the modification time of the first step's file, one second more for each step
# How long a query with several inputs sleeps between two looks at them, so that it sees all of a step or nothing.
TOGETHER = {"spark.sql.streaming.pollingDelay": "300ms"}


@knows_camel_case
def side_by_side(
    spark: SparkSession,
    build: Build,
    feed: Sequence[Step],
    *,
    output_mode: str = "append",
    trigger: Mapping[str, Any] | None = None,
    confs: Mapping[str, str] | None = None,
    restart_after: Collection[int] | Mapping[int, Callable[[str], object]] = (),
    relay: Sequence[str] = ("model",),
    input_dir: str | None = None,
    directory: str | None = None,
    collect: Callable[[DataFrame], Iterable[Any]] = methodcaller("collect"),
    trace: str = "rows",
    progress: bool = True,
) -> Comparison:
    """Run a query on both engines.

    Args:
        spark: the session that both engines use.
        build: `build(session)` or `build(session, input_dir)`; returns the streaming DataFrame.
        feed: the steps of the input. A step is a list of text lines (a new file in the input folder), a mapping from a
            subfolder to lines (for several inputs), or a function that is given the folder. Steps run once per engine.
        output_mode: "append", "update" or "complete".
        trigger: the arguments of `DataStreamWriter.trigger`; with `once` or `availableNow` each step is a run of its own.
        confs: SQL confs to set while the queries run.
        restart_after: steps (from 0) after which the query is stopped and restarted; a mapping also gives a function that
            is called with the checkpoint's path in between, to do damage.
        relay: who runs the query the second time. ("model", "spark") take turns on one checkpoint: after each restart the
            other one goes on, and the outcome must be the same as if real Structured Streaming had run all of it.
        input_dir: the input folder. By default `input` below `directory`, which is emptied before each engine runs; in a folder
            of your own, only the files of steps that are lines are removed.
        directory: where checkpoints go; a temporary folder by default, which is deleted.
        collect: what the sink does with a batch to get the rows that are compared.
        trace: what the model records: "steps", or "rows" with row previews.
        progress: show a progress bar.

    Returns:
        a Comparison; its `differences` are empty when both engines agree.

    Raises:
        FileExistsError: `directory` has a folder `input` with files that no comparison has put there.
        TypeError: `trigger` is not a mapping.
    """
    check_trigger(trigger)
    base = directory or tempfile.mkdtemp(prefix="side_by_side-")
    inputs = input_dir or os.path.join(base, "input")
    if input_dir is None:
        _check_may_be_emptied(inputs, os.path.join(base, "checkpoint-spark"))
    actions = restart_after if isinstance(restart_after, Mapping) else dict.fromkeys(restart_after)
    runs: dict[str, EngineRun] = {}
    wanted = dict(confs or {})
    try:
        mini = MiniSparkSession(spark, trace=trace)
        engines: dict[str, list[Any]] = {"spark": [spark], "model": [spark if name == "spark" else mini for name in relay]}
        with _confs(spark, wanted), tqdm(total=2 * len(feed), unit="step", disable=not progress, leave=False) as bar:
            for engine, sessions in engines.items():
                bar.set_description(engine)
                checkpoint = os.path.join(base, f"checkpoint-{engine}")
                if input_dir is None:
                    shutil.rmtree(inputs, ignore_errors=True)
                runner = _Runner(sessions, build, inputs, checkpoint, output_mode, trigger, wanted, collect)
                runs[engine] = runner.run(feed, actions, bar.update)
                columns, ordered = runner.columns, runner.ordered
    finally:
        if directory is None:
            shutil.rmtree(base, ignore_errors=True)
    return Comparison(runs["spark"], runs["model"], columns, ordered)


def _check_may_be_emptied(inputs: str, own_checkpoint: str) -> None:
    """The input folder has no files, or lies beside the checkpoint of an earlier comparison. Raises FileExistsError."""
    if os.path.exists(inputs) and os.listdir(inputs) and not os.path.exists(own_checkpoint):
        raise FileExistsError(
            f"{inputs} is not empty, and side_by_side would empty it: give another directory=, or input_dir= for your own files"
        )


class _Runner:
    """One run over all steps, by the engines of `sessions` in turn."""

    def __init__(
        self, sessions: Sequence[Any], build: Build, inputs: str, checkpoint: str, output_mode: str,
        trigger: Mapping[str, Any] | None, confs: Mapping[str, str], collect: Callable[[DataFrame], Iterable[Any]],
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
        for step in feed:  # folders that a source may insist on
            for name in step if isinstance(step, Mapping) else ():
                (self._inputs / name).mkdir(parents=True, exist_ok=True)
        error: str | None = None
        cause: Cause | None = None
        plan = None
        try:
            for i, step in enumerate(feed):
                if self._query is None and not self._each_step:
                    plan = self._start()
                    self._drain()
                self._feed(i, step)
                if self._each_step:
                    plan = self._start()
                self._drain()
                if self._each_step or i in restarts:  # (3)
                    self._stop()
                    if (damage := restarts.get(i)) is not None:
                        damage(self._checkpoint)
                tick()
        except StreamingQueryException as e:
            error, cause = str(e.getCondition()), cause_of(str(e))
        finally:
            self._stop()
            for path in self._written:
                path.unlink(missing_ok=True)
        return EngineRun(tuple(self._batches), self._whole_trace(plan), comparable_files(self._checkpoint), error, cause)

    def _start(self) -> str:  # (1)
        arguments = [next(self._sessions), str(self._inputs)][: len(inspect.signature(self._build).parameters)]
        try:
            df = self._build(*arguments)
        except AnalysisException as error:
            hint_at_inputs(error)
            raise
        self.columns, self._schema = tuple(df.columns), df.schema
        self._zone = str(df.sparkSession.conf.get("spark.sql.session.timeZone"))
        plan = plans.analyzed(df)
        self.ordered = self._output_mode == "complete" and scala.class_name(plan) == "Sort"
        writer = df.writeStream.outputMode(self._output_mode).foreachBatch(self._keep)
        if self._trigger is not None:
            writer = writer.trigger(**self._trigger)
        self._runs_so_far = len(self._batches)
        inputs = sum(leaf.isStreaming() for leaf in scala.items(plan.collectLeaves()))
        with _confs(df.sparkSession, {**TOGETHER, **self._confs} if inputs > 1 else {}):  # a query keeps the confs of its start
            self._query = writer.option("checkpointLocation", self._checkpoint).start()
        return str(plan)

    def _keep(self, data: DataFrame, batch_id: int) -> None:
        self._sink.append((batch_id, [tuple(row) for row in self._collect_rows(data)]))

    def _feed(self, i: int, step: Step) -> None:  # (2)
        if callable(step):
            step(str(self._inputs))
            return
        files = {"": step} if not isinstance(step, Mapping) else step
        staged = []
        for name, lines in files.items():
            path = self._inputs / name / f"step-{i:04d}.txt"
            hidden = path.with_name(f".{path.name}")
            hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            os.utime(hidden, (FIRST_FILE_TIME + i, FIRST_FILE_TIME + i))
            staged.append((hidden, path))
        for hidden, path in staged:
            hidden.rename(path)
            self._written.append(path)

    def _drain(self) -> None:
        assert self._query is not None
        if self._each_step:
            self._query.awaitTermination()
        else:
            self._query.processAllAvailable()
        self._collect()

    def _collect(self) -> None:  # (4)
        assert self._query is not None
        reports = [p for p in (dict(r) for r in self._query.recentProgress) if "addBatch" in p["durationMs"]]
        known = len(self._batches) - self._runs_so_far
        for report in reports[known:]:
            batch_id = report["batchId"]
            rows = self._sink[len(self._batches)][1]
            rerun = any(b.batch_id == batch_id for b in self._batches)
            logs = read_logs(self._checkpoint, batch_id, report)
            self._batches.append(EngineBatch(batch_id, report, rows, logs))
            shown = [shown_row(row, self._schema, self._zone) for row in rows]
            self._spark_batches.append(SparkBatch(report, logs, shown, rerun))

    def _stop(self) -> None:
        if self._query is None:
            return
        self._query.stop()
        if isinstance(self._query, ModelQuery):
            self._traces.append(self._query.trace)
        self._query = None

    def _whole_trace(self, plan: str | None) -> Trace:
        if self._only_spark:
            return spark_trace(self._spark_batches, plan=plan)
        whole = Trace((), "model", plan=plan)
        for one in self._traces:
            whole = whole + one
        return whole


@contextmanager
def _confs(spark: SparkSession, confs: Mapping[str, str]) -> Iterator[None]:
    """Set confs, and put back what was there."""
    before = {key: spark.conf.get(key, None) for key in confs}
    for key, value in confs.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
