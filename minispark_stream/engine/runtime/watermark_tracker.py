"""How the watermark follows from the event times that have been seen.

Models: EventTimeStats and WatermarkTracker (the StructuredStreaming analysis, "About watermark").

1. In each batch, every watermark operator measures the event times that pass through it: max, min, avg, count. If no row
   passes, its watermark stays where it is.
2. The operator's own watermark is the greatest `max - delay` so far.
3. The query's watermark is the least of its operators' (policy "min", safe) or the greatest ("max", drops data); an
   operator that has never seen a row counts as 0, so one silent input holds a "min" watermark back.
4. It never goes back.

    delay 10 min   batch 0: max 12:07 -> 11:57     batch 1: max 12:14 -> 12:04     batch 2: max 12:08 -> 12:04

The event times of batch N decide the watermark of batch N+1. After a restart, the watermarks of the operators are forgotten,
and only the query's watermark is known, because it is in the logs.

A tracker never changes: an update returns a new one.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class EventTimeStats:
    """The event times that one operator measured in one batch, in milliseconds since the epoch."""

    max: int
    min: int
    avg: float
    count: int


@dataclass(frozen=True)
class MeasuredWatermark:
    """What the watermark operator `node_id` measured in a batch, and its delay in milliseconds."""

    node_id: str
    stats: EventTimeStats
    delay_ms: int


@dataclass(frozen=True)
class WatermarkTracker:
    """The watermark of one query, and that of each of its watermark operators by node id (None: no row yet), in ms."""

    policy: str = "min"
    operators: Mapping[str, int | None] = field(default_factory=dict)
    current_watermark: int = 0

    def set_watermark(self, watermark_ms: int) -> WatermarkTracker:
        """The tracker with a watermark from the logs."""
        return replace(self, current_watermark=watermark_ms)

    def update_watermark(self, batch: Iterable[MeasuredWatermark]) -> WatermarkTracker:
        """The tracker after a batch in which the operators measured this."""
        operators = dict(self.operators)
        for measured in batch:  # (1)
            if measured.stats.count > 0:
                seen = operators.get(measured.node_id)
                operators[measured.node_id] = reached(seen, measured.stats.max, measured.delay_ms)  # (2)
        if not operators:
            return self
        choose = max if self.policy == "max" else min
        chosen = choose(0 if watermark is None else watermark for watermark in operators.values())  # (3)
        return replace(self, operators=operators, current_watermark=max(self.current_watermark, chosen))  # (4)


def reached(seen: int | None, newest: int, delay_ms: int) -> int:
    """The watermark of one operator after a batch, in ms.

    Args:
        seen: its watermark before the batch; None before its first row.
        newest: the newest event time of the batch.
        delay_ms: how long the operator waits for late rows.
    """
    return newest - delay_ms if seen is None else max(seen, newest - delay_ms)
