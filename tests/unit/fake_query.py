"""A query without Spark, for tests of the driver loop: real logs in a folder, a source that is a number, a clock that stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeq, OffsetSeqLog, OffsetSeqMetadata
from minispark_stream.engine.clock import Clock, ManualClock
from minispark_stream.engine.observer import Observer
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.progress_reporter import ProgressReporter
from minispark_stream.engine.runtime.running_query import ProgressLock, QuerySources
from minispark_stream.engine.runtime.trigger_executor import ProcessingTimeTrigger, Trigger
from minispark_stream.engine.runtime.watermark_tracker import WatermarkTracker
from minispark_stream.engine.sources.base import ALL_AVAILABLE, ReadLimit, ReadMaxRows, SupportsAdmissionControl
from minispark_stream.lens.recording.recording_observer import RecordingObserver
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recorder import Recorder


@dataclass
class Counter(SupportsAdmissionControl):
    """The rows 1, 2, 3 ... up to `newest`; an offset is the last row that was read."""

    newest: int = 0
    description: str = "Counter"
    asked: list[tuple[str | None, str]] = field(default_factory=list)
    committed: list[str] = field(default_factory=list)

    def latest_offset(self, start: str | None, limit: ReadLimit) -> str | None:
        if isinstance(limit, ReadMaxRows):
            return str(min(self.newest, int(start or 0) + limit.max_rows))
        return str(self.newest)

    def get_batch(self, start: str | None, end: str) -> Any:
        self.asked.append((start, end))

    def commit(self, end: str) -> None:
        self.committed.append(end)


class FakeQuery:
    """A query over `sources`, each of which stands once in its plan: what engine/runtime/running_query.py declares."""

    def __init__(
        self,
        checkpoint: Path,
        *sources: Counter,
        limit: ReadLimit = ALL_AVAILABLE,
        no_data_batches_enabled: bool = True,
        min_batches_to_retain: int = 100,
        now_ms: int = 0,
    ):
        self._confs: dict[str, str] = {}
        numbers = range(len(sources))
        self.checkpoint = str(checkpoint)
        self.sources = QuerySources(sources, [str(i) for i in numbers], {str(i): i for i in numbers}, dict.fromkeys(numbers, limit))
        self.offset_log = OffsetSeqLog(str(checkpoint / "offsets"))
        self.commit_log = CommitLog(str(checkpoint / "commits"))
        self.planner: Any = SimpleNamespace(new_watermark_tracker=lambda: WatermarkTracker("min", {"ts": None}))
        self.session: Any = SimpleNamespace(conf=SimpleNamespace(set=self._confs.__setitem__, get=lambda key: "true"))
        self.sink: Any = None
        self.trigger: Trigger = ProcessingTimeTrigger()
        self.clock: Clock = ManualClock(now_ms)
        self.observer: Observer = RecordingObserver(Recorder())
        self.reporter = ProgressReporter(100)
        self.progress_lock = ProgressLock()
        self.no_data_batches_enabled = no_data_batches_enabled
        self.min_batches_to_retain = min_batches_to_retain

    def conf(self, key: str) -> str | None:
        return self._confs.get(key)

    def update_status(self, *, message: str) -> None:
        pass

    def start_maintenance(self, execution: IncrementalExecution) -> None:
        pass

    def check_not_stopped(self) -> None:
        pass


def log(query: FakeQuery, offsets: dict[int, str], commits: dict[int, int], watermark_ms: int = 0) -> None:
    """Fill the logs: `offsets` by batch id, and for each commit the watermark that it carries (ms)."""
    for batch_id, offset in offsets.items():
        query.offset_log.add(batch_id, OffsetSeq((offset,), OffsetSeqMetadata(batch_watermark_ms=watermark_ms)))
    for batch_id, next_watermark_ms in commits.items():
        query.commit_log.add(batch_id, CommitMetadata(next_watermark_ms))


def events(query: FakeQuery) -> tuple[Event, ...]:
    """The steps so far, in the order in which they ended."""
    assert isinstance(query.observer, RecordingObserver)
    return query.observer.recorder.events


def steps(query: FakeQuery) -> list[str]:
    """Their names."""
    return [event.step for event in events(query)]
