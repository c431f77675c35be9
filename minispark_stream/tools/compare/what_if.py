"""What if the delay were longer, a window larger, a row arrived earlier, or the query were killed? Change a knob and see.

    def windowed(session, folder, delay="10 minutes", window="5 minutes"):
        rows = session.readStream.schema("time timestamp, word string").csv(folder)
        return rows.withWatermark("time", delay).groupBy(F.window("time", window)).count()

    feed = [["2024-01-01 12:01,a", "2024-01-01 12:07,b"], ["2024-01-01 12:21,c"], ["2024-01-01 12:04,late"]]
    what_if(spark, windowed, feed, delay=["0 minutes", "5 minutes", "20 minutes"])

The query runs on the model whenever a knob is changed (experiment.py). The panel (lens/view/what_if_panel.py) says what has
changed since the run before, and shows the picture of event time and the results (outcome.py): new ones green, changed values
amber, results that are gone red. It is made for small inputs: a trace keeps at most a thousand rows of each source in a
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream.engine.spark_versions import refuse_connect
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.style import CSS, file_beside, table
from minispark_stream.lens.view.what_if_panel import WhatIfPanel
from minispark_stream.lens.view.words import plain
from minispark_stream.tools.compare.experiment import Experiment, Feed
from minispark_stream.tools.compare.mistakes import check_build, check_confs, check_feed, check_knobs, with_an_end
from minispark_stream.tools.compare.outcome import Outcome, OutcomeChanges, Result, changes, first_words, kind
from minispark_stream.tools.compare.runner import Build

OWN_KNOBS = ("output_mode", "crash", "at_once")
WHAT_IF_CSS = CSS + file_beside(__file__, "what_if.css")


def what_if(
    spark: SparkSession, build: Build, feed: Feed, *, confs: Mapping[str, str] | None = None, **knobs: Any
) -> WhatIfPanel:
    """A panel with a control for each knob, which runs the query again on the model when one is changed.

    Args:
        spark: the session.
        build: `build(session, folder, **knobs)` returns the streaming DataFrame that reads the folder; if its second
            parameter is missing or has a default, it is called without the folder.
        feed: the steps of the input, as `side_by_side` takes them. Lists of lines can be moved to other files in the panel.
        confs: SQL confs of the runs; two shuffle partitions unless said otherwise.
        knobs: the arguments of `build` that can be varied: a list of values, or what `ipywidgets.interact` takes. Three names
            are not passed to `build`. `output_mode` is "append" unless it is varied. `crash` is None, or "walCommit" or
            "commitOffsets": the step at which the query is killed, in its newest batch after the middle step of the feed,
            and then started again. `at_once` says whether all files are there when the query starts, which matters with
            `maxFilesPerTrigger`.

    Returns:
        an ipywidgets panel. Runs are kept, so going back to an earlier setting is immediate.

    Raises:
        TypeError: `build` is not a function, a knob is not one of its parameters, or a step of the feed is a text.
        ValueError: no control can be made for a knob, Spark does not know a conf, or timers in processing time make batches
            for ever.
    """
    refuse_connect("what_if", "spark", spark)
    check_build(build)
    check_feed(feed)
    check_confs(spark, confs or {})
    check_knobs(build, knobs, OWN_KNOBS)
    experiment = Experiment(spark, with_an_end(build), confs)

    def run(values: Mapping[str, Any], feed: Feed, tick: Callable[[], None]) -> Outcome:
        own = {name: values[name] for name in OWN_KNOBS if name in values}
        return experiment.run({k: v for k, v in values.items() if k not in own}, feed, tick=tick, **own)

    return WhatIfPanel(knobs, feed, run, draw)


def draw(before: Outcome | None, after: Outcome) -> str:
    """What has changed, in words; the picture of event time; the results."""
    changed = None if before is None else changes(before, after)
    said = first_words(after) if changed is None else changed.sentences()
    words = "".join(f"<li>{escape(one)}</li>" for one in said)
    look = " failed" if after.error is not None else ""
    return (
        f"<style>{WHAT_IF_CSS}</style><div class='ms what-if'><ul class='said{look}'>{words}</ul>"
        f"<div class='picture'>{_picture(after.trace)}</div>{_results(after, changed)}</div>"
    )


def _picture(trace: Trace) -> str:
    try:
        return trace.event_time().svg
    except ValueError:  # no event times
        return trace.timeline().svg


def _results(after: Outcome, changed: OutcomeChanges | None) -> str:
    pairs = [(result, result) for result in after.results] if changed is None else changed.pairs
    if not pairs:
        return "<p class='note'>no results</p>"
    columns = after.columns or (changed.before.columns if changed else ())
    return table(("batch", *map(escape, columns)), [_line(columns, *pair) for pair in pairs])


def _line(columns: tuple[str, ...], before: Result | None, after: Result | None) -> tuple[str, list[str]]:
    look = {"new": "add", "gone": "remove", "same": ""}.get(kind(before, after), "change")
    values = [(None if r is None else [str(r.batch_id), *(plain(r.row.get(c)) for c in columns)]) for r in (before, after)]
    was, now = values[0] or values[1] or [], values[1] or values[0] or []
    cells = [escape(b) if a == b else f"<s>{escape(a)}</s> → <b>{escape(b)}</b>" for a, b in zip(was, now)]
    return f" class='{look}'", cells
