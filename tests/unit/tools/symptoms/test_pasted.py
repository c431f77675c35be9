"""How many of the messages that people paste are answered rightly, and that nothing is said of what no entry knows.

pasted.toml has nine sets, and says how each fared when nobody had seen it. The bounds are what is measured now.
"""

from __future__ import annotations

import json
import tomllib
import zipfile
from pathlib import Path

import pyspark
import pytest

from minispark_stream.tools.symptoms import look_up, symptoms
from tests.import_graph import ROOT

PASTED = tomllib.loads((ROOT / "tests/unit/tools/symptoms/pasted.toml").read_text(encoding="utf-8"))["pasted"]
EVERY = 20  # of Spark's conditions


@pytest.mark.parametrize(("number", "right", "wrong"), [
    (1, 51, 1), (2, 14, 0), (3, 41, 1), (4, 24, 1), (5, 36, 0), (6, 20, 1), (7, 24, 0), (8, 17, 1), (9, 13, 2),
])
def test_most_are_answered_rightly(number: int, right: int, wrong: int) -> None:
    answers = [(one["entries"], look_up(one["text"])) for one in PASTED if one["set"] == number and "entries" in one]
    fits = [found.found and found.symptoms[0].title in entries for entries, found in answers]
    assert sum(fits) >= right
    assert sum(found.found for _, found in answers) - sum(fits) <= wrong


@pytest.mark.parametrize(("number", "answered"), [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 1), (8, 1), (9, 1)])
def test_what_no_entry_knows_is_not_answered(number: int, answered: int) -> None:
    others = [one["text"] for one in PASTED if one["set"] == number and "entries" not in one]
    assert len([text for text in others if look_up(text).found]) <= answered
    assert len(others) >= 15


def test_a_condition_that_no_entry_has_is_not_guessed_at() -> None:
    """Of all messages of Spark: most have nothing to do with streaming, but many have its words."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    conditions = json.loads(zipfile.ZipFile(jar).read("error/error-conditions.json"))
    known = {condition.partition(".")[0] for one in symptoms() for condition in one.conditions}
    asked = [f"[{name}] {' '.join(one['message'])} SQLSTATE: {one.get('sqlState')}"
             for name, one in conditions.items() if name not in known and not name.startswith("_LEGACY")]
    assert len(asked) > 500
    found = [text for text in asked[::EVERY] if look_up(text).found]
    assert found == []


def test_the_entries_exist() -> None:
    titles = {one.title for one in symptoms()}
    assert {title for one in PASTED for title in one.get("entries", ())} <= titles
