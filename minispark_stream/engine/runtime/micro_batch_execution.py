"""The micro-batch engine: what happens on a query's thread.

Models: MicroBatchExecution.runActivatedStream (Execution flow; the StructuredStreaming analysis, "About Trigger").

(1) Once, before the first trigger: create the sources, and find out where to begin (populate_start_offsets.py).
(2) (3) On each trigger, unless a batch is waiting to be run again: decide on a batch and log it (construct_next_batch.py).
(4) to (10) If there is a batch: run it (run_batch.py), report progress, and move on to the next batch id.
    If there is none, an AvailableNow query ends; any other query waits for `pollingDelay` (10 ms), and then for its trigger. (A
    Once query has only one trigger: trigger_executor.py.)

    trigger   context            construct_next_batch           run_batch                 context.next()
    first     batch 0            new data, offsets/0 written    commits/0 written         batch 1
    second    batch 1            nothing new, watermark moved:  commits/1 written         batch 2
                                 offsets/1 written
    third     batch 2            nothing to do                  -                         batch 2 (waits)

What is known of the current batch is in `self.context`: the three modules take a context and return the next one.

Differs from Spark: `explain(extended=True)` shows a stream as its source, and nothing of the sink. Spark shows the relation
over the new rows of the last batch, and the node that writes to the sink.
Shown by tests/spark/test_differences.py::test_what_explain_shows_of_a_stream.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from minispark_stream.engine.checkpointing.metadata_log import is_true
from minispark_stream.engine.checkpointing.offset_seq_log import RELEVANT_CONFS, OffsetSeqMetadata
from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.queries import refuse
from minispark_stream.engine.observer import step
from minispark_stream.engine.operators.join.symmetric_hash_join import STATE_FORMAT as JOIN_STATE_FORMAT
from minispark_stream.engine.operators.join.symmetric_hash_join import confs_of_new_join
from minispark_stream.engine.plan.name_streaming_sources import SOURCE_EVOLUTION, folder_names, source_ids
from minispark_stream.engine.plan.streaming_relation import streaming_sources
from minispark_stream.engine.runtime import trigger_executor
from minispark_stream.engine.runtime.construct_next_batch import construct_next_batch
from minispark_stream.engine.runtime.finish_trigger import finish_trigger, quiet_progress
from minispark_stream.engine.runtime.populate_start_offsets import populate_start_offsets
from minispark_stream.engine.runtime.progress_reporter import status_message
from minispark_stream.engine.runtime.real_time_mode import check_sources
from minispark_stream.engine.runtime.run_batch import run_batch
from minispark_stream.engine.runtime.running_query import QuerySources
from minispark_stream.engine.runtime.stream_execution import StreamExecution
from minispark_stream.engine.runtime.trigger_executor import AvailableNowTrigger, OneTimeTrigger, RealTimeTrigger
from minispark_stream.engine.sinks.base import BATCH_ID_KEY
from minispark_stream.engine.sources.base import (
    ALL_AVAILABLE,
    ReadLimit,
    Source,
    SupportsAdmissionControl,
    SupportsTriggerAvailableNow,
)
from minispark_stream.engine.times import iso_time


class MicroBatchExecution(StreamExecution):
    """One streaming query in micro-batches."""

    def run_activated_stream(self) -> None:
        self.begin()
        trigger_executor.execute(self.trigger, self.execute_one_batch, self.clock, self.stop_requested)

    def begin(self) -> None:
        """All that comes before the first trigger; nothing is read or written yet."""
        self.sources = self.create_sources()  # (1)
        if int(self.conf(JOIN_STATE_FORMAT) or 2) > 2 and self.offset_log.get_latest() is None:
            for key, value in confs_of_new_join(self.session, self.analyzed).items():
                self.session.conf.set(key, value)
            self.context = replace(self.context, metadata=OffsetSeqMetadata.from_session(self.conf))
        self.context = populate_start_offsets(self, self.context)
        if not self.sink.calls_function:  # which may start jobs of its own
            sessions.end_arrow_batches_by_rows(self.session, self.analyzed)
        sessions.propagate_confs(self.session)  # the session now has the confs of the checkpoint
        self.update_status(message="Initializing StreamExecution")

    def create_sources(self) -> QuerySources:
        """Create the sources in the plan, and decide how much a batch may read of each."""
        leaves = streaming_sources(self.session, self.analyzed)
        relations = dict(leaves)
        numbers = {key: number for number, key in enumerate(relations)}
        names = folder_names(relations.values())
        sources: list[Source] = []
        with ExitStack() as on_error:  # if one cannot be created, those before it are stopped
            for name, relation in zip(names, relations.values()):
                sources.append(relation.create(self.session, f"{self.checkpoint}/sources/{name}"))
                on_error.callback(self.attempt, sources[-1].stop)
            if isinstance(self.trigger, RealTimeTrigger):
                check_sources(self.session, sources, [sources[numbers[key]] for key, _ in leaves])
            ids = source_ids([(relation, numbers[key]) for key, relation in leaves], self._sources_evolve())
            know_where_to_stop = all(isinstance(source, SupportsTriggerAvailableNow) for source in sources)
            if isinstance(self.trigger, AvailableNowTrigger) and not know_where_to_stop:
                self.trigger = OneTimeTrigger()
            read_limits = {number: self._read_limit(source) for number, source in enumerate(sources)}
            on_error.pop_all()
        return QuerySources(sources, names, ids, read_limits)

    def _read_limit(self, source: Source) -> ReadLimit:
        if isinstance(self.trigger, AvailableNowTrigger) and isinstance(source, SupportsTriggerAvailableNow):
            source.prepare_for_trigger_available_now()
        limit = source.default_read_limit() if isinstance(source, SupportsAdmissionControl) else ALL_AVAILABLE
        return ALL_AVAILABLE if isinstance(self.trigger, OneTimeTrigger) else limit  # Spark asks the source even then

    def _sources_evolve(self) -> bool:
        """Whether the offset log identifies sources by names: as when it was begun, or, if it is new, as the conf says."""
        latest = self.offset_log.get_latest()
        if latest is None or latest[1].metadata is None:
            return is_true(self.conf(SOURCE_EVOLUTION))
        return is_true(latest[1].metadata.conf.get(SOURCE_EVOLUTION, RELEVANT_CONFS[SOURCE_EVOLUTION]))

    def execute_one_batch(self) -> bool:
        """Run one trigger, with at most one batch; returns False if the query shall end."""
        if self.stop_requested.is_set():
            return False
        self.begin_trigger()
        ran = self.execute_trigger()
        if ran:
            self.context = self.context.next()
        return self.end_trigger(ran)

    @step("trigger")
    def execute_trigger(self) -> bool:
        """Construct and run a batch, if there is one; returns whether there was."""
        if not self.context.is_current_batch_constructed:
            self.context = construct_next_batch(self, self.context)  # (2), (3)
        has_data = self.context.is_new_data_available()
        self.update_status(isDataAvailable=has_data)
        if not self.context.is_current_batch_constructed:
            self.update_status(message="Waiting for data to arrive")
            return False
        self.update_status(message=status_message(has_data))
        self.context = run_batch(self, self.context)  # (4) to (10)
        self._report()
        return True

    def begin_trigger(self) -> None:
        """Tell reports, status, trace and jobs which batch it is; a task finds it in the local properties."""
        batch = str(self.context.batch_id)
        self.reporter.start_trigger(self.clock.get_time_millis())
        self.update_status(isTriggerActive=True)
        self.observer.begin_trigger(self.context.batch_id)
        self.session.sparkContext.setJobDescription(self.described(batch))
        self.session.sparkContext.setLocalProperty(BATCH_ID_KEY, batch)

    def end_trigger(self, ran: bool) -> bool:
        """Finish a trigger; returns False if there shall be no other one."""
        self.observer.end_trigger(ran)
        self.update_status(isTriggerActive=False)
        if not ran:
            self._report_idle()
            if isinstance(self.trigger, AvailableNowTrigger):
                return False
            self.stop_requested.wait(self.polling_delay_s)
        self.update_status(message="Waiting for next trigger")
        return True

    def _report(self) -> None:
        """Keep the report of the batch that has run, and send it to the listeners."""
        assert self.context.execution is not None
        progress = finish_trigger(self, self.context)
        self.reporter.add(progress, self.clock.get_time_millis())
        self.announce("progress", report=progress, observed=self.context.execution.metrics_of_user())

    def _report_idle(self) -> None:
        """Report that nothing happens; the very first report of a query comes at once, but is not sent to the listeners."""
        now_ms, last_ms = self.clock.get_time_millis(), self.reporter.last_report_ms
        if last_ms is not None and now_ms - self.idle_interval_ms < last_ms:
            return
        self.reporter.add(quiet_progress(self, self.context), now_ms)
        if last_ms is not None:
            self.announce("idle", id=self.id, runId=self.run_id, timestamp=iso_time(self.reporter.trigger_start_ms))

    def explain(self, extended: Any) -> None:
        if not isinstance(extended, bool):
            refuse(self.session, "streams", "explainInternal", extended)
        execution = self.context.execution or (self.context.previous and self.context.previous.execution)
        if not execution:
            print("No physical plan. Waiting for data.")
            return
        if extended:
            print(f"== Parsed Logical Plan ==\n{self.plan_text}")  # in Spark, this one has been analysed, too
            print(f"== Analyzed Logical Plan ==\n{self.plan_text}")
            print(f"== Optimized Logical Plan ==\n{execution.template.text}")
        plan = execution.explain()
        if (writer := self.sink.writer) is not None:
            write = f"MicroBatchWrite[epoch: {execution.batch.batch_id}, writer: {writer}]"
            plan = f"WriteToDataSourceV2 {write}\n+- " + plan.replace("\n", "\n   ")
        print(f"== Physical Plan ==\n{plan}")
