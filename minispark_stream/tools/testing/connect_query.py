"""One query under test over Spark Connect: as in driven_query.py, but the time and the triggers are Spark's own.

1. The query is started with a foreachBatch sink. Spark Connect runs its function in a process of the server, so it writes the
   rows of each batch into a folder, which must be the same folder for the server and for the test.
2. `settle` waits for the report of a trigger that began after the rows were there, by the server's clock, and found nothing to
   do. A query that has timers in processing time has a batch in each trigger, so `processAllAvailable` never returns: its
   work is done when two batches in turn have changed nothing, at one watermark.
3. What needs a clock of its own, or the process of the query, is refused in one sentence.

    query.start(build, inputs); query.settle(); query.take()      the rows of the batches since the last `take`
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from pyspark.errors import PySparkException

from minispark_stream.engine.times import iso_ms
from minispark_stream.tools.compare.prepared import confs_set
from minispark_stream.tools.compare.spark_batch import ran_a_batch
from minispark_stream.tools.held_query import reports
from minispark_stream.tools.testing.driven_query import CONFS, DrivenQuery, OnBatch, Ran, check_is_query
from minispark_stream.tools.testing.inputs import Inputs

__tracebackhide__ = True
# How soon after a batch an idle trigger is reported, which `settle` waits for.
IDLE = {"spark.sql.streaming.noDataProgressEventInterval": "20ms"}
# The files of several inputs appear one after the other, and Spark looks at them in the meantime if it does not sleep.
TOGETHER = {"spark.sql.streaming.pollingDelay": "500ms"}


def check_needs_no_clock(on_batch: OnBatch | None, has_time: bool) -> None:
    """Raises ValueError: an argument of `stream_test` has no effect over Spark Connect."""
    if on_batch is not None:
        _refuse("on_batch", "which would run in a process of the server")
    if has_time:
        _refuse("now", "because the clock is the server's")


def is_quiet(progress: Sequence[Mapping[str, Any]], since: int) -> bool:  # (2)
    """Whether a query has done what was to be done at a time of the server's clock, in ms since 1970."""
    later = [report for report in progress if (iso_ms(report["timestamp"]) or 0) >= since]
    nothing_to_do = (not ran_a_batch(report) for report in later)
    nothing_changed = (a["eventTime"] == b["eventTime"] and not _did(a) and not _did(b) for a, b in pairwise(later))
    return any(nothing_to_do) or any(nothing_changed)


def _did(report: Mapping[str, Any]) -> bool:
    """Whether a batch has read rows or changed its state."""
    changes = (operator[changed] for operator in report["stateOperators"] for changed in ("numRowsUpdated", "numRowsRemoved"))
    return report["numInputRows"] > 0 or any(changes)


class ConnectQuery(DrivenQuery):
    """A query under test over Spark Connect."""

    def start(self, build: Callable[..., Any], inputs: Inputs) -> None:  # (1)
        self._ran: set[tuple[Any, ...]] = getattr(self, "_ran", set())
        folder = self._rows = str(self.checkpoint.parent / "rows")

        def keep(data: Any, batch_id: int) -> None:
            data.write.mode("overwrite").parquet(f"{folder}/{batch_id}")

        together = TOGETHER if len(inputs.names) > 1 else {}
        with confs_set(self._session, {**CONFS, **IDLE, **together, **self._confs}):
            try:
                given = [str(self.input)] if inputs.takes_folder else []
                df = build(self._session, *given, **inputs.frames(self._session, self.input))
                check_is_query(df, build)
                self.schema = df.schema
                writer = df.writeStream.outputMode(self.output_mode).foreachBatch(keep)
                self.query = writer.option("checkpointLocation", str(self.checkpoint)).start()
            except PySparkException as e:
                self.error = e
                return
        self.settle()

    def settle(self) -> None:  # (2)
        if self.query is None:
            return
        since = self._session.sql("SELECT unix_millis(current_timestamp())").head()[0]
        try:
            while self.query.isActive and not is_quiet(reports(self.query), since):
                time.sleep(0.02)
            if not self.query.isActive:
                self.query.processAllAvailable()  # raises what ended it
        except PySparkException as e:
            self.error = e
        for report in reports(self.query):
            run = (report["runId"], report["batchId"])
            if ran_a_batch(report) and run not in self._ran:
                self._ran.add(run)
                kept = self._session.read.schema(self.schema).parquet(f"{self._rows}/{report['batchId']}")
                self._note(Ran(report["batchId"], [tuple(row) for row in kept.collect()], report))
        if self.error is not None:
            self.stop()

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()
        self.query = None

    def advance(self, ms: int) -> None:  # (3)
        _refuse("advance", "because the clock is the server's")

    def die_at(self, step: str) -> None:
        _refuse("crash", "because the query runs in a process of the server")


def _refuse(what: str, why: str) -> NoReturn:
    classic = 'a session of SparkSession.builder.master("local[*]").getOrCreate() has it'
    raise ValueError(f"{what} cannot be had over Spark Connect, {why}; {classic}")
