"""The micro-batch engine: what happens on a query's thread.

Models: MicroBatchExecution.runActivatedStream (Execution flow; the StructuredStreaming analysis, "About Trigger").

1. Once, before the first trigger: create the sources, find out where to begin (populate_start_offsets.py).
2. On each trigger, unless a batch is waiting to be run again: construct_next_batch.py.
3. If there is a batch: run_batch.py; then report progress, and move on to the next batch id.
4. If there is none: an AvailableNow query ends; any other waits `pollingDelay` (10 ms) and asks again.

The attributes of `MicroBatchExecution` are the state of the loop; the three modules above read and write them in the
order in which the documents tell it:

    batch_id  start_offsets  end_offsets  metadata(watermark, timestamp, confs)  is_current_batch_constructed

Differs from Spark: nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.types import StructType

from minispark_stream.checkpointing.commit_log import CommitLog
from minispark_stream.checkpointing.offset_seq_log import OffsetSeqLog, OffsetSeqMetadata
from minispark_stream.clock import Clock
from minispark_stream.jvm import plans, sessions, times
from minispark_stream.jvm.scala import JavaObject
from minispark_stream.operators.base import BatchContext
from minispark_stream.operators.metrics import Reports
from minispark_stream.operators.transform_with_state import TransformWithState
from minispark_stream.plan.streaming_relation import streaming_sources
from minispark_stream.runtime import trigger_executor
from minispark_stream.runtime.construct_next_batch import construct_next_batch
from minispark_stream.runtime.incremental_execution import IncrementalExecution
from minispark_stream.runtime.populate_start_offsets import populate_start_offsets
from minispark_stream.runtime.progress_reporter import ProgressReporter, event_time, format_timestamp
from minispark_stream.runtime.run_batch import run_batch
from minispark_stream.runtime.stream_execution import StreamExecution
from minispark_stream.runtime.template import Template, compile_template
from minispark_stream.runtime.trigger_executor import AvailableNowTrigger, OneTimeTrigger, Trigger
from minispark_stream.runtime.watermark_propagator import operator_watermarks
from minispark_stream.runtime.watermark_tracker import EventTimeStats, WatermarkTracker
from minispark_stream.sinks.base import Sink
from minispark_stream.sources.base import (
    ALL_AVAILABLE,
    Offset,
    ReadLimit,
    Source,
    SupportsAdmissionControl,
    SupportsTriggerAvailableNow,
)
from minispark_stream.state.maintenance import MaintenanceTask
from minispark_stream.state.operator_state_metadata import check_operators
from minispark_stream.state.state_schema_compatibility_checker import validate_or_write_schema
from minispark_stream.state.state_store import StateStoreConf
from minispark_stream.trace.recorder import NullRecorder
from minispark_stream.trace.trace import Trace


class MicroBatchExecution(StreamExecution):
    """One streaming query in micro-batches. Created by the StreamingQueryManager; see there for the arguments."""

    def __init__(
        self,
        session: SparkSession,
        query_id: str,
        name: str | None,
        checkpoint: str,
        delete_checkpoint_on_stop: bool,
        on_event: Callable[[str, dict[str, Any]], None],
        analyzed: JavaObject,
        sink: Sink,
        output_mode: str,
        trigger: Trigger,
        clock: Clock,
        recorder: NullRecorder,
    ):
        super().__init__(session, query_id, name, checkpoint, delete_checkpoint_on_stop, on_event)
        self.analyzed = analyzed
        self.sink = sink
        self.output_mode = output_mode
        self.trigger = trigger
        self.clock = clock
        self.recorder = recorder
        self.reporter = ProgressReporter(recorder, int(self.conf("spark.sql.streaming.numRecentProgressUpdates") or 100))
        self.offset_log = OffsetSeqLog(f"{checkpoint}/offsets")
        self.commit_log = CommitLog(f"{checkpoint}/commits")
        self.state_dir = f"{checkpoint}/state"
        self.sources: list[Source] = []
        self.leaf_sources: list[int] = []  # which source each streaming leaf of the plan reads: one line each in the offset log
        self.read_limits: dict[int, ReadLimit] = {}
        self.batch_id = -1
        self.start_offsets: dict[int, Offset] = {}
        self.end_offsets: dict[int, Offset] = {}
        self.latest_offsets: dict[int, Offset] = {}
        self.committed_offsets: dict[int, Offset] = {}
        self.metadata = OffsetSeqMetadata.from_session(self.conf)
        self.is_current_batch_constructed = False
        self._asks_for_current_time = times.asks_for_current_time(session, analyzed)
        with sessions.active_session(session):  # here, so that what cannot be compiled fails in start()
            self.template: Template = compile_template(session, analyzed, clock.get_time_millis(), output_mode)
        self.watermark_tracker: WatermarkTracker
        self.last_execution: IncrementalExecution | None = None
        self.next_batch: DataFrame
        self.num_output_rows: int | None = None
        self.state_operators: list[dict[str, Any]] = []
        self._maintenance: MaintenanceTask | None = None
        self._event_time_stats: list[EventTimeStats] = []
        self._last_progress_ms: int | None = None

    # -- the loop -------------------------------------------------------------------------------------

    def run_activated_stream(self) -> None:
        self._initialize_sources()  # (1)
        populate_start_offsets(self)
        if self.offset_log.get_latest_batch_id() is not None:  # the logged confs may have changed the plan
            self.template = self._compile()
        self._accumulators = {
            op.operator_id: self.session.sparkContext.accumulator([], Reports()) for op in self.template.operators
        }
        self._state_variables: dict[int, Mapping[str, StructType]] = {}
        self.num_partitions = int(self.conf("spark.sql.shuffle.partitions") or 200)
        operators = self.template.operators
        column_families = bool(operators) and all(isinstance(op, TransformWithState) for op in operators)
        self.state_conf = StateStoreConf.from_conf(self.conf, column_families)
        self._polling_delay_s = self.conf_ms("spark.sql.streaming.pollingDelay") / 1000
        self._idle_interval_ms = self.conf_ms("spark.sql.streaming.noDataProgressEventInterval")
        self.no_data_batches_enabled = self.conf("spark.sql.streaming.noDataMicroBatches.enabled") != "false"
        self.min_batches_to_retain = int(self.conf("spark.sql.streaming.minBatchesToRetain") or 100)
        self.update_status(message="Initializing StreamExecution")
        trigger_executor.execute(self.trigger, self._run_one_batch, self.clock, self.stop_requested)

    def _run_one_batch(self) -> bool:
        if self.stop_requested.is_set():
            return False
        began = time.monotonic()
        self.reporter.start_trigger(self.clock.get_time_millis())
        self.update_status(isTriggerActive=True)
        self.recorder.batch_id = self.batch_id
        active = True
        with self.reporter.step("trigger", trigger=_describe(self.trigger)) as step:
            if not self.is_current_batch_constructed:
                self.is_current_batch_constructed = construct_next_batch(self)  # (2)
            has_data = self.is_new_data_available()
            self.update_status(isDataAvailable=has_data)
            if self.is_current_batch_constructed:  # (3)
                self.update_status(message="Processing new data" if has_data else "No new data but cleaning up state")
                run_batch(self)
            else:
                self.update_status(message="Waiting for data to arrive")
            step.out(ran=self.is_current_batch_constructed, message=self.status["message"])
            self.reporter.add_duration("triggerExecution", time.monotonic() - began)
            ran = self.is_current_batch_constructed
            if ran:
                self._finish_trigger(has_data)
                self._move_on()
        self.recorder.next_trigger(ran)
        self.update_status(isTriggerActive=False)
        with self.progress_lock:
            self.progress_lock.notify_all()
        if not ran:  # (4)
            self._report_idle()
            if isinstance(self.trigger, AvailableNowTrigger):
                active = False
            else:
                self.stop_requested.wait(self._polling_delay_s)
        if not self.stop_requested.is_set():
            self.update_status(message="Waiting for next trigger")
        return active and not self.stop_requested.is_set()

    def _move_on(self) -> None:
        self.batch_id += 1
        self.is_current_batch_constructed = False
        self.start_offsets = {**self.start_offsets, **self.end_offsets}

    # -- what the parts of the loop ask for -----------------------------------------------------------------

    def new_metadata(self, watermark_ms: int, timestamp_ms: int) -> OffsetSeqMetadata:
        return replace(self.metadata, batch_watermark_ms=watermark_ms, batch_timestamp_ms=timestamp_ms)

    def start_watermark_tracker(self) -> None:
        nodes = dict.fromkeys(plans.watermark_nodes(self.analyzed))
        policy = self.conf("spark.sql.streaming.multipleWatermarkPolicy") or "min"
        self.watermark_tracker = WatermarkTracker(policy, list(nodes))

    def is_new_data_available(self) -> bool:
        return any(self.start_offsets.get(i) != end for i, end in self.end_offsets.items())

    def last_batch_left_work(self) -> bool:
        """Whether the watermark has moved past what the last batch evicted with."""
        last = self.last_execution
        return last is not None and last.should_run_another_batch(self.metadata.batch_watermark_ms)

    def batch_template(self) -> Template:
        """The compiled plan; compiled anew for a plan that asks for the current time."""
        if self._asks_for_current_time:
            self.template = self._compile()
        return self.template

    def _compile(self) -> Template:
        return compile_template(self.session, self.analyzed, self.metadata.batch_timestamp_ms, self.output_mode)

    def batch_context(self) -> BatchContext:
        previous = self.offset_log.get(self.batch_id - 1) if self.batch_id > 0 else None
        late_ms = previous.metadata.batch_watermark_ms if previous and previous.metadata else 0
        for accumulator in self._accumulators.values():
            accumulator.value = []
        watermarks = operator_watermarks(self.template, late_ms, self.metadata.batch_watermark_ms)
        return BatchContext(
            self.session, self.batch_id, self.metadata.batch_timestamp_ms, self.state_dir, self.state_conf, self.output_mode,
            self.num_partitions, watermarks, self._accumulators, state_variables=self._state_variables,
        )

    def prepare_state(self) -> None:
        """Before the first batch of a run: the operators and schemas of the state must be those of the checkpoint."""
        if self.last_execution is not None:
            return
        check = self.conf("spark.sql.streaming.stateStore.stateSchemaCheck") != "false"
        operators = self.template.operators
        check_operators(self.state_dir, [op.metadata(self.num_partitions) for op in operators], self.batch_id)
        for op in operators:
            for store, keys, values in op.schemas():
                validate_or_write_schema(self.state_dir, op.operator_id, store, keys, values, check)
        if operators:
            interval = self.conf_ms("spark.sql.streaming.stateStore.maintenanceInterval")
            self._maintenance = MaintenanceTask(self.state_dir, self.state_conf, interval, self.recorder.step)
            self._maintenance.start()

    def update_watermark(self, execution: IncrementalExecution) -> None:
        tracker = self.watermark_tracker
        watermarks = self.template.watermarks
        stats = execution.event_time_stats()
        with self.reporter.step("updateWatermark", policy=tracker.policy, watermark=tracker.current_watermark) as step:
            for w in watermarks:
                if w.observation in stats:
                    tracker.update_watermark({w.node_id: (stats[w.observation], w.delay_ms)})
            step.out(
                watermark=tracker.current_watermark,
                operators=[
                    {
                        "node": w.column, "delayMs": w.delay_ms, "watermark": tracker.operators.get(w.node_id),
                        **(vars(stats[w.observation]) if w.observation in stats else {}),
                    }
                    for w in watermarks
                ],
            )
        self._event_time_stats = [stats[w.observation] for w in watermarks if w.observation in stats]

    def described(self, offsets: dict[int, Offset]) -> dict[str, Offset]:
        """Offsets under names that a person can read."""
        return {f"{i}: {self.sources[i].description}": offset for i, offset in sorted(offsets.items())}

    # -- sources ---------------------------------------------------------------------------------------------

    def _initialize_sources(self) -> None:
        leaves = streaming_sources(self.session, self.analyzed)
        relations = dict(leaves)
        self.leaf_sources = [list(relations).index(key) for key, _ in leaves]
        for ordinal, relation in enumerate(relations.values()):
            source = relation.create(self.session, f"{self.checkpoint}/sources/{ordinal}")
            self.sources.append(source)
            limited = isinstance(source, SupportsAdmissionControl) and not isinstance(self.trigger, OneTimeTrigger)
            if isinstance(self.trigger, AvailableNowTrigger) and isinstance(source, SupportsTriggerAvailableNow):
                source.prepare_for_trigger_available_now()
            self.read_limits[ordinal] = source.default_read_limit() if limited else ALL_AVAILABLE
        if isinstance(self.trigger, AvailableNowTrigger) and not all(
            isinstance(s, SupportsTriggerAvailableNow) for s in self.sources
        ):
            self.trigger = OneTimeTrigger()

    def stop_sources(self) -> None:
        if self._maintenance is not None:
            self._maintenance.stop()
        for source in self.sources:
            source.stop()

    # -- progress ----------------------------------------------------------------------------------------------

    def _finish_trigger(self, has_data: bool) -> None:
        execution = self.last_execution
        assert execution is not None
        with self.reporter.step("finishTrigger") as step:
            rows = execution.num_input_rows() if has_data else {}
            times = event_time(
                self._event_time_stats, self.metadata.batch_watermark_ms, bool(self.watermark_tracker.operators)
            )
            progress = self._progress(rows, times, self.state_operators, self.num_output_rows)
            observed = {k: v for k, v in execution.observed_metrics.items() if not k.startswith("eventTimeStats:")}
            if observed:
                progress["observedMetrics"] = observed
            step.out(progress=progress)
        self.reporter.recent.append(progress)
        self._last_progress_ms = self.clock.get_time_millis()
        self.announce("progress", **progress)

    def _report_idle(self) -> None:
        """Every noDataProgressEventInterval (10 s) without a batch: a progress without rows, and an event for listeners.

        A query that has not run a batch yet reports its first progress at once, but no event.
        """
        now_ms = self.clock.get_time_millis()
        first = self._last_progress_ms is None
        if self._last_progress_ms is not None and now_ms - self._idle_interval_ms < self._last_progress_ms:
            return
        quiet = [{**op, "numRowsUpdated": 0, "numRowsDroppedByWatermark": 0} for op in self.state_operators]
        times = event_time([], self.metadata.batch_watermark_ms, bool(self._event_time_stats))
        self.reporter.recent.append(self._progress({}, times, quiet, 0 if self.num_output_rows is not None else None))
        self._last_progress_ms = now_ms
        if not first:
            self.announce("idle", id=self.id, runId=self.runId, timestamp=format_timestamp(now_ms))

    def _progress(
        self,
        rows: Mapping[int, int],
        times: Mapping[str, str],
        state_operators: list[dict[str, Any]],
        num_output_rows: int | None,
    ) -> dict[str, Any]:
        now_ms = self.clock.get_time_millis()
        total = sum(rows.values())
        return {
            "id": self.id,
            "runId": self.runId,
            "name": self.name,
            "timestamp": format_timestamp(self.reporter.trigger_start_ms),
            "batchId": self.batch_id,
            "batchDuration": now_ms - self.reporter.trigger_start_ms,
            "numInputRows": total,
            **self.reporter.rates(total, now_ms),
            "durationMs": dict(sorted(self.reporter.durations.items())),
            "eventTime": dict(times),
            "stateOperators": state_operators,
            "sources": [
                {
                    "description": source.description,
                    "startOffset": _json_offset(self.start_offsets.get(i)),
                    "endOffset": _json_offset(self.end_offsets.get(i)),
                    "latestOffset": _json_offset(self.latest_offsets.get(i)),
                    "numInputRows": rows.get(i, 0),
                    **self.reporter.rates(rows.get(i, 0), now_ms),
                    **({"metrics": metrics} if (metrics := source.metrics(self.end_offsets.get(i))) else {}),
                }
                for i, source in enumerate(self.sources)
            ],
            "sink": {
                "description": self.sink.description,
                "numOutputRows": -1 if num_output_rows is None else num_output_rows,
            },
        }

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        return [StreamingQueryProgress.fromJson(p) for p in list(self.reporter.recent)]

    @property
    def trace(self) -> Trace:
        return Trace(self.recorder.events, engine="model", name=self.name, plan=self.analyzed.toString())

    def explain(self, extended: bool = False) -> None:
        if self.last_execution is None:
            print("No physical plan. Waiting for data.")
            return
        if extended:
            print(f"== Template (optimised) ==\n{self.template.text}")
        print(f"== Physical Plan ==\n{self.last_execution.explain()}")

    def describe(self) -> str:
        return (
            f"Current Committed Offsets: {self.described(self.committed_offsets)}\n"
            f"Current Available Offsets: {self.described(self.end_offsets)}\n\nCurrent State: ACTIVE\n"
            f"Thread State: RUNNABLE\n\nLogical Plan:\n{self.analyzed}"
        )

def _describe(trigger: Trigger) -> str:
    interval = getattr(trigger, "interval_ms", None)
    return type(trigger).__name__ + (f"({interval} ms)" if interval is not None else "")


def _json_offset(offset: Offset | None) -> Any:
    """An offset inside a progress report: JSON where it is JSON, else the text."""
    import json

    if offset is None:
        return None
    try:
        return json.loads(offset)
    except ValueError:
        return offset
