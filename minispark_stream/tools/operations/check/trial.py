"""One small batch of the new query, into nothing, on a copy of the whole checkpoint.

1. All files of the checkpoint are copied.
2. The query is held at `start()` (dry_run.py), and its sink is replaced by one that writes nothing.
3. One batch is planned, from at most one file, and run: functions are imported and called, and the state is loaded.
4. No source is told that its rows are done: nothing of the input is deleted or archived.

    a function that imports what the cluster does not have      Refused("first batch", None, "No module named 'geo'")

Models: nothing of Spark.
Shown by tests/spark/test_check.py::test_a_trial_calls_the_functions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm.errors import JavaError
from minispark_stream.engine.runtime.construct_next_batch import construct_next_batch
from minispark_stream.engine.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.engine.runtime.run_batch import run_batch
from minispark_stream.engine.sinks.noop import NoopSink
from minispark_stream.engine.sources.base import Offset, ReadMaxFiles
from minispark_stream.engine.sources.file import FileStreamSource
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.operations.check.answer import FIRST, START, Refused
from minispark_stream.tools.operations.check.dry_run import Builder, Deployment, held, on_its_thread, refused


def try_a_batch(spark: SparkSession, files: ReadOnlyFiles, build: Builder, how: Deployment, folder: Path) -> Refused | None:
    """Run one batch. Returns how it failed, None if it did not, or if there was nothing to do."""
    with files.budget.lent():
        for name in files.files:  # (1)
            target = folder / name
            if ".." not in name.split("/"):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files.open(name))
    try:
        _, execution = held(spark, build, folder, how)  # (2)
    except (PySparkException, JavaError) as e:
        return refused(e, START)
    execution.sink = NoopSink()
    return on_its_thread(execution, lambda: _batch(execution))


def _batch(execution: MicroBatchExecution) -> Refused | None:
    try:
        execution.begin()
        limits = {n: ReadMaxFiles(1) for n, s in enumerate(execution.sources) if isinstance(s, FileStreamSource)}
        execution.sources = replace(execution.sources, read_limits={**execution.sources.read_limits, **limits})
        for source in execution.sources:  # (4)
            source.commit = _nothing  # type: ignore[method-assign]
        context = execution.context
        if not context.is_current_batch_constructed:
            context = construct_next_batch(execution, context)
        if context.is_current_batch_constructed:
            run_batch(execution, context)  # (3)
    except Exception as e:
        return refused(e, FIRST)
    finally:
        if execution.maintenance is not None:
            execution.maintenance.stop()
        execution.release()
        execution.planner.stop()
    return None


def _nothing(end: Offset) -> None:
    """The rows up to `end` are not done: they were only tried."""
