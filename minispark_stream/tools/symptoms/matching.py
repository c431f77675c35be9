"""Which entry fits a message, or a question; and which are the nearest, if none does.

1. Spark's own words: an error condition, or a template whose fixed words the message has in their order. The last one wins,
   because a message ends with its cause; before that, entries about an error beat those about a warning, and those that say
   more beat those that only wrap another message. Entries with one condition are told apart by their templates. A message
   that ends within a template has seven of its words in a row, and no other entry has these.
2. If there are none, words are compared, unless the message names a condition: then it is one that no entry has. A word
   weighs more the fewer entries have it, and a word that no entry has weighs most. A template fits if the message has nearly
   all of its weight in the right order, or is itself a part of it.
3. A question is compared with the title, the questions and the templates of each entry; the rest of its text counts less. That
   a question says more than a phrase does counts little, because people tell more than they ask.
4. An entry answers a question only if it is ahead of the second one: where two fit alike, neither is known to be right. The
   farther it is ahead, and the more weight it shares with the question, the smaller a part of the question that may be; without
   a word of streaming, it must be most of it. What speaks of another program has an answer only if an entry asks just this.
   Else, the answer is the nearest entries, under a sentence that says so.

    Index(symptoms()).look_up("my windows never come out")    Answer(found=True, symptoms=[Nothing comes out in append mode])

Models: nothing of Spark.
Shown by tests/unit/tools/symptoms/test_messages.py, tests/unit/tools/symptoms/test_questions.py.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from minispark_stream.tools.symptoms.entries import Symptom
from minispark_stream.tools.symptoms.words import is_of_others, is_of_streams, names_condition, plain, stems

GAP = re.compile(r"<[^<>]+>")
WIDEST_GAP = 60  # words that may stand for one <...> of a template
RUN = 7  # words in a row
NEAREST = 3
MOST_WORDS = 400  # of a message that are compared one by one
WINDOW = 60  # words, in which those of a template must lie
FEWEST_WORDS, LEAST_WEIGHT = 4, 5.0  # that a template and a message must have in common
SAYS_ENOUGH = 0.8  # of a template
WEIGHT_OF_SAYS = 0.5  # beside that of a question
ASKS_ENOUGH, ASKS_ENOUGH_ELSEWHERE = 0.44, 0.85  # of a question, with and without a word of streaming
SHARES_ENOUGH, SHARES_MOST = 7.0, 13.0  # weight of the words that a question shares with those of an entry
AHEAD, MOST_AHEAD = 1.05, 1.5  # how many times better than the second one the best entry is
OF_MORE = 0.35  # how much it counts that a question says more than a phrase
OF_TITLE, OF_QUESTION, OF_TEMPLATE, OF_TEXT = 6, 4, 2, 1  # how much a word counts, by its place in the entry


@dataclass(frozen=True)
class Answer:
    """The entries that fit, the best first; or, if `found` is false, those that are nearest."""

    found: bool
    symptoms: tuple[Symptom, ...]

    def __str__(self) -> str:
        if self.found:
            return "\n\n".join(map(str, self.symptoms))
        if not self.symptoms:
            return "No entry fits. docs/symptoms.md lists all entries."
        return "\n".join(["No entry fits. The nearest are:", *(f"  {one.title} ({one.page})" for one in self.symptoms)])


class Place(NamedTuple):
    """Where a template ends in a message, and the length of its words; of two that end together, the longer one says more."""

    end: int
    said: int


NOWHERE = Place(-1, 0)


class Fit(NamedTuple):
    """How well an entry fits: the greater of how much of a template it says, and how much it is what is asked.

    Attributes:
        shares: the weight of the words that the message shares with the title, the questions and the templates.
    """

    score: float
    says: float
    asks: float
    shares: float


NO_FIT = Fit(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class _Phrase:
    """A title, a question or a template, and its words."""

    symptom: Symptom
    words: tuple[str, ...]
    counts: int

    @cached_property
    def set(self) -> frozenset[str]:
        return frozenset(self.words)


class SymptomIndex:
    def __init__(self, known: Sequence[Symptom]):
        self._known = known

    def look_up(self, message: str) -> Answer:
        text = plain(message)
        said = self._said_in(text) or ([] if names_condition(message) else self._said_in_part(text))  # (1)
        if said:
            return Answer(True, tuple(said))
        fits = self._fits(stems(text)[-MOST_WORDS:])
        known = (one for one in self._known if fits[one.title] > NO_FIT)
        best = sorted(known, key=lambda one: fits[one.title], reverse=True)[:NEAREST]
        first, second, *_ = *(fits[one.title] for one in best), NO_FIT, NO_FIT
        if names_condition(message) or not _is_sure(first, second, text):
            return Answer(False, tuple(best))
        return Answer(True, tuple(best[: 1 + (first.score < AHEAD * second.score)]))

    # -- (1) ---------------------------------------------------------------------------------------------------

    def said_in(self, message: str) -> list[Symptom]:
        """The entries whose conditions or templates a message has."""
        return self._said_in(plain(message))

    def _said_in(self, text: str) -> list[Symptom]:
        words = set(text.split())
        at = {one.title: place for one in self._known if (place := self._last_place(one, text, words)) > NOWHERE}
        named = [one for one in self._known if one.title in at]
        most = max((_rank(one, at[one.title]) for one in named), default=None)
        return [one for one in named if _rank(one, at[one.title]) == most]

    @cached_property
    def _templates(self) -> dict[str, list[list[str]]]:
        return {one.title: [fixed(template) for template in one.says] for one in self._known}

    def _last_place(self, symptom: Symptom, text: str, words: set[str]) -> Place:
        """Where the last condition or template of an entry is in a message."""
        places = [NOWHERE]
        for condition in symptom.conditions:
            if condition in words or any(word.startswith(f"{condition}.") for word in words):
                places.append(Place(text.rindex(condition) + len(condition), len(condition)))
        for parts in self._templates[symptom.title]:
            if all(part in text for part in parts):
                between = rf"(?: \S+){{0,{WIDEST_GAP}}}? "
                found = re.finditer(between.join(rf"\b{re.escape(part)}\b" for part in parts), text)
                places += [Place(one.end(), sum(map(len, parts))) for one in found]
        return max(places)

    @cached_property
    def _runs(self) -> dict[str, str]:
        """The runs of words that the templates of one entry alone have, and its title."""
        of: dict[str, set[str]] = {}
        for title, templates in self._templates.items():
            for run in (run for parts in templates for part in parts for run in _runs_of(part)):
                of.setdefault(run, set()).add(title)
        return {run: titles.pop() for run, titles in of.items() if len(titles) == 1}

    def _said_in_part(self, text: str) -> list[Symptom]:
        titles = {self._runs[run] for run in _runs_of(text) if run in self._runs}
        return [one for one in self._known if one.title in titles] if len(titles) == 1 else []

    # -- (2) and (3) -------------------------------------------------------------------------------------------

    @cached_property
    def _phrases(self) -> list[_Phrase]:
        return [phrase for one in self._known for phrase in _phrases(one)]

    @cached_property
    def _counts(self) -> dict[str, Counter[str]]:
        """How much each word counts in each entry."""
        counts = {one.title: Counter(stems(plain(f"{one.means} {one.way_out}"))) for one in self._known}
        for phrase in self._phrases:
            counts[phrase.symptom.title].update(dict.fromkeys(phrase.words, phrase.counts))
        return counts

    @cached_property
    def _words_of_phrases(self) -> dict[str, frozenset[str]]:
        of = {one.title: [phrase.set for phrase in self._phrases if phrase.symptom is one] for one in self._known}
        return {title: frozenset[str]().union(*sets) for title, sets in of.items()}

    @cached_property
    def _usual_length(self) -> float:
        return sum(words.total() for words in self._counts.values()) / len(self._known)

    @cached_property
    def _weight(self) -> dict[str, float]:
        entries = Counter(word for words in self._counts.values() for word in words)
        return {word: self._weight_of(count) for word, count in entries.items()}

    def _weight_of(self, entries: int) -> float:
        return math.sqrt(math.log((1 + len(self._known)) / (0.5 + entries)))

    def _sum(self, words: Iterable[str]) -> float:
        unknown = self._weight_of(0)
        return sum(self._weight.get(word, unknown) for word in words)

    @cached_property
    def _weights_of_phrases(self) -> list[float]:
        return [self._sum(phrase.set) for phrase in self._phrases]

    def _fits(self, message: list[str]) -> dict[str, Fit]:
        """How well each entry fits."""
        asked = frozenset(message)
        of_message = self._sum(asked) or 1.0
        in_phrase = {one.title: 0.0 for one in self._known}
        said = dict(in_phrase)
        windows = [message[at : at + WINDOW] for at in range(0, max(1, len(message) - WINDOW // 2), WINDOW // 2)]
        for phrase, of_phrase in zip(self._phrases, self._weights_of_phrases, strict=True):
            if common := self._sum(asked & phrase.set):
                title = phrase.symptom.title
                in_phrase[title] = max(in_phrase[title], (1 + OF_MORE) * common / (OF_MORE * of_message + of_phrase))
                if phrase.counts == OF_TEMPLATE and common >= 0.5 * min(of_message, of_phrase):
                    said[title] = max(said[title], *(self._has(phrase.words, window) for window in windows))
        in_entry = {one.title: self._in_entry(asked, one) / of_message for one in self._known}
        asks = {title: 0.6 * in_entry[title] + 0.4 * in_phrase[title] for title in said}
        if len(asked) == 1:  # one word is no question, unless an entry asks just this
            asks = {title: 0.5 * of_asks for title, of_asks in asks.items()}
        asks |= {title: 1.0 for title, of_phrase in in_phrase.items() if of_phrase > 0.999}  # asks just this
        shares = {title: self._sum(asked & words) for title, words in self._words_of_phrases.items()}
        score = {title: max(WEIGHT_OF_SAYS * says, asks[title]) for title, says in said.items()}
        return {title: Fit(score[title], says, asks[title], shares[title]) for title, says in said.items()}

    def _in_entry(self, asked: Iterable[str], symptom: Symptom) -> float:
        """The weight of the words that an entry has: of a word that counts much there nearly all (as BM25 does it)."""
        counts = self._counts[symptom.title]
        long = counts.total() / self._usual_length
        return sum(self._weight[word] * counts[word] / (counts[word] + 2 + 0.7 * long) for word in asked if word in counts)

    def _has(self, phrase: Sequence[str], message: Sequence[str]) -> float:
        """How much of a template a message has, or the template of a message."""
        common = _in_order(phrase, message)
        shares = self._sum(common)
        if len(common) < FEWEST_WORDS or shares < LEAST_WEIGHT:
            return 0.0
        says_the_rarest = max(phrase, key=self._weight.__getitem__) in common
        return max(shares / self._sum(phrase) * says_the_rarest, shares / self._sum(message))


def _is_sure(first: Fit, second: Fit, text: str) -> bool:  # (4)
    if first.says >= SAYS_ENOUGH or first.asks == 1.0:
        return True
    if first.score < AHEAD * second.score or is_of_others(text):
        return False
    ahead = min(first.score / second.score, MOST_AHEAD) if second.score else MOST_AHEAD
    if not is_of_streams(text):
        return first.score * math.sqrt(ahead) >= ASKS_ENOUGH_ELSEWHERE
    return first.score * math.sqrt(ahead * min(first.shares, SHARES_MOST) / SHARES_ENOUGH) >= ASKS_ENOUGH


def _rank(symptom: Symptom, place: Place) -> tuple[bool, bool, Place]:
    return not symptom.warns, not symptom.wraps, place


def _phrases(symptom: Symptom) -> Iterator[_Phrase]:
    yield _Phrase(symptom, tuple(stems(plain(symptom.title))), OF_TITLE)
    yield from (_Phrase(symptom, tuple(stems(plain(text))), OF_QUESTION) for text in symptom.ask)
    yield from (_Phrase(symptom, tuple(stems(" ".join(fixed(text)))), OF_TEMPLATE) for text in symptom.says)


def fixed(template: str) -> list[str]:
    """The words of a template between its gaps."""
    return [words for part in GAP.split(template) if (words := plain(part))]


def _runs_of(text: str) -> Iterator[str]:
    words = text.split()
    return (" ".join(words[at : at + RUN]) for at in range(len(words) - RUN + 1))


def _in_order(phrase: Sequence[str], message: Sequence[str]) -> list[str]:
    """The longest list of words that both have in the same order."""
    rows = [[0] * (len(message) + 1) for _ in range(len(phrase) + 1)]
    for i, word in enumerate(phrase):
        for j, other in enumerate(message):
            rows[i + 1][j + 1] = rows[i][j] + 1 if word == other else max(rows[i][j + 1], rows[i + 1][j])
    found, i, j = [], len(phrase), len(message)
    while i and j:
        if rows[i][j] == rows[i - 1][j]:
            i -= 1
        elif rows[i][j] == rows[i][j - 1]:
            j -= 1
        else:
            found.append(phrase[i - 1])
            i, j = i - 1, j - 1
    return found[::-1]
