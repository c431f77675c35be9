"""Predict, then run: what can be asked before a step, with the right answer and its reason.

1. Before some steps of the walk through the trace (walk.py), there is something to predict:
       populateStartOffsets    with which batch does a restart begin?
       constructNextBatch      if there were no new data, would a batch run all the same?
       addBatch                does this row count? Which batch emits this window? How many rows are emitted?
                               what does an operator of one's own do with this row?
       updateWatermark         which watermark has the next batch?
       walCommit               in real-time mode: what do the logs have of a batch that has run? (once, in the first batch)
       commitOffsets           killed before this step, with which batch would a restart begin? (once, in the first batch)
2. All that is needed for the answer can be seen by then, or is in the question. Of the rows and windows of a batch, the one
   nearest to the watermark is asked about, whatever became of it, so that the choice gives nothing away.
3. The right answer is what was recorded, or what the fates of the rows say (lens/trace/fates.py); its reason is their sentence,
   or that of the step. Each of the other choices has a reason, too: what would have to be true.

    before addBatch of batch 4    "Will the row time=2024-01-01 12:05:00 word=i count?"
    choices                       "Yes, it counts", "No, it is late"
    right                         1: "dropped: its window ended 12:10:00, at or before the late watermark, 12:11:00 ..."
    wrong                         0: "its window would have to end after the late watermark"

A trigger that finds nothing to do leaves nothing in a trace, so nothing is asked about it. Nothing is asked about sessions
either, because the end of a session depends on rows that are still to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.facts import BatchFacts
from minispark_stream.lens.trace.fates import (
    AGGREGATES,
    BEYOND,
    DUPLICATE,
    KEPT,
    LATE,
    OWN_WORDS,
    PASSED,
    TURNED_AWAY,
    Fate,
    Fates,
    decisive,
)
from minispark_stream.lens.trace.measured import measured
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.fate import told
from minispark_stream.lens.view.fate_watermarks import counted
from minispark_stream.lens.view.sentences import narrate
from minispark_stream.lens.view.walk import Key, moments
from minispark_stream.lens.view.words import clock_words, delay_words, plain, row_words, time_words, two_clocks

WOULD_COUNT = {
    LATE: "it, or the end of its window, would have to be after the late watermark",
    DUPLICATE: "no row with its key may have come before",
    BEYOND: "fewer rows than the limit may have come before",
}
WOULD_NOT = {
    LATE: "it, or the end of its window, would have to be at or before the late watermark, that of the batch before",
    DUPLICATE: "the state would have to hold its key already",
    BEYOND: "as many rows as the limit would have to have passed already",
}
NO = {LATE: "No, it is late", DUPLICATE: "No, it is a duplicate", BEYOND: "No, the limit is reached"}


class Question(NamedTuple):
    """What is asked before the step `before`; `right` is the number of the right choice, `why` is the reason.

    `wrong` says for each choice why it is wrong, and is "" for the right one.
    """

    before: Key
    asks: str
    choices: tuple[str, ...]
    right: int
    why: str
    wrong: tuple[str, ...]


QuestionAsked = tuple[str, Mapping[str, str], int, str]  # the mapping has for each choice what would have to be true


def questions(recording: Recording, found: Fates) -> tuple[Question, ...]:
    """All questions on the walk through a trace, in its order; `found` are the fates of its rows."""
    facts = {batch.trigger: batch for batch in found.batches}
    walk = moments(recording.events)
    begun = {(*moment.key[:3], 0) for moment in walk if moment.begun is not None}  # these were asked about when they began
    return tuple(  # (1)
        Question(moment.key, asks, tuple(choices), right, why, _but(right, tuple(choices.values())))
        for moment in walk if moment.key not in begun and (whole := moment.begun or moment.event).error is None
        for ask in ASKED.get(whole.step, ())
        for asks, choices, right, why in ask(found, facts.get(whole.trigger), whole)
    )


def _but(right: int, reasons: tuple[str, ...]) -> tuple[str, ...]:
    return (*reasons[:right], "", *reasons[right + 1:])


def _restart(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    logged, committed = event.inputs.get("offsetLog"), event.inputs.get("commitLog")
    if logged is not None:
        ends = "is empty" if committed is None else f"ends at {committed}"
        choices = {
            f"Batch {logged}, again": f"commits/{logged} is there, so it would write its rows a second time",
            f"Batch {logged + 1}": f"commits/{logged} is not there, so what batch {logged} was to read might be lost",
        }
        right = 0 if event.outputs.get("rerun") is True else 1
        asks = f"The offset log ends at batch {logged}, the commit log {ends}. Which batch runs first?"
        yield asks, choices, right, narrate(event)


def _without_data(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    another, now = event.outputs.get("anotherBatch"), event.outputs.get("watermark")
    has_data = event.outputs.get("newData") is True
    if batch is None or batch.number == 0 or not now or not has_data or not isinstance(another, bool):
        return
    before = found.batches[batch.number - 1].eviction_ms or 0
    moved = now != before
    if another:
        way = f"has moved, from {time_words(before)} to {time_words(now)}" if before else f"is {time_words(now)}, the first one"
        why = f"the watermark {way}, and state may be finished now"
        why = why if moved else "an operator asks for it, although the watermark has not moved"
    else:
        why = "no operator waits for the watermark" if moved else f"the watermark is still {time_words(now)}"
    asks = "There is new data, so a batch runs. If there were none, would a batch run all the same?"
    choices = {
        "Yes, one without data": "a batch without data is there to let finished state leave, and none would",
        "No, the query would wait": "what is finished would be held until the next row comes, and that may be never",
    }
    yield asks, choices, 0 if another else 1, why


def _row(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    operators = batch.operators.values() if batch else ()
    ends = [
        what for what, is_possible in (
            (LATE, any(o.drops_ms for o in operators)),
            (DUPLICATE, any(o.keeps == "keys" for o in operators)),
            (BEYOND, any(o.keeps == "count" for o in operators)),
        ) if is_possible
    ]
    of_batch = groupby((fate for fate in found.rows if fate.batch is batch), key=lambda fate: fate.number)
    known = [fate for _, of_row in of_batch if (fate := decisive(list(of_row))).operator and fate.what in (KEPT, PASSED, *ends)]
    if not ends or not known:
        return
    fate = min(known, key=_distance)  # (2)
    is_dropped = fate.what in ends
    why = told(found, fate).fate if is_dropped else counted(fate)  # (3)
    right = 1 + ends.index(fate.what) if is_dropped else 0
    counts = WOULD_COUNT.get(fate.what, "nothing may speak against it")
    choices = {"Yes, it counts": counts, **{NO[what]: WOULD_NOT[what] for what in ends}}
    yield f"Will the row {row_words(fate.row)} count?", choices, right, why


MOST_WORDS = 4  # choices of a question


def _own_words(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    """What an operator of one's own says about a row: about the first one that it passes on, or else about the first one."""
    said = [
        fate for fate in found.rows
        if fate.operator and fate.operator.keeps == OWN_WORDS and fate.why and fate.what in (KEPT, PASSED, TURNED_AWAY)
    ]
    of_batch = [fate for fate in said if fate.batch is batch]
    if not of_batch:
        return
    fate = next((fate for fate in of_batch if fate.what == PASSED), of_batch[0])
    assert fate.operator is not None
    others = [one.why for one in said if one.operator and one.operator.operator_id == fate.operator.operator_id]
    words = sorted({fate.why, *[why for why in dict.fromkeys(others) if why != fate.why][: MOST_WORDS - 1]})
    if len(words) > 1:
        asks = f"What will {fate.operator.operator} do with the row {row_words(fate.row)}?"
        yield asks, dict.fromkeys(words, "the operator says this of other rows"), words.index(fate.why), told(found, fate).fate


