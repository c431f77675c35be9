"""What the stepper can ask before a step, from recorded events alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.fates import fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.questions import Question, questions
from tests.unit.golden_trace import TRACE
from tests.unit.lens.trace.test_fates import MINUTE, row, trace, windowed


def answers(one: Trace, step: str) -> list[tuple[int | None, str, str]]:
    """(batch, right choice, why) of all questions before a step."""
    return [(q.before[0], q.choices[q.right], q.why) for q in questions(one, fates(one)) if q.before[2] == step]


def test_of_the_rows_of_a_batch_the_one_nearest_to_the_watermark_is_asked_for() -> None:
    rows = [q for q in questions(TRACE, fates(TRACE)) if "count?" in q.asks]
    assert [(q.asks, q.choices[q.right]) for q in rows] == [
        ("Will the row time=2024-01-01 12:04:00 word=f count?", "Yes, it counts"),
        ("Will the row time=2024-01-01 12:04:00 word=g count?", "Yes, it counts"),  # batch 3, that ran again
        ("Will the row time=2024-01-01 12:05:00 word=i count?", "No, it is late"),
    ]
    assert rows[1].why == (
        "its window ends 12:05:00, after the late watermark, 12:04:00. The row itself, 12:04:00, is behind the eviction watermark, "
        "12:11:00, which does not matter"
    )
    (story,) = TRACE.fate({"word": "i"}).rows
    assert rows[2].why == story.stations[-1][1]  # the fate's own sentence


def test_a_window_is_emitted_by_the_batch_whose_watermark_has_reached_its_end() -> None:
    windows = [(q.asks, q.choices[q.right]) for q in questions(TRACE, fates(TRACE)) if q.asks.startswith("Which batch will emit")]
    assert windows == [
        ("Which batch will emit window=[2024-01-01 12:00, 12:05)?", "A later one"),
        ("Which batch will emit window=[2024-01-01 12:00, 12:05)?", "A later one"),
        ("Which batch will emit window=[2024-01-01 12:05, 12:10)?", "This one, batch 3"),
        ("Which batch will emit window=[2024-01-01 12:10, 12:15)?", "This one, batch 4"),
        ("Which batch will emit window=[2024-01-01 12:20, 12:25)?", "This one, batch 5"),
    ]


def test_the_next_watermark_is_asked_for_with_the_numbers_that_it_is_made_of() -> None:
    found = [q for q in questions(TRACE, fates(TRACE)) if q.before[2] == "updateWatermark"]
    assert [q.before[0] for q in found] == [0, 1, 2, 3, 4]  # batch 5 has no rows: there is nothing to work out
    assert found[2].asks == (
        "In this batch, the newest event time is 12:21:00, the delay 10 min. The watermark is 12:04:00. What is the next one?"
    )
    assert (found[2].choices, found[2].right) == (("12:04:00", "12:11:00", "12:21:00"), 1)
    assert found[2].why.startswith("12:21:00 - 10 min = 12:11:00; the watermark goes")


def of_two_watermarks(right: int) -> Question:
    """The watermark goes from 12:00 to 12:04; the newest event time is 12:09 on the left, `right` minutes past noon on the right."""
    noon = 1_704_110_400_000
    newest = (("left", 9), ("right", right))
    operators = [{"node": name, "delayMs": MINUTE, "max": noon + n * MINUTE, "count": 1} for name, n in newest]
    event = Event("updateWatermark", "model", 0, 0, 1, 0, 1, {"policy": "min", "watermark": noon},
                  {"watermark": noon + 4 * MINUTE, "operators": operators})
    (question,) = questions(one := Trace((event,)), fates(one))
    return question


def test_of_two_watermarks_the_policy_is_said() -> None:
    question = of_two_watermarks(right=5)
    assert "of left, the newest event time is 12:09:00" in question.asks and "The minimum of all operators counts." in question.asks
    assert (question.choices, question.right) == (("12:00:00", "12:04:00", "12:08:00", "12:09:00"), 1)


def test_the_next_watermark_may_be_one_that_an_earlier_batch_has_measured() -> None:
    question = of_two_watermarks(right=2)
    assert question.choices[question.right] == "12:04:00"


def test_a_restart_asks_which_batch_runs_first() -> None:
    assert answers(TRACE, "populateStartOffsets") == [
        (3, "Batch 3, again",
         "the offset log ends at batch 3, the commit log at 2: batch 3 was planned but not finished, run it again with the "
         "offsets in the log"),
    ]


def test_whether_a_batch_would_run_without_data_depends_on_the_watermark() -> None:
    assert [(batch, right) for batch, right, _ in answers(TRACE, "constructNextBatch")] == [
        (1, "Yes, one without data"), (2, "Yes, one without data"), (4, "Yes, one without data"),
    ]
    still = trace("stateStoreSave", ([windowed(2)], 0, 1), ([windowed(3)], 1, 1))
    decided = Event("constructNextBatch", "model", 1, 1, 1, 0, 1, {},
                    {"newData": True, "anotherBatch": False, "watermark": 1_704_110_400_000 + MINUTE})
    at = next(i for i, event in enumerate(still.events) if event.trigger == 1)
    (found,) = answers(Trace((*still.events[:at], decided, *still.events[at:])), "constructNextBatch")
    assert found[1:] == ("No, the query would wait", "the watermark is still 2024-01-01 12:01:00")


def test_a_duplicate_is_asked_for_and_a_limit() -> None:
    one = {"k": 1}
    seen = trace("dedupeWithinWatermark", ([row(2, one, 2)], 0, 0), ([row(4, one, 4)], 0, 1), lasts_ms=10 * MINUTE)
    assert [(right, why) for _, right, why in answers(seen, "addBatch")] == [
        ("Yes, it counts", "it is the first row with its key"),
        ("No, it is a duplicate", "dropped as a duplicate: a row of batch 0 had the same key, which stays in the state until the eviction watermark reaches 12:12:00"),
    ]
    limited = trace("globalLimit", ([row(1, {}), row(2, {})], 0, 0), ([row(3, {})], 0, 0), limit=2)
    assert [right for _, right, _ in answers(limited, "addBatch")] == ["Yes, it counts", "No, the limit is reached"]


def test_of_what_the_tasks_did_not_tell_nothing_is_asked() -> None:
    one = trace("stateStoreSave", ([windowed(2)], 0, 1), ([windowed(8)], 1, 2), ([windowed(9)], 2, 30))
    silent = Trace(tuple(replace(e, outputs={"metrics": {}}) if (e.step, e.batch_id) == ("stateOperator", 1) else e for e in one.events))
    for asks, told, not_told in (("count?", [1, 2], [2]), ("Which batch will emit", [0, 1, 2], [0, 2])):
        assert [[q.before[0] for q in questions(t, fates(t)) if asks in q.asks] for t in (one, silent)] == [told, not_told]


def test_once_it_is_asked_what_a_batch_without_a_commit_means() -> None:
    assert answers(TRACE, "commitOffsets") == [
        (0, "Batch 0, again", "offsets/0 is there and commits/0 is not, so nobody knows that the batch has run: it runs once more"),
    ]


def test_how_many_rows_are_emitted_depends_on_the_output_mode() -> None:
    for mode, right in (("update", "2"), ("complete", "5"), ("append", None)):
        one = trace("stateStoreSave", ([windowed(2), windowed(3), windowed(7)], 0, 0), mode=mode)
        counted: dict[str, Any] = {
            "stateOperator": {"metrics": {"numRowsTotal": 5, "numRowsUpdated": 2}},
            "finishTrigger": {"progress": {"batchId": 0, "numInputRows": 3, "sink": {"numOutputRows": int(right or 0)}}},
        }
        one = Trace(tuple(replace(e, outputs=counted.get(e.step, e.outputs)) for e in one.events))
        asked = [(q.asks, q.choices, q.choices[q.right]) for q in questions(one, fates(one)) if "sink" in q.asks]
        words = f"Output mode {mode}: of this batch, how many rows does the sink get?"
        assert asked == ([(words, ("2", "3", "5"), right)] if right else [])


def test_each_wrong_choice_has_a_reason_of_its_own() -> None:
    one = {"k": 1}
    seen = trace("dedupeWithinWatermark", ([row(2, one, 2)], 0, 0), ([row(4, one, 4)], 0, 1), lasts_ms=10 * MINUTE)
    asked = [q for recorded in (TRACE, seen) for q in questions(recorded, fates(recorded))]
    for question in asked:
        others = [reason for number, reason in enumerate(question.wrong) if number != question.right]
        assert question.wrong[question.right] == "" and all(others) and len(set(others)) == len(question.choices) - 1
        assert question.why not in others
    found = {(q.before[:3], q.choices[q.right]): q.wrong for q in asked}
    assert found[(2, 0, "updateWatermark"), "12:11:00"] == (
        "that is the watermark so far, and it moves", "", "that is the newest event time, from which the delay is still to be taken",
    )
    assert found[(3, 1, "populateStartOffsets"), "Batch 3, again"][1].startswith("commits/3 is not there")


def test_nothing_is_asked_where_nothing_is_known() -> None:
    assert questions(Trace(()), fates(Trace(()))) == ()
    gone = ("addBatch", "updateWatermark", "populateStartOffsets", "commitOffsets")
    steps = Trace(tuple(e for e in TRACE.events if e.step not in gone))
    assert {q.before[2] for q in questions(steps, fates(steps))} == {"constructNextBatch"}
    assert all(isinstance(q, Question) and 0 <= q.right < len(q.choices) for q in questions(TRACE, fates(TRACE)))
