"""The fate of a row in words: from its file to what happened to it, with the numbers that decided.

    {'time': '2024-01-01 12:05:00', 'word': 'i'}
      file         4.csv
      offset       FileStreamSource[in]: after logOffset 3 up to logOffset 4
      batch        4
      event time   12:05:00 UTC; late watermark 12:11:00, eviction watermark 12:20:00
      operator 0   stateStoreSave, partition 0, key window=[2024-01-01 12:05, 12:10)
      fate         dropped: its window ended 12:10:00, at or before the late watermark, 12:11:00

If there is another stateful operator above, another line says what happened there to the result:

      then operator 0    stateStoreSave, key window=[2024-01-01 12:00, 12:10), in batch 2: merged into its window, ...

The tasks reported what happened (lens/trace/fates.py); this module only puts it into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from minispark_stream.lens.trace.events import MAX_ARRIVALS
from minispark_stream.lens.trace.facts import MOST_TOLD
from minispark_stream.lens.trace.fates import (
    AGGREGATES,
    BEYOND,
    DUPLICATE,
    KEPT,
    LATE,
    LEFT_OUT,
    OWN_WORDS,
    PASSED,
    TURNED_AWAY,
    UNKNOWN,
    Fate,
    Fates,
    matching,
)
from minispark_stream.lens.view.fate_of_join import joined, not_stored
from minispark_stream.lens.view.fate_watermarks import compared, counted, end_of_holding, event_time, until_words
from minispark_stream.lens.view.style import CSS, card, table
from minispark_stream.lens.view.words import (
    offset_words,
    one_line,
    plain,
    plural,
    row_words,
    source_words,
    time_words,
    two_clocks,
)

MOST = 20  # rows in one answer
MOST_GIVEN = 5  # rows of one call of a function


@dataclass(frozen=True)
class RowFate:
    """What became of one row: (name, words) for each station of its way.

    One of the stations is its fate, at the operator that decided it. The operators that received the result come after it.
    """

    row: Mapping[str, Any]
    stations: tuple[tuple[str, str], ...]

    @property
    def fate(self) -> str:
        """The words of its fate."""
        return dict(self.stations)["fate"]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.stations) + 3
        return "\n".join([row_words(self.row), *(one_line(f"  {name.ljust(width)}{words}") for name, words in self.stations)])

    def _repr_html_(self) -> str:
        lines = [("", (f"<span class='whole'>{escape(name)}</span>", escape(words))) for name, words in self.stations]
        return card(escape(row_words(self.row)), table(("", ""), lines))


@dataclass(frozen=True)
class FateAnswer:
    """The answer to `trace.fate(row)`: what became of the rows that were asked for. `note` says what is missing."""

    rows: tuple[RowFate, ...]
    note: str = ""

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.rows), *filter(None, [self.note])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        note = f"<p class='note'>{escape(self.note)}</p>" if self.note else ""
        return f"<style>{CSS}</style><div class='ms'>{''.join(row._repr_html_() for row in self.rows)}{note}</div>"


def answer(found: Fates, wanted: Mapping[str, Any]) -> FateAnswer:
    """What became of the rows that have the `wanted` columns."""
    if all(batch.arrivals is None for batch in found.batches):
        return FateAnswer((), 'The trace has no rows: MiniSparkSession(spark, trace="rows") records them.')
    fates = list(matching(found, wanted))
    if not fates:
        columns = ", ".join(sorted({name for fate in found.rows for name in fate.row}))
        is_cut = any(not batch.is_whole for batch in found.batches)
        cut = f"; of some batches only the first {MAX_ARRIVALS:,} rows of a source are recorded" if is_cut else ""
        return FateAnswer((), f"No recorded row has {row_words(wanted)}{cut}. Columns of the sources: {columns or 'none'}.")
    rest = f"and {plural(len(fates) - MOST, 'row')} more" if len(fates) > MOST else ""
    return FateAnswer(tuple(told(found, fate) for fate in fates[:MOST]), rest)


def unknown_of_spark(row: Mapping[str, Any]) -> FateAnswer:
    """Why a trace of real Spark does not know, and who does."""
    note = "Real Spark does not say what happened to a row. The model does: write the query as a function of a session and a "
    ask = f"folder, and its rows as a feed, and ask side_by_side(spark, query, feed).model.trace.fate({dict(row)})"
    return FateAnswer((), note + ask)


def told(found: Fates, fate: Fate) -> RowFate:
    """What became of one row, in words."""
    return RowFate(fate.row, tuple(_stations(found, fate)))


def _stations(found: Fates, fate: Fate) -> Iterator[tuple[str, str]]:
    if fate.file:
        yield "file", str(fate.file).rsplit("/", 1)[-1]
    start, end = fate.batch.offsets.get(fate.source, (None, None))
    yield "offset", f"{source_words(fate.source)}: after {offset_words(start)} up to {offset_words(end)}"
    yield "batch", str(fate.batch.batch_id)
    if fate.event_ms is not None:
        yield "event time", event_time(fate, fate.event_ms)
    if fate.operator is not None:
        key = f", key {row_words(fate.at['key'])}" if fate.at.get("key") else ""
        name = f"{fate.operator.operator}{_side(fate)}, partition {plain(fate.at.get('partition'))}{key}"
        yield f"operator {fate.operator.operator_id}", name
    yield "fate", _ENDS[fate.what](found, fate)
    yield from _onward(found, fate)


def _onward(found: Fates, fate: Fate) -> Iterator[tuple[str, str]]:
    """What became of the result at the operators above, or that this is not known."""
    onward = list(found.onward(fate))
    for one in onward:
        if one.operator is not None:
            key = f", key {row_words(one.at['key'])}" if one.at.get("key") else ""
            where = f"{one.operator.operator}{_side(one)}{key}, in batch {one.batch.batch_id}"
            yield f"then operator {one.operator.operator_id}", f"{where}: {_ENDS[one.what](found, one)}"
    above = fate.batch.above.get(fate.operator.operator_id) if fate.operator is not None else None
    is_of_function = fate.what == KEPT and fate.operator is not None and fate.operator.keeps == "values"
    is_unknown = is_of_function and found.given(fate) is None
    if above is not None and not onward and (found.places(fate) or is_unknown):
        why = "a filter between the two operators removed it, or the plan between them does not allow following it"
        yield f"then operator {above}", f"not known: {why}"


def _side(fate: Fate) -> str:
    is_join = fate.operator is not None and fate.operator.join_type is not None
    return f", {'right' if fate.side else 'left'} side" if is_join else ""


def _followed(found: Fates) -> bool:
    return any(other.what != LEFT_OUT for other in found.rows)


def _left_out(found: Fates, fate: Fate) -> str:
    all_null = fate.batch.event_times.get("max") == 0  # as Spark measures a batch in which every event time is null
    if fate.event_ms is None and (all_null or _followed(found) and any(other.event_ms is not None for other in found.rows)):
        return "left out: its event time is null, so it belongs to no window; nothing counts it as dropped"
    if not _followed(found):
        return "not known: this plan does not allow following a row to its operators"
    return "left out: a filter, or a join with a table, removed it before it reached the state"


def _late(found: Fates, fate: Fate) -> str:
    shared = ""
    if fate.together > 1:
        shared = (
            f". {plural(fate.together, 'row')} of this batch had its key and were merged before they reached the filter: "
            "they share this fate, and count as one dropped row"
        )
    time, watermark = two_clocks(fate.time_ms, fate.watermark_ms)
    thing = compared(fate, "ended", "was")
    if fate.watermark_ms == 0:
        return f"dropped: {thing} {time_words(fate.time_ms)}, and before there is a watermark, rows up to 1970 are late{shared}"
    return f"dropped: {thing} {time}, at or before the late watermark, {watermark}{shared}"


def _duplicate(found: Fates, fate: Fate) -> str:
    if fate.holding is None:
        return "dropped as a duplicate: its key was already in the state"
    batch = found.batches[fate.holding.opened].batch_id
    where = "of this batch" if batch == fate.batch.batch_id else f"of batch {batch}"
    return f"dropped as a duplicate: a row {where} had the same key{until_words(fate)}"


def _beyond(found: Fates, fate: Fate) -> str:
    limit = plain(fate.operator.limit) if fate.operator else ""
    return f"dropped: {limit} rows had passed the limit before it"


def _own_words(found: Fates, fate: Fate) -> str:
    return fate.why or "dropped by its operator, which does not say why"


def _passed(found: Fates, fate: Fate) -> str:
    if fate.operator is not None and fate.operator.keeps == OWN_WORDS:
        return f"{_own_words(found, fate)}; emitted in batch {fate.batch.batch_id}"
    if fate.operator is not None and fate.operator.join_type:
        return f"{joined(found, fate)}, and not stored: {not_stored(fate, fate.operator)}"
    return f"emitted in batch {fate.batch.batch_id}, to the sink" if fate.operator is None else (
        f"emitted in batch {fate.batch.batch_id}: the limit let it pass")


def _unknown(found: Fates, fate: Fate) -> str:
    few = f"a task reports fewer than {MOST_TOLD:,} rows or keys of each kind"
    return f"not known: the tasks of this batch did not report it; {few}"


def _kept(found: Fates, fate: Fate) -> str:
    if fate.operator is not None and fate.operator.keeps == OWN_WORDS:
        return _own_words(found, fate)
    assert fate.operator is not None and fate.holding is not None
    keeps, kept = fate.operator.keeps, "It"
    if keeps == "keys":
        said, kept = f"emitted in batch {fate.batch.batch_id}: the first row with its key", "The key"
    elif keeps == "rows":
        said = f"stored on its side; {joined(found, fate)}"
    elif keeps in AGGREGATES:
        said = f"{_merged(found, fate)}{_emitted(found, fate)}"
    else:
        return f"given to your function, with its key{_state(fate)}; {_given(found, fate)}"
    return f"{said}. {kept} {end_of_holding(found, fate)}"


def _given(found: Fates, fate: Fate) -> str:
    """What a function returned for the key of a row, as its tasks reported; which rows of the key it used, only it knows."""
    given = found.given(fate)
    if given is None:
        return "what the function returned for this key is not known"
    said = []
    for (batch_id, by_timer), calls in groupby(given, key=lambda one: (one.batch.batch_id, one.by_timer)):
        rows = [row_words(one.row) for one in calls if one.place is not None]
        more = f", and {plural(len(rows) - MOST_GIVEN, 'row')} more" if len(rows) > MOST_GIVEN else ""
        when = ", when a timer of the key fired," if by_timer else ""
        what = " and ".join(rows[:MOST_GIVEN]) or "nothing"
        said.append(f"in batch {batch_id}{when} the function returned {what}{more} for this key")
    return "; ".join(said) or "the function has returned nothing for this key so far"


def _merged(found: Fates, fate: Fate) -> str:
    assert fate.operator is not None and fate.holding is not None
    what = "session" if fate.operator.keeps == "sessions" else "window" if "start" in fate.at else "key"
    also = f" with {plural(fate.together - 1, 'other row')} of this batch" if fate.together > 1 else ""
    counts = fate.holding.last.counts
    least = "" if all(found.batches[number].is_whole for number in counts) else "at least "
    merged = f"merged into its {what}{also}, {least}{plural(sum(counts.values()), 'row')} in all"
    return f"counted, as {counted(fate)}. It was {merged}" if fate.is_behind else merged


def _state(fate: Fate) -> str:
    """The state of the key before the batch and after it, as far as it was recorded."""
    assert fate.operator is not None
    before, after = (
        [row_words(row.get("value")) for row in rows if row.get("key") == fate.at.get("key")]
        for rows in (fate.operator.before, fate.operator.after)
    )
    if not before and not after:
        return ""
    return f"; the state of this key went from {', '.join(before) or 'nothing'} to {', '.join(after) or 'nothing'}"


def _emitted(found: Fates, fate: Fate) -> str:
    assert fate.holding is not None and fate.operator is not None
    batches = [found.batches[n].batch_id for n in fate.holding.last.emitted if n >= fate.batch.number]
    if not batches:
        return "; not emitted yet" if fate.operator.emits == "leaving" else ""
    above = fate.batch.above.get(fate.operator.operator_id)
    to = f", to operator {above}" if above is not None else ""
    return f"; emitted in batch {batches[0]}{to}" + (" and later ones" if len(batches) > 1 else "")


_ENDS: Mapping[str, Callable[[Fates, Fate], str]] = {
    UNKNOWN: _unknown, LEFT_OUT: _left_out, LATE: _late, DUPLICATE: _duplicate, BEYOND: _beyond, PASSED: _passed, KEPT: _kept,
    TURNED_AWAY: _own_words,
}
