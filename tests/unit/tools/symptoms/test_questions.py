"""How often an entry that is found for a question or a message, as people ask and paste them, is the right one.

questions.toml has two halves. With one, the entries and the scores were improved; the other was kept apart and says how well unseen
ones fare. The bounds are what was measured, so that a change that finds less, or finds the wrong, is seen.
"""

from __future__ import annotations

import tomllib

import pytest

from minispark_stream.tools.symptoms import look_up, symptoms
from tests.import_graph import ROOT

ASKED = tomllib.loads((ROOT / "tests/unit/tools/symptoms/questions.toml").read_text(encoding="utf-8"))["asked"]


@pytest.mark.parametrize(("held", "right", "wrong"), [(False, 111, 0), (True, 84, 3)])
def test_most_are_answered_rightly_and_few_wrongly(held: bool, right: int, wrong: int) -> None:
    half = [one for one in ASKED if one["held"] == held]
    answers = [(one, look_up(one["text"])) for one in half if "entries" in one]
    fits = [found.found and found.symptoms[0].title in one["entries"] for one, found in answers]
    assert sum(fits) >= right
    assert sum(found.found and not fit for fit, (_, found) in zip(fits, answers, strict=True)) <= wrong


@pytest.mark.parametrize(("held", "wrong"), [(False, 0), (True, 1)])
def test_what_is_not_about_streaming_has_no_entry(held: bool, wrong: int) -> None:
    others = [one["text"] for one in ASKED if one["held"] == held and "entries" not in one]
    assert sum(look_up(text).found for text in others) <= wrong


def test_the_entries_exist() -> None:
    titles = {one.title for one in symptoms()}
    assert {title for one in ASKED for title in one.get("entries", ())} <= titles
    assert len(ASKED) >= 260


def test_a_question_about_another_engine_is_not_answered_unless_it_names_spark() -> None:
    question = "the watermark does not advance when no new data arrives"
    assert look_up(question).found
    assert look_up(f"coming from Flink: in Spark {question}").found
    assert not look_up(f"Flink streaming job: {question}").found
