"""Values against the shapes that are declared for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import pytest

from minispark_stream.lens.trace.shapes import fits, fitting


class Part(TypedDict, total=False):
    name: str
    sizes: Mapping[str, int]
    offset: Any
    rows: int | None


class Whole(TypedDict, total=False):
    parts: Sequence[Part]


@pytest.mark.parametrize("value, left", [
    ({"name": "a", "sizes": {"x": 1}, "rows": None, "offset": None}, {"name": "a", "sizes": {"x": 1}, "rows": None, "offset": None}),
    ({"name": 7, "sizes": {"x": 1, "y": "2", "z": True, "n": 2**63}, "rows": "many"}, {"sizes": {"x": 1}}),
    ({"name": None, "sizes": [1], "not declared": {"kept": [None]}}, {"not declared": {"kept": [None]}}),
    ("a", None),
], ids=["all", "some", "another kind", "no mapping"])
def test_what_does_not_fit_is_left_out(value: Any, left: Any) -> None:
    assert fitting(value, Part) == left
    assert fits(value, Part) == (value == left)
    assert fitting({"parts": [value, 7]}, Whole) == {"parts": [] if left is None else [left]}
    assert fitting({"parts": value}, Whole) == {}