def _distance(fate: Fate) -> tuple[float, int]:
    """How far a row is from the watermark; of rows about which no watermark decides, the newest is the nearest."""
    bound = fate.operator.drops_ms if fate.operator and fate.operator.keeps != "keys" else None
    is_compared = bound and fate.time_ms is not None
    return abs((fate.time_ms or 0) - (bound or 0)) if is_compared else float("inf"), -fate.number


def _window(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    if batch is None:
        return
    bounds = {
        number: bound for number, operator in batch.operators.items()
        if operator.emits == "leaving" and operator.keeps == "groups" and (bound := operator.leaves(0))
    }
    held = [
        holding for holding in found.holdings
        if holding.operator_id in bounds and holding.until_ms is not None and holding.opened <= batch.number
        and (holding.evicted is None or holding.evicted >= batch.number)
        and (holding.lost is None or holding.lost > batch.number)
    ]
    if not held:
        return
    holding = min(held, key=lambda h: abs((h.until_ms or 0) - bounds[h.operator_id]))  # (2)
    now, until = two_clocks(bounds[holding.operator_id], holding.until_ms)
    leaves_now = holding.evicted == batch.number
    why = f"the watermark of this batch, {now}, has " + (
        f"reached its end, {until}: it leaves the state and is emitted" if leaves_now
        else f"not reached its end, {until}: it stays in the state, and more rows may come"
    )
    asks = f"Which batch will emit {row_words(holding.key)}?"
    choices = {
        f"This one, batch {batch.batch_id}": f"the watermark would have to have reached {until}",
        "A later one": f"the watermark would have to be before {until} still",
    }
    yield asks, choices, 0 if leaves_now else 1, why


def _emitted(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    """How many rows an aggregation emits that is the only operator and waits for no watermark: changed keys, or all keys."""
    if batch is None or len(batch.operators) != 1:
        return
    (operator,) = batch.operators.values()
    emitted = batch.progress.get("sink", {}).get("numOutputRows")
    if emitted is None or operator.keeps not in AGGREGATES or operator.emits not in _EMITTED:
        return
    read, changed = batch.progress.get("numInputRows"), operator.metrics.get("numRowsUpdated")
    kept = operator.metrics.get("numRowsTotal")
    told = {"rows the batch has read": read, "keys it has changed": changed, "keys the state has after it": kept}
    counts = sorted({count for count in (*told.values(), emitted) if count is not None})
    if len(counts) > 1:
        asks = f"Output mode {operator.mode}: of this batch, how many rows does the sink get?"
        of = {n: " and ".join(what for what, count in told.items() if count == n) for n in counts}
        why = _EMITTED["row by row" if batch.is_real_time else operator.emits]
        yield asks, {str(n): f"that is the number of {of[n]}" for n in counts}, counts.index(emitted), why


_EMITTED = {
    "row by row": "in real-time mode, the new result of a key is emitted for each row, as it comes",
    "all": "every key that is in the state after the batch is emitted, changed or not",
    "changed": "the keys that this batch has changed are emitted, one row for each",
}


def _killed(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    if batch is None or batch.number > 0:
        return
    now = batch.batch_id
    asks = f"Batch {now} has run. If the query were killed now, before this step, with which batch would a restart begin?"
    why = f"offsets/{now} is there and commits/{now} is not, so nobody knows that the batch has run: it runs once more"
    if batch.is_real_time:
        why = f"offsets/{now} without commits/{now} is deleted, and batch {now} begins anew, perhaps with more rows"
    yield asks, {f"Batch {now}, again": "", f"Batch {now + 1}": f"commits/{now} would have to be there"}, 0, why


def _logged(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    """Of the first batch in real-time mode: what is in the logs when it has written its rows."""
    if batch is None or batch.number or not batch.is_real_time:
        return
    now, done = batch.batch_id, "the batch would have to be done"
    asks = f"The sink has the rows of batch {now}. Before this step, what do the logs have of the batch?"
    before = "in micro-batches, it is written before anything is read"
    choices = {"Nothing": "", f"offsets/{now}": before, f"offsets/{now} and commits/{now}": done}
    yield asks, choices, 0, f"nobody knew how far batch {now} would read, so its offsets are logged now, at its end"


def _watermark(found: Fates, batch: BatchFacts | None, event: Event) -> Iterator[QuestionAsked]:
    before, after = event.inputs.get("watermark"), event.outputs.get("watermark")
    nodes = [one for one in measured(event.outputs) if one.reached_ms]
    if before is None or not after or not nodes:
        return
    reached, newest = [one.reached_ms or 0 for one in nodes], max(one.newest_ms or 0 for one in nodes)
    times = sorted({before, after, min(reached), max(reached), newest})
    if len(times) == 1:
        return
    days = {time_words(ms).split(" ")[0] for ms in times if ms}
    said = clock_words if len(days) == 1 else time_words
    each = "; ".join(
        f"{f'of {plain(one.node)}, ' if len(nodes) > 1 else ''}the newest event time is {said(one.newest_ms)}, "
        f"the delay {delay_words(one.delay_ms)}"
        for one in nodes
    )
    policy = f" The {plain(event.inputs.get('policy'))}imum of all operators counts." if len(nodes) > 1 else ""
    so_far = f"The watermark is {said(before)}" if before else "There is no watermark yet"
    asks = f"In this batch, {each}.{policy} {so_far}. What is the next one?"
    whose = {
        after: "",  # of several operators it may be one that another batch has measured
        max(reached): "that is the greatest of the operators" if len(reached) > 1 else "it never goes back",
        **({min(reached): "that is the least of the operators"} if len(reached) > 1 else {}),
        newest: "that is the newest event time, from which the delay is still to be taken",
        before: "that is the watermark so far, and it moves",
    }
    choices = {said(ms) if ms else "there is none yet": whose[ms] for ms in times}
    yield asks, choices, times.index(after), narrate(event)


ASKED: dict[str, tuple[Callable[[Fates, BatchFacts | None, Event], Iterator[QuestionAsked]], ...]] = {
    "populateStartOffsets": (_restart,),
    "constructNextBatch": (_without_data,),
    "addBatch": (_row, _own_words, _window, _emitted),
    "walCommit": (_logged,),
    "updateWatermark": (_watermark,),
    "commitOffsets": (_killed,),
}
