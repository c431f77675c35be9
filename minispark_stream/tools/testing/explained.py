"""The message of a failed expectation: what happened instead, why, and where the run can be looked at.

1. What the test has done is repeated on the model, with rows recorded and without `on_batch`; as long as a test passes, nothing
   is recorded. The message lists the rows that were dropped or left out there, each with the reason.
2. What was committed, what is held, and until when, is that of the run itself: its checkpoint and its plan.
3. The message names a page that steps through the repeated run.

    the rows are not those that were expected:
      missing    k=a count=1
    why
      dropped    time=2026-03-01 12:01 k=a: its window ended 12:05:00, at or before the watermark 12:20:00 (…)
      held       operator 0 (stateStoreSave): 1 key, …
    the run repeated on the model, step by step: /tmp/stream_test-x/run.html
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.errors import PySparkTypeError

from minispark_stream.lens.trace.fates import DROPPED, LEFT_OUT, fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.fate import told
from minispark_stream.lens.view.words import row_words
from minispark_stream.tools.inspection.asked import Asked
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.why_no_output import explain
from minispark_stream.tools.testing.driven_query import DrivenQuery

MOST = 10  # how many dropped rows are listed
GONE = ("dropped: ", "left out: ")  # what is said of a row may also be that nothing is known


def failed(query: DrivenQuery, words: str, replay: Callable[[Path], DrivenQuery]) -> str:
    """The message of a failed expectation of a query."""
    lines = [f"on {'real Spark' if query.engine == 'spark' else 'the model'}, {words}"]
    folder = Path(tempfile.mkdtemp(prefix="stream_test-"))
    try:
        own = list(_found(query))  # (2)
        try:
            again = replay(folder / "again")  # (1)
        except (ImportError, PySparkTypeError):  # there is no model to repeat it on
            lines += ["why", *(f"  {topic:10} {said}" for topic, said in own)]
            raise
        lines += ["why", *(f"  {topic:10} {said}" for topic, said in [*dropped(again.trace), *own])]
        page = again.trace.to_html(folder / "run.html")  # (3)
        without = " (without on_batch)" if query.has_function else ""
        lines.append(f"the run repeated on the model{without}, step by step: {page}")
    except Exception as e:  # the test has failed for another reason, which must not get lost
        lines.append(f"(the run could not be repeated to find out why: {type(e).__name__}: {e})")
    finally:
        shutil.rmtree(folder / "again", ignore_errors=True)
    return "\n".join(lines)


def _found(query: DrivenQuery) -> Iterator[tuple[str, str]]:
    """What the checkpoint of the run says; nothing if the query was refused before it had one."""
    if (query.checkpoint / "offsets").exists():
        asked = Asked(inspect(str(query.checkpoint)), mode=query.output_mode, plan=query.plan)
        yield from explain(asked).lines


def dropped(trace: Trace) -> Iterator[tuple[str, str]]:
    """The rows that no operator kept, and those that have not reached one."""
    found = fates(trace)
    ends = ((fate, told(found, fate).fate) for fate in found.rows if fate.what in (*DROPPED, LEFT_OUT))
    gone = [(fate, end) for fate, end in ends if end.startswith(GONE)]
    for fate, end in gone[:MOST]:
        topic, _, why = end.partition(": ")
        yield topic, f"{row_words(fate.row)}: {why}"
    if len(gone) > MOST:
        yield "dropped", f"and {len(gone) - MOST} rows more"
