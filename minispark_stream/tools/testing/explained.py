"""The message of a failed expectation: what happened instead, why, and where the run can be looked at.

1. What the test has done is repeated on the model, with rows recorded; as long as a test passes, nothing is recorded.
2. The message lists the rows that were dropped, each with the numbers that decided it; then what is held, and until when.
3. It names a page that steps through the run.

    the rows are not those that were expected:
      missing    k=a count=1
    why
      dropped    time=2026-03-01 12:01 k=a: its window ended 12:05:00, at or before the watermark 12:20:00 (…)
      held       operator 0 (stateStoreSave): 1 key, …
    the run, step by step: /tmp/stream_test-x/run.html
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from minispark_stream.lens.trace.fates import DROPPED, fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.fate import told
from minispark_stream.lens.view.words import row_words
from minispark_stream.tools.explanation import explain_output
from minispark_stream.tools.testing.driven_query import DrivenQuery

MOST = 10  # how many dropped rows are listed


def failed(query: DrivenQuery, words: str, replay: Callable[[Path], DrivenQuery]) -> str:
    """The message of a failed expectation of a query."""
    lines = [f"on {'real Spark' if query.engine == 'spark' else 'the model'}, {words}"]
    folder = Path(tempfile.mkdtemp(prefix="stream_test-"))
    try:
        again = replay(folder / "again")  # (1)
        lines += ["why", *(f"  {topic:10} {said}" for topic, said in _reasons(again))]
        page = again.trace.to_html(folder / "run.html")  # (3)
        lines.append(f"the run, step by step: {page}")
    except Exception as e:  # the test has failed for another reason, which must not get lost
        lines.append(f"(the run could not be repeated to find out why: {type(e).__name__}: {e})")
    finally:
        shutil.rmtree(folder / "again", ignore_errors=True)
    return "\n".join(lines)


def _reasons(again: DrivenQuery) -> Iterator[tuple[str, str]]:  # (2)
    yield from dropped(again.trace)
    if (again.checkpoint / "offsets").exists():
        yield from explain_output(str(again.checkpoint)).lines


def dropped(trace: Trace) -> Iterator[tuple[str, str]]:
    """The rows that no operator kept."""
    found = fates(trace)
    gone = [fate for fate in found.rows if fate.what in DROPPED]
    for fate in gone[:MOST]:
        yield "dropped", f"{row_words(fate.row)}: {told(found, fate).fate.removeprefix('dropped: ')}"
    if len(gone) > MOST:
        yield "dropped", f"and {len(gone) - MOST} rows more"
