"""A query without Spark, for tests of the driver loop: real logs in a folder, a source that is a number, a clock that stands."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeq, OffsetSeqLog, OffsetSeqMetadata
from minispark_stream.engine.clock import ManualClock
from minispark_stream.engine.runtime.progress_reporter import ProgressReporter
from minispark_stream.engine.runtime.stream_execution import StreamExecution
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


def fake_query(
    checkpoint: Path,
    *sources: Counter,
    limit: ReadLimit = ALL_AVAILABLE,
    no_data_batches_enabled: bool = True,
    min_batches_to_retain: int = 100,
    now_ms: int = 0,
) -> StreamExecution:
    """A query over `sources`, each of which stands once in its plan."""
    confs: dict[str, str] = {}
    query = SimpleNamespace(
        checkpoint=str(checkpoint),
        sources=list(sources),
        source_ids={str(i): i for i in range(len(sources))},
        read_limits=dict.fromkeys(range(len(sources)), limit),
        offset_log=OffsetSeqLog(str(checkpoint / "offsets")),
        commit_log=CommitLog(str(checkpoint / "commits")),
        planner=SimpleNamespace(new_watermark_tracker=lambda: WatermarkTracker("min", {"ts": None})),
        session=SimpleNamespace(conf=SimpleNamespace(set=confs.__setitem__, get=lambda key: "true")),
        conf=confs.get,
        clock=ManualClock(now_ms),
        observer=RecordingObserver(Recorder()),
        reporter=ProgressReporter(100),
        sink=None,
        progress_lock=threading.Condition(),
        no_new_data=False,
        no_data_batches_enabled=no_data_batches_enabled,
        min_batches_to_retain=min_batches_to_retain,
        update_status=lambda **changes: None,
        offsets_by_name=dict,
        name_of=lambda source: f"{list(sources).index(source)}: {source.description}",
    )
    return cast(StreamExecution, query)


def log(query: StreamExecution, offsets: dict[int, str], commits: dict[int, int], watermark_ms: int = 0) -> None:
    """Fill the logs: `offsets` by batch id, and for each commit the watermark that it carries (ms)."""
    for batch_id, offset in offsets.items():
        query.offset_log.add(batch_id, OffsetSeq((offset,), OffsetSeqMetadata(batch_watermark_ms=watermark_ms)))
    for batch_id, next_watermark_ms in commits.items():
        query.commit_log.add(batch_id, CommitMetadata(next_watermark_ms))


def events(query: StreamExecution) -> tuple[Event, ...]:
    """The steps so far, in the order in which they ended."""
    assert isinstance(query.observer, RecordingObserver)
    return query.observer.recorder.events


def steps(query: StreamExecution) -> list[str]:
    """Their names."""
    return [event.step for event in events(query)]
