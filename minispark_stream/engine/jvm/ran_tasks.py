"""When the tasks of a batch ran, according to Spark's own list of them.

Models: nothing of Spark; AppStatusStore has what the page of a job in Spark's UI shows.

1. All jobs of a query are in the group of its run, and the description of a job says which batch it is for. The
   newest job comes first, and the list is read until there is one of another batch: what ran before costs nothing.
2. A stage that was skipped has no tasks. Stages are told in the order in which they began.

    of_batch(session, run_id, 3)     [Stage(tasks=(Task(0, 1710000000012, 1710000000345), ...)), ...]

Differs from Spark: nothing.
Shown by tests/conformance/test_real_time_tools.py::test_the_stages_of_a_batch_and_the_ways_of_its_rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.scala import JavaObject

MOST_TASKS = 100  # of a stage
_WAIT_MS = 2000  # how long Spark's list may be behind


class RanTask(NamedTuple):
    """The number of a task in its stage, and when it began and ended, in ms since the epoch; None: it has not ended."""

    number: int
    began_ms: int
    ended_ms: int | None


def of_batch(session: SparkSession, run_id: str, batch_id: int) -> list[list[RanTask]]:
    """The stages of the jobs of a batch, each with its tasks."""
    context = session.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty(_WAIT_MS)
    store = context.statusStore()
    jobs = _jobs(store.jobsList(None), run_id, batch_id)
    numbers = {int(number) for job in jobs for number in scala.items(job.stageIds().toSeq())}
    found = []
    for number in sorted(numbers):
        stage = store.lastStageAttempt(number)
        tasks = [_task(one) for one in scala.items(store.taskList(number, stage.attemptId(), MOST_TASKS))]
        if tasks:  # (2)
            found.append(sorted(tasks))
    return sorted(found, key=lambda tasks: min(task.began_ms for task in tasks))


def _task(task: JavaObject) -> RanTask:
    began_ms, took_ms = int(task.launchTime().getTime()), task.duration()
    return RanTask(int(task.index()), began_ms, began_ms + int(took_ms.get()) if took_ms.isDefined() else None)


def _jobs(newest_first: JavaObject, run_id: str, batch_id: int) -> Iterator[JavaObject]:  # (1)
    for number in range(newest_first.size()):
        job = newest_first.apply(number)
        batch = _batch(job, run_id)
        if batch == batch_id:
            yield job
        elif batch is not None:
            return


def _batch(job: JavaObject, run_id: str) -> int | None:
    """The batch of a job; None if it is of another run, or of no batch."""
    if not job.jobGroup().isDefined() or job.jobGroup().get() != run_id or not job.description().isDefined():
        return None
    told = re.search(r"^batch = (\d+)$", job.description().get(), re.MULTILINE)
    return None if told is None else int(told[1])
