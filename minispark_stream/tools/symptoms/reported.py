"""What saved progress reports say, of every query that they are of.

    explain_saved(reports_in(text))     query    counts
                                        batches  batches 3 to 5: 120 rows in, rows out: 0
                                        ...

Models: nothing of Spark.
Shown by tests/unit/tools/test_reports.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minispark_stream.tools.reports import Saved, read_saved, saved_in_text

if TYPE_CHECKING:
    from minispark_stream.tools.inspection.why_no_output import OutputExplanation

MOST = 20  # queries


def reports_in(text: str, path: str | None = None) -> list[Saved]:
    """The reports of a text, or of the file that it is the end of; none if it has none."""
    try:
        return read_saved(path) if path is not None else [one for one in saved_in_text(text) if one.reports]
    except ValueError:
        return []


def explain_saved(found: Sequence[Saved]) -> OutputExplanation:
    from minispark_stream.tools.inspection.why_no_output import OutputExplanation, explain_reports

    lines: list[tuple[str, str]] = []
    for one in found[:MOST]:
        if len(found) > 1:
            lines.append(("query", one.called))
        lines += explain_reports(list(one.reports), one.error).lines
    if len(found) > MOST:
        lines.append(("query", f"and {len(found) - MOST} more"))
    return OutputExplanation(tuple(lines))
