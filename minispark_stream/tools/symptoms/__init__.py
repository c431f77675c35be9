"""What a message of Spark means, and what to do: `minispark_stream why "..."`.

    why("[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. ...")
    why("Sorting is not supported on streaming DataFrames/Datasets")
    why("how do I change my query and keep the checkpoint")
    why("driver.log")                  what does the last error in this log mean?
    why("/data/checkpoint")            why does its query emit nothing?

1. What looks like a path is one (asked.py). For a checkpoint, the answer says what is in its state and what it waits for
   (tools/inspection/why_no_output.py); of a file, the content is the message.
2. A message or a question is looked up in the entries (matching.py).

The page docs/symptoms.md shows the same entries. Most have the code that produces them, which a test runs on both engines.

Models: nothing of Spark.
Shown by tests/conformance/test_symptoms.py, tests/unit/tools/symptoms.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from minispark_stream.tools.symptoms.asked import end_of, has_words, is_path, is_remote, local
from minispark_stream.tools.symptoms.entries import Group, Symptom, groups, prelude, symptoms
from minispark_stream.tools.symptoms.matching import Answer, Index

if TYPE_CHECKING:
    from minispark_stream.tools.inspection.why_no_output import OutputExplanation

__all__ = ["Answer", "Group", "Symptom", "answer", "groups", "look_up", "prelude", "symptoms", "why"]


def look_up(message: str) -> Answer:
    """The entries for a message of Spark, an error condition, or a question in plain words."""
    return _index().look_up(message)  # (2)


def answer(asked: str) -> Answer | OutputExplanation:
    """As `why`, which is this as text."""
    if not is_path(asked):
        return look_up(asked)
    path = local(asked)
    if os.path.isfile(path):
        return look_up(end_of(path))
    if is_remote(asked) or os.path.isdir(path):
        from minispark_stream.tools.inspection.why_no_output import explain_checkpoint

        return explain_checkpoint(asked if is_remote(asked) else path)  # (1)
    if has_words(asked) and (said := _index().said_in(asked)):
        return Answer(True, tuple(said))
    raise FileNotFoundError(f"there is nothing at {asked}")


def why(asked: str) -> str:
    """What a message means and what to do, as text; or why the query of a checkpoint emits nothing.

    Args:
        asked: an error message, an error condition or a question; or the folder of a checkpoint, or a file with messages.

    Raises:
        FileNotFoundError: there is nothing at this path.
        ValueError: the folder is not a checkpoint.
    """
    return str(answer(asked))


@lru_cache(maxsize=1)
def _index() -> Index:
    return Index(symptoms())
