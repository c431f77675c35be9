"""Lines through measured points."""

from __future__ import annotations

import re

import pytest

from minispark_stream.lens.view import curves

LINES = {"spark": [(1.0, 2.0), (10.0, 20.0)], "model": [(1.0, 3.0), (10.0, 30.0)]}


def test_a_chart_for_each_title_and_one_colour_for_each_name() -> None:
    drawn = curves.picture({"rows per second": LINES, "ms": {"model": LINES["model"]}}, x="rows in a batch", log=True).svg
    assert drawn.count(">rows in a batch<") == 2 and drawn.count(">model<") == 1 and drawn.count(">spark<") == 1
    used = {colour: len(re.findall(f'stroke: {colour}; stroke-width: 1.6', drawn)) for colour in curves.COLOURS}
    assert list(used.values()) == [2, 3, 0, 0]  # each line, and its sample in the legend, which the charts share


def test_steps_stay_until_the_next_point_and_a_level_is_marked() -> None:
    straight, stairs = (curves.picture({"t": {"a": [(0.0, 1.0), (2.0, 5.0)]}}, x="s", steps=steps, level=("most", 3)).svg for steps in (False, True))
    lengths = [len(re.findall("[ML] ", re.findall(r'd="([^"]*)" clip-path="[^"]*" style="fill: none; stroke: #4a7fb5', svg)[0]))
               for svg in (straight, stairs)]
    assert lengths == [2, 3] and straight.count("stroke: #c62828") == 2 and ">most<" in straight


def test_lines_that_lie_on_each_other_take_turns_and_are_named() -> None:
    lines = {"a": [(0.0, 100.0), (5.0, 101.0)], "b": [(0.0, 101.0), (5.0, 100.0)], "c": [(0.0, 100.0), (5.0, 900.0)]}
    drawn = curves.picture({"bytes": lines}, x="s").svg
    assert "a, b: the same line" in drawn
    turns = re.findall(r"stroke-dasharray: ([\d. ,]+); stroke-dashoffset: ([\d.-]+); stroke: (#\w+)", drawn)
    assert len({(offset, colour) for _, offset, colour in turns}) == 2
    assert "the same line" not in curves.picture({"bytes": {name: lines[name] for name in "ac"}}, x="s").svg


def test_nothing_to_draw() -> None:
    empty: list[dict[str, dict[str, curves.Points]]] = [{}, {"t": {}}, {"t": {"a": []}}]
    for nothing in empty:
        with pytest.raises(ValueError, match="at least one point"):
            curves.picture(nothing, x="s")
