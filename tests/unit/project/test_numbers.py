"""Every number with a unit in README, CONTRIBUTING, docs and notebooks has been measured, or is listed as one that has not.

    A trigger takes 41 ms.          in a part that docs/collect.py writes from a file of measurements: fine
    An installation takes 1.0 GB.   among the `figures` that docs/measured.toml has for this page: fine
    A table has 64 KB or more.      in not_measured.toml, under what it is: a setting, an example, a quotation, a calculation
    `option("delay", "5 s")`        code, which is not searched

1. From the text, what is collected and what is code is taken away. A block of code in README and docs that is only set in
   by four spaces stays: tables of measurements look like this, too.
2. What is left is searched for numbers with units, and for lines of tables that have numbers, and nothing else, in three columns or more.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from docs.collect import DOCS, MARK, ROOT, measurements, pages

UNITS = (
    "ms|s|µs|(?:micro|milli)?seconds?|minutes?|hours?|[kMGT]i?B|[KMGT]B|KiB|bytes?|cores?|times|rows(?: a second|/s)|million rows|"
    "of Spark's"
)
NUMBER = r"(?<![\w.:/-])\d[\d,]*(?:\.\d+)?"
WITH_UNIT = re.compile(rf"{NUMBER}(?: (?:to|and|or) {NUMBER})? ?(?:(?:{UNITS})\b|%)")
COLUMNS = re.compile(r"\s*\|\s*|\s{2,}")
ALONE = re.compile(rf"{NUMBER}(?:, {NUMBER})*")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
WRITTEN = re.compile(r"<!-- results -->.*?<!-- end -->", re.S)  # by the test of crashes and by that of planted bugs
LISTED = tomllib.loads(Path(__file__).with_name("not_measured.toml").read_text(encoding="utf-8"))


def numbers_of(text: str) -> Iterator[str]:
    """The numbers with units in a page, and its table-like lines with many numbers."""
    text = CODE.sub("`…`", WRITTEN.sub("", MARK.sub("", text)))  # (1)
    for line in text.splitlines():
        found = [match.group() for match in WITH_UNIT.finditer(line)]  # (2)
        is_table = line.startswith(("|", "    ")) and sum(bool(ALONE.fullmatch(part)) for part in COLUMNS.split(line)) >= 3
        yield from found if found or not is_table else [line.strip()]


def texts() -> dict[str, str]:
    """The text of README, CONTRIBUTING and each page, and the markdown of each notebook."""
    found = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "CONTRIBUTING.md", *pages())}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        found[path.stem] = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return found


TEXTS = texts()


def allowed(page: str) -> set[str]:
    figures = (entry["figures"] for entry in measurements().values() if page in entry.get("pages", ()))
    return {number for some in figures for number in some} | {number for of in LISTED.values() for number in of.get(page, ())}


@pytest.mark.parametrize("page", TEXTS)
def test_every_number_with_a_unit_has_been_measured_or_is_listed(page: str) -> None:
    unknown = [number for number in numbers_of(TEXTS[page]) if number not in allowed(page)]
    assert not unknown, f"{page}: put what was measured into docs/measured.toml, and anything else into not_measured.toml"


def test_what_is_listed_is_still_said() -> None:
    listed = {(page, number) for of in LISTED.values() for page, numbers in of.items() for number in numbers}
    measured = {(page, number) for entry in measurements().values() for page in entry.get("pages", ()) for number in entry["figures"]}
    said = {(page, number) for page, text in TEXTS.items() for number in numbers_of(text)}
    assert not listed - said, "these numbers stand there no more"
    assert {number for _, number in measured} <= {number for _, number in said}


def test_each_measurement_says_when_and_where_and_is_shown() -> None:
    shown = set(re.findall(r"<!-- collect: measured ([\w-]+)", "\n".join(TEXTS.values())))
    for name, entry in measurements().items():
        assert {"what", "date", "commit", "machine"} <= entry.keys(), name
        assert re.fullmatch(r"[0-9a-f]{7,}", entry["commit"]), name
        assert name in shown or entry.get("figures"), f"{name}: no page shows it"
        assert "text" in entry or "figures" in entry, name
    with_table = {path.stem for path in DOCS.glob("*.md") if f"collect: measured-on {path.stem} " in TEXTS[path.stem]}
    showing = {path.stem for path in DOCS.glob("*.md") if "collect: measured " in TEXTS[path.stem]}
    naming = {page for entry in measurements().values() for page in entry.get("pages", ())} - {"README", "CONTRIBUTING"}
    assert showing | naming <= with_table, "these pages need the part `measured-on`"


@pytest.mark.parametrize(("text", "found"), [
    ("A trigger takes 41 ms.", ["41 ms"]),
    ("It took 19 to 54 seconds, and 1.0 GB.", ["19 to 54 seconds", "1.0 GB"]),
    ("half, or 0.64 of Spark's time, or 50 %", ["0.64 of Spark's", "50 %"]),
    ("one partition takes 1,944,117 rows a second", ["1,944,117 rows a second"]),
    ("<!-- collect: measured x -->\nA trigger takes 41 ms.\n<!-- end -->", []),
    ("`sleep 5 s` of Spark 4.3 at 12:05 in batch 3", []),
    ("    model   1,208   3.5   12   7", ["model   1,208   3.5   12   7"]),
    ("| 2 | 10 | 366 | 7.8 |", ["| 2 | 10 | 366 | 7.8 |"]),
])
def test_a_number_with_a_unit_is_found(text: str, found: list[str]) -> None:
    assert list(numbers_of(text)) == found
