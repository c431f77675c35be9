"""What a plan, as Spark prints it, says about the way of a row: what may remove it, and which folders are read.

    plan                                                       answer
    ~Filter (count#13L > 10)                                   above the state: Filter (count > 10)
    +- ~Aggregate [window#17], [window#17, count(1)]
       +- ~Filter isnotnull(t#10)                              below it: Filter isnotnull(t)
          +- StreamingRelation FileSource[/data/in], [t#10]    folders: /data/in

1. Spark marks what belongs to the stream with "~"; the way of a row has only such nodes. A join is stateful if both sides do.
2. The operator with the smallest number is the one next to the sink. What is above it sees what it emits, so a row that leaves
   the state comes out only if it passes these nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from minispark_stream.lens.view.words import clip, without_ids

LONGEST = 120  # characters of a node
_STATEFUL = re.compile(r"~(Aggregate|Deduplicate|Distinct|GlobalLimit|FlatMapGroups\w*State|TransformWithState)")
_MAY_REMOVE = re.compile(
    "~(Filter (?!true$)|Generate|Sample|GlobalLimit|MapIn|MapPartitions|FlatMap|Join (Inner|LeftSemi|LeftAnti))"
)
_FILES = re.compile(r"FileSource\[(.*?)\](?=, \[|$)")
_DELAY = re.compile(r"-T\d+ms\b")  # the mark of a column that carries a watermark
_LIMIT = re.compile(r"~GlobalLimit (\d+)")


class PlanLine(NamedTuple):
    """A line of the plan."""

    depth: int
    text: str

    @property
    def streams(self) -> bool:
        return self.text.startswith(("~", "Streaming"))

    @property
    def words(self) -> str:
        return clip(_DELAY.sub("", without_ids(self.text.lstrip("~"))), LONGEST)


def nodes(plan: str) -> list[PlanLine]:
    """The nodes from the sink down, each with its depth."""
    lines = ((line, line.lstrip(" :+-")) for line in plan.split("\n"))
    return [PlanLine(len(line) - len(text), text) for line, text in lines if text]


def below(found: Sequence[PlanLine], i: int) -> Sequence[PlanLine]:
    """The nodes below the node `i`."""
    end = next((n for n in range(i + 1, len(found)) if found[n].depth <= found[i].depth), len(found))
    return found[i + 1:end]


def removing(plan: str) -> tuple[list[str], list[str]]:
    """(1) What may remove a row: above the state, and elsewhere. Without state, everything is elsewhere."""
    found = nodes(plan)
    state = next((i for i, node in enumerate(found) if _is_stateful(found, i)), None)
    above: set[int] = set()
    if state is not None:  # (2)
        depth = found[state].depth
        for i in range(state - 1, -1, -1):
            if found[i].depth < depth:
                above.add(i)
                depth = found[i].depth
    others = [i for i, node in enumerate(found) if _MAY_REMOVE.match(node.text) and not _is_stateful(found, i)]
    return [found[i].words for i in others if i in above], [found[i].words for i in others if i not in above]


def limit(plan: str) -> int | None:
    """The number of the limit of a plan; None if it has none, or several."""
    numbers = set(_LIMIT.findall(plan))
    return int(numbers.pop()) if len(numbers) == 1 else None


def folders(plan: str) -> list[str]:
    """The folders, or patterns of folders, that the file sources of a plan read."""
    return list(dict.fromkeys(found for line in plan.split("\n") for found in _FILES.findall(line)))


def _is_stateful(found: Sequence[PlanLine], i: int) -> bool:
    node = found[i]
    if node.text.startswith("~Join "):
        return sum(child.streams for child in below(found, i) if child.depth == found[i + 1].depth) == 2
    return _STATEFUL.match(node.text) is not None
