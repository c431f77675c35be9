"""What each `withWatermark` of a query measured in a batch, as the step updateWatermark has recorded it.

    ts   newest 12:21, delay 10 min      reached 12:11
    ts   no row in this batch            newest None, reached None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict


class MeasuredNode(TypedDict, total=False):
    """What is recorded of a `withWatermark`: its column, and the times and the number of the rows that it saw."""

    node: str | None
    delayMs: int | None
    watermark: int | None
    min: int | None
    max: int | None
    avg: float | None
    count: int | None


@dataclass(frozen=True)
class Measured:
    """Times are in ms since the epoch; `count` is the number of rows.

    `newest_ms` is None if no row arrived; an event time that is null counts as the beginning of 1970. `watermark_ms` is the
    greatest watermark of this node so far.
    """

    node: str
    delay_ms: int
    count: int | None
    newest_ms: int | None
    watermark_ms: int | None

    @property
    def reached_ms(self) -> int | None:
        """The newest event time less the delay; None unless it is after the beginning of 1970, where watermarks begin."""
        reached = (self.newest_ms or 0) - self.delay_ms
        return reached if reached > 0 else None


def measured(outputs: Mapping[str, Any]) -> tuple[Measured, ...]:
    """What the `withWatermark` nodes measured, in the order of the plan, from the outputs of a step updateWatermark."""
    return tuple(map(_measured, outputs.get("operators", ())))


def _measured(one: MeasuredNode) -> Measured:
    count = one.get("count")
    return Measured(
        node=one.get("node") or "event time",
        delay_ms=one.get("delayMs") or 0,
        count=count,
        newest_ms=None if count == 0 else one.get("max"),
        watermark_ms=one.get("watermark"),
    )
