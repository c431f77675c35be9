"""The picture of input, result table and output."""

from __future__ import annotations

import re

from minispark_stream.lens.view.result_tables import result_tables
from minispark_stream.lens.view.sheet import HELD, NEW, OUT


def boxes(svg: str) -> list[str]:
    """The colours of the boxes below the legend, in the order in which they are drawn."""
    return re.findall(r"fill: (#\w{6})", re.sub(r'<g id="text_\d+">.*?</g>', "", svg, flags=re.S))


def test_what_is_new_what_is_as_before_and_what_was_sent() -> None:
    tables = {"input": [["a"], ["a", "a"]], "result table": [["a 1"], ["a 2"]]}
    svg = result_tables(tables, {"update": [["a 1"], ["a 2"]], "append": [[], [], ["a 2"]]}).svg
    colours = [c for c in boxes(svg) if c in (NEW.fill, HELD.fill, OUT.fill)]
    legend, drawn = colours[:3], colours[3:]
    assert legend == [NEW.fill, HELD.fill, OUT.fill]
    assert drawn == [
        *[NEW.fill, HELD.fill, NEW.fill, HELD.fill, HELD.fill],  # the second `a` is new; in batch 2 nothing is
        *[NEW.fill, NEW.fill, HELD.fill],  # a row that changed is a new one
        *[OUT.fill] * 3,
    ]
    assert svg.count("nothing") == 2 and svg.count("no such batch") == 1 and "append sends" in svg and "batch 2" in svg and "batch 3" not in svg
    assert svg == result_tables(tables, {"update": [["a 1"], ["a 2"]], "append": [[], [], ["a 2"]]}).svg
