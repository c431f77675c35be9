"""The bands in the picture of event time: windows and sessions, and whatever else is held in the state.

1. Windows of different keys with the same start and end are one band.
2. A band extends from the batch that opened it to the one that evicted it, and says how many rows it has after each batch. A
   session grows from batch to batch; if it becomes a part of a longer one, its band ends there. It also ends where the tasks
   of a batch told nothing, because it is not known what became of it.
3. Bands that overlap are drawn side by side, in different lanes.
4. What is held but is not a window is named by its key; and if it stays longer than until its own time, by when it leaves.

    window [12:00, 12:05)    batch 0: 1 row, batch 2: 2 rows, emitted in batch 3, evicted in batch 3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from minispark_stream.lens.trace.fates import Fates, Holding
from minispark_stream.lens.view.words import clock_words, key_words, plural


@dataclass(frozen=True)
class Band:
    """A window or session: the rows in it after each batch, which batches emitted it, and the last batch that held it.

    `extents` are its start and end in each batch: a session grows.
    What is held but is not a window, such as a key of dropDuplicates or a row of a join, starts and ends at its own time. Bands
    that overlap have different lanes, from 0.
    """

    start_ms: float
    end_ms: float
    rows: Mapping[int, int]
    extents: Mapping[int, tuple[float, float]]
    emitted: tuple[int, ...]
    evicted: int | None
    title: str
    lane: int = 0
    name: str = ""


def bands(found: Fates, held: Iterable[Holding]) -> tuple[Band, ...]:  # (1)
    """The bands of what was held, by their start."""
    windows: dict[tuple[float, float], list[Holding]] = {}
    for holding in held:
        if holding.start_ms is not None and holding.end_ms is not None:
            windows.setdefault((holding.start_ms, holding.end_ms), []).append(holding)
    return _in_lanes(_band(found, *ends, of_window) for ends, of_window in sorted(windows.items()))


def _band(found: Fates, start_ms: float, end_ms: float, of_window: Sequence[Holding]) -> Band:  # (2)
    counts = sum((h.counts for h in of_window), Counter())
    ends = ("evicted", "merged", "lost")
    evicted, merged, lost = ([n for h in of_window if (n := getattr(h, end)) is not None] for end in ends)
    gone = max(evicted) if evicted and len(evicted) + len(lost) == len(of_window) else None

    def batches(numbers: Iterable[int]) -> str:
        return "batch " + ", ".join(str(found.batches[n].batch_id) for n in numbers)

    if merged:
        last, end = merged[0] - 1, f"became part of a longer one in {batches(merged[:1])}"
    elif gone is not None:
        last, end = gone, f"evicted in {batches([gone])}"
    elif len(lost) == len(of_window):
        last, end = max(lost) - 1, f"not known from {batches([max(lost)])} on"
    else:
        last, end = len(found.batches) - 1, "still held"
    rows = {n: sum(counts[m] for m in counts if m <= n) for n in range(min(counts), last + 1)}
    emitted = sorted({n for h in of_window for n in h.emitted})
    said = [
        f"{f'{len(of_window)} keys, ' if len(of_window) > 1 else ''}{plural(sum(counts.values()), 'row')}",
        f"emitted in {batches(emitted)}" if emitted else "",
        end,
    ]
    named = "" if start_ms < end_ms else _name(of_window)
    about = f"[{clock_words(start_ms)}, {clock_words(end_ms)})" if start_ms < end_ms else f"held at {clock_words(start_ms)}"
    title = f"{about}: {'; '.join(filter(None, said))}"
    return Band(start_ms, end_ms, rows, _extents(of_window[0], rows), tuple(emitted), gone, title, name=named)


def _name(held: Sequence[Holding]) -> str:  # (4)
    names = list(dict.fromkeys(key_words(holding.key) for holding in held))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    until_ms, end_ms = held[0].until_ms, held[0].end_ms
    leaves = f" until {clock_words(until_ms)}" if until_ms and end_ms and until_ms > end_ms else ""
    return f"{', '.join(names[:3])}{more}{leaves}"


def _extents(holding: Holding, batches: Iterable[int]) -> dict[int, tuple[float, float]]:
    """The start and the end of a holding in each batch."""
    found, now = {}, (holding.start_ms, holding.end_ms)
    for batch in batches:
        now = holding.extents.get(batch, now)
        found[batch] = (now[0] or 0, now[1] or 0)
    return found


def _in_lanes(bands: Iterable[Band]) -> tuple[Band, ...]:  # (3)
    placed: list[Band] = []
    for band in bands:
        over = (b for b in placed if b.start_ms < band.end_ms and band.start_ms < b.end_ms)
        near = {b.lane for b in over if set(b.rows) & set(band.rows)}
        placed.append(replace(band, lane=next(lane for lane in range(len(placed) + 1) if lane not in near)))
    return tuple(placed)
