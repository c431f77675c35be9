"""The cards: a question, a case of the page to play with that answers it, two sentences, what to drag, and where it goes on.

cards.toml has them. They are on docs/play.html, which opens from disk; on the site, where they have links; and in docs/play.md,
where the search finds them. tests/spark/test_cards.py plays the case of each on real Spark and on the model, before and after
what is dragged.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minispark_stream.lens.view.play import Play
from minispark_stream.tools.course import LESSONS

DOCS = Path(__file__).parent
PROOF = "tests/spark/test_cards.py"
NAMES = {path.stem: path.stem.replace("_", " ", 1).replace("_", " ") for path in (DOCS.parent / "notebooks").glob(LESSONS)}


@dataclass(frozen=True)
class Card:
    """One of them; cards.toml says what is what. Of `out`, `late` and `held`, the first is of `case`, the second of `then`."""

    name: str
    question: str
    answer: str
    do: str
    case: str
    then: str
    out: Sequence[Sequence[str]]
    late: Sequence[int]
    held: Sequence[int]
    goes_on: Sequence[str]
    entry: str = ""

    def links(self) -> dict[str, str]:
        """What the card leads to, and where it stands, as seen from docs/."""
        notebook, section = self.goes_on
        found = {f"notebook {NAMES[notebook]}: {section}": f"../notebooks/{notebook}.ipynb#{anchor(section)}"}
        if self.entry:
            found[f"symptom: {self.entry}"] = f"symptoms.md#{anchor(self.entry)}"
        return {**found, f"{PROOF} plays it on real Spark": f"../{PROOF}"}


def anchor(heading: str) -> str:
    """The place of a heading in its page, as GitHub and the site have it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def cards() -> list[Card]:
    """All of them, in their order."""
    return [Card(**card) for card in tomllib.loads((DOCS / "cards.toml").read_text(encoding="utf-8"))["card"]]


def page(on_the_site: bool = False) -> Play:
    """The page to play with, with the cards. On the site, it stands above docs/, and the links are addresses of the site."""

    def shown(card: Card) -> dict[str, Any]:
        links = [[words, _address(link) if on_the_site else ""] for words, link in card.links().items()]
        return {name: getattr(card, name) for name in ("name", "question", "answer", "do", "case")} | {"links": links}

    return Play(cards()[0].name, {"cards": [shown(card) for card in cards()]})


def _address(link: str) -> str:
    file, _, place = (link.removeprefix("../") if link.startswith("../") else f"docs/{link}").partition("#")
    return f"{file.rpartition('.')[0]}.html" + (f"#{place}" if place else "")


def sections() -> Iterator[str]:
    """The cards as a part of docs/play.md."""
    for card in cards():
        links = " · ".join(f"[{words}]({link})" for words, link in card.links().items())
        play = f'<a href="play.html#{card.name}">Play it</a>'
        yield f"### {card.question}\n\n{card.answer}\n\n{play}: {card.do}\n\n{links}\n"

