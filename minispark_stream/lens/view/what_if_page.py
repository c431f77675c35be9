"""What if, in a page without Python: what the page needs from a trace to answer for other delays and other windows.

The page answers by the rules of the page to play with (play_rules.js). A trace must have what it needs:

1. The query has one source, one watermark, and one aggregation over windows that do not overlap, in append mode.
2. All rows were recorded from batch 0 on, each with its event time and its window. A row that a filter has left out, or that
   has no event time, must have been left out for the watermark, too.
3. All times are so far after the beginning of 1970, where Spark's watermark begins, that no delay of a slider leads back to it.

    {"files": [[{"time": 12:02, "key": ""}, ..], ..], "waits": false, "delays": [0, ..], "sizes": [..], ..}

If there are batches without data between those with data, each file arrived only when the query had nothing left to do
(`waits`), and the same is assumed for the other delays.

Differs from Spark: the page knows the watermark and the windows of the query, and nothing else.
Shown by tests/spark/test_what_if_page.py::test_other_delays_and_windows_come_to_the_same_in_the_page_and_in_the_engine.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from minispark_stream.lens.trace.facts import BatchFacts
from minispark_stream.lens.trace.fates import Fates
from minispark_stream.lens.trace.holdings import without_window
from minispark_stream.lens.trace.measured import measured
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.rows import Time
from minispark_stream.lens.view.words import row_words

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
STEPS = ((SECOND, (1, 2, 5, 10, 20, 30)), (MINUTE, (1, 2, 5, 10, 15, 20, 30)), (HOUR, (1, 2, 6, 12, 24)))
DURATIONS = [n * unit for unit, counts in STEPS for n in counts]  # what a slider offers, besides the query's own value
LAST_TIME = 8_640_000_000_000_000  # ms since the epoch: the last date of JavaScript


def what_if_data(recording: Recording, found: Fates) -> dict[str, Any] | None:
    """What the page needs; None if its model does not fit the trace. `found` are the fates of its rows."""
    delay, size = _delay(recording), _size(found)  # (1)
    if delay is None or size is None or found.batches[0].batch_id != 0:
        return None
    delays, sizes = sorted({0, delay, *DURATIONS}), sorted({size, *DURATIONS})
    times = [row["time"] for batch in found.batches for row in _rows(batch)]
    if not all(isinstance(time, int) and delays[-1] < time < LAST_TIME for time in times):  # (3)
        return None
    # (2)
    updates = {e.trigger: measured(e.outputs) for e in recording.events if e.step == "updateWatermark"}
    arrivals = {batch.number: rows for batch in found.batches if (rows := _rows(batch))}
    for batch in found.batches:
        if [one.count for one in updates.get(batch.trigger, ())] != [len(arrivals.get(batch.number, ()))]:
            return None  # the watermark has seen other rows than the windows have
    return {
        "files": list(arrivals.values()),
        "waits": any(later > earlier + 1 for earlier, later in pairwise(arrivals)),
        "delays": delays, "delay": delays.index(delay), "sizes": sizes, "size": sizes.index(size),
    }


def _delay(recording: Recording) -> int | None:
    """The delay of the only watermark of a query with one source."""
    delays = {one.delay_ms for e in recording.events if e.step == "updateWatermark" for one in measured(e.outputs)}
    sources = {str(e.inputs.get("source")) for e in recording.events if e.step == "latestOffset"}
    return delays.pop() if len(delays) == 1 and len(sources) == 1 else None


def _size(found: Fates) -> int | None:
    """The size of the windows, if there is one aggregation over windows and all rows are known."""
    for batch in found.batches:
        if [(o.operator, o.mode) for o in batch.operators.values()] != [("stateStoreSave", "append")]:
            return None
        if batch.arrivals is None or batch.progress.get("numInputRows") != len(batch.arrivals):
            return None
        if any(len(arrival.get("at", ())) > 1 for arrival in batch.arrivals):
            return None
    sizes = {_aligned(holding.start_ms, holding.end_ms) for holding in found.holdings}
    return sizes.pop() if len(sizes) == 1 else None


def _aligned(start: Time | None, end: Time | None) -> int | None:
    """The size of a window that begins at a multiple of it."""
    if not isinstance(start, int) or not isinstance(end, int) or start >= end:
        return None
    return end - start if start % (end - start) == 0 else None


def _rows(batch: BatchFacts) -> list[dict[str, Any]]:
    """The rows that reached the windows: their event time, and the other columns of their key."""
    return [
        {"time": arrival.get("time"), "key": row_words(without_window(at.get("key") or {}))}
        for arrival in batch.arrivals or () for at in arrival.get("at", ())
    ]


def card(data: dict[str, Any]) -> str:
    """The card of the page, with a slider for the delay and one for the windows."""
    def slider(name: str, words: str) -> str:
        return (
            f"<label>{words} <input type='range' name='{name}' min='0' max='{len(data[name + 's']) - 1}' value='{data[name]}'>"
            "<b></b></label>"
        )

    return (
        "<section class='card' id='what-if'><h2>What if?</h2>"
        "<p class='note'>A small model in this page, of watermark and windows only, works on the recorded rows. "
        "<code>what_if</code> in a notebook runs the query itself.</p>"
        f"<p>{slider('delay', 'delay of the watermark')} {slider('size', 'size of the windows')}</p><p role='status'></p>"
        "<div class='emitted' tabindex='0'><table><thead><tr><th>emitted in</th><th>window</th><th>made of</th></tr></thead>"
        "<tbody></tbody></table></div></section>"
    )
