"""The reading path of docs/architecture.md is the way that a windowed count takes."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from tests.conformance.inputs import at

ROOT = Path(__file__).parents[2]
PACKAGE = str(ROOT / "minispark_stream")
LOOP = "engine/runtime/micro_batch_execution.py"
MOST_FILES = 15


def note_files_in(files: dict[str, None], files_of_triggers: dict[str, None] | None = None) -> Callable[[Any, str, object], None]:
    """A profile function, which keeps the files of the package in the order in which their functions are first called: at the
    start of a query, and again from its first trigger on."""
    triggered = False

    def profile(frame: Any, event: str, argument: object) -> None:
        nonlocal triggered
        if event == "call" and frame.f_code.co_name != "<module>" and frame.f_code.co_filename.startswith(PACKAGE):
            triggered = triggered or frame.f_code.co_name == "execute_one_batch"
            noted = files_of_triggers if triggered and files_of_triggers is not None else files
            noted.setdefault(frame.f_code.co_filename[len(PACKAGE) + 1 :])

    return profile


def traced(task: Any, at_work: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task, which writes down the files that it comes to in its worker."""
    note = note_files_in

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files: dict[str, None] = {}
        sys.setprofile(note(files))
        try:
            yield from list(task(batches))
        finally:
            sys.setprofile(None)
            with open(at_work, "a") as file:
                file.write("".join(f"{name}\n" for name in files))

    return run


def test_the_reading_path_is_the_way_of_a_windowed_count(
    mini: MiniSparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \d+\. \[([\w/]+\.py)\]", page, re.M)
    assert 0 < len(listed) <= MOST_FILES
    over, at_work = MapPartitions.over, tmp_path / "at work"
    monkeypatch.setattr(
        MapPartitions, "over", lambda self, rows, task, *more: over(self, rows, traced(task, str(at_work)), *more)
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(at("12:02", "12:04")))
    events = mini.readStream.schema("ts timestamp, k string").json(str(tmp_path / "in"))
    counts = events.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "5 minutes")).count()
    start: dict[str, None] = {}
    triggers: dict[str, None] = {}
    threading.setprofile(note_files_in(start, triggers))
    try:
        query = counts.writeStream.outputMode("update").format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
    finally:
        threading.setprofile(None)
    workers = dict.fromkeys(at_work.read_text().splitlines())
    of_driver = [*(file for file in start if file == LOOP or file not in triggers), *(file for file in triggers if file != LOOP)]
    way = [*of_driver, *(file for file in workers if file not in of_driver)]
    assert [file for file in way if file in listed] == listed
