"""The batches of a trace as a table, and how long each took: what Jupyter shows of a trace.

    batch | rows in | rows out | watermark | state rows | late rows | took |
    3     | 2       | 2        | 12:20:00  | 3          | 0         | 1.2 s | run again

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from html import escape

from minispark_stream.trace.recording import Batch, Recording
from minispark_stream.trace.times import iso_ms
from minispark_stream.trace.values import as_int, as_list, as_map
from minispark_stream.view import timeline
from minispark_stream.view.style import CSS, table
from minispark_stream.view.words import duration_words, number, time_words


def summary(recording: Recording) -> str:
    """The table and the bars, as HTML."""
    name = f"query {escape(recording.name)}" if recording.name else "a query without a name"
    head = ("batch", "rows in", "rows out", "watermark", "state rows", "late rows", "took", "")
    lines = table(head, [("", _cells(batch)) for batch in recording.batches])
    return (
        f"<style>{CSS}</style><div class='ms summary'><h3>{name} on {escape(recording.engine)}</h3>{lines}"
        f"{timeline.svg(recording.batches)}</div>"
    )


def _cells(batch: Batch) -> list[str]:
    progress = batch.progress
    operators = [as_map(o) for o in as_list(progress.get("stateOperators"))]
    kept, late = (
        number(sum(as_int(o.get(key)) or 0 for o in operators)) if operators else ""
        for key in ("numRowsTotal", "numRowsDroppedByWatermark")
    )
    out = _num_rows_out(batch)
    watermark_ms = iso_ms(as_map(progress.get("eventTime")).get("watermark"))
    took = batch.durations.get("triggerExecution")
    return [
        str(batch.batch_id), escape(number(progress.get("numInputRows", ""))), "" if out is None else number(out),
        "" if watermark_ms is None else time_words(watermark_ms), kept, late, "" if took is None else duration_words(took),
        "failed" if batch.error else "run again" if batch.rerun else "",
    ]


def _num_rows_out(batch: Batch) -> int | None:
    """What the sink reported, or else the rows that were recorded."""
    reported = as_int(as_map(batch.progress.get("sink")).get("numOutputRows"))
    if reported is not None and reported >= 0:
        return reported
    recorded = [e.outputs for e in batch.events if e.step == "addBatch" and "rows" in e.outputs]
    return as_int(recorded[-1].get("emitted")) or len(as_list(recorded[-1]["rows"])) if recorded else None
