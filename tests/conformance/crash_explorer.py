"""Every durable action of a query is a point at which it may be killed: run, kill, start again, run to the end, compare.

A restart knows nothing but what is on disk, so a kill is what the disk held at that moment.

1. The disk is photographed while the model runs: when a step begins and ends, before and after each file that the driver writes, and
   while the files of a batch are moved to where they belong. What the tasks wrote between two photographs is taken apart
   (crash_pictures.py).
2. A photograph is put back, and the query is run to the end. Its rows, its state and its watermark must be those of the run that
   nothing disturbed. The sink skips a batch that it has, as a table with a log does; but a batch that runs again must have the rows
   that it had before. Before the disk is put back, the maintenance of the run before has come to its end: a task that is cancelled may
   go on for two seconds, and write into the folder of the next run.
3. Each file that the driver writes does not fit once, as on a full disk. This is no kill: the query ends with an error, and
   cleans up. What it leaves is run to the end, too.
4. A run that goes as an earlier one went is not run to the end. From the same disk, all runs go alike. And after each batch, the rest of
   a run follows from the disk, from what the driver has in its memory, and from the versions of the state that its workers loaded at its
   first batch. So when another run began with the same batch, and had the same disk and the same memory after one, the rest is the same,
   and so are its outcome and the points at which it may be killed. Times do not count, because no query here asks for them. Nor does a
   hidden file that was left half written, once a run with one of its kind has gone to the end.

The input comes in stages, each when the query has nothing left to do, wherever it was killed. So a batch has the same rows in each
run. Only a batch without data may be missing: after a restart, no engine runs one before there is data again.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from minispark_stream import inspect
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.commit_log import CommitLog
from minispark_stream.engine.runtime.maintenance_task import MaintenanceJobs
from minispark_stream.engine.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.engine.sinks.manifest_file_commit_protocol import ManifestFileCommitProtocol
from minispark_stream.lens.trace import recorder
from tests.conformance.crash_inputs import Input
from tests.conformance.crash_pictures import Alike, Disk, between, hidden, look, memory, put_back, what_counts
from tests.conformance.crash_queries import Query

Outcome = tuple[list[str], dict[str, list[str]], int]  # rows, state, watermark


@dataclass(frozen=True)
class Point:
    """A moment, how many stages of the input were there, and the disk."""

    moment: str
    stages: int
    disk: Disk

    def alike(self) -> tuple[int, Alike]:
        """(4) What the run that begins here follows from."""
        return self.stages, what_counts(self.disk)


@dataclass(frozen=True)
class Place:
    """(4) What the rest of a run follows from, after a batch. `began`: its first batch, and whether that was one that ran again."""

    stages: int
    began: tuple[int, bool]
    disk: Alike
    memory: str


@dataclass
class Run:
    """One that is on its way. `places`: where it was; `hidden`: the kinds of hidden files that it has met."""

    began: tuple[int, bool] | None = None
    has_committed: bool = False
    places: list[Place] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    outcome: Outcome | None = None  # once it is known


class GoesAsAnotherDid(Exception):
    """The rest of this run is known."""


@dataclass
class Explorer:
    """One query, its input, its folder and the points at which it may be killed; of these, `writes` are before a file of the driver."""

    query: Query
    input: Input
    folder: Path
    points: list[Point] = field(default_factory=list)
    writes: list[Point] = field(default_factory=list)
    looks: bool = False
    is_full: bool = False
    runs: int = 0
    runs_to_the_end: int = 0
    _camera: threading.Lock = field(default_factory=threading.Lock)
    _run: Run = field(default_factory=Run)
    _began: dict[tuple[int, Alike], tuple[Outcome | Exception, list[Point]]] = field(default_factory=dict)
    _outcomes: dict[Place, Outcome] = field(default_factory=dict)
    _hidden: set[str] = field(default_factory=set)

    def shoot(self, moment: str) -> None:
        """(1) Note the disk, if it has changed."""
        with self._camera:  # maintenance has a thread of its own
            if self.looks:
                before = self._last_look()
                disk = look(self.folder, before)
                if disk != before or not self.points:
                    stages = self.input.arrived
                    self.points += [Point(f"{moment}: {name}", stages, shown) for name, shown in between(before, disk)]
                    self.points.append(Point(moment, stages, disk))

    def before_writing(self, name: str) -> None:
        """Raises OSError: (3)"""
        self.shoot(f"before {name}")
        if self.looks and not (self.writes and self.writes[-1] is self.points[-1]):
            self.writes.append(self.points[-1])
        if self.is_full:
            self.is_full = False
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def put_back(self, point: Point) -> None:
        """(2) Make the disk what it was, and the input, too."""
        put_back(self.input.put_back(point.stages, point.disk), self.folder)
        self.points = [point]

    def kill(self, point: Point, session: Any, photographed: int = 0) -> Outcome | Exception:
        """What comes of a kill; `points` are those of the run that follows, as far as it is photographed."""
        known = self._began.get(point.alike())
        if known is not None and (known[1] or not photographed) and hidden(point.disk) <= self._hidden:
            outcome, self.points = known
        else:
            self.put_back(point)
            outcome = self.run(session, photographed)
            self.points = self.points[1:]
            self._began[point.alike()] = outcome, self.points
        return outcome

    def left(self) -> Point:
        """What a run that has ended has left."""
        return Point("the end", self.input.arrived, look(self.folder, self._last_look()))

    def committed(self) -> None:
        self._run.has_committed = True

    def begins_trigger(self, execution: MicroBatchExecution) -> None:
        """(4) Note where the run is after each batch. Raises GoesAsAnotherDid when the rest of it is known."""
        run, context = self._run, execution.context
        run.began = run.began or (context.batch_id, context.is_current_batch_constructed)
        if not run.has_committed:
            return
        run.has_committed = False
        disk = look(self.folder, self._last_look())
        place = Place(self.input.arrived, run.began, what_counts(disk), memory(execution))
        run.hidden |= hidden(disk)
        if place in self._outcomes and run.hidden <= self._hidden:
            run.outcome = self._outcomes[place]
            raise GoesAsAnotherDid
        run.places.append(place)

    def run(self, session: Any, photographed: int = 0) -> Outcome | Exception:
        """Run the query to the end of its input, and say what came of it; photograph it during so many stages."""
        run = self._run = Run()
        self.runs += 1
        try:
            run.outcome = self._to_the_end(session, photographed)
            self.runs_to_the_end += 1
            self._hidden |= run.hidden
        except Exception as e:
            if run.outcome is None:
                return e
        self._outcomes |= dict.fromkeys(run.places, run.outcome)
        return run.outcome

    def _to_the_end(self, session: Any, photographed: int) -> Outcome:
        query = None
        try:
            for number in range(len(self.query.stages)):
                self.looks = number < photographed
                if number == self.input.arrived:
                    self.input.arrive()
                query = query or self.query.start(session, self.input.address, self.folder)
                query.processAllAvailable()
        finally:
            self.looks = False
            if query is not None:
                query.stop()
        checkpoint = self.folder / "checkpoint"
        newest = CommitLog(str(checkpoint / "commits")).get_latest()
        assert newest is not None
        return self.query.rows(session, self.folder), _state(checkpoint), newest[1].next_batch_watermark_ms

    def _last_look(self) -> Disk:
        return self.points[-1].disk if self.points else {}


def _state(checkpoint: Path) -> dict[str, list[str]]:
    report = inspect(str(checkpoint))
    assert not any(one.not_decoded for one in report.states)
    return {
        f"{one.operator_id} {one.name}": sorted(
            f"{row.key} {row.value}" for row in report.rows(one.operator_id, store=one.name)
        )
        for one in report.states
    }


def photograph(explorer: Explorer, patch: pytest.MonkeyPatch) -> None:
    """Take photographs from now on, while the model runs in the folder of the explorer."""

    class Photographer(recorder.Recorder):
        @contextmanager
        def step(self, name: str, /, **inputs: Any) -> Iterator[Any]:
            explorer.shoot(f"{name} {self.batch_id} begins")
            with super().step(name, **inputs) as step:
                yield step
            explorer.shoot(f"{name} {self.batch_id} ends")

    write, move, begin = CheckpointFileManager.create_atomic, ManifestFileCommitProtocol._move, MicroBatchExecution.begin_trigger

    def create_atomic(self: CheckpointFileManager, name: str, *args: Any, **kwargs: Any) -> object:
        explorer.before_writing(name)
        written = write(self, name, *args, **kwargs)
        explorer.shoot(f"after {name}")
        if self.root.endswith("/checkpoint/commits"):
            explorer.committed()
        return written

    def moved(self: ManifestFileCommitProtocol, source: Any) -> Any:
        explorer.shoot("before a file is moved")
        status = move(self, source)
        explorer.shoot("after a file is moved")
        return status

    def begin_trigger(self: MicroBatchExecution) -> None:
        explorer.begins_trigger(self)
        begin(self)

    patch.setattr(recorder, "Recorder", Photographer)
    patch.setattr(CheckpointFileManager, "create_atomic", create_atomic)
    patch.setattr(ManifestFileCommitProtocol, "_move", moved)
    patch.setattr(MicroBatchExecution, "begin_trigger", begin_trigger)
    patch.setattr(MaintenanceJobs, "cancel", lambda self: None)  # (2) a query that stops still waits for the thread that runs the job
