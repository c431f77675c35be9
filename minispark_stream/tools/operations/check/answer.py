"""The answer of a check: whether the new query would run, and what each of its differences means for the result.

    answer.outcome, answer.condition, answer.when      "refused", "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "first batch"
    answer.verdict                                     the worst verdict of its differences
    answer.exit_code                                   0 fine, 1 refused, 2 it runs, but look, 3 it cannot be told

Models: nothing of Spark.
Shown by tests/unit/tools/operations/test_check.py::test_the_worst_difference_decides.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property

from minispark_stream.lens.view.words import one_line

RIGHT, NEW_ROWS, CARRIED_ON, UNKNOWN, WRONG, REFUSED = "right", "new rows only", "carried on", "unknown", "wrong", "refused"
VERDICTS = (RIGHT, NEW_ROWS, CARRIED_ON, UNKNOWN, WRONG, REFUSED)  # the worst last
EXIT_CODES = {RIGHT: 0, NEW_ROWS: 0, CARRIED_ON: 2, WRONG: 2, REFUSED: 1, UNKNOWN: 3}
SAID = {
    RIGHT: "the result is that of the new query", NEW_ROWS: "takes effect on new rows only",
    CARRIED_ON: "the old state goes on under the new meaning", UNKNOWN: "CANNOT BE TOLD",
    WRONG: "WRONG RESULTS, and no error", REFUSED: "REFUSED",
}
START, FIRST = "start", "first batch"


@dataclass(frozen=True)
class CheckDifference:
    """Something that is not as it was. `id`: that of its rule. `where`: the part of the query, the conf or the file."""

    id: str
    where: str
    before: str | None
    after: str | None
    verdict: str
    says: str


@dataclass(frozen=True)
class Refused:
    """What Spark would say instead of running the query, and at which moment; its error may have no condition."""

    when: str
    condition: str | None
    message: str


@dataclass(frozen=True, repr=False)
class Check:
    """What `check` found out. It is shown as text (`str`)."""

    checkpoint: str
    says: str
    differences: tuple[CheckDifference, ...] = ()
    ways_out: tuple[str, ...] = ()
    refused: Refused | None = None
    not_planned: str = ""

    @property
    def outcome(self) -> str:
        """ "runs", "refused", or "unknown"."""
        return "refused" if self.refused else "unknown" if self.not_planned else "runs"

    @property
    def condition(self) -> str | None:
        return None if self.refused is None else self.refused.condition

    @property
    def when(self) -> str | None:
        return None if self.refused is None else self.refused.when

    @cached_property
    def verdict(self) -> str:
        """The worst verdict of the differences; without any, the result is right."""
        found = [d.verdict for d in self.differences]
        found += [REFUSED] if self.refused else [UNKNOWN] if self.not_planned else []
        return max(found, key=VERDICTS.index, default=RIGHT)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def to_json(self, indent: int | None = None) -> str:
        shown = {
            "checkpoint": self.checkpoint, "next": self.says, "outcome": self.outcome, "condition": self.condition,
            "when": self.when, "message": self.refused.message if self.refused else self.not_planned,
            "verdict": self.verdict, "differences": [asdict(one) for one in self.differences],
            "ways_out": list(self.ways_out), "exit_code": self.exit_code,
        }
        return json.dumps(shown, ensure_ascii=False, indent=indent).encode("utf-8", "replace").decode()

    def __str__(self) -> str:
        lines = [f"{self.checkpoint}: {self.says}", self._headline()]
        for one in self.differences:
            change = "" if one.before is None and one.after is None else f"   {one.before} -> {one.after}"
            lines += [f"  {one.where}{change}", f"    {SAID[one.verdict]}: {one.says} [{one.id}]"]
        lines += [f"  way out: {way}" for way in self.ways_out]
        return "\n".join(map(one_line, [*lines, f"exit code {self.exit_code}"]))

    __repr__ = __str__

    def _headline(self) -> str:
        if self.refused:
            quoted = f"[{self.refused.condition}] " if self.refused.condition else ""
            at = "at start()" if self.refused.when == START else "in its first batch, before it reads anything"
            return f"REFUSED {at}: {quoted}{self.refused.message}"
        if self.not_planned:
            return f"CANNOT BE TOLD: {self.not_planned}"
        return f"it would run: {SAID[self.verdict]}"
