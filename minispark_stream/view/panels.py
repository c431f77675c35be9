"""The panels beside the flow diagram, as HTML: one function for each, from a World (panels.py) to a fragment.

1. `now` says what this step did, why there is such a step, and what went in and out.
2. `PANELS`: the logs on disk, the watermarks, the sources, rows in, state before and after, rows out. What this step
   changed has the class "new"; state rows have "add", "change" and "remove".
3. With two engines a panel that is equal on both is shown once, and one that differs in two columns.
4. `board` puts diagram and panels together. The page (html.py) and the stepper (stepper.py) show this board.

    walCommit of batch 2   -> the panel "logs" gets <tr class="new"> with 2 | logOffset 2 | 12:04:00 | not finished

Whatever comes from the trace is escaped here: rows and plans are data of a user, and a trace may come from a file.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from minispark_stream.trace.events import STEPS
from minispark_stream.view import timeline
from minispark_stream.view.flow import title
from minispark_stream.view.merged_walk import Frame, completed
from minispark_stream.view.sentences import WHY, delay_words, failed, narrate, offset_metadata
from minispark_stream.view.words import (
    as_int,
    as_list,
    as_map,
    clock_words,
    duration_words,
    iso_to_ms,
    number,
    offset_words,
    plain,
    plural,
    short,
    time_words,
)
from minispark_stream.view.world import LogEntry, OperatorView, SourceView, StateRow, World

if TYPE_CHECKING:
    from minispark_stream.trace.trace import Batch, Trace

NEW = ' class="new"'
NO_ROWS = "Not recorded. <code>MiniSparkSession(spark, trace=&quot;rows&quot;)</code> records rows and state."
MARKS = {"+": "add", "~": "change", "-": "remove", "": "same"}


def say(value: Any) -> str:
    """Any value of a trace, for a person and safe to show."""
    return escape(plain(value))


def table(head: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A table of (class attribute, cells); the cells are HTML."""
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "".join(f"<tr{look}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for look, cells in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


# -- (1) the step ------------------------------------------------------------------------------------------

def now(frame: Frame) -> str:
    """What happened in this step, and why there is such a step."""
    step = STEPS[frame.moment.event.step]
    events = {engine: frame.worlds[engine].moment.event for engine in frame.here}
    sentences = {engine: narrate(event) for engine, event in events.items()}
    if len(set(sentences.values())) == 1:
        said = f"<p class='did'>{_sentence(next(iter(sentences.values())))}</p>"
    else:
        said = "".join(f"<p class='did'><b>{escape(e)}</b> {_sentence(words)}</p>" for e, words in sentences.items())
    missing = [engine for engine in frame.worlds if engine not in frame.here]
    unseen = f"<p class='note'>The trace of {escape(', '.join(missing))} does not show this step.</p>" if missing else ""
    look = "now failed" if any(map(failed, events.values())) else "now"
    took = " · ".join(
        (f"{escape(engine)} " if len(events) > 1 else "") + duration_words(event.duration_ms)
        for engine, event in events.items() if event.duration_ms > 0
    )
    return (
        f"<div class='{look}'><div class='what'><h2>{escape(title(step.name))}</h2>"
        f"<p class='where'><code>{escape(step.spark)}</code> · {escape(step.document)}{' · ' if took else ''}{took}</p>"
        f"<p class='note'>{_sentence(step.says)}</p></div><div class='this'>{said}{unseen}"
        f"<p class='why'><b>Why?</b> {escape(WHY[step.name])}</p>{''.join(_raw(e, events) for e in events)}</div></div>"
    )


def _sentence(words: str) -> str:
    first = words.split(" ", 1)[0]
    begin = first.capitalize() if first.isalpha() and first.islower() else first
    return escape(begin + words[len(first):] + ("" if words.endswith(".") else "."))


def _raw(engine: str, events: Mapping[str, Any]) -> str:
    """What went in and out, as recorded; what the panels show is left out."""
    event = events[engine]
    values = {**event.inputs, **event.outputs}
    shown = {name: v for name, v in values.items() if name not in ("rows", "before", "after", "plan") and v is not None}
    if not shown:
        return ""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(_pretty(value))}</dd>" for name, value in shown.items())
    whose = f" ({escape(engine)})" if len(events) > 1 else ""
    return f"<details><summary>In and out, as recorded{whose}</summary><dl>{lines}</dl></details>"


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, indent=1)


