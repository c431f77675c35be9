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
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "notebooks"))
    accepts = import_module("exercises").EXERCISES[exercise].accepts
    assert [accepts(answer) for answer in right] == [True] * len(right)
    assert [accepts(answer) for answer in wrong] == [False] * len(wrong)
