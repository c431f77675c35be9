"""One query, run again and again on the model with other settings: the runs behind `what_if`.

1. A choice is a value for every knob, and the order of arrival. A query does not run again with the same choice.
2. Each run has a temporary folder, which is deleted, and a session of its own with few partitions, so that it takes seconds.
3. `at_once`: all files exist when the query starts; otherwise each one arrives after the one before has been processed.
4. A crash is what side_by_side calls damage: after the middle step the query is stopped, and what a kill would have prevented
   is undone. A batch that is killed after `walCommit` has no state and no commit; one that is killed before `commitOffsets` has
   no commit. The newest batch runs again; in the trace, its first try ends where the query was killed.

    Experiment(spark, windowed).run({"delay": "5 minutes"}, [["12:01,a"], ["12:30,b"]])    ->  Outcome(results=...)
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from minispark_stream.lens.trace.trace import Trace
from minispark_stream.session import MiniSparkSession
from minispark_stream.tools.compare.outcome import Outcome, outcome
from minispark_stream.tools.compare.prepared import Step, put_files
from minispark_stream.tools.compare.runner import Build, Runner

Feed = Sequence[Step]
CONFS = {"spark.sql.shuffle.partitions": "2"}
KILLED = "Killed: the query was killed here"
CRASHES = ("walCommit", "commitOffsets")


class Experiment:
    """Runs a query with given settings.

    Args:
        spark: the session.
        build: `build(session, **knobs)`, or `build(session, folder, **knobs)` if its second parameter has no default.
        confs: SQL confs of the runs.
    """

    def __init__(self, spark: SparkSession, build: Build, confs: Mapping[str, str] | None = None):
        self._spark, self._build = spark, build
        self._confs = {**CONFS, **(confs or {})}
        parameters = list(inspect.signature(build).parameters.values())
        self._takes_folder = len(parameters) > 1 and parameters[1].default is inspect.Parameter.empty
        self._known: dict[str, Outcome] = {}

    def run(
        self, knobs: Mapping[str, Any], feed: Feed, *, output_mode: str = "append", crash: str | None = None,
        at_once: bool = False, tick: Callable[[], object] = lambda: None,
    ) -> Outcome:
        """Run the query, or look up the outcome of an earlier run.

        Args:
            knobs: the keyword arguments of the query function.
            feed: the steps of the input, as side_by_side takes them.
            output_mode: "append", "update" or "complete".
            crash: None, or one of `CRASHES`.
            at_once: whether all files exist when the query starts.
            tick: called after every step; an error that it raises ends the run.
        """
        if crash not in (None, *CRASHES):
            raise ValueError(f"crash must be None or one of {', '.join(CRASHES)}, not {crash!r}")
        name = repr((sorted(knobs.items()), feed, output_mode, crash, at_once))  # (1)
        if name not in self._known:
            self._known[name] = self._run(knobs, feed, output_mode, crash, at_once, tick)
        return self._known[name]

    def _run(
        self, knobs: Mapping[str, Any], feed: Feed, mode: str, crash: str | None, at_once: bool, tick: Callable[[], object]
    ) -> Outcome:
        steps: Feed = [partial(_put_all, feed), lambda folder: None] if at_once else feed  # (3); what is killed starts again
        restarts = {(len(steps) - 1) // 2: partial(_kill, crash)} if crash else {}
        with tempfile.TemporaryDirectory(prefix="what_if-", ignore_cleanup_errors=True) as folder:  # (2)
            session = MiniSparkSession(self._spark, trace="rows")._cloneSession()
            for key, value in self._confs.items():
                session.conf.set(key, value)
            inputs, checkpoint = os.path.join(folder, "input"), os.path.join(folder, "checkpoint")
            runner = Runner(
                [session], self._with(knobs), inputs, checkpoint, mode, trigger=None, confs=self._confs
            )
            try:
                run = runner.run(steps, restarts, tick)
            except PySparkException as e:  # refused at the start
                return outcome(mode, (), {}, Trace(()), str(e).split("\n")[0])
        trace = killed(run.trace, crash) if crash else run.trace
        error = None if run.error is None else str(run.cause or run.condition)
        return outcome(mode, runner.columns, runner.shown, trace, error)

    def _with(self, knobs: Mapping[str, Any]) -> Callable[..., DataFrame]:
        if self._takes_folder:
            return lambda session, folder: self._build(session, folder, **knobs)
        return lambda session: self._build(session, **knobs)


def _put_all(feed: Feed, folder: str) -> None:
    for i, step in enumerate(feed):
        put_files(Path(folder), i, step)


def _kill(crash: str, checkpoint: str) -> None:  # (4)
    commits = [int(path.name) for path in Path(checkpoint, "commits").glob("[0-9]*")]
    if not commits:
        return
    newest = max(commits)
    Path(checkpoint, "commits", str(newest)).unlink()
    if crash == "walCommit":
        for path in Path(checkpoint, "state").rglob(f"{newest + 1}.*"):
            path.unlink()


def killed(trace: Trace, crash: str) -> Trace:
    """The trace of a run in which a batch was killed: its first try ends at the step `crash`."""
    again = {batch.batch_id for batch in trace.batches if batch.rerun}
    first_tries = {batch.trigger for batch in trace.batches if batch.batch_id in again and not batch.rerun}
    cut: set[int | None] = set()
    kept = []
    for event in trace.events:
        if event.trigger not in first_tries:
            kept.append(event)
        elif event.step == crash:
            cut.add(event.trigger)
            kept += [event] if crash == "walCommit" else []
        elif event.trigger not in cut:
            kept.append(event)
        elif event.step == "trigger" or event.step == "runBatch" and crash == "commitOffsets":
            kept.append(replace(event, error=KILLED))
    return replace(trace, events=tuple(kept))