# -- (2) the panels ----------------------------------------------------------------------------------------

def logs(world: World) -> str:
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
        lines = (offset.text or "").splitlines()[2:]
        planned = ", ".join(escape(offset_words(line)) for line in lines) or "logged by an earlier run"
        watermark = say(clock_words(offset_metadata(offset.text).get("batchWatermarkMs"))) if offset.text else ""
    if commit is not None:
        next_ms = offset_metadata(commit.text).get("nextBatchWatermarkMs") if commit.text else None
        done = "✓" if next_ms is None else f"✓ next {say(clock_words(next_ms))}"
    cells = [str(batch), planned, watermark, done]
    if offset is not None and offset.new:
        cells[1:3] = [f"<mark>{cell}</mark>" for cell in cells[1:3] if cell] or cells[1:3]
    if commit is not None and commit.new:
        cells[3] = f"<mark>{cells[3]}</mark>"
    return "", cells


def watermark(world: World) -> str:
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
    return "".join(map(_source, world.sources)) or "<p class='note'>No source has been asked yet.</p>"


def _source(source: SourceView) -> str:
    begin, end = escape(offset_words(source.start)), escape(offset_words(source.end))
    reads = f"after {begin} up to {end}" if source.start != source.end else f"nothing after {begin}"
    done = f"; may forget up to {escape(offset_words(source.done))}" if source.done is not None else ""
    rows = [
        (NEW if entry.new else "", [escape(offset_words(entry.end)), escape(short(", ".join(entry.files))) or "–"])
        for entry in source.log
    ]
    log = table(("offset", "files behind it"), rows) if any(entry.files for entry in source.log) else ""
    return f"<p><code>{escape(short(source.name))}</code> reads <b{NEW if source.changed else ''}>{reads}</b>{done}</p>{log}"


def rows_in(world: World) -> str:
    found = []
    for source in world.sources:
        name = f"<p><code>{escape(short(source.name))}</code></p>" if len(world.sources) > 1 else ""
        if source.rows is not None:
            found.append(name + _rows(source.rows, source.changed))
        elif source.num_rows is not None:
            found.append(f"{name}<p>{plural(source.num_rows, 'row')}. <span class='note'>{NO_ROWS}</span></p>")
    return "".join(found) or "<p class='note'>Nothing read in this batch yet.</p>"


def rows_out(world: World) -> str:
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


def cards(frame: Frame) -> dict[str, str]:
    """Panel name -> HTML, for every panel."""
    return {name: _card(frame, heading, render) for name, (heading, render) in PANELS.items()}


def _card(frame: Frame, heading: str, render: Callable[[World], str]) -> str:  # (3)
    bodies = {engine: render(_told(frame, engine)) for engine in frame.worlds}
    look, note = "card", ""
    if len({_without_marks(body) for body in bodies.values()}) == 1:
        body = next(iter(bodies.values()))
        note = " <small>equal on " + " and ".join(map(escape, bodies)) + "</small>" if len(bodies) > 1 else ""
    else:
        body = "".join(f"<div><h4>{escape(engine)}</h4>{html}</div>" for engine, html in bodies.items())
        body = f"<div class='both'>{body}</div>"
        if len(frame.here) == len(frame.worlds):
            look, note = "card differs", " <small>different</small>"
    return f"<section class='{look}'><h3>{heading}{note}</h3>{body}</section>"


def _told(frame: Frame, engine: str) -> World:
    """The world of one engine, with what only the others tell."""
    world = frame.worlds[engine]
    for name, other in frame.worlds.items():
        world = world if name == engine else completed(world, other)
    return world


def _without_marks(html: str) -> str:
    return html.replace(NEW, "").replace("<mark>", "").replace("</mark>", "")


# -- (4) the board -----------------------------------------------------------------------------------------

