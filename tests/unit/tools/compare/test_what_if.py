"""What is different between two runs, as data, in sentences and as a table; and the panel, turned from Python."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import pytest

from minispark_stream.lens.trace.facts import batch_facts
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.what_if_panel import WhatIfPanel, moved
from minispark_stream.tools.compare.experiment import KILLED, Experiment, killed
from minispark_stream.tools.compare.outcome import Outcome, changes, first_words, outcome
from minispark_stream.tools.compare.spark_batch import SparkBatch
from minispark_stream.tools.compare.spark_trace import spark_trace
from minispark_stream.tools.compare.what_if import draw
from tests.unit.lens.trace.test_fates import said, trace, windowed
from tests.unit.tools.compare.test_trace_of import NEXT_RUN, RERUN, report


def counts(*rows: tuple[int, int]) -> list[dict[str, Any]]:
    """Rows (minute of the window, count)."""
    return [{"window": {"start": said(minute), "end": said(minute + 5)}, "count": count} for minute, count in rows]


def ran(delay: int, *batches: Sequence[tuple[int, int]], mode: str = "append") -> Outcome:
    """A count over windows of five minutes. With a delay of 5 minutes the last two of the four batches find 12:04 too late."""
    rows = [[windowed(2), windowed(7)], [windowed(21)], [windowed(4), windowed(8)], [windowed(4), windowed(26)]]
    marks = [(0, 0), (0, 7 - delay), (max(7 - delay, 0), 21 - delay), (21 - delay, 21 - delay)]
    recorded = trace("stateStoreSave", *((r, *m) for r, m in zip(rows, marks)), mode=mode)
    return outcome(mode, ("window", "count"), {n: counts(*one) for n, one in enumerate(batches)}, recorded)


TIGHT = ran(0, [], [(0, 1)], [(5, 2)], [])
LOOSE = ran(20, [], [], [], [(0, 3)])


def test_the_first_run_is_told_by_itself() -> None:
    assert first_words(TIGHT) == ["7 rows came, 5 were counted.", "Too late: 12:04 and 12:04.", "2 results from 4 batches."]


def test_what_changed_is_said_in_numbers() -> None:
    found = changes(TIGHT, LOOSE)
    assert found.counted == (5, 7) and found.late_no_more == ("12:04", "12:04")
    assert {what: found.count(what) for what in ("other", "new", "gone", "same")} == {"other": 1, "new": 0, "gone": 1, "same": 0}
    assert found.sentences() == [
        "2 rows more counted: 7 instead of 5.",
        "12:04 and 12:04 are no longer too late.",
        "Results: 1 with another value, 1 gone.",
        "The watermark ends at 12:01 instead of 12:21.",
    ]
    back = changes(LOOSE, TIGHT).sentences()
    assert back[:3] == ["2 rows fewer counted: 5 instead of 7.", "12:04 and 12:04 are too late now.", "Results: 1 with another value, 1 new."]


def test_nothing_and_almost_nothing() -> None:
    assert changes(TIGHT, ran(0, [], [(0, 1)], [(5, 2)], [])).sentences() == ["Nothing changed: the same rows, the same results."]
    later = changes(TIGHT, ran(0, [], [], [(0, 1)], [(5, 2)]))
    assert later.sentences() == ["Results: 2 in a later batch."]


def test_results_by_output_mode() -> None:
    batches = [(0, 1), (5, 1)], [(0, 2)], [(0, 3)]
    assert [(r.batch_id, r.row["count"]) for r in ran(0, *batches).results] == [(0, 1), (0, 1), (1, 2), (2, 3)]
    assert [(r.batch_id, r.row["count"]) for r in ran(0, *batches, mode="update").results] == [(2, 3), (0, 1)]
    assert [(r.batch_id, r.row["count"]) for r in ran(0, *batches, mode="complete").results] == [(2, 3)]


def test_results_that_no_key_tells_apart_are_compared_whole() -> None:
    twice = ran(0, [], [(0, 1)], [(0, 2)])
    found = changes(twice, ran(0, [], [(0, 1)], [(0, 4)]))
    assert [found.count(what) for what in ("same", "new", "gone", "other")] == [1, 1, 1, 0]


def test_a_table_marks_what_changed() -> None:
    html = draw(TIGHT, LOOSE)
    assert "<li>2 rows more counted: 7 instead of 5.</li>" in html and "<svg" in html
    assert "<tr class='change'>" in html and "<s>1</s> → <b>3</b>" in html and "<tr class='remove'>" in html
    assert "class=''" in draw(None, TIGHT) and "→" not in draw(None, TIGHT)
    failed = Outcome(("a",), (), (), Trace(()), "<boom>")
    assert "The query fails: &lt;boom&gt;" in draw(TIGHT, failed)


def test_a_batch_that_was_killed_is_not_counted_twice() -> None:
    """Batch 1 ended well, and ran again all the same: its commit was taken back."""
    reports = [report(0), report(1), report(1, RERUN, NEXT_RUN), report(2, run=NEXT_RUN)]
    whole = spark_trace([SparkBatch(one, {}) for one in reports])
    for crash, last in (("walCommit", "walCommit"), ("commitOffsets", "updateWatermark")):
        cut = killed(whole, crash)
        first_try = cut.batches[1]
        assert [(batch.batch_id, batch.error) for batch in cut.batches] == [(0, None), (1, KILLED), (1, None), (2, None)]
        assert [e.step for e in first_try.events if e.error is None][-1] == last
        assert [facts.batch_id for facts in batch_facts(cut)] == [0, 1, 2]


def test_a_crash_is_at_a_step_that_is_known() -> None:
    spark: Any = None
    with pytest.raises(ValueError, match="crash must be None or one of walCommit, commitOffsets, not 'addBatch'"):
        Experiment(spark, lambda session, folder: session).run({}, [["a"]], crash="addBatch")


# -- the panel ------------------------------------------------------------------------------------------------------


def panel(run: Callable[..., Any], feed: Any = (["a", "b"], ["c"]), **knobs: Any) -> WhatIfPanel:
    made = WhatIfPanel(knobs, feed, run, lambda before, after: f"{before} -> {after}")
    made.wait(60)
    return made


def test_turning_a_knob_runs_again_and_compares_with_what_was_shown_before() -> None:
    made = panel(lambda values, feed, tick: f"{values['delay']} {values['slide']} {values['n']}", delay=["5 minutes", "1 hour"], slide=[None, "1 minute"], n=(0, 9))
    assert made.html == "None -> 5 minutes None 4"
    assert [type(knob).__name__ for knob in made.knobs.values()] == ["ToggleButtons", "ToggleButtons", "IntSlider"]
    made.knobs["delay"].value = "1 hour"
    made.knobs["slide"].value = "1 minute"
    made.wait(60)
    assert made.html.endswith("-> 1 hour 1 minute 4") and made.values == {"delay": "1 hour", "slide": "1 minute", "n": 4}
    made.close()
    assert made.comm is None


def test_a_saved_notebook_has_what_the_panel_came_to() -> None:
    made = WhatIfPanel({"delay": ["5 minutes", "<1 hour>"]}, [["a"]], lambda values, *_: values["delay"], lambda *runs: escape(str(runs)))
    bundle = made._repr_mimebundle_()  # a cell that ends with the panel waits for its first run
    assert "<b>delay: 5 minutes</b>" in bundle["text/html"] and "(None, &#x27;5 minutes&#x27;)" in bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    made.knobs["delay"].value = "<1 hour>"
    later = made._repr_mimebundle_()["text/html"]
    assert "<b>delay: &lt;1 hour&gt;</b>" in later and "(&#x27;5 minutes&#x27;, &#x27;&lt;1 hour&gt;&#x27;)" in later
    made.close()
    assert made._repr_html_() == later


def test_the_order_of_arrival_is_a_knob() -> None:
    made = panel(lambda values, feed, tick: str(feed))
    made._lines.value = (0, 1)
    made.move(+1)
    made.wait(60)
    assert made.html.endswith("-> [['a'], ['b', 'c']]") and made._lines.value == (1, 0)
    made.move(+1)
    assert made.feed == [["a"], ["b", "c"]], "there is no later file"
    assert moved([["a"], ["b", "c"]], (1, 1), -1) == ([["a", "c"], ["b"]], (0, 1))
    with_names = panel(lambda values, feed, tick: "", [{"left": ["a"]}])
    assert not hasattr(with_names, "_lines")


def test_a_run_that_is_not_wanted_any_more_stops_at_its_next_step() -> None:
    begun, go_on, ticks = threading.Event(), threading.Event(), []

    def run(values: Any, feed: Any, tick: Callable[[], None]) -> str:
        if values["n"] == 1:
            begun.set()
            assert go_on.wait(60)
        tick()
        ticks.append(values["n"])
        return str(values["n"])

    made = WhatIfPanel({"n": [1, 2, 3]}, [["a"]], run, lambda before, after: f"{before} -> {after}")
    assert begun.wait(60)
    made.knobs["n"].value = "2"
    made.knobs["n"].value = "3"
    go_on.set()
    made.wait(60)
    assert ticks == [3] and made.html == "None -> 3"


def test_a_run_that_fails_says_so_and_the_next_one_goes_on() -> None:
    def run(values: Any, feed: Any, tick: Any) -> str:
        if values["n"] == 2:
            raise ValueError("<no>")
        return "well"

    made = panel(run, n=[1, 2])
    for n, shown in ((2, "ValueError: &lt;no&gt;"), (1, "well -> well")):
        made.knobs["n"].value = str(n)
        made.wait(60)
        assert shown in made.html


def test_a_knob_must_have_values() -> None:
    with pytest.raises(ValueError, match="delay: a knob is a list of values"):
        WhatIfPanel({"delay": object()}, [], lambda *_: None, lambda *_: "")
