"""The checks of the course: what is right is accepted in each form in which it comes."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("exercise", "right", "wrong"),
    [
        ("00-2", [8, np.int64(8)], [np.int64(7), "8", True]),
        ("07-1", [{"complete"}, ["complete"], ("complete",)], ["complete", {"append"}]),
        ("04-2", [(False, False), [np.False_, False]], [(True, False), False, np.True_]),
        ("15-1", [(5, 10), [5, 10], (np.int64(5), np.int64(10))], [(10, 5), 5, {5, 10}]),
        ("17-1", [[3, 4], (3, 4)], [[3], [4, 3]]),
    ],
)
def test_a_number_out_of_a_data_frame_and_a_list_for_a_pair_are_accepted(exercise, right, wrong, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "notebooks"))
    judged = import_module("exercises").judged
    assert all(judged(exercise, answer).startswith(f"{exercise}: right. ") for answer in right)
    assert all(judged(exercise, answer).startswith(f"{exercise}: no. ") for answer in wrong)


def test_of_a_wrong_answer_it_is_said_what_is_wrong(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "notebooks"))
    exercises = import_module("exercises")
    divided = {"04-4": "For 0, None it raises", "08-4": "Your function raises"}
    told = [
        ("00-2", "8", "The answer is a number, and this is a text."),
        ("00-2", 8.0, "The answer is a number, and this is a number with a fraction."),
        ("00-1", "or not", "The answer is a set, and this is a text."),
        ("00-2", 7, "Try it out, and look again."),
        ("04-4", 3, "The answer is a function, and this is a number."),
        ("04-4", lambda offsets, commits: commits == 0, "For 3, 3 it gives False."),
        *((name, lambda *_: 1 / 0, f"{words} ZeroDivisionError: division by zero.") for name, words in divided.items()),
    ]
    for name, answer, words in told:
        assert exercises.judged(name, answer) == f'{name}: no. {words} hint("{name}") helps.'
    assert exercises.judged("04-4", lambda *_: None).startswith("04-4: no answer yet.")
    for unknown, words in (("6-1", 'is it "06-1"'), (6, "they are called"), ("why", "they are called")):
        with pytest.raises(LookupError, match=words):
            exercises.judged(unknown, 1)
