"""The driver's half of state maintenance: it decides when, and up to which version, and reports the results. It reads no state.

Models: MaintenanceTask and startMaintenanceIfNeeded of object StateStore (About state).

1. Every `stateStore.maintenanceInterval`, a thread of the driver asks for maintenance of all partitions.
2. This is done by a Spark job of one task, which does as many partitions as it can in SLICE_S seconds
   (engine/state/maintenance.py). Then the next job does what is left. So maintenance occupies only one task slot, and a batch
   may get this slot after each job; and each job may run on another executor.
3. A job leaves out partitions that its worker does not have in memory. If it has done no partition for this reason, the next
   job reads the state.
4. What was done is reported as steps of the query, and errors are logged. If a job fails, its partitions wait for the next
   time.
5. When the query ends, the job is cancelled, and nobody waits for its worker. If the worker continues for a moment, it does no
   harm: it writes whole files or none, and their content is right.

    partitions 0 to 3; worker A has 0 and 2 in memory, worker B all
    job 1 in A     0 and 2 done, 1 and 3 left
    job 2 in A     none done: 1 and 3 left
    job 3 in B     may read, but has both in memory: 1 and 3 done

Differs from Spark: in Spark, each executor has threads for maintenance besides its tasks, and maintains the stores that it
has; a Python worker only runs tasks. If the cluster has only one task slot, a batch may have to wait for the snapshot of a
store.
Shown by tests/unit/engine/runtime/test_maintenance_task.py::test_each_job_does_what_the_one_before_has_left,
tests/spark/test_maintenance.py::test_snapshots_are_written_by_workers_and_the_driver_reads_no_state.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from minispark_stream.engine.checkpointing.checkpoint_file_manager import redacted
from minispark_stream.engine.jvm import plans, sessions
from minispark_stream.engine.observer import Ended
from minispark_stream.engine.operators.metrics import Reports
from minispark_stream.engine.operators.worker_tuning import tune_worker
from minispark_stream.engine.sinks.base import BATCH_ID_KEY
from minispark_stream.engine.state.maintenance import MaintenanceResult, MaintenanceRound, Partition

logger = logging.getLogger(__name__)

SLICE_S = 0.1

Done = tuple[list[MaintenanceResult], list[Partition]]
AskFor = Callable[[tuple[Partition, ...], bool], MaintenanceRound]

# Tells the observer of the query: `with step("maintenance", store_id=...) as ended: ...; ended(result)`.
StepContext = Callable[..., AbstractContextManager[Ended]]


class MaintenanceError(Exception):
    """What went wrong in a worker, as a text."""


class Jobs(Protocol):
    """Runs rounds. `run` is called on the thread of a MaintenanceTask, `cancel` on another one."""

    def run(self, partitions: tuple[Partition, ...], may_read: bool) -> Done: ...

    def cancel(self) -> None: ...


class MaintenanceTask:
    """(1) Runs maintenance on a thread of its own, every `interval_ms` milliseconds, until it is stopped.

    Args:
        partitions: of the state. There may be more of them later, when a batch has an operator that those before it had not.
    """

    def __init__(self, partitions: frozenset[Partition], jobs: Jobs, interval_ms: int, step: StepContext):
        self.partitions, self._jobs, self._interval_s, self._step = partitions, jobs, interval_ms / 1000, step
        self._stopped = threading.Event()
        self._thread = InheritableThread(target=self._run, name="state-store-maintenance-task", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:  # (5)
        """Cancel the job that is running, and end the thread."""
        self._stopped.set()
        if self._thread.is_alive():
            try:
                self._jobs.cancel()
            finally:
                self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                self._maintain()
            except Exception as e:  # the next time tries again
                if not self._stopped.is_set():
                    logger.warning("Error running maintenance: %s", e)

    def _maintain(self) -> None:
        left, may_read = tuple(sorted(self.partitions)), False
        while left and not self._stopped.is_set():  # (2)
            results, still_left = self._jobs.run(left, may_read)
            for result in results:
                tell(result, self._step)
            left, may_read = tuple(still_left), len(still_left) == len(left)  # (3)


def tell(result: MaintenanceResult, step: StepContext) -> None:
    """(4) Report as a step of the query what a worker has done (`Due.do_maintenance` of engine/state/maintenance.py)."""
    try:
        with step("maintenance", store_id=result.store_id) as ended:
            if result.error is None or result.snapshot is not None or result.deleted:  # it may have failed in one half only
                ended(result)
            if result.error is not None:
                raise MaintenanceError(result.error)
    except MaintenanceError as e:
        logger.warning("Error performing snapshot and cleaning up of %s: %s", redacted(result.store_id.location), e)


class MaintenanceJobs:
    """(2) Runs rounds as Spark jobs. They have their own job group, so they are not cancelled together with a batch."""

    def __init__(self, session: SparkSession, group: str, description: str, ask_for: AskFor):
        self._session, self._group, self._description, self._ask_for = session, group, description, ask_for

    def run(self, partitions: tuple[Partition, ...], may_read: bool) -> Done:
        """Run a round through `mapInArrow`, so that it gets a worker that also runs stateful operators."""
        sessions.set_active_session(self._session)
        context = self._session.sparkContext
        context.setJobGroup(self._group, self._description)
        context.setLocalProperty(BATCH_ID_KEY, None)  # type: ignore[arg-type]
        done: Accumulator[list[Done]] = context.accumulator([], Reports())
        task = _RoundAsTask(self._ask_for(partitions, may_read), done)
        try:
            plans.count_rows(self._session.range(1, numPartitions=1).mapInArrow(task, "nothing int"))
        except Exception:
            if sessions.is_stopping(self._session):
                return [], []  # no warning here: the query itself reports that the session was stopped
            raise
        finally:
            sessions.forget_accumulator(done)
        return done.value[0]

    def cancel(self) -> None:
        if not sessions.is_stopped(self._session):
            sessions.cancel_jobs(self._session, self._group)


@dataclass(frozen=True)
class _RoundAsTask:
    """A round in a worker, as a function for mapInArrow."""

    round: MaintenanceRound
    done: Accumulator[list[Done]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        for _ in batches:
            pass
        self.done.add([self.round.run()])
        yield from ()
