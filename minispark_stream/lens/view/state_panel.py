"""The panel of the state: the rows of each stateful operator before and after a batch; for a join, its two sides.

    left buffer, 2 rows             right buffer, 1 row
      12:00 · A  matched              12:01 · A  matched
    + 12:02 · B  no match yet

1. A row that the batch has added, changed or removed has a mark and a colour. A row that was put and then removed has two
   marks. Its value is said in the words of the query (state_words.py).
2. The rows that the batch has changed come first. Of a large state only some rows are shown, together with the number of all
   rows.
3. The panel says what a task reads in a process that has no version in memory: the newest snapshot (for RocksDB, with its
   tables), and what the batches after it have changed.
4. Spark keeps a side of a join in two stores: the number of rows of each key, and the rows, numbered. Only the rows are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from html import escape

from minispark_stream.engine.checkpointing.join_stores import COUNTS, SIDES
from minispark_stream.lens.trace.values import as_map
from minispark_stream.lens.view.row_panels import NO_ROWS
from minispark_stream.lens.view.state_files import chains_of
from minispark_stream.lens.view.state_places import maintained, places
from minispark_stream.lens.view.state_words import START, key_words, value_words
from minispark_stream.lens.view.style import say, table
from minispark_stream.lens.view.words import number, plural
from minispark_stream.lens.view.world import OperatorView, StateRow

MARKS = {"+": "add", "~": "change", "-": "remove", "+-": "remove", "~-": "remove", "": "same"}
MOST = 6  # groups of stores with the same files
CHANGES = ("numRowsUpdated", "numRowsRemoved")
# Why Spark's numbers may differ from those of the marks.
NOT_COUNTED = {
    "symmetricHashJoin": "A row marked ~ has met its first partner: Spark does not count it as updated.",
    "sessionWindowStateStoreSaveExec": (
        "If a key gets rows, Spark counts all sessions of this key as updated, even those that did not change; it does not "
        "count sessions that became part of another one."
    ),
}


def operator(view: OperatorView) -> str:
    """One operator: its version, what it counted, its rows, and where they are."""
    return f"{_counted(view)}{maintained(view.places)}{_rows(view)}{places(view.places)}{_load(view)}"


def _counted(view: OperatorView) -> str:
    version = "" if view.version is None else f" · version {view.version}"
    counts = [
        f"<span class='count {look}'>{say(number(view.metrics[key]))} {words}</span>"
        for key, words, look in (
            ("numRowsTotal", "in the state", "same"), ("numRowsUpdated", "updated", "add"),
            ("numRowsRemoved", "removed", "remove"), ("numRowsDroppedByWatermark", "dropped as late", "late"),
        ) if key in view.metrics and (view.metrics[key] or key == "numRowsTotal")
    ]
    return f"<p><b>{view.operator_id}</b> <code>{escape(view.operator)}</code>{version} {' '.join(counts)}</p>"


def _rows(view: OperatorView) -> str:
    if view.rows is None:
        return f"<p class='note'>{NO_ROWS}</p>" if view.version is not None else ""
    if not view.rows:
        return "<p class='note'>Empty.</p>"
    head = ""
    if len(view.rows) < (view.num_rows or 0):
        shown = f"{number(len(view.rows))} of {plural(view.num_rows, 'row')}"
        head = f"<p class='note'>{shown}; those that changed come first.</p>"
    elif view.operator in NOT_COUNTED and _marks(view.rows) != sum(view.metrics.get(key) or 0 for key in CHANGES):
        head = f"<p class='note'>{NOT_COUNTED[view.operator]}</p>"
    rows = sorted(view.rows, key=lambda row: not row.mark)  # (2)
    if view.operator == "symmetricHashJoin":
        sides = "".join(_side(side, rows) for side in SIDES)
        return f"{head}<div class='sides'>{sides}</div>"
    names = ", ".join(map(say, dict.fromkeys(name for row in rows for name in row.key if name != START)))
    columns = ("", f"key{f': {names}' if names else ''}", "value", "<span class='whole'>part.</span>")
    return head + table(columns, map(partial(_row, view), rows))


def _load(view: OperatorView) -> str:  # (3)
    known = [one for one in chains_of(view.operator_id, view.operator, view.files) if one.next_load]
    words = [f"To load version {one.newest} of {one.places}: {one.words(one.next_load or ())}." for one in known[:MOST]]
    words += [f"And {plural(len(known) - MOST, 'other load')}."] if len(known) > MOST else []
    return "".join(f"<p class='note'>{escape(one)}</p>" for one in words)


def _marks(rows: Iterable[StateRow]) -> int:
    return sum(len(row.mark) for row in rows if not row.store.endswith(COUNTS))


def _row(view: OperatorView, row: StateRow) -> tuple[str, list[str]]:  # (1)
    where = f"{row.partition}" if row.store == "default" else f"{row.partition} {row.store}"
    return f' class="{MARKS[row.mark]}"', [escape(row.mark), say(key_words(row)), say(value_words(view, row)), escape(where)]


def _side(side: str, rows: Iterable[StateRow]) -> str:  # (4)
    buffered = [row for row in rows if row.store.startswith(side) and not row.store.endswith(COUNTS)]
    body = table((), map(_buffered, buffered)) if buffered else "<p class='note'>Empty.</p>"
    return f"<div><h4>{side} buffer, {plural(sum(not row.mark.endswith('-') for row in buffered), 'row')}</h4>{body}</div>"


def _buffered(row: StateRow) -> tuple[str, list[str]]:
    values = dict(as_map(next((value for value in (row.after, row.between, row.before) if value is not None), None)))
    met = {True: "matched", False: "no match yet"}.get(values.pop("matched", None), "")
    key = {name: value for name, value in row.key.items() if name != "index" and value not in values.values()}
    words = " · ".join(map(say, [*key.values(), *values.values()]))
    return f' class="{MARKS[row.mark]}"', [escape(row.mark), f"{words} <small class='note'>{met}</small>"]
