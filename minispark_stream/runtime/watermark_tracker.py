"""How far event time has come.

Models: EventTimeStats and WatermarkTracker (the StructuredStreaming analysis, "About watermark").

1. In each batch, every watermark operator measures the event times that pass it: max, min, avg, count. No row, no news.
2. The operator's own watermark is the greatest `max - delay` so far.
3. The query's watermark is the least of its operators' (policy "min", safe) or the greatest ("max", drops data); an
   operator that has never seen a row counts as 0, so one silent input holds a "min" watermark back.
4. It never goes back.

    delay 10 min   batch 0: max 12:07 -> 11:57     batch 1: max 12:14 -> 12:04     batch 2: max 12:08 -> 12:04

What batch N measures is the watermark of batch N+1. After a restart the operators begin anew; only the query's
watermark, which the logs keep, survives.

Differs from Spark: the average is sum / count; Spark keeps a running mean, which may be a millisecond off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class EventTimeStats:
    """Event times of one operator in one batch, in milliseconds since the epoch."""

    max: int
    min: int
    avg: float
    count: int


class WatermarkTracker:
    """The watermark of one query. `delays` maps each watermark operator's node id to its delay in milliseconds."""

    def __init__(self, policy: str, node_ids: Sequence[str]):
        self.policy = policy
        self.current_watermark = 0
        self.operators: dict[str, int | None] = dict.fromkeys(node_ids)

    def set_watermark(self, watermark_ms: int) -> None:
        """Start from a watermark that the logs remember."""
        self.current_watermark = watermark_ms

    def update_watermark(self, measured: Mapping[str, tuple[EventTimeStats, int]]) -> None:
        """Take in the (stats, delay in ms) of a batch, by node id."""
        for node_id, (stats, delay_ms) in measured.items():  # (1)
            if stats.count > 0:
                seen = self.operators.get(node_id)
                reached = stats.max - delay_ms
                self.operators[node_id] = reached if seen is None else max(seen, reached)  # (2)
        if self.operators:
            choose = max if self.policy == "max" else min
            chosen = choose(0 if w is None else w for w in self.operators.values())  # (3)
            self.current_watermark = max(self.current_watermark, chosen)  # (4)
