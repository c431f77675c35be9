"""What each `withWatermark` of a query measured in a batch, as the step updateWatermark has recorded it.

    ts   newest 12:21, delay 10 min      reached 12:11
    ts   no row in this batch            newest None, reached None

Shapes are not trusted, because events may come from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minispark_stream.lens.trace.values import as_int, as_list, as_map


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
    return tuple(_measured(as_map(one)) for one in as_list(outputs.get("operators")))


def _measured(one: Mapping[str, Any]) -> Measured:
    count = as_int(one.get("count"))
    return Measured(
        node=str(one.get("node") or "event time"),
        delay_ms=as_int(one.get("delayMs")) or 0,
        count=count,
        newest_ms=None if count == 0 else as_int(one.get("max")),
        watermark_ms=as_int(one.get("watermark")),
    )