def board(slots: Mapping[str, str]) -> str:
    """Diagram and panels in their places: "now", "flow" and the names of PANELS."""

    def slot(name: str) -> str:
        return f"<div class='slot' data-slot='{name}'>{slots.get(name, '')}</div>"

    side, below = "".join(map(slot, ("logs", "watermark", "sources"))), "".join(map(slot, ("rows-in", "state", "rows-out")))
    return f"{slot('now')}<div class='main'>{slot('flow')}<div>{side}</div></div><div class='below'>{below}</div>"


def summary(traces: Mapping[str, Trace]) -> str:
    """The batches of a trace as a table and their durations, for Jupyter."""
    parts = []
    for engine, trace in traces.items():
        rows = []
        for batch in trace.batches:
            progress = batch.progress
            operators = [as_map(o) for o in as_list(progress.get("stateOperators"))]
            kept, late = (
                say(number(sum(as_int(o.get(key)) or 0 for o in operators))) if operators else ""
                for key in ("numRowsTotal", "numRowsDroppedByWatermark")
            )
            out = _num_rows_out(batch)
            watermark_ms = iso_to_ms(as_map(progress.get("eventTime")).get("watermark"))
            took = batch.durations.get("triggerExecution")
            rows.append(("", [
                str(batch.batch_id), say(number(progress.get("numInputRows", ""))),
                "" if out is None else number(out), "" if watermark_ms is None else time_words(watermark_ms),
                kept, late, "" if took is None else duration_words(took),
                "failed" if batch.error else "run again" if batch.rerun else "",
            ]))
        name = f"query {escape(trace.name)}" if trace.name else "a query without a name"
        head = ("batch", "rows in", "rows out", "watermark", "state rows", "late rows", "took", "")
        parts.append(f"<h3>{name} on {escape(engine)}</h3>{table(head, rows)}{timeline.svg(trace)}")
    return f"<style>{CSS}</style><div class='ms summary'>{''.join(parts)}</div>"


def _num_rows_out(batch: Batch) -> int | None:
    """What the sink reported, or else the rows that were recorded."""
    reported = as_int(as_map(batch.progress.get("sink")).get("numOutputRows"))
    if reported is not None and reported >= 0:
        return reported
    recorded = [e.outputs for e in batch.events if e.step == "addBatch" and "rows" in e.outputs]
    return as_int(recorded[-1].get("emitted")) or len(as_list(recorded[-1]["rows"])) if recorded else None


