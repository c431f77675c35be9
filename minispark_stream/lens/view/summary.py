"""The batches of a trace as a table, and how long each took: what Jupyter shows of a trace.

    batch | rows in | rows out | watermark | state rows | late rows | took |
    3     | 2       | 2        | 12:20:00  | 3          | 0         | 1.2 s | run again
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view import timeline
from minispark_stream.lens.view.batch_table import batch_rows
from minispark_stream.lens.view.style import CSS, table
from minispark_stream.lens.view.words import duration_words, number, time_words


def summary(recording: Recording) -> str:
    """The table and the bars, as HTML."""
    name = f"query {escape(recording.name)}" if recording.name else "a query without a name"
    head = ("batch", "rows in", "rows out", "watermark", "state rows", "late rows", "took", "")
    lines = table(head, [("", _cells(row)) for row in batch_rows(recording)])
    note = f"<p class='note'>{escape(recording.note)}</p>" if recording.note else ""
    return (
        f"<style>{CSS}</style><div class='ms summary'><h3>{name} on {escape(recording.engine)}</h3>{note}{lines}"
        f"{timeline.svg(recording.batches)}</div>"
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    counts = ("" if row[name] is None else number(row[name]) for name in ("rows_in", "rows_out"))
    watermark, took = row["watermark_ms"], row["took_ms"]
    kept, late = ("" if row[name] is None else number(row[name]) for name in ("state_rows", "late_rows"))
    return [
        str(row["batch"]), *counts, "" if watermark is None else time_words(watermark), kept, late,
        "" if took is None else duration_words(took), "failed" if row["error"] else "run again" if row["rerun"] else "",
    ]
