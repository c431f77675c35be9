"""The outcome of a run of a query, and what is different in another run of it: as data, and in sentences with numbers.

1. The results are, in append mode, all rows that were emitted; in update mode, the newest row of each key; in complete mode,
   the rows of the last batch. A batch that ran again after a kill counts once.
2. The key of a result consists of the columns of the key in the state (but not in that of a join), or else of the columns that
   are not numbers. If two results have the same key, the whole row is the key.
3. An arrival is the same in both runs if it is the first, or the second, and so on, of equal rows; the trace says whether it
   was counted or too late.

    changes(before, after).sentences()    ["2 rows more counted: 9 instead of 7.", "12:04 is no longer too late.",
                                           "Results: 1 with another value, 1 new."]
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minispark_stream.lens.trace.fates import KEPT, LATE, PASSED, Fates, fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.trace.values import name_of
from minispark_stream.lens.view.words import plural, row_words, short_clock

OutputRow = Mapping[str, Any]
MOST_NAMED = 6  # rows in a sentence
KINDS = {  # how a result has changed -> the words for it
    "other": "with another value", "new": "new", "gone": "gone", "later": "in a later batch", "earlier": "in an earlier batch",
}


@dataclass(frozen=True)
class Result:
    """A row that was emitted, and the batch that emitted it."""

    batch_id: int
    row: OutputRow


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: its results, the columns that are their key, and its trace (with rows); `error` if it failed."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    results: tuple[Result, ...]
    trace: Trace
    error: str | None = None

    def arrivals(self) -> dict[str, tuple[float | None, set[str]]]:
        """Every row that arrived, by what distinguishes it from others: its event time, and what became of it."""
        seen: Counter[str] = Counter()
        told: dict[int, tuple[OutputRow, float | None, set[str]]] = {}
        for fate in self._story.rows:
            told.setdefault(fate.number, (fate.row, fate.event_ms, set()))[2].add(fate.what)
        found = {}
        for row, event_ms, what in told.values():
            name = name_of(row)
            seen[name] += 1
            found[f"{name} {seen[name]}"] = event_ms, what  # (3)
        return found

    @property
    def held(self) -> int:
        """The number of state rows at the end."""
        progress = self.trace.batches[-1].progress if self.trace.batches else {}
        return sum(o.get("numRowsTotal") or 0 for o in progress.get("stateOperators", ()))

    @property
    def watermark_ms(self) -> int | None:
        """The watermark at the end."""
        batches = self._story.batches
        return (batches[-1].next_ms or batches[-1].eviction_ms) if batches else None

    @property
    def reruns(self) -> list[int]:
        return [batch.batch_id for batch in self.trace.batches if batch.rerun]

    @cached_property
    def _story(self) -> Fates:
        return fates(self.trace)


def outcome(
    mode: str, columns: Sequence[str], batches: Mapping[int, Sequence[OutputRow]], trace: Trace, error: str | None = None
) -> Outcome:
    """The outcome of a run in an output mode; `batches` are the rows that the sink received in each batch."""
    every = [Result(batch_id, row) for batch_id, rows in sorted(batches.items()) for row in rows]
    by_key = (fate for fate in fates(trace).rows if fate.operator is not None and fate.operator.keeps != "rows")  # not a join
    keys = {name for fate in by_key for name in (fate.at.get("key") or {})}  # (2)
    key = tuple(column for column in columns if column in keys)
    key = key or tuple(column for column in columns if not any(_is_number(result.row[column]) for result in every))
    if mode == "complete":  # (1)
        every = [result for result in every if result.batch_id == max(batches)]
    elif mode == "update":
        every = list({_named(result, key): result for result in every}.values())
    return Outcome(tuple(columns), key, tuple(every), trace, error)


@dataclass(frozen=True)
class OutcomeChanges:
    """What is different in `after`: pairs of (result before, result after), of which one may be None; and how rows have fared.

    `counted` are the numbers of counted rows; `late_no_more` and `late_now` are words for rows that arrived in both runs.
    """

    before: Outcome
    after: Outcome
    pairs: tuple[tuple[Result | None, Result | None], ...]
    counted: tuple[int, int]
    late_no_more: tuple[str, ...]
    late_now: tuple[str, ...]

    def count(self, what: str) -> int:
        """How many results are of a kind: one of `KINDS`, or "same"."""
        return sum(kind(*pair) == what for pair in self.pairs)

    def sentences(self) -> list[str]:
        """What changed, in numbers."""
        before, after = self.before, self.after
        if after.error is not None:
            return [f"The query fails: {after.error}"]
        said = [*self._rows(), *self._results()]
        said += _instead("state row is held at the end", "state rows are held at the end", before.held, after.held)
        said += _instead("batch was run", "batches were run", len(before.trace.batches), len(after.trace.batches))
        if before.watermark_ms != after.watermark_ms:
            was, now = short_clock(before.watermark_ms), short_clock(after.watermark_ms)
            said.append(f"The watermark ends at {now} instead of {was}.")
        said += [f"Batch {n} ran twice." for n in after.reruns]
        if self.count("same") < len(self.pairs):
            return said
        return [*said, "The results are the same."] if said else ["Nothing changed: the same rows, the same results."]

    def _rows(self) -> Iterator[str]:
        was, now = self.counted
        if was != now:
            yield f"{plural(abs(now - was), 'row')} {'more' if now > was else 'fewer'} counted: {now} instead of {was}."
        for rows, said in ((self.late_no_more, "no longer too late"), (self.late_now, "too late now")):
            if rows:
                yield f"{_and(rows)} {'is' if len(rows) == 1 else 'are'} {said}."

    def _results(self) -> Iterator[str]:
        counts = {what: count for what in KINDS if (count := self.count(what))}
        if counts:
            yield f"Results: {', '.join(f'{count} {KINDS[what]}' for what, count in counts.items())}."


def kind(before: Result | None, after: Result | None) -> str:
    """What happened to a result: one of `KINDS`, or "same"."""
    if before is None or after is None:
        return "new" if before is None else "gone"
    if before.row != after.row:
        return "other"
    if before.batch_id == after.batch_id:
        return "same"
    return "later" if after.batch_id > before.batch_id else "earlier"


def changes(before: Outcome, after: Outcome) -> OutcomeChanges:
    """Compare two runs of a query."""
    was, now = before.arrivals(), after.arrivals()
    both = [name for name in now if name in was]
    return OutcomeChanges(
        before, after, tuple(_pairs(before, after)),
        counted=(_counted(was), _counted(now)),
        late_no_more=tuple(_row(name, now[name][0]) for name in both if _is_late(was[name][1]) and not _is_late(now[name][1])),
        late_now=tuple(_row(name, now[name][0]) for name in both if _is_late(now[name][1]) and not _is_late(was[name][1])),
    )


def first_words(run: Outcome) -> list[str]:
    """A run by itself, in numbers."""
    if run.error is not None:
        return [f"The query fails: {run.error}"]
    came = run.arrivals()
    late = [_row(name, ms) for name, (ms, what) in came.items() if _is_late(what)]
    counted = _counted(came)
    said = [f"{plural(len(came), 'row')} came, {counted or 'none'} {'was' if counted == 1 else 'were'} counted."]
    if late:
        said.append(f"Too late: {_and(late)}.")
    return [*said, f"{plural(len(run.results), 'result')} from {plural(len(run.trace.batches), 'batch')}."]


def _pairs(before: Outcome, after: Outcome) -> Iterator[tuple[Result | None, Result | None]]:
    unique = all(len({_named(result, after.key) for result in run.results}) == len(run.results) for run in (before, after))
    key = after.key if unique else ()

    def keyed(run: Outcome) -> dict[str, Result]:
        seen: Counter[str] = Counter()
        found = {}
        for result in run.results:
            name = _named(result, key)
            seen[name] += 1
            found[f"{name} {seen[name]}"] = result
        return found

    was, now = keyed(before), keyed(after)
    yield from ((was.get(name), result) for name, result in now.items())
    yield from ((result, None) for name, result in was.items() if name not in now)


def _counted(arrivals: Mapping[str, tuple[float | None, set[str]]]) -> int:
    return sum(bool(what & {KEPT, PASSED}) for _, what in arrivals.values())


def _is_late(what: set[str]) -> bool:
    """Whether a row was late in all of its windows."""
    return what == {LATE}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _named(result: Result, key: Sequence[str]) -> str:
    return name_of([result.row.get(column) for column in key] if key else result.row)


def _row(name: str, event_ms: float | None) -> str:
    return row_words(json.loads(name.rpartition(" ")[0])) if event_ms is None else short_clock(event_ms)


def _and(words: Sequence[str]) -> str:
    shown = list(words[:MOST_NAMED])
    if len(words) > MOST_NAMED:
        shown[-1:] = [f"{len(words) - MOST_NAMED + 1} others"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _instead(one: str, several: str, was: int, now: int) -> list[str]:
    return [] if was == now else [f"{now or 'No'} {one if now == 1 else several} instead of {was}."]
