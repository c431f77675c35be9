"""A trace as one HTML file that steps through it: no Jupyter, no network, no library.

1. Every panel of every step is rendered here, in Python (board.py); equal fragments are kept once.
2. The file holds the fragments, for each step the numbers of its fragments and what to write into the diagram, and a
   script of some forty lines that puts them in place: it computes nothing about the trace.
3. Data is JSON in which "<" is written \\u003c, so that no text of a trace can end the script element; fragments are
   escaped where they are made.

4. Below the board stand the pictures that the trace gives (pictures.py).

    {"texts": ["<section ...", ...], "steps": [{"slots": {"now": 0, "logs": 1, ...}, "fill": {"look-walCommit": "lit"}}]}

Keys: left and right one step; with shift, a batch; home and end. `#12` after the address opens step 12.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from minispark_stream.trace.recording import Recording, is_rerun
from minispark_stream.view import flow
from minispark_stream.view.board import board, fragments
from minispark_stream.view.merged_walk import Stop, stops
from minispark_stream.view.pictures import pictures
from minispark_stream.view.style import CSS
from minispark_stream.view.walk import failed
from minispark_stream.view.words import short, without_ids

NO_DOT = "<p class='note'>No diagram: Graphviz's <code>dot</code> was not found when this file was written.</p>"


def page(recordings: Mapping[str, Recording], intro: str = "") -> str:
    """The whole file. With two engines, the panels compare them.

    Args:
        recordings: engine -> what was recorded of it.
        intro: HTML to show above the timeline.
    """
    shown = stops(recordings)
    texts: dict[str, int] = {}
    steps = []
    for stop in shown:  # (1)
        slots = {name: texts.setdefault(html, len(texts)) for name, html in fragments(stop).items()}
        filled = flow.places_to_fill(stop.captions, stop.looks)
        steps.append({"slots": slots, "fill": filled, "step": stop.moment.event.step})
    names = [recording.name for recording in recordings.values() if recording.name]
    heading = f"{names[0] if names else 'A query'} on {' and '.join(recordings)}"
    diagram = flow.template(len(recordings)) or NO_DOT
    data: dict[str, Any] = {"texts": list(texts), "steps": steps, "flow": diagram}  # (2)
    plans, drawn = "", ""
    for engine, recording in recordings.items():
        if recording.plan:
            plans += f"<h3>Plan on {escape(engine)}</h3><pre>{escape(short(without_ids(recording.plan)))}</pre>"
        for picture in pictures(recording):
            drawn += f"<section class='card'><h3>{picture.heading} on {escape(engine)}</h3>{picture.svg}</section>"
    about = f"<section class='card'>{intro}</section>" if intro else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}</title>'
        f"<style>{CSS}{PAGE_CSS}</style></head><body class='ms'><header><h1>{escape(heading)}</h1>{CONTROLS}</header>"
        f"<nav>{_chips(shown)}</nav>{board({})}{about}{drawn}"  # (4)
        f"<details class='card'><summary>The analysed plan</summary>{plans}</details>"
        f'<script type="application/json" id="data">{_json(data)}</script><script>{SCRIPT}</script></body></html>\n'
    )


def _json(data: Any) -> str:  # (3)
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def batch_names(shown: Sequence[Stop]) -> list[tuple[int, str, str]]:
    """Of every batch: the number of its first step, its name, and "failed", "empty", "restart" or ""."""
    names = []
    for (batch_id, _), group in groupby(enumerate(shown), key=lambda pair: pair[1].batch):
        members = list(group)
        events = [stop.worlds[engine].moment.event for _, stop in members for engine in stop.here]
        steps = {event.step for event in events}
        kind, note = "", ""
        if any(map(failed, events)):
            kind, note = "failed", " ✗"
        elif any(map(is_rerun, events)):
            kind, note = "restart", " again"
        elif "runBatch" in steps and "getBatch" not in steps:
            kind, note = "empty", " no data"
        name = f"batch {batch_id}" if batch_id is not None else "other"
        names.append((members[0][0], name + note, kind))
    return names


def _chips(shown: Sequence[Stop]) -> str:
    """A button for each batch, which leads to its first step."""
    names = batch_names(shown)
    ends = [*(start - 1 for start, _, _ in names[1:]), len(shown) - 1]
    chips = ""
    for (start, name, kind), end in zip(names, ends):
        moment = shown[start].moment
        chips += "<span>restart</span>" if moment.event.step == "startQuery" and moment.run > 1 else ""
        chips += f"<button class='{kind}' data-from='{start}' data-to='{end}'>{escape(name)}</button>"
    return chips


CONTROLS = """<div class='controls'><button data-go='batch-back' title='shift + left'>« batch</button>
<button data-go='back' title='left'>‹ back</button><input type='range' min='0' value='0' aria-label='step'>
<button data-go='forward' title='right'>forward ›</button><button data-go='batch-forward' title='shift + right'>batch »</button>
<output></output></div>"""

PAGE_CSS = """
body.ms { margin:0 auto; padding:10px 18px 30px; max-width:1560px; }
.ms header { display:flex; gap:26px; align-items:center; } .ms h1 { font-size:20px; margin:0; white-space:nowrap; }
.ms .controls { display:flex; gap:8px; align-items:center; flex:1; } .ms .controls input { flex:1; accent-color:#a86a00; }
.ms output { min-width:92px; text-align:right; color:#5b6875; font-variant-numeric:tabular-nums; }
.ms button { font:inherit; color:inherit; background:#f6f8fa; border:1px solid #c3ccd6; border-radius:6px;
  padding:3px 10px; cursor:pointer; }
.ms button:hover { background:#e9eef3; } .ms button:disabled { color:#98a2ad; cursor:default; }
.ms nav { display:flex; flex-wrap:wrap; gap:5px; align-items:center; margin:9px 0; max-height:92px; overflow:auto; }
.ms nav button { padding:1px 9px; font-size:12.5px; } .ms nav button.empty { border-style:dashed; }
.ms nav button.failed { border-color:#b3261e; color:#b3261e; }
.ms nav button.on { background:#ffd873; border-color:#a86a00; color:#1d2733; }
.ms nav span { color:#5b6875; font-size:12px; padding:0 4px; border-left:2px solid #b3261e; margin-left:6px; }
.ms .card > svg { max-width:100%; height:auto; display:block; }
.ms svg.flow .node[id] { cursor:pointer; } .ms pre { font-size:12px; white-space:pre-wrap; overflow-wrap:anywhere; }
"""

SCRIPT = """
const data = JSON.parse(document.getElementById("data").textContent), steps = data.steps;
const slots = {}, range = document.querySelector("input[type=range]"), chips = [...document.querySelectorAll("nav button")];
for (const slot of document.querySelectorAll("[data-slot]")) slots[slot.dataset.slot] = slot;
const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
let at = 0;
range.max = steps.length - 1;

function chipOf(step) { return chips.findIndex(c => +c.dataset.from <= step && step <= +c.dataset.to); }

function show(step) {
  if (!steps.length) return;
  at = Math.min(Math.max(step, 0), steps.length - 1);
  const current = steps[at];
  for (const [name, text] of Object.entries(current.slots)) slots[name].innerHTML = data.texts[text];
  slots.flow.innerHTML = data.flow.replace(/@([\\w-]+)@/g, (_, name) => escaped(current.fill[name] || ""));
  range.value = at;
  document.querySelector("output").textContent = `step ${at + 1} of ${steps.length}`;
  chips.forEach((chip, i) => chip.classList.toggle("on", i === chipOf(at)));
  history.replaceState(null, "", "#" + (at + 1));
}

function go(where) {
  const chip = chipOf(at), first = i => +chips[Math.min(Math.max(i, 0), chips.length - 1)].dataset.from;
  if (where === "back") show(at - 1);
  if (where === "forward") show(at + 1);
  if (where === "batch-back") show(at > first(chip) ? first(chip) : first(chip - 1));
  if (where === "batch-forward") show(chip === chips.length - 1 ? steps.length - 1 : first(chip + 1));
}

document.addEventListener("click", event => {
  const button = event.target.closest("button"), node = event.target.closest(".node");
  if (button && button.dataset.go) go(button.dataset.go);
  if (button && button.dataset.from) show(+button.dataset.from);
  if (node) {
    const chip = chips[chipOf(at)], from = +chip.dataset.from, of_batch = steps.slice(from, +chip.dataset.to + 1);
    const found = of_batch.findIndex(s => "node-" + s.step === node.id);
    if (found >= 0) show(from + found);
  }
});
document.addEventListener("keydown", event => {
  const key = {ArrowLeft: "back", ArrowRight: "forward"}[event.key];
  if (key) { event.preventDefault(); go(event.shiftKey ? "batch-" + key : key); }
  if (event.key === "Home") show(0);
  if (event.key === "End") show(steps.length - 1);
});
range.addEventListener("input", () => show(+range.value));
window.addEventListener("hashchange", () => show(+location.hash.slice(1) - 1));
show((+location.hash.slice(1) || 1) - 1);
"""
