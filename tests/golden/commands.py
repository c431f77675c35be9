"""The commands of the golden scripts, on one engine or the other.

Each public method of `Commands` but `do` and `close` is a command, and yields the lines that it shows. What is shown is the
same on every machine and on both engines: rows are sorted, nothing has an id or a duration, and times of 2024-01-01 are
written as times of day, in the input too.

All that happens in a script happens in its own folder:

    input/        what `feed` has put there: 0.csv, 1.csv, ...
    checkpoint/   of the query; `run` starts it there again and again
    output/       of a file sink

A memory sink or a table has a name of its own, under which `output` finds it.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, inspect
from minispark_stream.engine.clock import ManualClock
from tests.golden.words import batch_line, error_line, row_words, short, time_words

NOON_MS = 1_704_110_400_000  # 2024-01-01 12:00 UTC, where the manual clock begins
FIRST_FILE_TIME = 1_700_000_000  # seconds; each file is a second younger than the one before
PATIENCE_S = 60  # how long to wait for what another thread is about to do


class WatchedClock(ManualClock):
    """A manual clock that knows when the query will wake up."""

    wakes_at = 0

    def wait_till_time(self, target_ms: int, stopped: Event) -> None:
        self.wakes_at = target_ms
        super().wait_till_time(target_ms, stopped)


class Commands:
    """The commands of one script.

    Args:
        engine: "model" or "spark".
        folder: an empty folder for this script.
    """

    def __init__(self, spark: SparkSession, engine: str, folder: Path):
        self.engine = engine
        self._spark = spark
        self._clock = WatchedClock(NOON_MS)
        self._folder = folder
        self._input, self._output, self._checkpoint = (folder / name for name in ("input", "output", "checkpoint"))
        self._input.mkdir(parents=True)
        self._files_fed = 0
        self._table = f"golden_{uuid.uuid4().hex}"
        self._confs_before: dict[str, str | None] = {}
        self._query: Any = None
        self._rows: dict[int, list[str]] = {}  # what the sink got in this run, by batch
        self._at_batch: dict[int, Callable[[], object]] = {}  # what else the sink is to do, by batch
        self.set("spark.sql.shuffle.partitions", "1")

    def do(self, words: list[str]) -> Iterator[str]:
        """Run a command, given as its words; the lines that it shows."""
        shown: Iterable[str] | None = getattr(self, words[0])(*words[1:])
        return map(short, shown or ())

    def close(self) -> None:
        """Stop what still runs, drop what is not in the folder, and put the confs back."""
        if self._query is not None:
            self._query.stop()
        self._spark.catalog.dropTempView(self._table)
        self._spark.sql(f"drop table if exists {self._table}")
        for key, value in self._confs_before.items():
            self._spark.conf.unset(key) if value is None else self._spark.conf.set(key, value)

    # -- the query and its input ------------------------------------------------------------------------------------

    def query(self, mode: str, *rest: str) -> None:
        """`query append`, or `query append into` json, memory, or a table: what to run, from now on."""
        self._mode, self._format = mode, rest[1] if rest[0] == "into" else None
        names: dict[str, Any] = {"F": F}
        exec(f"def build(session, input):\n{rest[-1]}", names)
        self._build = names["build"]

    def feed(self, *rows: str) -> None:
        """`feed 12:02,a 12:07,b` or `feed left/ 12:02,a`: a file, in one rename."""
        folder, rows = (rows[0], rows[1:]) if rows[0].endswith("/") else ("", rows)
        lines = [re.sub(r"\b(\d\d:\d\d)(:\d\d)?\b", lambda m: f"2024-01-01 {m[1]}{m[2] or ':00'}", row) for row in rows]
        file = self._input / folder / f"{self._files_fed}.csv"
        file.parent.mkdir(exist_ok=True)
        hidden = file.with_name(f".{file.name}")
        hidden.write_text("".join(f"{line}\n" for line in lines))
        os.utime(hidden, (FIRST_FILE_TIME + self._files_fed,) * 2)
        hidden.rename(file)
        self._files_fed += 1

    def set(self, key: str, value: str) -> None:
        self._confs_before.setdefault(key, self._spark.conf.get(key, None))
        self._spark.conf.set(key, value)

    # -- running ----------------------------------------------------------------------------------------------------

    def run(self, trigger: str = "availableNow", _until: str = "", rows: str = "0", *_rows: str) -> Iterator[str]:
        """`run` or `run once`: from the checkpoint until the query ends by itself. `run continuous until 3 rows` shows these."""
        try:
            if trigger == "continuous":
                self._start({"continuous": "100 milliseconds"})
                _wait_until(lambda: len(self._read().head(int(rows))) == int(rows))
                self._query.stop()
                yield from [row_words(row.asDict()) for row in self._read().head(int(rows))]
                return
            self._start({trigger: True})
            self._query.awaitTermination()
        except PySparkException as e:
            yield from self._batches()
            yield error_line(e).replace(f"file:{self._folder}/", "")
        else:
            yield from self._batches() or ["no batch"]

    def crash(self, _at: str, step: str, _of: str, _batch: str, batch_id: str) -> Iterator[str]:
        """`crash at commitOffsets of batch 1`: run, and be killed at that step. The sink kills, so that any engine can be.

        At addBatch the sink fails. The file that walCommit or commitOffsets is about to write is put into its way:
        the engine takes it for the work of another run and ends, as if it had been killed just before.
        """
        obstacle: Path | None = None
        n = int(batch_id)
        if step == "addBatch":
            self._at_batch = {n: lambda: 1 / 0}
        else:
            obstacle = self._checkpoint / {"walCommit": "offsets", "commitOffsets": "commits"}[step] / batch_id
            self._at_batch = {n - (step == "walCommit"): obstacle.touch}
        try:
            self._start({"availableNow": True})
            self._query.awaitTermination()
            killed = "not killed"
        except StreamingQueryException:
            killed = f"killed at {step}"
        if obstacle is not None:
            obstacle.unlink()
        self._at_batch = {}
        yield from self._batches()
        yield f"batch {n}   {killed}"
        yield from self._rows.get(n, ())

    def start(self, _every: str, number: str, unit: str) -> Iterator[str]:
        """`start every 10 seconds`: a query that goes on running, by the manual clock."""
        self._start({"processingTime": f"{number} {unit}"})
        yield from self._until_it_sleeps()

    def advance(self, number: str, _seconds: str) -> Iterator[str]:
        """`advance 4 seconds`: move the manual clock."""
        self._clock.advance(int(number) * 1000)
        if self._query is not None:
            yield from self._until_it_sleeps()

    def _start(self, trigger: Mapping[str, Any]) -> None:
        self._query, self._shown, self._rows = None, 0, {}
        by_hand = "processingTime" in trigger
        session: Any = self._spark
        if self.engine == "model":
            session = MiniSparkSession(self._spark, clock=self._clock if by_hand else None)
        writer = self._build(session, str(self._input)).writeStream.outputMode(self._mode).trigger(**trigger)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        if self._format is None:
            self._query = writer.foreachBatch(self._sink).start()
        elif self._format == "table":
            self._query = writer.toTable(self._table)
        elif self._format == "memory":
            self._query = writer.format("memory").queryName(self._table).start()
        else:
            self._query = writer.format(self._format).start(str(self._output))

    def _sink(self, data: DataFrame, batch_id: int) -> None:
        self._at_batch.get(batch_id, lambda: None)()
        self._rows[batch_id] = sorted(f"  {row_words(row.asDict(recursive=True))}" for row in data.collect())

    def _batches(self) -> list[str]:
        """A line for each batch that was finished since the last look, and under it the rows that the sink got."""
        if self._query is None:
            return []
        reports = [p for p in map(dict, self._query.recentProgress) if "addBatch" in p["durationMs"]]
        new, self._shown = reports[self._shown :], len(reports)
        return [line for report in new for line in (batch_line(report), *self._rows.get(report["batchId"], ()))]

    def _until_it_sleeps(self) -> Iterator[str]:
        _wait_until(lambda: self._clock.wakes_at > self._clock.get_time_millis() or not self._query.isActive)
        if error := self._query.exception():
            raise error
        yield from self._batches() or ["no batch"]
        yield f"it is {time_words(self._clock.get_time_millis())}, next trigger at {time_words(self._clock.wakes_at)}"

    # -- what is on disk --------------------------------------------------------------------------------------------

    def logs(self) -> Iterator[str]:
        """Both logs, a batch on a line."""
        for batch in inspect(str(self._checkpoint)).batches:
            offsets, commit = f"no offsets/{batch.batch_id}", f"no commits/{batch.batch_id}"
            if batch.offsets is not None:
                read = ", ".join("-" if o is None else re.sub(r'\{"logOffset":(\d+)\}', r"\1", o) for o in batch.offsets.values())
                offsets = f"offsets/{batch.batch_id}: up to {read}"
                if batch.watermark_ms:
                    offsets += f", watermark {time_words(batch.watermark_ms)}"
            if batch.committed:
                commit = f"commits/{batch.batch_id}"
                if batch.next_watermark_ms:
                    commit += f": next watermark {time_words(batch.next_watermark_ms)}"
            yield f"{short(offsets):38}  {commit}"

    def state(self, *which: str) -> Iterator[str]:
        """`state`, `state version 3`, or one of several stores: `state left-keyToNumValues`."""
        version = int(which[1]) if which[:1] == ("version",) else None
        store = which[0] if which and version is None else None
        rows = inspect(str(self._checkpoint)).rows(store=store, version=version)
        yield from sorted(f"{row_words(row.key)} -> {row_words(row.value)}" for row in rows) or ["no rows"]

    def output(self) -> Iterator[str]:
        """The rows of the table, or of a folder of JSON files, as a reader of the folder gets them."""
        yield from sorted(row_words(row.asDict(recursive=True)) for row in self._read().collect())

    def _read(self) -> DataFrame:
        return self._spark.read.json(str(self._output)) if self._format == "json" else self._spark.table(self._table)

    def ls(self, name: str) -> Iterator[str]:
        """`ls input`, `ls output`, or a folder of the checkpoint: `ls state/0/0`."""
        names = (p.name + "/" * p.is_dir() for p in self._path(name).iterdir() if not p.name.startswith("."))
        by_number = lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
        yield "  ".join(sorted(names, key=by_number)) or "empty"

    def delete(self, *names: str) -> None:
        """`delete offsets/3 commits/3`: the files, and the checksums that Hadoop keeps beside them."""
        for name in names:
            self._path(name).unlink()
            self._path(name).with_name(f".{self._path(name).name}.crc").unlink(missing_ok=True)

    def wait(self, _for: str, name: str) -> None:
        """`wait for state/0/0/3.snapshot`: until another thread has written it."""
        _wait_until(self._path(name).exists)

    def _path(self, name: str) -> Path:
        return (self._folder if name.split("/")[0] in ("input", "output") else self._checkpoint) / name

    # -- what the model alone can tell ------------------------------------------------------------------------------

    def steps(self, step: str | None = None, *values: str) -> Iterator[str]:
        """`steps`: the steps of the last run as a tree; `steps queryPlanning watermarkLate`: times in one step, by batch."""
        for event in sorted(self._query.trace.events, key=lambda e: (e.start_ms, e.depth)):
            if step is None:
                yield f"{'  ' * event.depth}{event.step}"
            elif event.step == step:
                both = {**event.inputs, **event.outputs}
                yield f"batch {event.batch_id}   {'   '.join(f'{name} {time_words(both[name])}' for name in values)}"


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("what the script waits for did not happen")
        time.sleep(0.005)
