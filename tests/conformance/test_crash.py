"""A kill at any moment: no row is lost, and none is doubled where exactly-once is promised.

A restart knows nothing but what is on disk. So the disk is photographed while a query runs: when each step begins and
ends, and before and after each file that the driver writes. Then each photograph is put back, as if the process had been
killed at that moment, and the query is started again, by the model or by real Structured Streaming.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, streaming_query_manager
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.lens.trace.recorder import Recorder
from tests.conformance.inputs import at

pytestmark = pytest.mark.usefixtures("spark_files")

INPUT = [at("12:01", "12:02"), at("12:06", "12:07"), at("12:30")]  # a first batch, one in the middle, a last one
LATER = at("13:00")  # after a restart, neither engine runs a batch without data before there is data again
# What is there, and what is not there yet, at some of the moments.
PLANNED = ("checkpoint/sources/0/1", "checkpoint/offsets/1"), ("checkpoint/offsets/1", "checkpoint/commits/1")
UNFINISHED = {
    "json": [*PLANNED, ("checkpoint/state/0/1/2.delta", "out/_spark_metadata/1"), ("out/_spark_metadata/1", "checkpoint/commits/1")],
    "foreachBatch": [*PLANNED, ("out/batch=1/_SUCCESS", "checkpoint/commits/1")],
}


@dataclass
class Camera:
    """Photographs of a folder, without those that show nothing new."""

    folder: Path
    album: Path
    shots: list[tuple[str, Path]] = field(default_factory=list)
    _seen: dict[str, int] = field(default_factory=dict)

    def shoot(self, moment: str) -> None:
        shows = {str(p.relative_to(self.folder)): p.stat().st_mtime_ns for p in self.folder.rglob("*") if p.is_file()}
        if shows != self._seen:
            self._seen = shows
            self.shots.append((moment, self.album / str(len(self.shots))))
            shutil.copytree(self.folder, self.shots[-1][1])

    def put_back(self, shot: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(shot, self.folder)


@pytest.fixture
def camera(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Camera:
    """A camera that takes its pictures while the model runs."""
    camera = Camera(tmp_path / "work", tmp_path / "album")
    camera.folder.mkdir()

    class Photographer(Recorder):
        @contextmanager
        def step(self, name: str, /, **inputs: Any) -> Iterator[Any]:
            camera.shoot(f"{name} {self.batch_id} begins")
            with super().step(name, **inputs) as step:
                yield step
            camera.shoot(f"{name} {self.batch_id} ends")

    write = CheckpointFileManager.create_atomic

    def create_atomic(self: CheckpointFileManager, name: str, *args: Any, **kwargs: Any) -> None:
        camera.shoot(f"before {name}")
        write(self, name, *args, **kwargs)
        camera.shoot(f"after {name}")

    monkeypatch.setattr(streaming_query_manager, "Recorder", Photographer)
    monkeypatch.setattr(CheckpointFileManager, "create_atomic", create_atomic)
    return camera


def windows(session: Any, folder: Path) -> DataFrame:
    events = session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).json(str(folder))
    counts = events.withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 minutes"), "k").count()
    return counts.select("window.start", "k", "count")


def run(df: DataFrame, work: Path, sink: str, write: Callable[[DataFrame, int], None]) -> None:
    writer = df.writeStream.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True)
    writer = writer.foreachBatch(write) if sink == "foreachBatch" else writer.format(sink)
    writer.start(*([] if sink == "foreachBatch" else [str(work / "out")])).awaitTermination()


@pytest.mark.parametrize("sink", ["json", "foreachBatch"])
def test_every_moment_is_a_good_moment_to_be_killed(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, camera: Camera, sink: str
) -> None:
    (tmp_path / "in").mkdir()

    def put(i: int, lines: list[str]) -> None:
        (tmp_path / "in" / f"{i}.json").write_text("\n".join(lines))
        os.utime(tmp_path / "in" / f"{i}.json", (1_700_000_000 + i,) * 2)

    def by_batch_id(data: DataFrame, batch_id: int) -> None:
        """An idempotent write: the batch id names the file."""
        data.write.mode("overwrite").json(str(camera.folder / "out" / f"batch={batch_id}"))

    def finish(session: Any) -> list[tuple[Any, ...]]:
        run(windows(session, tmp_path / "in"), camera.folder, sink, by_batch_id)
        rows = spark.read.schema("start timestamp, k string, count long").json(str(camera.folder / "out"))
        return sorted((str(row["start"]), row["k"], row["count"]) for row in rows.collect())

    for i, lines in enumerate(INPUT):
        put(i, lines)
    finish(mini)
    shots = list(camera.shots)
    for there, missing in UNFINISHED[sink]:
        assert any((shot / there).exists() and not (shot / missing).exists() for _, shot in shots), (there, missing)
    put(len(INPUT), LATER)
    expected = finish(mini)
    assert [count for _, _, count in expected] == [2, 2, 1]
    for i, (moment, shot) in enumerate(shots):
        camera.put_back(shot)
        assert finish((mini, spark)[i % 2]) == expected, f"killed at: {moment}"
