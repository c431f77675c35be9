"""The rows of a recorded query as a case of the page to play with: what stands behind `trace.play()`.

The page knows four operators, and counts rows (play_rules.js). Of a trace, it takes the rows and the knobs:

1. There is one stateful operator, which the page knows; every watermark has the same delay; and all rows were recorded from
   batch 0 on. A row that a filter has left out, or that has no event time, must have been left out for the watermark, too.
2. The knobs are what the rows were put into: the size and slide of their windows, the gap of their sessions; and for a join,
   the rule by which its left side leaves the state, which says how long a row waits for a partner.
3. Keys are letters on the page, and have names beside them. Times and knobs are numbers of the coarsest unit that is exact.
4. There may be more to a query than the page knows: another condition of its join, another policy of its watermark. So the page
   also gets what the query did, [watermark, late rows, rows out] of each batch, and says where it comes to something else.

    windows;unit=s;day=2024-01-01;keys=word%3Da;delay=600;size=300;slide=300;mode=append;n=1;rows=a12:02:10|a12:21:00

Differs from Spark: the page knows the operator and the watermark of the query, and nothing else.
Shown by tests/spark/test_what_if_page.py::test_the_page_to_play_with_comes_to_what_the_query_did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from minispark_stream.lens.trace.facts import EMITTED, KEPT, BatchFacts, OperatorFacts
from minispark_stream.lens.trace.fates import LATE, Fates, fates
from minispark_stream.lens.trace.holdings import without_window
from minispark_stream.lens.trace.measured import Measured, measured
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.play import Play
from minispark_stream.lens.view.words import plain, plural

UNITS = {"min": 60_000, "s": 1000, "ms": 1}  # as in play_case.js
MOST_FILES, MOST_KEYS, MOST_ROWS = 12, 26, 120  # what there is room for
PLAYED = {"groups": "windows", "keys": "dedup", "rows": "join", "sessions": "sessions"}
JOINS = {"Inner": "inner", "LeftOuter": "left"}
SIDES = ("ad", "click")  # what the page calls the two sides
DAY = 86_400_000
RecordedRow = Mapping[str, Any]


def played(recording: Recording) -> Play:
    """The page with the rows of this query.

    Raises:
        ValueError: the page does not know a query of this kind; it says why.
    """
    found = fates(recording)
    batches = _first_batches(found.batches)
    operator = _operator(batches)
    name = PLAYED[operator.keeps or ""]
    nodes = _nodes(recording, batches)
    delay = next(iter(nodes[0])).delay_ms
    rows = [[_row(arrival, at) for arrival, at in _arrived(batch)] for batch in batches]
    if any(len(of_batch) != sum(one.count or 0 for one in seen) for of_batch, seen in zip(rows, nodes)):
        raise ValueError("the watermark has seen other rows than the operator, and the page knows no filter between them")
    knobs = {"delay": delay, **_knobs(name, operator, batches)}
    return _page(recording, found, batches, name, knobs, rows, [one.node for one in nodes[0]])


def _first_batches(batches: Sequence[BatchFacts]) -> Sequence[BatchFacts]:  # (1)
    if not batches or batches[0].batch_id != 0:
        raise ValueError("the trace does not begin with batch 0")
    files = 0
    for number, batch in enumerate(batches):
        if batch.arrivals is None:
            raise ValueError('the rows were not recorded: MiniSparkSession(spark, trace="rows") records them')
        if not batch.is_whole:
            raise ValueError(f"batch {batch.batch_id} has too many rows: only the first ones were recorded")
        files += bool(batch.arrivals)
        if files > MOST_FILES:
            return batches[:number]
    return batches


def _operator(batches: Sequence[BatchFacts]) -> OperatorFacts:  # (1)
    [*operators] = {number: one for batch in batches for number, one in batch.operators.items()}.values()
    names = ", ".join(one.operator for one in operators) or "no stateful operator"
    if len(operators) != 1 or operators[0].keeps not in PLAYED or operators[0].operator == "dedupe":
        known = "one windowed aggregation, one dropDuplicatesWithinWatermark, one join or one aggregation over sessions"
        raise ValueError(f"the page knows queries with {known}; this one has {names}")
    return operators[0]


def _nodes(recording: Recording, batches: Sequence[BatchFacts]) -> list[Sequence[Measured]]:
    """What the watermarks measured in each batch."""
    updates = {e.trigger: measured(e.outputs) for e in recording.events if e.step == "updateWatermark"}
    nodes: list[Sequence[Measured]] = [updates.get(batch.trigger, ()) for batch in batches]
    if not nodes[0] or len({one.delay_ms for of_batch in nodes for one in of_batch}) != 1:
        raise ValueError("the page knows queries with one delay of the watermark")
    return nodes


def _arrived(batch: BatchFacts) -> Iterable[tuple[RecordedRow, RecordedRow]]:
    """The rows that reached the operator, each with the first place that it came to."""
    for arrival in batch.arrivals or ():
        for at in arrival.get("at", ())[:1]:
            yield arrival, at


def _row(arrival: RecordedRow, at: RecordedRow) -> tuple[str, str, int]:
    """The side of a row, its key, its event time."""
    time = arrival.get("time")
    if not isinstance(time, int) or time < DAY:
        raise ValueError("a row has no event time, or one in 1970, where Spark's watermark begins")
    return SIDES[at.get("side") or 0], ", ".join(map(plain, without_window(at.get("key") or {}).values())), time


def _knobs(name: str, operator: OperatorFacts, batches: Sequence[BatchFacts]) -> dict[str, Any]:  # (2)
    if name == "dedup":
        return {}
    if name == "join":
        return {"within": _within(batches), "how": _how(operator)}
    arrivals = [arrival for batch in batches for arrival in batch.arrivals or ()]
    times = [int(arrival.get("time") or 0) for arrival in arrivals]
    places = [arrival.get("at", ()) for arrival in arrivals]
    spans = {(at.get("time") or 0) - (at.get("start") or 0) for there in places for at in there}
    if len(spans) != 1 or not isinstance(size := spans.pop(), int) or size <= 0:
        raise ValueError("the rows of the query are not in windows of one size")
    if name == "sessions":
        return {"gap": size}
    if operator.mode not in ("append", "update"):
        raise ValueError(f"the page knows the modes append and update, not {operator.mode}")
    starts = [sorted(int(at.get("start") or 0) for at in there) for there in places]
    slide = min((later - earlier for there in starts for earlier, later in pairwise(there)), default=size)
    if any(there and there != _windows(time, size, slide) for time, there in zip(times, starts)):
        raise ValueError("the windows of the query do not begin at multiples of their slide")
    return {"size": size, "slide": slide, "mode": operator.mode}


def _windows(time: int, size: int, slide: int) -> list[int]:
    """Where the windows begin that a time is in."""
    last = time // slide * slide
    return [start for start in range(last - size // slide * slide, last + 1, slide) if start + size > time]


def _how(operator: OperatorFacts) -> str:
    if operator.join_type not in JOINS:
        raise ValueError(f"the page knows inner and left joins, not {operator.join_type}")
    return JOINS[operator.join_type]


def _within(batches: Sequence[BatchFacts]) -> int:
    """How long a row of the left side waits: it leaves the state so much later than the watermark passes it."""
    for operator in (one for batch in batches for one in batch.operators.values()):
        left, right = operator.leaves(0), operator.leaves(1)
        if operator.eviction_ms and left and right:
            within, back = operator.eviction_ms - left - 1, operator.eviction_ms - right - 1
            if back == 0 and within > 0:
                return within
            raise ValueError("the page knows joins in which the right row comes after the left one, within some time")
    raise ValueError("the join of the query has no range of times, or the trace is too short to show it")


def _page(
    recording: Recording, found: Fates, batches: Sequence[BatchFacts], name: str, knobs: Mapping[str, Any],
    rows: Sequence[Sequence[tuple[str, str, int]]], sides: Sequence[str],
) -> Play:  # (3), (4)
    every = [row for of_batch in rows for row in of_batch]
    keys = list(dict.fromkeys(key for _, key, _ in every))
    if not every or len(keys) > MOST_KEYS or len(every) > MOST_ROWS:
        room = f"{MOST_KEYS} keys and {MOST_ROWS} rows"
        raise ValueError(f"the page has room for {room}; the first batches have {len(keys)} and {len(every)}")
    day = min(time for *_, time in every) // DAY * DAY
    numbers = [*(time for *_, time in every), *(value for value in knobs.values() if isinstance(value, int))]
    unit = next(one for one, size in UNITS.items() if all(number % size == 0 for number in numbers))
    letters = {key: chr(97 + number) for number, key in enumerate(keys)}
    named = any(key != letter for key, letter in letters.items())

    def as_text(side: str, key: str, time: int) -> str:
        return f"{side + ' ' if name == 'join' else ''}{letters[key]}{_clock(time - day, unit)}"

    def listed(names: Iterable[str]) -> str:
        return ",".join(quote(one or " ", safe="") for one in names)

    with_data = [number for number, of_batch in enumerate(rows) if of_batch]
    parts = {
        "unit": unit if unit != "min" else "", "day": f"{datetime.fromtimestamp(day / 1000, UTC):%Y-%m-%d}",
        "waits": "1" if any(later > earlier + 1 for earlier, later in pairwise(with_data)) else "",
        "keys": listed(keys) if named else "", "sides": listed(sides) if name == "join" else "",
        **{knob: value // UNITS[unit] if isinstance(value, int) else value for knob, value in knobs.items()},
        "n": 1, "rows": "|".join(",".join(as_text(*row) for row in of_batch) for of_batch in rows if of_batch),
    }
    case = ";".join([name, *(f"{part}={value}" for part, value in parts.items() if value != "")])
    called = f'the query "{recording.name}"' if recording.name else "the query"
    played_only = "" if len(batches) == len(found.batches) else f" of its first {len(batches)} batches"
    note = f"The {plural(len(every), 'row')}{played_only} of {called}, with its knobs. "
    note += "The page counts rows, whatever the query makes of them."
    return Play(case, {"note": note, "recorded": [_recorded(found, batch) for batch in batches]})


def _clock(ms: int, unit: str) -> str:
    minutes, rest = divmod(ms, 60_000)
    words = f"{minutes // 60:02}:{minutes % 60:02}"
    if unit != "min":
        words += f":{rest // 1000:02}"
    return f"{words}.{rest % 1000:03}" if unit == "ms" else words


def _recorded(found: Fates, batch: BatchFacts) -> list[int | None]:
    """(4) What the query did in a batch: watermark, late rows, rows that its operator emitted. None if it is not known."""
    [*operators] = batch.operators.values()
    late = sum(_all_late(found, number) for number in {fate.number for fate in found.rows if fate.batch is batch})
    if len(operators) != 1 or operators[0].told is None:
        return [batch.eviction_ms or None, None, None]
    what = KEPT if operators[0].keeps == "keys" else EMITTED
    return [batch.eviction_ms or None, late, len(operators[0].told_of(what))]


def _all_late(found: Fates, number: int) -> bool:
    """Whether a row was late in each of its windows."""
    return all(fate.what == LATE for fate in found.rows if fate.number == number)
