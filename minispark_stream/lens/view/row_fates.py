"""The fate of each row of the panel "Rows in": a word for its table, and the story that a click opens.

1. The rows that a batch read from a source are looked up in the order in which they arrived: of two equal rows, the second one
   is the duplicate.
2. A row in several windows has several fates; it is dropped if the last operator that it reached dropped it from all of them.

    {"word": "i"} of batch 4    ->  dropped as late; "dropped: its window ended 12:10:00, at or before the late watermark ..."
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from minispark_stream.lens.trace.fates import (
    BEYOND,
    DROPPED,
    DUPLICATE,
    KEPT,
    LATE,
    LEFT_OUT,
    OWN_WORDS,
    PASSED,
    TURNED_AWAY,
    UNKNOWN,
    Fate,
    Fates,
    decisive,
)
from minispark_stream.lens.trace.values import name_of
from minispark_stream.lens.view.fate import told

WORDS = {
    LATE: "dropped as late", DUPLICATE: "dropped as duplicate", BEYOND: "dropped by limit", LEFT_OUT: "left out",
    PASSED: "passed on", KEPT: "kept",
    UNKNOWN: "not known", TURNED_AWAY: "dropped",
}


def _word(fate: Fate) -> str:
    is_own = fate.operator is not None and fate.operator.keeps == OWN_WORDS and fate.why
    return fate.why if is_own else WORDS[fate.what]


@dataclass(frozen=True)
class RowOutcome:
    """What became of one row. `number` is that of its story (`RowFates.stories`)."""

    word: str
    reason: str
    dropped: bool
    number: int


class RowFates:
    """The fates of all rows of a query, from the first of its recordings that has rows."""

    def __init__(self, of_recordings: Iterable[Fates]):
        found = next((one for one in of_recordings if one.rows), None)
        self.stories: dict[str, int] = {}  # HTML -> its number
        self._rows: dict[tuple[int | None, str, str], list[RowOutcome]] = {}
        for _, of_row in groupby(found.rows if found else (), key=lambda fate: fate.number):
            assert found is not None
            self._add(found, list(of_row))

    def _add(self, found: Fates, of_row: Sequence[Fate]) -> None:
        fate = of_row[0]
        stories = [told(found, one) for one in of_row]
        number = self.stories.setdefault("".join(story._repr_html_() for story in stories), len(self.stories))  # (2)
        reasons = [story.fate for story in stories]
        words = ["not known" if reason.startswith("not known") else _word(one) for reason, one in zip(reasons, of_row)]
        if any(one.is_behind for one in of_row):
            words = ["behind, but counted"]
        outcome = RowOutcome(
            ", ".join(dict.fromkeys(words)), "; ".join(dict.fromkeys(reasons)), decisive(of_row).what in DROPPED, number
        )
        self._rows.setdefault((fate.batch.batch_id, fate.source, name_of(fate.row)), []).append(outcome)

    def of(self, batch_id: int | None, source: str, rows: Iterable[Any]) -> list[RowOutcome | None]:
        """The fates of the rows that a batch read from a source."""
        met: dict[str, int] = {}  # (1)
        known = []
        for name in map(name_of, rows):
            same = self._rows.get((batch_id, source, name), [])
            at = met[name] = met.get(name, -1) + 1
            known.append(same[at] if at < len(same) else None)
        return known
