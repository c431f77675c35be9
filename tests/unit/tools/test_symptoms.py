"""A message leads to its entry, and the entries are whole."""

from __future__ import annotations

import pytest

from minispark_stream.tools.cli import main
from minispark_stream.tools.symptoms import find, symptoms, why

MESSAGES = {
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [DIVIDE_BY_ZERO] Division by zero.": ["A division by zero ends the query"],
    "Sorting is not supported on streaming DataFrames/Datasets, unless it is on aggregated DataFrame/Dataset": ["Sorting a stream"],
    "MALFORMED_LOG_FILE": ["A log file of a checkpoint is damaged"],
}


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_leads_to_its_entry(message: str) -> None:
    assert [one.title for one in find(message)] == MESSAGES[message]


def test_a_condition_with_several_causes_leads_to_each() -> None:
    assert len(find("[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: complete.")) == 3


def test_words_lead_to_the_entries_that_are_most_like_them() -> None:
    assert find("my windows: nothing comes out")[0].title == "Nothing comes out in append mode"


def test_words_that_nothing_has_are_answered_so() -> None:
    assert why("xyzzy").startswith("No entry has these words.")


def test_titles_are_unique_and_an_entry_has_one_sign() -> None:
    titles = [one.title for one in symptoms()]
    assert len(set(titles)) == len(titles)
    assert not [one.title for one in symptoms() if one.raises and one.says]


def test_the_command_prints_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "[EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE] The event time `k` has the invalid type"]) == 0
    assert "Cast before: F.to_timestamp" in capsys.readouterr().out


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(tmp_path)]) == 1
    assert "is not the checkpoint of a streaming query" in capsys.readouterr().err
