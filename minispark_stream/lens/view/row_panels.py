"""The panels of the rows of a batch: what it has read, with the fate of each row, and what it has passed to the sink.

    time                 word
    2024-01-01 12:04     late    [dropped as late]      struck through: its window had ended
    2024-01-01 12:30     d       [kept]                 the button opens the whole story of the row

The fate of a row is shown when all operators have run, or the batch has been computed; before that, nobody knows it. The HTML
that is returned is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from minispark_stream.lens.view.row_fates import RowFates, RowOutcome
from minispark_stream.lens.view.style import say, table
from minispark_stream.lens.view.words import plural, short
from minispark_stream.lens.view.world import World

NEW = ' class="new"'
_LEVEL = "<code>MiniSparkSession(spark, trace=&quot;rows&quot;)</code>"
NO_ROWS = f"Not recorded. {_LEVEL} records rows and state."


def rows_in(world: World, fates: RowFates | None = None) -> str:
    """The rows that this batch has read, or their number."""
    found = []
    for source in world.sources:
        name = f"<p><code>{say(short(source.name))}</code></p>" if len(world.sources) > 1 else ""
        if source.rows is not None:
            known = fates.of(world.moment.batch_id, source.name, source.rows) if fates is not None and world.is_computed else []
            found.append(name + _rows(source.rows, source.changed, known))
        elif source.num_rows is not None:
            found.append(name + _count(source.num_rows))
    return "".join(found) or "<p class='note'>Nothing read in this batch yet.</p>"


def rows_out(world: World) -> str:
    """The rows that this batch has passed to the sink, or their number."""
    if world.rows_out is not None:
        return _rows(world.rows_out, world.moment.event.step == "addBatch")
    if world.num_rows_out is not None and world.num_rows_out >= 0:
        return _count(world.num_rows_out)
    return "<p class='note'>Nothing emitted in this batch yet.</p>"


def _count(rows: int) -> str:
    return f"<p>{plural(rows, 'row')}. <span class='note'>{NO_ROWS}</span></p>" if rows else "<p class='note'>No rows.</p>"


def _rows(rows: Sequence[Any], new: bool, fates: Sequence[RowOutcome | None] = ()) -> str:
    if not rows:
        return "<p class='note'>No rows.</p>"
    maps = [row or {"value": row} for row in rows]
    columns = list(dict.fromkeys(str(name) for row in maps for name in row))
    known = [*fates, *([None] * (len(maps) - len(fates)))]
    ordered = sorted(zip(maps, known), key=lambda pair: _in_order(json.dumps([say(pair[0].get(c)) for c in columns])))
    lines = [_row([say(row[c]) if c in row else "" for c in columns], new, fate, any(known)) for row, fate in ordered]
    return table([*map(say, columns), *(["fate"] if any(known) else [])], lines)


def _in_order(words: str) -> str:
    """What words are sorted by: 9 comes before 10."""
    return re.sub(r"(?<![\d.])\d+", lambda found: found[0].rjust(20, "0"), words)


def _row(cells: list[str], new: bool, fate: RowOutcome | None, with_fates: bool) -> tuple[str, list[str]]:
    if fate is None:
        return NEW if new else "", [*cells, *([""] if with_fates else [])]
    look = "dropped" if fate.dropped else "new" if new else ""
    button = f"<button data-fate='{fate.number}' title='{escape(fate.reason)}'>{say(fate.word)}</button>"
    return f" class='{look}'", [*cells, button]
