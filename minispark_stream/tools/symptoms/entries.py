"""The entries: what goes wrong in a streaming query, what it means, and the way out.

1. They are written down in the files of the folder `texts`, one file for each group, in the order of the page
   docs/symptoms.md. A file begins with the `title` of its group and a line that introduces it.
2. An entry is found by the error conditions that Spark names, by Spark's own words, or by the words with which people ask.
3. Spark's words are templates, as in Spark's error-conditions.json: `<...>` stands for what differs from run to run.

    says = ["Partition <topicPartition>'s offset was changed from <before> to <now>, some data may have been missed"]

Models: nothing of Spark.
Shown by tests/unit/tools/symptoms/test_entries.py, tests/conformance/test_symptoms.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib
if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@dataclass(frozen=True)
class Symptom:
    """An entry.

    Attributes:
        see: the number of a notebook, or the name of a page in docs/.
        conditions: Spark's error conditions, of any version.
        says: Spark's words, as templates: of versions without a condition, or to tell entries with one condition apart.
        ask: how people ask for it.
        code: lines that show the symptom, after those of `prelude()`, with `spark` (a session of either engine) and `folder`
            (an empty one). With neither conditions nor words of Spark, the code ends well, but does not do what was wanted.
        wraps: Spark's message contains another one, which says more.
        warns: Spark logs a line and goes on, so that an error in the same text says more.
    """

    title: str
    means: str
    way_out: str
    see: str
    conditions: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    code: str | None = None
    wraps: bool = False
    warns: bool = False

    @property
    def page(self) -> str:
        return f"notebook {self.see}" if self.see.isdigit() else f"docs/{self.see}.md"

    def __str__(self) -> str:
        return "\n".join([
            self.title,
            f"  what it means   {self.means}",
            f"  the way out     {self.way_out}",
            f"  read more       {self.page}",
        ])


@dataclass(frozen=True)
class SymptomGroup:
    title: str
    about: str
    symptoms: tuple[Symptom, ...]


def prelude() -> str:
    """The lines with which every `code` begins."""
    return str(_read(_folder().joinpath("prelude.toml"))["prelude"])


@lru_cache(maxsize=1)
def groups() -> tuple[SymptomGroup, ...]:
    """All entries, in the order of the page."""
    found = sorted(file.name for file in _folder().iterdir() if file.name[0].isdigit())
    return tuple(_group(_read(_folder().joinpath(name))) for name in found)


def symptoms() -> list[Symptom]:
    return [one for group in groups() for one in group.symptoms]


def _group(read: dict[str, Any]) -> SymptomGroup:
    return SymptomGroup(read["title"], read["about"], tuple(_symptom(**one) for one in read["symptom"]))


def _symptom(conditions: Sequence[str] = (), says: Sequence[str] = (), ask: Sequence[str] = (), **others: Any) -> Symptom:
    return Symptom(conditions=tuple(conditions), says=tuple(says), ask=tuple(ask), **others)


def _folder() -> Traversable:
    return files("minispark_stream.tools.symptoms").joinpath("texts")


def _read(file: Traversable) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