# Jupyter has styles of its own for tables in an output: what is marked important undoes them.
CSS = """
.ms { color:#1d2733; background:#fff; font:13.5px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif; }
.ms *, .ms *::before { box-sizing:border-box; }
.ms p { margin:0 0 4px; } .ms h2 { margin:0; font-size:19px; } .ms h4 { margin:0 0 4px; font-size:13px; color:#4a5868; }
.ms h3 { margin:0 0 6px; font-size:14px; } .ms h3 small { font-weight:400; color:#4d8a5f; margin-left:6px; }
.ms code { font:12.5px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace; background:none;
  color:#245482; }
.ms .note, .ms .where { color:#5b6875; } .ms .note code { color:#5b6875; }
.ms table { border-collapse:collapse; width:100%; margin:2px 0 6px; font-size:13px; color:inherit; background:none; }
.ms th { font-weight:600; color:#5b6875; border-bottom:1px solid #c3ccd6; padding:2px 8px 2px 4px; }
.ms th, .ms td { text-align:left !important; white-space:normal; max-width:none; }
.ms tbody tr { background:none !important; }
.ms td { border-bottom:1px solid #edf0f3; padding:2px 8px 2px 4px; vertical-align:top;
  font-variant-numeric:tabular-nums; background:none; }
.ms mark, .ms .new, .ms tr.new td { background:#ffe9b0; color:inherit; border-radius:3px; }
.ms mark, .ms b.new { padding:0 3px; }
.ms .card { border:1px solid #d9dfe5; border-radius:8px; padding:8px 12px; margin:0 0 10px; background:#fff; overflow:auto; }
.ms .below .card { max-height:420px; } .ms .card.differs { border:2px solid #b3261e; }
.ms .card.differs h3 small { color:#b3261e; }
.ms .both { display:grid; grid-template-columns:repeat(auto-fit,minmax(240px,1fr)); gap:14px; }
.ms .now { display:grid; grid-template-columns:minmax(300px,1fr) 2fr; gap:24px; border-left:6px solid #e6a817;
  background:#fff8e6; border-radius:6px; padding:10px 16px; margin:0 0 10px; }
.ms .now.failed { border-color:#b3261e; background:#fff0ef; } .ms .did { font-size:15.5px; } .ms .why b { color:#a86a00; }
.ms dl { display:grid; grid-template-columns:max-content 1fr; gap:0 14px; margin:4px 0; font-size:12px; }
.ms dt { color:#5b6875; } .ms dd { margin:0; white-space:pre-wrap; overflow-wrap:anywhere; max-height:180px; overflow:auto; }
.ms summary { color:#5b6875; cursor:pointer; font-size:12.5px; }
.ms .main { display:grid; grid-template-columns:minmax(440px,680px) minmax(380px,1fr); gap:14px; }
.ms .below { display:grid; grid-template-columns:1fr 2fr 1fr; gap:12px; }
.ms tr.add td { background:#e3f4e6; } .ms tr.change td { background:#fff3cf; }
.ms tr.remove td { background:#fde4e1; text-decoration:line-through; text-decoration-color:#c98a85; }
.ms tr.remove td:first-child { text-decoration:none; }
.ms p span.add, .ms p span.remove, .ms p span.late, .ms p span.same { border-radius:9px; padding:0 7px; margin-left:4px;
  font-size:12.5px; background:#edf0f3; white-space:nowrap; }
.ms p span.add { background:#e3f4e6; } .ms p span.remove { background:#fde4e1; } .ms p span.late { background:#fff3cf; }
.ms .bar { min-width:110px; height:11px; margin-top:4px; background:#f1f4f6; border-radius:3px; }
.ms .bar i { display:block; height:100%; border-radius:3px; border-right:3px solid; }
.ms .bar.late i { background:#f6c9c5; border-color:#b3261e; } .ms .bar.evict i { background:#fbdf9d; border-color:#a86a00; }
.ms .bar.next i { background:#c4e5cb; border-color:#2f7a45; } .ms .bar.newest i { background:#dbe8f5; border-color:#245482; }
.ms svg.flow { width:100%; height:auto; display:block; } .ms svg.flow text { font-family:inherit; }
.ms svg.flow .node text:first-of-type { font-weight:600; font-size:12.5px; }
.ms svg.flow .node.store text:first-of-type { font-weight:400; font-size:12px; }
.ms svg.flow .node text:nth-of-type(n+2) { font-size:11px; }
.ms svg.flow .done > path { fill:#eef7f0; stroke:#4d8a5f; } .ms svg.flow .todo > path { stroke:#aab4bf; }
.ms svg.flow .todo > text { fill:#5b6b7f; } .ms svg.flow .pale > path { fill:none; stroke:#d5dbe1; stroke-dasharray:5 3; }
.ms svg.flow .pale > text { fill:#98a2ad; } .ms svg.flow .differs > path { fill:#ffd9d6; stroke:#b3261e; }
.ms svg.flow .node.lit > path { fill:#ffd873; stroke:#a86a00; stroke-width:2.5; }
.ms svg.flow .node.lit > polygon { fill:#ffe9b0; stroke:#a86a00; stroke-width:2; }
.ms svg.flow .node.failed > path { fill:#ffb4ad; stroke:#b3261e; }
.ms svg.flow .node.around.lit > path { fill:#fff3d0; }
.ms svg.flow .node.frame > path { fill:#f6f8fa; stroke:#8a97a5; }
.ms svg.flow .edge.lit > path { stroke:#a86a00; stroke-width:2.5; }
.ms svg.flow .edge.lit > polygon { fill:#a86a00; stroke:#a86a00; }
.ms svg.timeline { max-width:100%; height:auto; display:block; } .ms svg.timeline text { font-family:inherit; fill:#1d2733; }
@media (max-width:1000px) { .ms .main, .ms .below, .ms .now { grid-template-columns:1fr; } }
"""
