"""One query on one engine, driven trigger by trigger: what a test has done to it, and what the query did.

1. The query is started with a foreachBatch sink, which keeps the rows of each batch, and a clock that holds every trigger back.
2. `settle` gives it triggers until one finds nothing to do. A query that always has something to do, because a group may have
   timed out, has settled when a batch had no new data and its watermark did not move.
3. If a batch runs again after a crash, its rows count as new only if they are different.
4. The error that ends the query is kept in `error`, unless it is the crash that the test asked for.

    driven.start(build, inputs); driven.settle(); driven.take()      the rows of the batches since the last `take`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.commit_log import CommitLog
from minispark_stream.engine.jvm.stepped_queries import last_progress, plan_text, start_by_clock
from minispark_stream.engine.spark_versions import spark_of
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.tools.compare.prepared import confs_set
from minispark_stream.tools.testing.crashes import Crash
from minispark_stream.tools.testing.inputs import Inputs
from minispark_stream.tools.testing.step_clock import StepClock

__tracebackhide__ = True
SinkRow = tuple[Any, ...]
OnBatch = Callable[[DataFrame, int], object]
TRIGGER = "1 second"
CONFS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "1ms",
}
# Hadoop's newer interface starts processes for every file if its native library is missing; the older one does not replace an
# existing file, which a batch that runs again must do.
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN, REPLACES = (f"{name}BasedCheckpointFileManager" for name in ("FileSystem", "FileContext"))


@dataclass
class Ran:
    """A batch: its id, the rows that the sink received, and its progress report (empty if the batch died)."""

    batch_id: int
    rows: list[SinkRow]
    progress: Mapping[str, Any] = field(default_factory=dict)

    @property
    def had_data(self) -> bool:
        return any(source["startOffset"] != source["endOffset"] for source in self.progress.get("sources", ()))

    @property
    def watermark(self) -> str | None:
        return self.progress.get("eventTime", {}).get("watermark")


class DrivenQuery:
    """A query under test.

    Args:
        engine: "model" or "spark".
        folder: where its input and its checkpoint go.
        on_batch: is called with every batch after its rows were kept, like the function of foreachBatch.
        trace: what the model records, as MiniSparkSession takes it.
    """

    def __init__(
        self, engine: str, spark: SparkSession, folder: Path, output_mode: str, confs: Mapping[str, str], now_ms: int,
        on_batch: OnBatch | None = None, trace: str = "off",
    ):
        self.engine = engine
        self.input, self.checkpoint = folder / "input", folder / "checkpoint"
        self.output_mode = output_mode
        self.batches: list[Ran] = []
        self.schema: StructType | None = None
        self.plan = ""
        self.error: BaseException | None = None
        self.crash: Crash | None = None
        self.crashed = False
        self.clock = StepClock(now_ms)
        self.query: Any = None
        self._session: Any = spark if engine == "spark" else _of_the_model(spark, trace, self.clock)
        self._confs = confs
        self._on_batch = on_batch
        self.has_function = on_batch is not None
        self._java_clock: Any = None
        self._traces: list[Trace] = []
        self._arrived: list[tuple[int, list[SinkRow]]] = []
        self._taken = 0
        self.input.mkdir(parents=True)

    @property
    def is_active(self) -> bool:
        return self.query is not None and bool(self.query.isActive)

    @property
    def trace(self) -> Trace:
        """What the model recorded of all runs."""
        whole = Trace((), "model")
        for one in [*self._traces, *([self.query.trace] if self.query is not None and self.engine == "model" else [])]:
            whole = whole + one
        return whole

    def start(self, build: Callable[..., DataFrame], inputs: Inputs) -> None:
        """(1) Start the query from its checkpoint, and let it have its first trigger."""
        manager: dict[str, str] = {}
        if self.engine == "spark":
            package = spark_of(self._session.version).managers
            manager = {MANAGER: f"{package}.{REPLACES if self.crashed else PLAIN}"}
        with confs_set(self._session, {**CONFS, **manager, **self._confs}):  # a query keeps the confs of its start
            try:
                given = [str(self.input)] if inputs.takes_folder else []
                df: Any = build(self._session, *given, **inputs.frames(self._session, self.input))
                check_is_query(df, build)
                self.schema, self.plan = df.schema, plan_text(df)
                writer = df.writeStream.outputMode(self.output_mode).trigger(processingTime=TRIGGER).foreachBatch(self._keep)
                if self.engine == "spark":
                    self.query, self._java_clock = start_by_clock(writer, self.clock, str(self.checkpoint))
                else:
                    self.query = writer.option("checkpointLocation", str(self.checkpoint)).start()
            except PySparkException as e:
                self.error = e
                return
        self._after_a_trigger()

    def advance(self, ms: int) -> None:
        """Let time pass, and give the query its triggers."""
        self.clock.advance(ms)
        self.settle()

    def die_at(self, step: str) -> None:
        """Let the query die at a step of the next batch."""
        self.crash = Crash(step, self.engine)

    def settle(self) -> None:
        """(2) Give the query triggers until there is nothing left to do, or the query has ended."""
        while self.is_active:
            before, last = len(self.batches), self.batches[-1:]
            if self.crash is not None:
                self.crash.before_a_trigger(self.query, self.checkpoint)
            self.clock.fire()
            self._after_a_trigger()
            if len(self.batches) == before:
                if self.crash is not None:
                    self.crash.clear_up()
                return
            ran = self.batches[-1]
            if last and ran.progress and not ran.had_data and ran.watermark == last[0].watermark:
                return

    def take(self) -> list[SinkRow]:
        """The rows that were emitted since the last `take`; in complete mode, the newest result."""
        new = self.batches[self._taken :]
        self._taken = len(self.batches)
        if self.output_mode == "complete":
            return self.batches[-1].rows if self.batches else []
        return [row for ran in new for row in ran.rows]

    def watermark_ms(self) -> int | None:
        """The watermark of the next batch; None as long as there is none."""
        newest = CommitLog(str(self.checkpoint / "commits")).get_latest()
        return (newest[1].next_batch_watermark_ms or None) if newest else None

    def stop(self) -> None:
        if self.query is None:
            return
        if self._java_clock is not None:
            self._java_clock.stop(self.query)
        else:
            self.query.stop()
            self._traces.append(self.query.trace)
        self.query = None

    def _keep(self, data: DataFrame, batch_id: int) -> None:
        if self.crash is not None:
            self.crash.before_the_sink()
        if self._on_batch is None:
            self._arrived.append((batch_id, [tuple(row) for row in data.collect()]))
        else:
            kept = data.persist()  # computed once, although it is used twice
            self._arrived.append((batch_id, [tuple(row) for row in kept.collect()]))
            self._on_batch(kept, batch_id)
            kept.unpersist()
        if self.crash is not None:
            self.crash.after_the_sink(self.checkpoint, batch_id)

    def _after_a_trigger(self) -> None:
        """Note the batch that ran, if one did, and the end of the query."""
        waits = self.clock.until_it_waits(lambda: self.is_active)
        for batch_id, rows in self._arrived:
            self._note(Ran(batch_id, rows, self._progress() if waits else {}))
        self._arrived.clear()
        if not waits:
            self._ended()

    def _note(self, ran: Ran) -> None:  # (3)
        known = next((earlier for earlier in self.batches if earlier.batch_id == ran.batch_id), None)
        if known is not None and sorted(map(repr, known.rows)) == sorted(map(repr, ran.rows)):
            known.progress = ran.progress
        else:
            self.batches.append(ran)

    def _ended(self) -> None:  # (4)
        try:
            self.query.awaitTermination()
        except PySparkException as e:
            if self.crash is not None and self.crash.did(e):
                self.crash.clear_up()
                self.crash, self.crashed = None, True
            else:
                self.error = e
        self.stop()

    def _progress(self) -> Mapping[str, Any]:
        if self.engine == "spark":
            return last_progress(self.query) or {}
        last = self.query.lastProgress
        return {} if last is None else dict(last)


def check_is_query(df: object, build: Callable[..., object]) -> None:
    """Raises TypeError: the function of the test has returned nothing."""
    if df is None:
        name = getattr(build, "__name__", "the query function")
        raise TypeError(f"{name} must return a streaming DataFrame, not None")


def _of_the_model(spark: SparkSession, trace: str, clock: StepClock) -> Any:
    from minispark_stream.session import MiniSparkSession  # a query of Spark needs no model

    return MiniSparkSession(spark, trace=trace, clock=clock)
