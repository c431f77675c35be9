"""The observer that makes a trace of the steps that the engine announces.

    observer = RecordingObserver(Recorder("steps"))       passed to a query when it starts
    observer.recorder.events                              what the query has done so far
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minispark_stream.engine.observer import Ended, Observer
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.lens.recording.previews import PreviewSink
from minispark_stream.lens.recording.recorded import RECORDED
from minispark_stream.lens.trace.recorder import Recorder


class RecordingObserver(Observer):
    """Keeps what RECORDED says of each step; at the level "rows", it also keeps rows."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.wants_told = recorder.level == "rows"

    @contextmanager
    def step(self, name: str, query: Any, /, **arguments: Any) -> Iterator[Ended]:
        recorded = RECORDED[name]
        with self.recorder.step(name, **recorded.before(query, **arguments)) as step:
            yield lambda result: step.out(**recorded.after(query, result, **arguments))

    def sink(self, sink: Sink) -> Sink:
        return PreviewSink(sink) if self.recorder.level == "rows" else sink

    def begin_trigger(self, batch_id: int) -> None:
        self.recorder.batch_id = batch_id

    def end_trigger(self, ran: bool) -> None:
        self.recorder.next_trigger(ran)
