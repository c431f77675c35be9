"""What a message of Spark means, and what to do: `minispark_stream why "..."`.

    why("[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. ...")
    why("Sorting is not supported on streaming DataFrames/Datasets")
    why("how do I change my query and keep the checkpoint")
    why("driver.log")                  what does the last error in this log mean?
    why("/data/checkpoint")            why does its query emit nothing?
    why("progress.jsonl")              what do these progress reports say?

1. What looks like a path is one (asked.py). For a checkpoint, the answer says what is in its state and what it waits for
   (tools/inspection/why_no_output.py); of a file, the content is the message.
2. A message or a question is looked up in the entries (matching.py).
3. If no entry fits, and the text has progress reports, the answer says what they tell (tools/reports.py).

The page docs/symptoms.md shows the same entries. Most have the code that produces them, which a test runs on both engines.

Models: nothing of Spark.
Shown by tests/conformance/test_symptoms.py, tests/unit/tools/symptoms.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from minispark_stream.tools.symptoms.asked import end_of, has_words, is_path, is_remote, local
from minispark_stream.tools.symptoms.entries import Symptom, SymptomGroup, groups, prelude, symptoms
from minispark_stream.tools.symptoms.matching import Answer, SymptomIndex
from minispark_stream.tools.symptoms.reported import explain_saved, reports_in

if TYPE_CHECKING:
    from minispark_stream.tools.inspection.why_no_output import OutputExplanation

__all__ = ["Answer", "SymptomGroup", "Symptom", "answer", "groups", "look_up", "look_up_text", "prelude", "symptoms", "why"]


def look_up(message: str) -> Answer:
    """The entries for a message of Spark, an error condition, or a question in plain words."""
    return _index().look_up(message)  # (2)


def look_up_text(text: str, path: str | None = None) -> Answer | OutputExplanation:
    """The entries for a text or, if none fits, what the progress reports in it say.

    Args:
        path: the file that the text is the end of.
    """
    found = look_up(text)
    if not found.found:
        saved = reports_in(text, path)  # (3)
        if saved:
            return explain_saved(saved)
    return found


def answer(asked: str) -> Answer | OutputExplanation:
    """What `why` prints, as values."""
    if not is_path(asked):
        return look_up_text(asked)
    path = local(asked)
    if os.path.isfile(path):
        return look_up_text(end_of(path), path)
    if is_remote(asked) or os.path.isdir(path):
        from minispark_stream.tools.inspection.why_no_output import explain_checkpoint

        return explain_checkpoint(asked if is_remote(asked) else path)  # (1)
    if has_words(asked) and (said := _index().said_in(asked)):
        return Answer(True, tuple(said))
    raise FileNotFoundError(f"there is nothing at {asked}")


def why(asked: str) -> str:
    """What a message means and what to do, as text; or why the query of a checkpoint emits nothing.

    Args:
        asked: an error message, an error condition, a question or a progress report; or the folder of a checkpoint, or a file
            with messages or reports.

    Raises:
        FileNotFoundError: there is nothing at this path.
        ValueError: the folder is not a checkpoint.
    """
    return str(answer(asked))


@lru_cache(maxsize=1)
def _index() -> SymptomIndex:
    return SymptomIndex(symptoms())
