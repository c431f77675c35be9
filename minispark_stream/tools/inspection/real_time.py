"""Why nothing seems to come out of a query in real-time mode: what its trigger means, and what waits for the end of a batch.

1. The length of a batch is no latency. Rows are written while the batch runs, but logs and reports are written when it ends.
2. So of the batch that runs, nothing is known. What a crash leaves of it is in the sink alone.
3. Some sinks show the rows of a batch when it ends, and Spark gives rows to a Python function in groups.

    real time    a batch lasts 5 min ...; it is not how old a row gets
    open batch   batch 3 runs, or is about to: ...
    held back    the console prints the rows of a batch when it ends

Models: nothing of Spark.
Differs from Spark: Spark has no such answer.
Shown by tests/unit/tools/inspection/test_why_no_output.py::test_five_minutes_are_no_latency.
"""

from __future__ import annotations

from collections.abc import Iterator

from minispark_stream.lens.view.words import delay_words
from minispark_stream.tools.inspection.asked import Asked

CONSOLE, FOREACH_OF_SPARK = ("ConsoleSink", "ConsoleTable$"), "ForeachWriterTable"


def in_real_time(asked: Asked) -> Iterator[tuple[str, str]]:
    """What is different because the query is in real-time mode; nothing for other queries."""
    if not asked.is_real_time:
        return
    lasts = f"a batch lasts {delay_words(asked.real_time_ms)}, and its" if asked.real_time_ms else "the"
    yield "real time", (  # (1)
        f"{lasts} rows are written while it runs. The length of a batch is not how old a row gets: it is how much is read and "
        "written again after a crash, and for how long the watermark stands still"
    )
    if asked.is_active:
        yield "open batch", (  # (2)
            f"batch {_next(asked)} runs, or is about to begin. No report and no log knows what it has read and written: they "
            "are written when it ends"
        )
    if asked.sink in CONSOLE:  # (3)
        yield "held back", "the console prints the rows of a batch when the batch ends"
    elif asked.sink == FOREACH_OF_SPARK:
        yield "held back", (
            "Spark gives rows to a Python function of foreach in groups: when there are many of them, or when the batch ends"
        )


def _next(asked: Asked) -> int:
    """The batch after the last one that has ended."""
    committed = [batch.batch_id for batch in asked.report.batches if batch.committed] if asked.report is not None else []
    reported = [report.get("batchId") for report in asked.progress]
    return max((number for number in (*committed, *reported) if number is not None), default=-1) + 1
