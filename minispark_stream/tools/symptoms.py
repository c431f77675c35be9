"""What a message of Spark means, and what to do: `minispark_stream why "..."`.

    why("[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. ...")
    why("Sorting is not supported on streaming DataFrames/Datasets")
    why("/data/checkpoint")            why does its query emit nothing?

1. For a checkpoint, the answer says what is in its state and what it waits for (tools/inspection/why_no_output.py).
2. A message is looked up in symptoms.toml: by the error conditions that it names, or otherwise by Spark's own words.
3. If no entry matches, the answer is the entries that have most of the words in their titles or Spark's own words.

The page docs/symptoms.md shows the same entries. Each has the code that produces it, which a test runs on both engines.

Models: nothing of Spark.
Shown by tests/conformance/test_symptoms.py::test_both_engines_show_it, tests/unit/tools/test_symptoms.py.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

ENTRIES = "symptoms.toml"
CONDITION = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:\.[A-Z0-9_]+)?\b")
SIMILAR = 3  # entries, if none matches


@dataclass(frozen=True)
class Symptom:
    """An entry.

    `raises`: the error condition with which the query fails, or `says`: a part of Spark's message, if it has no condition; with
    neither, the query runs, but does not do what was wanted. `code`: lines that show the symptom, after those of `prelude()`,
    with `spark` (a session of either engine) and `folder` (an empty one). `see`: the number of the notebook.
    """

    title: str
    means: str
    way_out: str
    see: str
    code: str
    raises: str | None = None
    says: str | None = None

    def fits(self, message: str, conditions: set[str]) -> bool:
        return self.raises in conditions or self.says is not None and self.says in message

    def __str__(self) -> str:
        return "\n".join([
            self.title, f"  what it means   {self.means}", f"  the way out     {self.way_out}", f"  notebook        {self.see}",
        ])


def _read() -> dict[str, Any]:
    return tomllib.loads(files("minispark_stream.tools").joinpath(ENTRIES).read_text(encoding="utf-8"))


def prelude() -> str:
    """The lines with which every `code` begins."""
    return str(_read()["prelude"])


def symptoms() -> list[Symptom]:
    """All entries, in the order of the page."""
    return [Symptom(**entry) for entry in _read()["symptom"]]


def find(message: str) -> list[Symptom]:
    """The entries for a message of Spark, an error condition, or a few words."""
    known, conditions = symptoms(), set(CONDITION.findall(message))
    found = [one for one in known if one.fits(message, conditions)]  # (2)
    if found:
        return found
    words = _words(message)
    common = {one.title: len(words & _words(f"{one.title} {one.raises or one.says or ''}")) for one in known}
    similar = sorted((one for one in known if common[one.title]), key=lambda one: -common[one.title])
    return similar[:SIMILAR]  # (3)


def why(message_or_checkpoint: str) -> str:
    """What a message means and what to do, as text; or why the query of a checkpoint emits nothing.

    Args:
        message_or_checkpoint: an error message, an error condition or a few words; or the folder of a checkpoint.

    Raises:
        ValueError: the folder is not a checkpoint.
    """
    if "\n" not in message_or_checkpoint and Path(message_or_checkpoint).is_dir():
        from minispark_stream.tools.inspection.why_no_output import explain_checkpoint

        return str(explain_checkpoint(message_or_checkpoint))  # (1)
    found = find(message_or_checkpoint)
    if not found:
        return "No entry has these words. docs/symptoms.md lists all entries."
    return "\n\n".join(map(str, found))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", text.lower().replace("_", " "))) - {"with", "that", "this", "without", "there", "from"}
