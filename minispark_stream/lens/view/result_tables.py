"""The result table of a query on a timeline: the input so far, the table that it makes, and what each output mode sends of it.

Shows: the model of the SIGMOD'18 paper, section 4.2 and figure 2.

1. There is a column for each batch. Above are the tables, each as it is after this batch; a row that was not there before is
   blue.
2. Below are the output modes, each with the rows that it sent in this batch.

                        batch 0     batch 1     batch 2
    all input           a           a  b        a  b  a
    result table        a 1         a 1  b 1    a 2  b 1
    update sends        a 1         b 1         a 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from minispark_stream.lens.view.sheet import GREY, HELD, MARGIN, NEW, OUT, PALE, Look, Sheet, columns_wide
from minispark_stream.lens.view.timeline import Picture

TableRows = Sequence[str]  # of one table, or of what was sent in one batch
LABEL, GAP, TALL = 110.0, 8.0, 17.0
NARROW, WIDE = 90.0, 112.0  # columns
CAPTION = (
    "Top to bottom: all input up to this batch, the table that a batch query makes of it, and what each output mode emits. "
    "The table does not depend on the mode; the mode says which of its rows are emitted, and when."
)


def result_tables(tables: Mapping[str, Sequence[TableRows]], sent: Mapping[str, Sequence[TableRows]]) -> Picture:
    """Draw tables, and what was sent of them.

    Args:
        tables: the name of a table -> its rows after each batch.
        sent: the name of an output mode -> the rows that it sent in each batch. If a mode has more batches than a table, the
            table has not changed in them.

    Returns:
        a picture, the same every time.
    """
    batches = max(map(len, [*tables.values(), *sent.values()]))
    legend = [
        (NEW, "new or changed in this batch", bool(tables)), (HELD, "as before", bool(tables)),
        (OUT, "sent to the sink", bool(sent)),
    ]
    column = columns_wide(batches, 2 * MARGIN + LABEL, NARROW, WIDE)
    sheet = Sheet("results", 2 * MARGIN + LABEL + column * batches, "Input, result table and output", CAPTION, legend)
    xs = [MARGIN + LABEL + column * batch for batch in range(batches)]
    for batch, x in enumerate(xs):
        sheet.words(x, sheet.top + 4, f"batch {batch}", bold=True)
    sheet.top += 20
    for name, states in tables.items():
        full = [*states, *[states[-1]] * (batches - len(states))]
        before: Sequence[TableRows] = [(), *full]
        _band(sheet, name, [_looks(rows, old) for rows, old in zip(full, before)], xs, column - GAP)  # (1)
    for name, outputs in sent.items():  # (2)
        _band(sheet, f"{name} sends", [[(row, OUT) for row in rows] for rows in outputs], xs, column - GAP)
    return Picture(sheet.svg())


def _looks(rows: TableRows, before: TableRows) -> list[tuple[str, Look]]:
    known, looks = Counter(before), []
    for row in rows:
        looks.append((row, HELD if known[row] > 0 else NEW))
        known[row] -= 1
    return looks


def _band(sheet: Sheet, name: str, columns: Sequence[Sequence[tuple[str, Look]]], xs: Sequence[float], wide: float) -> None:
    sheet.line([MARGIN, sheet.width - MARGIN], [sheet.top - 4] * 2, PALE, 0.7, layer=1)
    sheet.words(MARGIN, sheet.top + TALL / 2, name, bold=True)
    for x, rows in zip(xs, columns):
        for place, (row, look) in enumerate(rows):
            sheet.box(x, sheet.top + place * TALL, wide, TALL - 2, row, look)
        if not rows:
            sheet.words(x, sheet.top + TALL / 2, "nothing", ink=GREY)
    if len(columns) < len(xs):
        sheet.words(xs[len(columns)], sheet.top + TALL / 2, "no such batch", ink=GREY)
    sheet.top += TALL * max(1, *map(len, columns)) + 10
