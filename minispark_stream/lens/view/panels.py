"""The panels beside the flow diagram, as HTML: one function for each, from a World (world.py) to a fragment.

The logs on disk, the watermarks, the sources, rows in, state before and after, rows out. What the step has just changed is
marked or has the class "new"; state rows have "add", "change" and "remove".

    walCommit of batch 2   -> the panel "logs" gets a row 2 | <mark>logOffset 2</mark> | <mark>12:04:00</mark> | not finished

Whatever comes from the trace is escaped here: rows and plans are data of a user, and a trace may come from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from minispark_stream.lens.steps.batch import EVICTION_MEANS, LATE_MEANS, NO_EVENT_TIME, WITHOUT_WATERMARK
from minispark_stream.lens.trace.measured import Measured
from minispark_stream.lens.trace.values import entry_metadata
from minispark_stream.lens.view.row_panels import NEW, rows_in, rows_out
from minispark_stream.lens.view.state_panel import operator
from minispark_stream.lens.view.style import breakable, say, table
from minispark_stream.lens.view.words import clock_words, delay_words, offset_words, plural, short, short_clock, time_words
from minispark_stream.lens.view.world import LogEntry, SourceView, World


def logs(world: World) -> str:
    """What is in the two logs on disk: a row for each batch, the newest first."""
    offsets = {entry.id: entry for entry in world.offset_log}
    commits = {entry.id: entry for entry in world.commit_log}
    if not offsets and not commits:
        return "<p class='note'>Both logs are empty.</p>"
    first = min(offsets, default=0)
    batches = sorted((batch for batch in offsets.keys() | commits.keys() if batch >= first), reverse=True)
    none = "none" if world.has_watermark is False else "none yet"
    rows = [_log_row(batch, offsets.get(batch), commits.get(batch), none) for batch in batches]
    earlier = f"<p class='note'>and {plural(world.earlier_entries, 'earlier entry')}</p>" if world.earlier_entries else ""
    head = ("batch", "offsets/", "watermark", "commits/")
    return table(head, rows) + earlier


def _log_row(batch: int, offset: LogEntry | None, commit: LogEntry | None, none: str) -> tuple[str, list[str]]:
    planned, done = "not logged", "<i class='whole'>not finished</i>"
    watermark = ""
    if offset is not None:
        lines = (offset.text or "").split("\n")[2:]
        planned = ", ".join(f"<span class='whole'>{escape(offset_words(line))}</span>" for line in lines)
        planned = planned or "logged by an earlier run"
        watermark_ms = entry_metadata(offset.text).get("batchWatermarkMs")
        watermark = (say(clock_words(watermark_ms)) if watermark_ms else none) if offset.text else ""
    if commit is not None:
        next_ms = entry_metadata(commit.text).get("nextBatchWatermarkMs")
        done = "✓"
        if next_ms is not None:
            words = say(clock_words(next_ms)) if next_ms else none
            done = f"<span class='whole' title='done; the watermark of the next batch'>✓ {words}</span>"
    cells = [str(batch), planned, watermark, done]
    if offset is not None and offset.new:
        cells[1:3] = [f"<mark>{cell}</mark>" for cell in cells[1:3] if cell] or cells[1:3]
    if commit is not None and commit.new:
        cells[3] = f"<mark>{cells[3]}</mark>"
    return "", cells


def watermark(world: World) -> str:
    """The watermarks of this batch and of the next one, as points of one time axis."""
    view = world.watermark
    newest = max((one.newest_ms or 0 for one in view.measured), default=0)
    times = {
        "late": (view.late, "Late", f"the late watermark, of the batch before: {LATE_MEANS}"),
        "evict": (view.eviction, "Eviction", f"the eviction watermark, of this batch: {EVICTION_MEANS}"),
        "newest": (newest or None, "Newest row", "the newest event time of this batch"),
        "next": (view.next, "Next", "the next watermark: that of the batch after this one"),
    }
    known = [ms for ms, _, _ in times.values() if ms]
    if not known:
        if world.has_watermark is False:
            return "<p class='note'>The query has no watermark.</p>"
        yet = " yet" if world.has_watermark else ""
        return f"<p class='note'>No watermark{yet}: {WITHOUT_WATERMARK}.</p>"
    low, high = min(known), max(known)
    changes = {"queryPlanning": ("late", "evict"), "updateWatermark": ("newest", "next")} if view.changed else {}
    new = changes.get(world.moment.event.step, ())
    rows = []
    for look, (ms, name, hint) in times.items():
        if ms is not None:
            words, left = clock_words(ms) if ms else "none", 100 * (ms - low) / ((high - low) or 1)
            point = f"<div class='point {look}'><i style='left:{left:.0f}%'></i></div>" if ms else ""
            cells = [name, f"<mark>{words}</mark>" if look in new else words, point]
            rows.append((f" class='nowrap' title='{escape(hint)}'", cells))
    ticks = "".join(f"<span>{short_clock(ms)}</span>" for ms in sorted({low, high}))
    date = escape(time_words(low).partition(" ")[0])
    head = ("", f"<span title='all times are in UTC'>{date}</span>", f"<div class='axis'>{ticks}</div>")
    return table(head, rows) + "".join(f"<p class='note'>{_measured(one)}</p>" for one in view.measured)


def _measured(one: Measured) -> str:
    if one.newest_ms is None:
        says = "no row with an event time in this batch"
    elif one.reached_ms is None:
        says = NO_EVENT_TIME
    else:
        says = f"{clock_words(one.newest_ms)} − {delay_words(one.delay_ms)} = {clock_words(one.reached_ms)}"
    return f"<code>{say(one.node)}</code>: {escape(says)}"


def sources(world: World) -> str:
    """What each source is asked for, and which files its offsets stand for."""
    return "".join(map(_source, world.sources)) or "<p class='note'>No source has been asked yet.</p>"


def _source(source: SourceView) -> str:
    begin, end = escape(offset_words(source.start)), escape(offset_words(source.end))
    reads = f"after {begin} up to {end}" if source.start != source.end else f"nothing after {begin}"
    reads = f"reads <b{NEW if source.changed else ''}>{reads}</b>" if source.asked else "has not been asked yet in this trigger"
    done = f"; done with everything up to {escape(offset_words(source.done))}" if source.done is not None else ""
    rows = [
        (NEW if entry.new else "", [escape(offset_words(entry.end)), escape(short(", ".join(entry.files))) or "–"])
        for entry in source.log
    ]
    log = table(("offset", "its files"), rows) if any(entry.files for entry in source.log) else ""
    return f"<p><code>{breakable(short(source.name))}</code> {reads}{done}</p>{log}"


def state(world: World) -> str:
    """The rows of state before and after this batch, operator by operator."""
    return "".join(map(operator, world.operators)) or "<p class='note'>No stateful operator so far.</p>"


@dataclass(frozen=True)
class Panel:
    """A panel of the board. `looks_at` is all that it shows of a world: if that has not changed, neither has the panel."""

    heading: str
    render: Callable[[World], str]
    looks_at: Callable[[World], tuple[Any, ...]]


PANELS: Mapping[str, Panel] = {
    "logs": Panel("Offset and commit log", logs, lambda w: (w.offset_log, w.commit_log, w.earlier_entries)),
    "watermark": Panel("Watermark", watermark, lambda w: (w.watermark, w.watermark.changed and w.moment.event.step)),
    "sources": Panel("Sources", sources, lambda w: (w.sources,)),
    "rows-in": Panel("Rows in", rows_in, lambda w: (w.sources, w.is_computed, w.moment.batch_id)),
    "state": Panel("State", state, lambda w: (w.operators,)),
    "rows-out": Panel("Rows out", rows_out, lambda w: (w.rows_out, w.num_rows_out, w.moment.event.step == "addBatch")),
}
