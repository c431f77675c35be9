"""Why did a query emit nothing? The question can be asked about a query, about a checkpoint, or about progress reports.

    explain_output("/data/checkpoint")        a checkpoint alone
    explain_output(query)                     of the model or of real Structured Streaming, running or not
    explain_output("progress.jsonl")          what somebody saved or pasted (tools/reports.py says in which forms)

A query of the model answers the question itself. For a query of Spark, the JVM knows where the checkpoint is and which output
mode the query has, and the rest is in the checkpoint and in the progress reports (tools/inspection/why_no_output.py). Of one
of Spark Connect, the output mode and the plan are not known, because there is no JVM to ask (tools/held_query.py).

Differs from Spark: Spark has no such answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minispark_stream.tools.held_query import as_model_query, is_query, look
from minispark_stream.tools.inspection.why_no_output import (
    OutputExplanation,
    explain_checkpoint,
    explain_query,
    explain_reports,
)
from minispark_stream.tools.reports import is_saved, read_saved, the_one

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def explain_output(
    query_or_checkpoint: StreamingQuery | str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    checkpoint: str | Path | None = None,
    name: str | None = None,
) -> OutputExplanation:
    """What a query has in its state, what it dropped, which watermark it waits for, and what would have to arrive.

    Args:
        query_or_checkpoint: a query of the model or of Spark; or the path of a checkpoint as `inspect` takes it; or progress
            reports: a file of them, their text, or a list such as `query.recentProgress`.
        checkpoint: where the checkpoint is, if the query or the reports cannot say so.
        name: the name or the id of the query, if there are reports of several.

    Returns:
        the answer, which prints as text and is shown as a table in Jupyter.

    Raises:
        FileNotFoundError: there is no such directory or file.
        ValueError: the directory is not a checkpoint, or the file has no reports, or those of several queries.
        TypeError: the argument is something else, such as a DataFrame that no query runs.
    """
    given: Any = query_or_checkpoint
    where = None if checkpoint is None else str(checkpoint)
    if is_saved(given):
        saved = the_one(read_saved(given), name)
        return explain_reports(list(saved.reports), saved.error, where)
    if isinstance(given, (str, Path)):
        return explain_checkpoint(str(given))
    if (own := as_model_query(given)) is not None and is_query(own):
        return own.explain_output()
    if not is_query(given):
        wanted = "a query, as start() returns it, progress reports, or the path of a checkpoint"
        raise TypeError(f"explain_output takes {wanted}, not {given!r}")
    return explain_query(given, look(given, where))
