"""Every durable action of a query is a point at which it may be killed: run, kill, start again, run to the end, compare.

A restart knows nothing but what is on disk, so a kill is what the disk held at that moment.

1. The disk is photographed while the model runs: when a step begins and ends, and before and after each file that the driver writes.
2. What the tasks wrote between two photographs is taken apart, one file after the other. Each of them is also half written, under
   the name that it has until it is complete; and the last is there without the others, because tasks wait for nobody. A file of the
   state is half written under its own name, too, as after a power cut on a disk that has kept the name and not the content: a
   batch that was not committed writes it again.
3. A photograph is put back, and the query is run to the end. Its rows, its state and its watermark must be those of the run that
   nothing disturbed. The sink skips a batch that it has, as a table with a log does.

    offsets/1 written | .2.delta.tmp half written | 2.delta torn | 2.delta of partition 0 | 2.delta of partition 1 | out/1 | commits/1

4. A run that goes as an earlier one went is not run to the end. What a process has in its memory when it commits the first batch after
   a kill follows from the logs that it found, and what it does from then on, from that and from the disk. So when another run found
   the same logs, and had the same disk at this commit, the rest is the same, and so are its outcome and its other points. Times and
   the id of the query do not count, because no query here asks for them; and a hidden file that was left half written counts by its
   kind, whatever partition, store and version it was meant for.

The input comes in stages, each when the query has nothing left to do, wherever it was killed. So a batch has the same rows in each
run. Only a batch without data may be missing: after a restart, no engine runs one before there is data again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from minispark_stream import inspect, streaming_query_manager
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.commit_log import CommitLog
from minispark_stream.lens.trace.recorder import Recorder

Disk = dict[str, tuple[bytes, int]]  # path -> content and time of its last change
Outcome = tuple[list[str], dict[str, list[str]], int]  # rows, state, watermark
Alike = frozenset[tuple[str, bytes]]  # what counts of a disk
STATE = "checkpoint/state/"
OF_ONE_RUN = re.compile(rb'"batchTimestampMs":\d+|"id":"[-0-9a-f]+"')


@dataclass(frozen=True)
class Query:
    """A query, and where it writes: by foreachBatch, into files of JSON, or into a table of Delta."""

    mode: str
    build: Callable[[Any, str], DataFrame]
    sink: str = "foreachBatch"
    confs: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> str:
        """Whose format its state has."""
        return "RocksDB" if "RocksDB" in str(self.confs) else "HDFS"

    def start(self, session: Any, inputs: str, folder: Path) -> Any:
        """Start it, or go on with it, in a folder that has its checkpoint and its output."""
        out = folder / "out"

        def write(data: DataFrame, batch_id: int) -> None:
            rows = sorted(json.dumps(row.asDict(recursive=True), default=str) for row in data.collect())
            if not (out / str(batch_id)).exists():
                out.mkdir(parents=True, exist_ok=True)
                (out / ".tmp").write_text("\n".join(rows))
                (out / ".tmp").rename(out / str(batch_id))

        writer = self.build(session, inputs).writeStream.outputMode(self.mode)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        if self.sink == "foreachBatch":
            return writer.foreachBatch(write).start()
        return writer.format(self.sink).start(str(out))

    def rows(self, session: Any, folder: Path) -> list[str]:
        """What it has written."""
        out = folder / "out"
        if self.sink == "json":
            return sorted(row[0] for row in session.read.text(str(out)).collect())
        if self.sink == "delta":
            from deltalake import DeltaTable

            return sorted(json.dumps(row, default=str) for row in DeltaTable(out).to_pyarrow_table().to_pylist())
        batches = sorted((path for path in out.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        chosen = batches[-1:] if self.mode == "complete" else batches
        return sorted(row for path in chosen for row in path.read_text().splitlines())


@dataclass(frozen=True)
class Point:
    """A moment, how many stages of the input were there, and the disk."""

    moment: str
    stages: int
    disk: Disk


@dataclass
class Explorer:
    """One query, its input, its folder and the points at which it may be killed."""

    query: Query
    stages: Sequence[Sequence[list[str]]]  # of each stage the files, of each file the lines
    inputs: Path
    folder: Path
    points: list[Point] = field(default_factory=list)
    looks: bool = False
    went: dict[tuple[int, Alike, Alike], tuple[Outcome, list[Point]]] = field(default_factory=dict)
    _found: Alike = frozenset()  # the logs, by the run that is on its way
    _like: tuple[int, Alike, Alike] | None = None  # what its rest follows from, once its first batch is committed
    _until: int = 0  # so many points were before that

    def shoot(self, moment: str) -> None:
        """(1) Note the disk, if it has changed."""
        if not self.looks:
            return
        before = self.points[-1].disk if self.points else {}
        disk = self._disk(before)
        if disk == before and self.points:
            return
        stages = len(list(self.inputs.glob("[0-9]*")))
        self.points += [Point(f"{moment}: {name}", stages, between) for name, between in between(before, disk)]
        self.points.append(Point(moment, stages, disk))

    def put_back(self, point: Point) -> None:
        """(3) Make the disk what it was, and the input, too."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, (content, changed) in point.disk.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, ns=(changed, changed))
        for number in range(len(self.stages)):
            if number >= point.stages:
                shutil.rmtree(self.inputs / str(number), ignore_errors=True)
            elif not (self.inputs / str(number)).exists():
                self._arrive(number)

    def _begin(self) -> None:
        self._found, self._like = what_counts(self._disk({}), state=False), None

    def committed(self) -> None:
        """(4) Note what the rest of this run follows from; end it, if that is known."""
        if self._like is None:
            disk = self._disk(self.points[-1].disk if self.points else {})
            self._like, self._until = (len(list(self.inputs.glob("[0-9]*"))), self._found, what_counts(disk)), len(self.points)
            if self._like in self.went:
                raise GoesAsAnotherDid

    def run(self, session: Any, photographed: int = 0) -> Outcome | Exception:
        """Run the query to the end of its input, and say what came of it; photograph it during so many stages."""
        self._begin()
        try:
            for number in range(len(self.stages)):
                self.looks = number < photographed
                if not (self.inputs / str(number)).exists():
                    self._arrive(number)
                if number == 0:
                    query = self.query.start(session, f"{self.inputs}/*", self.folder)
                query.processAllAvailable()
            self.looks = False
            query.stop()
            checkpoint = self.folder / "checkpoint"
            newest = CommitLog(str(checkpoint / "commits")).get_latest()
            watermark = newest[1].next_batch_watermark_ms if newest else 0
            outcome = self.query.rows(session, self.folder), _state(checkpoint), watermark
            if self._like is not None:
                self.went[self._like] = outcome, self.points[self._until :]
            return outcome
        except Exception as e:
            if self._like in self.went:
                outcome, points = self.went[self._like]
                self.points += points if photographed else []
                return outcome
            return e
        finally:
            self.looks = False

    def _arrive(self, number: int) -> None:
        """All files of a stage are there at once, with their times: a source that saw one earlier would take the others for too old."""
        self.inputs.mkdir(exist_ok=True)
        hidden = self.inputs.with_name(f"stage {number}")
        hidden.mkdir()
        for i, lines in enumerate(self.stages[number]):
            (hidden / f"{i}.json").write_text("\n".join(lines))
            os.utime(hidden / f"{i}.json", (1_700_000_000 + 100 * number + i,) * 2)
        hidden.rename(self.inputs / str(number))

    def _disk(self, known: Disk) -> Disk:
        """The files that are there; a temporary one of a task may go while this looks."""
        disk: Disk = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            try:
                if path.is_file():
                    changed = path.stat().st_mtime_ns
                    same = name in known and known[name][1] == changed
                    disk[name] = known[name] if same else (path.read_bytes(), changed)
            except FileNotFoundError:
                continue
        return disk


