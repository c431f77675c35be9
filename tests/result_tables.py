"""Tables of docs/ that a long run fills in, a line at a time: what was measured now replaces what was, and the rest stays.

    | the bug | where | found by |       <!-- results --> and <!-- end --> stand around the table
    | --- | --- | --- |
    | purge too early | ... | ... |      a line is known by its first cell
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
TABLE = re.compile(r"(<!-- results -->\n.*\n\|[ |-]+\|\n)((?:\|.*\n)*)(<!-- end -->)")


def lines(page: str) -> dict[str, str]:
    """The lines of the table by their first cells."""
    found = TABLE.search((DOCS / page).read_text(encoding="utf-8"))
    assert found is not None, f"docs/{page} has no table of results"
    return {line.split(" | ")[0].removeprefix("| "): line for line in found[2].splitlines()}


def fill_in(page: str, cells: Mapping[str, Iterable[object]], order: Iterable[str]) -> None:
    """Write some lines, by their first cells; `order` has the first cells of all lines that are to be there."""
    known = lines(page) | {first: f"| {' | '.join(map(str, [first, *rest]))} |" for first, rest in cells.items()}
    table = "".join(f"{known[first]}\n" for first in order if first in known)
    text = (DOCS / page).read_text(encoding="utf-8")
    (DOCS / page).write_text(TABLE.sub(lambda match: f"{match[1]}{table}{match[3]}", text), encoding="utf-8")
