"""The panels beside the flow diagram, as HTML: one function for each, from a World (world.py) to a fragment.

The logs on disk, the watermarks, the sources, rows in, state before and after, rows out. What the step has just changed is
marked or has the class "new"; state rows have "add", "change" and "remove".

    walCommit of batch 2   -> the panel "logs" gets a row 2 | <mark>logOffset 2</mark> | <mark>12:04:00</mark> | not finished

Whatever comes from the trace is escaped here: rows and plans are data of a user, and a trace may come from a file.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from minispark_stream.trace.values import as_int, as_map, entry_metadata
from minispark_stream.view.style import table
from minispark_stream.view.words import (
    clock_words,
    delay_words,
    number,
    offset_words,
    plain,
    plural,
    short,
    time_words,
)
from minispark_stream.view.world import LogEntry, OperatorView, SourceView, StateRow, World

NEW = ' class="new"'
NO_ROWS = "Not recorded. <code>MiniSparkSession(spark, trace=&quot;rows&quot;)</code> records rows and state."
MARKS = {"+": "add", "~": "change", "-": "remove", "": "same"}


def say(value: Any) -> str:
    """Any value of a trace, for a person and safe to show."""
    return escape(plain(value))


def logs(world: World) -> str:
    """What the two logs on disk hold: a row for each batch."""
    offsets = {entry.id: entry for entry in world.offset_log}
    commits = {entry.id: entry for entry in world.commit_log}
    if not offsets and not commits:
        return "<p class='note'>Both logs are empty.</p>"
    first = min(offsets, default=0)
    rows = [_log_row(i, offsets.get(i), commits.get(i)) for i in sorted(offsets.keys() | commits.keys()) if i >= first]
    earlier = f"<p class='note'>and {plural(world.earlier_entries, 'earlier entry')}</p>" if world.earlier_entries else ""
    head = ("batch", "offsets/", "watermark", "commits/")
    return table(head, rows) + earlier


def _log_row(batch: int, offset: LogEntry | None, commit: LogEntry | None) -> tuple[str, list[str]]:
    planned, done = "not logged", "<i>not finished</i>"
    watermark = ""
    if offset is not None:
        lines = (offset.text or "").split("\n")[2:]
        planned = ", ".join(escape(offset_words(line)) for line in lines) or "logged by an earlier run"
        watermark = say(clock_words(entry_metadata(offset.text).get("batchWatermarkMs"))) if offset.text else ""
    if commit is not None:
        next_ms = entry_metadata(commit.text).get("nextBatchWatermarkMs")
        done = "✓" if next_ms is None else f"✓ next watermark {say(clock_words(next_ms))}" if next_ms else "✓ no watermark yet"
    cells = [str(batch), planned, watermark, done]
    if offset is not None and offset.new:
        cells[1:3] = [f"<mark>{cell}</mark>" for cell in cells[1:3] if cell] or cells[1:3]
    if commit is not None and commit.new:
        cells[3] = f"<mark>{cells[3]}</mark>"
    return "", cells


def watermark(world: World) -> str:
    """The watermarks of this batch and of the next one, as bars on one time axis."""
    view = world.watermark
    newest = max((as_int(o.get("max")) or 0 for o in view.operators), default=0)
    times = {
        "late": (view.late, "Too late: dropped", "what ended up to here is late: the watermark of the batch before"),
        "evict": (view.eviction, "Finished: leaves state", "what ended up to here leaves: the watermark of this batch"),
        "newest": (newest or None, "Newest row", "the newest event time of this batch"),
        "next": (view.next, "Watermark now", "what the next batch will have"),
    }
    known = [ms for ms, _, _ in times.values() if ms]
    if not known:
        return "<p class='note'>No watermark yet: no row is late, no state leaves.</p>"
    low, high = min(known, default=0), max(known, default=1)

    def bar(look: str, ms: int | None) -> str:
        width = 12 + 88 * (ms - low) / ((high - low) or 1) if ms else 0
        return f"<div class='bar {look}'><i style='width:{width:.0f}%'></i></div>"

    changes = {"queryPlanning": ("late", "evict"), "updateWatermark": ("newest", "next")} if view.changed else {}
    new = changes.get(world.moment.event.step, ())
    rows = [
        (f" title='{escape(hint)}'", [name, f"<mark>{time_words(ms)}</mark>" if look in new else time_words(ms), bar(look, ms)])
        for look, (ms, name, hint) in times.items() if ms is not None
    ]
    return table(("", "event time (UTC)", "on one time axis"), rows) + "".join(
        f"<p class='note'>{_measured(o)}</p>" for o in view.operators
    )


def _measured(operator: Mapping[str, Any]) -> str:
    newest, delay = as_int(operator.get("max")), as_int(operator.get("delayMs"))
    name = f"<code>{say(operator.get('node') or 'event time')}</code>"
    if not newest or delay is None:
        return f"{name}: no row with an event time in this batch"
    return f"{name}: {escape(clock_words(newest))} − {escape(delay_words(delay))} = {escape(clock_words(newest - delay))}"


def sources(world: World) -> str:
    """What each source is asked for, and which files its offsets stand for."""
    return "".join(map(_source, world.sources)) or "<p class='note'>No source has been asked yet.</p>"


def _source(source: SourceView) -> str:
    begin, end = escape(offset_words(source.start)), escape(offset_words(source.end))
    reads = f"after {begin} up to {end}" if source.start != source.end else f"nothing after {begin}"
    done = f"; done with everything up to {escape(offset_words(source.done))}" if source.done is not None else ""
    rows = [
        (NEW if entry.new else "", [escape(offset_words(entry.end)), escape(short(", ".join(entry.files))) or "–"])
        for entry in source.log
    ]
    log = table(("offset", "its files"), rows) if any(entry.files for entry in source.log) else ""
    return f"<p><code>{escape(short(source.name))}</code> reads <b{NEW if source.changed else ''}>{reads}</b>{done}</p>{log}"


def rows_in(world: World) -> str:
    """The rows that this batch has read, or how many they are."""
    found = []
    for source in world.sources:
        name = f"<p><code>{escape(short(source.name))}</code></p>" if len(world.sources) > 1 else ""
        if source.rows is not None:
            found.append(name + _rows(source.rows, source.changed))
        elif source.num_rows is not None:
            found.append(f"{name}<p>{plural(source.num_rows, 'row')}. <span class='note'>{NO_ROWS}</span></p>")
    return "".join(found) or "<p class='note'>Nothing read in this batch yet.</p>"


def rows_out(world: World) -> str:
    """The rows that this batch has handed to the sink, or how many they are."""
    if world.rows_out is not None:
        return _rows(world.rows_out, world.moment.event.step == "addBatch")
    if world.num_rows_out is not None and world.num_rows_out >= 0:
        return f"<p>{plural(world.num_rows_out, 'row')}. <span class='note'>{NO_ROWS}</span></p>"
    return "<p class='note'>Nothing emitted in this batch yet.</p>"


def _rows(rows: Sequence[Any], new: bool) -> str:
    if not rows:
        return "<p class='note'>No rows.</p>"
    maps = [as_map(row) or {"value": row} for row in rows]
    columns = list(dict.fromkeys(str(name) for row in maps for name in row))
    ordered = sorted([say(row[c]) if c in row else "" for c in columns] for row in maps)
    return table(map(escape, columns), [(NEW if new else "", cells) for cells in ordered])


def state(world: World) -> str:
    """The rows of state before and after this batch, operator by operator."""
    return "".join(map(_operator, world.operators)) or "<p class='note'>No stateful operator so far.</p>"


def _operator(view: OperatorView) -> str:
    version = "" if view.version is None else f" · version {view.version}"
    counts = [
        f"<span class='{look}'>{say(number(view.metrics[key]))} {words}</span>"
        for key, words, look in (
            ("numRowsTotal", "kept", "same"), ("numRowsUpdated", "updated", "add"), ("numRowsRemoved", "removed", "remove"),
            ("numRowsDroppedByWatermark", "dropped as late", "late"),
        ) if key in view.metrics
    ]
    head = f"<p><b>{view.operator_id}</b> <code>{escape(view.operator)}</code>{version} {' '.join(counts)}</p>"
    if view.rows is None:
        return head + (f"<p class='note'>{NO_ROWS}</p>" if view.version is not None else "")
    if not view.rows:
        return head + "<p class='note'>Empty.</p>"
    return head + table(("", "partition", "key", "before", "after"), map(_state_row, view.rows))


def _state_row(row: StateRow) -> tuple[str, list[str]]:
    where = f"{row.partition}" if row.store == "default" else f"{row.partition} {row.store}"
    before, after = ("" if value is None else say(value) for value in (row.before, row.after))
    key = " ".join(map(say, as_map(row.key).values())) if len(as_map(row.key)) == 1 else say(row.key)
    return f' class="{MARKS[row.mark]}"', [escape(row.mark), escape(where), key, before, after]


PANELS: Mapping[str, tuple[str, Callable[[World], str]]] = {
    "logs": ("Offset log and commit log", logs),
    "watermark": ("Watermark", watermark),
    "sources": ("Sources", sources),
    "rows-in": ("Rows in", rows_in),
    "state": ("State before and after", state),
    "rows-out": ("Rows out", rows_out),
}