class GoesAsAnotherDid(Exception):
    """The rest of this run is known."""


def what_counts(disk: Disk, state: bool = True) -> Alike:
    """What a run may follow from: without the state, as the driver never reads it."""
    counts = set()
    for name, (content, _) in disk.items():
        folder, _, base = name.rpartition("/")
        of_state = name.startswith(STATE) and not folder.endswith("/_metadata")
        if base.startswith("."):
            counts.add((re.sub(r"\d+", "", base if of_state else name), b""))
        elif state or not of_state:
            counts.add((name, OF_ONE_RUN.sub(b"", content)))
    return frozenset(counts)


def _state(checkpoint: Path) -> dict[str, list[str]]:
    report = inspect(str(checkpoint))
    return {
        f"{one.operator_id} {one.name}": sorted(
            f"{row.key} {row.value}" for row in report.rows(one.operator_id, store=one.name)
        )
        for one in report.states
        if not one.not_decoded
    }


def between(before: Disk, after: Disk) -> Iterator[tuple[str, Disk]]:
    """(2) The disk between two photographs: what is new came in the order of its times, and what is gone went after that."""
    disk = dict(before)
    new = sorted((name for name, file in after.items() if before.get(name) != file), key=lambda name: after[name][1])
    for name in new:
        content, changed = after[name]
        folder, _, base = name.rpartition("/")
        half = f"{folder}/.{base}.0.tmp"
        yield f"half of {name}", {**disk, half: (content[: len(content) // 2], changed)}
        if name.startswith(STATE) and base.endswith(".delta"):
            yield f"torn {name}", {**disk, name: (content[: len(content) // 2], changed)}
        disk[name] = after[name]
        if disk != after:
            yield f"after {name}", dict(disk)
    if len(new) > 1 and new[-1].startswith(STATE):
        yield f"{new[-1]} before the others", {**before, new[-1]: after[new[-1]]}
    for name in before:
        if name not in after:
            del disk[name]
            if disk != after:
                yield f"without {name}", dict(disk)


def photograph(explorer: Explorer, patch: pytest.MonkeyPatch) -> None:
    """Take photographs from now on, while the model runs in the folder of the explorer."""

    class Photographer(Recorder):
        @contextmanager
        def step(self, name: str, /, **inputs: Any) -> Iterator[Any]:
            explorer.shoot(f"{name} {self.batch_id} begins")
            with super().step(name, **inputs) as step:
                yield step
            explorer.shoot(f"{name} {self.batch_id} ends")

    write = CheckpointFileManager.create_atomic

    def create_atomic(self: CheckpointFileManager, name: str, *args: Any, **kwargs: Any) -> object:
        explorer.shoot(f"before {name}")
        written = write(self, name, *args, **kwargs)
        explorer.shoot(f"after {name}")
        if self.root.endswith("/checkpoint/commits"):
            explorer.committed()
        return written

    patch.setattr(streaming_query_manager, "Recorder", Photographer)
    patch.setattr(CheckpointFileManager, "create_atomic", create_atomic)
