"""A listener, as notebook 18 hangs it on a query: it keeps a line for each thing that it is told.

    diary = Diary()
    session.streams.addListener(diary)      of Spark or of the model
    ...
    diary.lines     ["started: visits", "batch 0: 3 rows in, 2 rows of state", ..., "ended"]

Listeners are called on a thread of the engine's own, some time after the thing has happened: `ended` is set when the last line
is there.
"""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener


class Diary(StreamingQueryListener):
    """What the queries of a session did."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        self.lines.append(f"started: {event.name}")

    def onQueryProgress(self, event: Any) -> None:
        report = event.progress
        kept = sum(operator.numRowsTotal for operator in report.stateOperators)
        late = sum(operator.numRowsDroppedByWatermark for operator in report.stateOperators)
        alarm = f"   ALARM: {late} too late" if late else ""
        self.lines.append(f"batch {report.batchId}: {report.numInputRows} rows in, {kept} rows of state{alarm}")

    def onQueryIdle(self, event: Any) -> None:
        self.lines.append("nothing to do")

    def onQueryTerminated(self, event: Any) -> None:
        self.lines.append(f"failed: {event.errorClassOnException}" if event.exception else "ended")
        self.ended.set()
