"""The way of a first reader: which lines of the package run, in the driver and in the workers, from `start()` to the end of a query.

    PYTHONPATH=. .venv/bin/python -m tests.way [--show]

Four queries read two rows: a windowed count, a deduplication, a limit and a filter. A single core means a single worker, which has
every partition's state in memory in the second batch. The shortest of three runs after a first one counts. `--show` lists the
files with the number of lines that ran. tests/spark/test_way.py says how long the way may be.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import minispark_stream
from minispark_stream.engine.jvm.state_rdd import MapPartitions

PACKAGE = str(Path(minispark_stream.__file__).parent) + os.sep
ROWS = '{"ts": "2026-03-01 12:02:00", "k": "a"}\n{"ts": "2026-03-01 12:04:00", "k": "b"}\n'

register_pickle_by_value(sys.modules[__name__])  # a worker need not be able to import it

Line = tuple[str, int]
Tracer = Callable[[Any, str, Any], Any]


class Query(NamedTuple):
    build: Callable[[DataFrame], DataFrame]
    output_mode: str


QUERIES = {
    "windowed count": Query(lambda df: df.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "5 minutes")).count(), "update"),
    "deduplication": Query(lambda df: df.dropDuplicates(["k"]), "append"),
    "limit": Query(lambda df: df.limit(1), "append"),
    "filter": Query(lambda df: df.where("k = 'a'"), "append"),
}


def tracer(package: str, lines: set[Line]) -> Tracer:
    """A trace function that notes the lines of functions of the package."""

    def of_function(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return of_function

    def of_all(frame: Any, _: str, __: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(package) or not code.co_flags & CO_OPTIMIZED:  # a module or the body of a class, in a new worker
            return None
        lines.add((code.co_filename, code.co_firstlineno))
        return of_function

    return of_all


def traced(task: Any, folder: str, package: str, make: Callable[[str, set[Line]], Tracer]) -> Any:
    """A task that leaves in `folder` which lines it ran."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        lines: set[Line] = set()
        sys.settrace(make(package, lines))
        try:
            yield from list(task(batches))
        finally:
            sys.settrace(None)
            Path(folder, f"{os.getpid()}_{time.time_ns()}.json").write_text(json.dumps(sorted(lines)))

    return run


def lines_of(mini: minispark_stream.MiniSparkSession, query: Query) -> set[Line]:
    """The lines of the package that one run of a query executes."""
    folder = Path(tempfile.mkdtemp())
    (folder / "in").mkdir()
    (folder / "workers").mkdir()
    (folder / "in" / "0.json").write_text(ROWS)
    frame = query.build(mini.readStream.schema("ts timestamp, k string").json(str(folder / "in")))
    writer = frame.writeStream.outputMode(query.output_mode).format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    lines: set[Line] = set()
    over = MapPartitions.over

    def with_trace(self: MapPartitions, rows: Any, task: Any, *more: Any) -> Any:
        return over(self, rows, traced(task, str(folder / "workers"), PACKAGE, tracer), *more)

    threading.settrace(tracer(PACKAGE, lines))
    MapPartitions.over = with_trace  # type: ignore[assignment, method-assign]
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
    finally:
        MapPartitions.over = over  # type: ignore[method-assign]
        threading.settrace(None)
    for file in (folder / "workers").glob("*.json"):
        lines |= {(name, line) for name, line in json.loads(file.read_text())}
    return lines


def way_of(mini: minispark_stream.MiniSparkSession, query: Query) -> set[Line]:
    """The lines of the shortest of three runs; a worker that has just started has more to do."""
    lines_of(mini, query)  # what is only done the first time in a session
    return min((lines_of(mini, query) for _ in range(3)), key=len)


def main() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    mini = minispark_stream.MiniSparkSession(spark)
    for name, query in QUERIES.items():
        files = Counter(file for file, _ in way_of(mini, query))
        print(f"{name:16} {files.total():6} lines in {len(files)} files")
        if "--show" in sys.argv:
            for file, count in files.most_common():
                print(f"{count:8}  {file[len(PACKAGE):]}")


if __name__ == "__main__":
    main()
