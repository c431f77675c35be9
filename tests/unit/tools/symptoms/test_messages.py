"""Messages as Spark and its connectors print them, and questions as people ask them, lead to the right entry or to none.

messages.toml has each with its entry. Many were filled in from the message templates of Spark 3.5 to 4.3, of its Kafka connector and of
Delta; the others are from public questions and issues.
"""

from __future__ import annotations

import time
import tomllib

import pytest

from minispark_stream.tools.symptoms import Symptom, look_up, symptoms, why
from minispark_stream.tools.symptoms.matching import GAP, SymptomIndex
from tests.import_graph import ROOT

INDEX = SymptomIndex(symptoms())
MESSAGES = tomllib.loads((ROOT / "tests/unit/tools/symptoms/messages.toml").read_text(encoding="utf-8"))["message"]


def test_there_are_messages_of_all_kinds() -> None:
    entries = {one.get("entry") for one in MESSAGES}
    assert len(MESSAGES) >= 150
    assert None in entries
    assert len(entries) > 100


@pytest.mark.parametrize("one", MESSAGES, ids=lambda one: one["message"][:60])
def test_a_message_leads_to_its_entry_or_to_none(one: dict[str, str]) -> None:
    found = look_up(one["message"])
    assert found.found == ("entry" in one), found
    if "entry" in one:
        assert found.symptoms[0].title == one["entry"], found


def test_the_innermost_known_cause_wins() -> None:
    found = look_up(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the "
        "user provided function in foreach batch sink. Reason: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 39000\n"
        "Caused by: java.lang.RuntimeException: something that nobody knows\n\tat org.example.Main.main(Main.java:3)"
    )
    assert [one.title for one in found.symptoms] == ["A division by zero ends the query"]


def test_a_wrapper_around_an_unknown_cause_is_no_answer() -> None:
    assert not look_up("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Frobnicator overrun").found


def test_an_error_says_more_than_a_warning_below_it() -> None:
    found = look_up("ERROR X: batch 3 doesn't exist\nWARN ProcessingTimeExecutor: Current batch is falling behind.")
    assert found.symptoms[0].title == "An entry of a log is missing: batch N doesn't exist"


def test_a_condition_with_several_causes_leads_to_each_unless_the_message_says_which() -> None:
    assert len(look_up("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION").symptoms) == 3
    whole = "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: complete. This output mode is not supported for no "
    assert [one.title for one in look_up(f"{whole}streaming aggregations").symptoms] == ["Complete mode without an aggregation"]


def test_what_no_entry_fits_is_answered_so_with_the_nearest() -> None:
    answer = why("the frobnicator has overrun the watermark of the flux capacitor")
    assert answer.startswith("No entry fits. The nearest are:\n  ")
    assert why("xyzzy").startswith("No entry fits.")


def test_an_answer_takes_a_fraction_of_a_second_even_the_first_one_and_for_a_long_log() -> None:
    begin = time.process_time()
    SymptomIndex(symptoms()).look_up("something that no entry has\n" * 10_000)
    assert time.process_time() - begin < 1.5


def test_a_message_that_ends_within_a_template_is_known_by_seven_words_in_a_row() -> None:
    found = look_up("AnalysisException: LeftOuter join between two streaming DataFrame/Datasets is not supported without a watermark in the join keys")
    assert found.found and found.symptoms[0].title == "An outer join of two streams without watermarks"
    assert not look_up("[FOO_BAR] outer join between two streaming DataFrame/Datasets is not supported without a watermark in").found


@pytest.mark.parametrize("symptom", symptoms(), ids=lambda one: one.title)
def test_each_template_is_found_when_its_gaps_are_filled(symptom: Symptom) -> None:
    for template in symptom.says:
        filled = GAP.sub("foo", template)
        assert symptom in INDEX.said_in(filled), filled


def test_a_few_common_words_of_a_template_are_not_the_template() -> None:
    """As of "Error reading delta file <file> of <class>: <file> does not exist"."""
    assert not look_up("sometimes a delta log references parquet files that do not exist in the filesystem").found
