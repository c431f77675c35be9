"""The batches of a trace as rows of numbers: for the table that Jupyter shows above the bars of durations, and for pandas.

    batch  rows_in  rows_out  watermark            state_rows  state_bytes  late_rows  took_ms  rerun  error  ...  addBatch  ...
    3      2        2         2024-01-01 12:11:00  3           1540         0          1204     True   None   ...  1032      ...

`watermark` is the one of the batch itself. For pandas, a column for each phase follows, with its milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.view import timeline
from minispark_stream.lens.view.style import CSS, table
from minispark_stream.lens.view.timeline import phases
from minispark_stream.lens.view.words import clip, duration_words, number, short, time_words

LONGEST = 200  # characters of an error

if TYPE_CHECKING:
    import pandas as pd


def batch_rows(recording: Recording) -> list[dict[str, Any]]:
    """A row for each batch; a number that is not known is None."""
    return [_row(batch) for batch in recording.batches]


def to_pandas(recording: Recording) -> pd.DataFrame:
    """The batches of a recording as a DataFrame; `watermark` is a timestamp in UTC."""
    import pandas as pd

    rows = [{**row, **phases(batch)} for row, batch in zip(batch_rows(recording), recording.batches)]
    frame = pd.DataFrame(rows, columns=[*(rows[0] if rows else COLUMNS)]).rename(columns={"watermark_ms": "watermark"})
    frame["watermark"] = pd.to_datetime(pd.to_numeric(frame["watermark"]), unit="ms", utc=True, errors="coerce")
    return frame


COLUMNS = (
    "batch", "rows_in", "rows_out", "watermark_ms", "state_rows", "state_bytes", "late_rows", "took_ms", "rerun", "error",
)


def _row(batch: Batch) -> dict[str, Any]:
    progress = batch.progress
    operators = progress.get("stateOperators", ())
    kept, size, late = (
        sum(counts) if operators else None for counts in (
            [one.get("numRowsTotal", 0) for one in operators], [one.get("memoryUsedBytes", 0) for one in operators],
            [one.get("numRowsDroppedByWatermark", 0) for one in operators],
        )
    )
    values = (
        batch.batch_id, progress.get("numInputRows"), _num_rows_out(batch),
        iso_ms(progress.get("eventTime", {}).get("watermark")), kept, size, late, batch.durations.get("triggerExecution"),
        batch.rerun, batch.error,
    )
    return dict(zip(COLUMNS, values))


def _num_rows_out(batch: Batch) -> int | None:
    """The number that the sink reported, or else that of the recorded rows."""
    reported = batch.progress.get("sink", {}).get("numOutputRows")
    if reported is not None and reported >= 0:
        return reported
    recorded = [e.outputs for e in batch.events if e.step == "addBatch" and "rows" in e.outputs]
    return recorded[-1].get("emitted") or len(recorded[-1]["rows"] or ()) if recorded else None


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
    ended = f"failed: {escape(clip(short(row['error']), LONGEST))}" if row["error"] else "run again" if row["rerun"] else ""
    return [
        str(row["batch"]), *counts, "" if watermark is None else time_words(watermark), kept, late,
        "" if took is None else duration_words(took), ended,
    ]
