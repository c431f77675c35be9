"""The entries are whole, and each can be found by what it says of itself."""

from __future__ import annotations

import pytest

from minispark_stream.tools.symptoms import Symptom, groups, look_up, symptoms
from tests.import_graph import ROOT


def test_titles_are_unique() -> None:
    titles = [one.title for one in symptoms()] + [group.title for group in groups()]
    assert len(set(titles)) == len(titles)


def test_there_are_entries_for_most_of_what_is_asked() -> None:
    assert len(symptoms()) >= 140


@pytest.mark.parametrize("symptom", symptoms(), ids=lambda one: one.title)
def test_an_entry_is_found_by_its_own_words(symptom: Symptom) -> None:
    for question in symptom.ask:
        found = look_up(question)
        assert found.found and found.symptoms[0] == symptom, (question, found)
    for condition in symptom.conditions:
        assert symptom in look_up(condition).symptoms, condition
    assert symptom.conditions or symptom.says or symptom.ask


@pytest.mark.parametrize("symptom", symptoms(), ids=lambda one: one.title)
def test_an_entry_has_whole_sentences_and_leads_somewhere(symptom: Symptom) -> None:
    for text in (symptom.means, symptom.way_out):
        assert text[0] == text[0].upper() or text[0].isalpha(), text
        assert text.rstrip(")'\"").endswith((".", ":", "}", "()")) or symptom.way_out == text, text
    if symptom.see.isdigit():
        assert list(ROOT.glob(f"notebooks/{symptom.see}_*.ipynb")), symptom.see
    else:
        assert (ROOT / "docs" / f"{symptom.see}.md").exists(), symptom.see
