"""A trace as one HTML file that steps through it: no Jupyter, no network, no library.

The same page is the stepper in Jupyter (stepper.py). What does not depend on the trace is in files of its own: page.html (the
elements), page.css (their places), page.js (the controls; it computes nothing about the trace), questions.js (which asks
before a step what it will do), and pictures.js (which plays the pictures).

1. Every panel of every step is rendered here, in Python (board.py). For a step, the page keeps only the panels that it changes.
   A panel is cut into pieces (its rows), and equal pieces are kept once.
2. The file contains the pieces, the steps, and what is known about each kind of step (step_panel.py); and the lines of the
   user's own query, as far as they are known (own_lines.py).
3. Data is JSON in which "<" is written \\u003c, so that no text of a trace can end the script element; fragments are
   escaped where they are made.
4. Below the board are the pictures of the trace (pictures.py), and the plan; if the query is simple enough, there are also
   sliders for the delay of its watermark and the size of its windows (what_if_page.py). One of the pictures is marked: where
   there is room, it stands beside the steps (pictures.js), and each step says from which batch on it is covered (`drawn`).

    {"pieces": ["<h3>..", "<tr>.."], "steps": [{"step": "walCommit", "caption": "offsets/0", "panels": {"logs": [0, 1]}}, ..]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from itertools import groupby
from string import Template
from typing import Any

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.fates import Fates, fates
from minispark_stream.lens.trace.recording import Recording, is_rerun
from minispark_stream.lens.view.board import Board, may_differ
from minispark_stream.lens.view.merged_walk import Stop, stops
from minispark_stream.lens.view.own_lines import OwnLines
from minispark_stream.lens.view.pictures import BESIDE, NamedPicture, pictures
from minispark_stream.lens.view.questions import questions
from minispark_stream.lens.view.row_fates import RowFates
from minispark_stream.lens.view.sheet import said_html
from minispark_stream.lens.view.step_list import step_list, steps_of
from minispark_stream.lens.view.step_panel import about
from minispark_stream.lens.view.style import CSS, file_beside
from minispark_stream.lens.view.walk import Key, failed
from minispark_stream.lens.view.what_if_page import card, what_if_data
from minispark_stream.lens.view.words import perhaps, short, without_ids

SCRIPTS = ("questions.js", "play_rules.js", "durations.js", "what_if_page.js", "player.js", "pictures.js", "page.js")


def page(
    recordings: Mapping[str, Recording], intro: str = "", batch: int | None = None, step: str | None = None, ask: bool = False,
    differing: Collection[int | None] | None = None, query: str = "",
) -> str:
    """The whole file. With two engines, the panels compare them.

    Args:
        recordings: engine -> what was recorded of it.
        intro: HTML to show below the board.
        batch, step: where to begin: the first step of this batch (its last run) and with this name; None means any.
        ask: whether the page asks before a step what it will do (questions.py); its reader can turn this on and off.
        differing: the batches on which the two engines disagree; None if they were not compared.
        query: what the title calls a query that has no name.

    Raises:
        ValueError: there is no such step.
    """
    shown = stops(recordings)
    first = _first(shown, batch, step)
    names = [*(recording.name for recording in recordings.values() if recording.name), query or "A query"]
    found = {engine: fates(recording) for engine, recording in recordings.items()}
    what_if = next(filter(None, map(what_if_data, recordings.values(), found.values())), None)
    heading = f"{names[0]} on {' and '.join(recordings)}"
    return Template(file_beside(__file__, "page.html")).substitute(
        title=escape(heading),
        css=CSS + file_beside(__file__, "page.css"),
        batches=_chips(shown),
        steps=step_list(recordings.values()),
        different="<li class='differs'>engines differ</li>" if len(recordings) > 1 else "",
        below=(card(what_if) if what_if else "") + _below(recordings, found, intro),
        data=_json({**_data(shown, recordings, found, differing), "first": first, "ask": ask, "what_if": what_if}),
        script="".join(file_beside(__file__, name) for name in SCRIPTS),
    )


def _data(
    shown: Sequence[Stop], recordings: Mapping[str, Recording], found: Mapping[str, Fates],
    differing: Collection[int | None] | None,
) -> dict[str, Any]:
    pieces: dict[str, int] = {}
    row_fates = RowFates(found.values())
    asked: dict[Key, list[tuple[Any, ...]]] = {}
    for question in max(map(questions, recordings.values(), found.values()), key=len):  # of the engine that tells more
        asked.setdefault(question.before, []).append(question[1:])

    def numbers(html: str) -> list[int]:
        return [pieces.setdefault(piece, len(pieces)) for piece in re.split("(?=<tr|<dt)", html)]

    board, before, own = Board(row_fates, differing), dict[str, str](), OwnLines(recordings.values())
    steps = []
    for stop in shown:  # (1)
        now = board.fragments(stop)
        step: dict[str, Any] = {"step": stop.moment.event.step, "caption": " · ".join(stop.caption)}
        step |= {"failed": 1} if stop.failed else {}
        step |= {"differs": 1} if len(stop.caption) > 1 and may_differ(stop, differing) else {}
        step |= {"drawn": drawn} if (drawn := _drawn(stop)) is not None else {}
        step |= {"own": lines} if (lines := own.of(stop)) else {}
        step |= {"asks": asked[stop.moment.key]} if stop.moment.key in asked else {}
        steps.append({**step, "panels": {name: numbers(html) for name, html in now.items() if before.get(name) != html}})
        before = now
    kinds, own_steps = dict.fromkeys(stop.moment.event.step for stop in shown), steps_of(recordings.values())
    return {  # (2)
        "steps": steps,
        "about": {step: {**about(own_steps.get(step, STEPS[step])), "lights": STEPS[step].lights} for step in kinds},
        "query": own.data(kinds),
        "stories": [numbers(story) for story in row_fates.stories],
        "pieces": list(pieces),
    }


def _drawn(stop: Stop) -> int | None:
    """The first batch that a picture does not show yet at this stop; None if it is the same as at the stop before."""
    batch = stop.moment.batch_id
    return None if batch is None else batch + any(world.is_computed for world in stop.worlds.values())


def _json(data: Any) -> str:  # (3)
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _first(shown: Sequence[Stop], batch: int | None, step: str | None) -> int:
    """Where to begin; for a batch that ran again, in its last run."""
    if batch is None and step is None:
        return 0
    of_batch = [(number, stop.moment) for number, stop in enumerate(shown) if batch in (None, stop.moment.batch_id)]
    last = max((moment.attempt for _, moment in of_batch), default=0)
    for number, moment in of_batch:
        if step in (None, moment.event.step) and moment.begun is None and (batch is None or moment.attempt == last):
            return number
    ids = dict.fromkeys(str(stop.moment.batch_id) for stop in shown if stop.moment.batch_id is not None)
    if not of_batch:
        raise ValueError(f"the trace has no batch {batch}; batches: {', '.join(ids) or 'none'}")
    where = "the trace" if batch is None else f"batch {batch} of the trace"
    raise ValueError(f"{where} has no step {step!r}{perhaps(step or '', {moment.event.step for _, moment in of_batch})}")


def _below(recordings: Mapping[str, Recording], found: Mapping[str, Fates], intro: str) -> str:  # (4)
    cards = f"<section class='card'>{intro}</section>" if intro else ""
    plans = ""
    drawn = {engine: pictures(recording, found[engine]) for engine, recording in recordings.items()}
    for engine, recording in sorted(recordings.items(), key=lambda pair: -len(drawn[pair[0]])):  # who tells more comes first
        beside = None if "data-beside" in cards else _beside(drawn[engine])
        cards += "".join(_picture(escape(f"{one.heading} on {engine}"), one.svg, one is beside) for one in drawn[engine])
        if recording.plan:
            plans += f"<h3>On {escape(engine)}</h3><pre>{escape(short(without_ids(recording.plan)))}</pre>"
    return cards + (f"<section class='card'><h2>The analysed plan</h2>{plans}</section>" if plans else "")


def _beside(drawn: Sequence[NamedPicture]) -> NamedPicture | None:
    """The picture that stands beside the steps where there is room."""
    known = {one.heading: one for one in drawn}
    return next((known[heading] for heading in BESIDE if heading in known), None)


def _picture(name: str, svg: str, beside: bool) -> str:
    place = " data-beside" if beside else ""
    framed = f"<div class='picture' role='region' tabindex='0' aria-label='{name}'{place}>{svg}</div>"
    return f"<section class='card'><h2>{name}</h2>{said_html(svg)}{framed}</section>"


def _chips(shown: Sequence[Stop]) -> str:
    """A button for each batch, which leads to its first step and says what became of the batch."""
    chips = ""
    for (batch_id, _), group in groupby(enumerate(shown), key=lambda pair: pair[1].batch):
        members = list(group)
        (start, first), (end, _) = members[0], members[-1]
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
        chips += "<span>restart</span>" if first.moment.event.step == "startQuery" and first.moment.run > 1 else ""
        chips += f"<button class='{kind}' data-from='{start}' data-to='{end}'>{escape(name)}<i>{note}</i></button>"
    return chips
