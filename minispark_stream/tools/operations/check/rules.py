"""The table of rules: what each kind of difference means, as data (rules.toml).

Models: nothing of Spark.
Shown by tests/unit/tools/operations/test_check.py::test_each_rule_has_a_verdict_and_words.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from minispark_stream.tools.operations.check.answer import CheckDifference


@dataclass(frozen=True)
class Rule:
    """A kind of difference. `way`: what to do instead; "" if there is no need."""

    id: str
    verdict: str
    says: str
    way: str = ""


@cache
def rules() -> Mapping[str, Rule]:
    """All rules by their ids, in the order of the table."""
    table = tomllib.loads(files(__package__).joinpath("rules.toml").read_text(encoding="utf-8"))
    return {rule.id: rule for name, entry in table.items() for rule in _of("", name, entry)}


def _of(prefix: str, name: str, entry: Mapping[str, object]) -> list[Rule]:
    here = f"{prefix}{name}"
    found = [Rule(here, str(entry["verdict"]), str(entry["says"]), str(entry.get("way", "")))] if "verdict" in entry else []
    return found + [rule for n, e in entry.items() if isinstance(e, dict) for rule in _of(f"{here}.", n, e)]


def difference(rule_id: str, where: str, before: object = None, after: object = None) -> CheckDifference:
    """A difference of the kind `rule_id`."""
    rule = rules()[rule_id]
    was, now = (None if value is None else str(value) for value in (before, after))
    return CheckDifference(rule.id, where, was, now, rule.verdict, rule.says)
