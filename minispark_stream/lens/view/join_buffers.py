"""A stream-stream join as two buffers: a lane for each row, from the batch that brings it to the batch in which it leaves.

1. A lane ends where the state watermark of its side evicts the row. Rows of the left side are above, those of the right side
   below, in the order in which they arrived.
2. A pair is a line between two lanes, in the batch that brings the second of the two rows. The tasks of the join told the
   pairs; if they told nothing, no line is drawn, and a note says so.
3. If an outer join keeps unmatched rows of a side, a row that is evicted without a pair is emitted with nulls. The tasks told
   this, too.
4. Of many rows, those of the first keys are shown; of many batches, the newest; of many pairs in a batch, the first ones.

    left   x 12:00   |==*===========|         batch 1: pair with x 12:01; batch 4: evicted, state watermark 12:05
    right  x 12:01      *========|
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from minispark_stream.lens.trace.facts import OperatorFacts
from minispark_stream.lens.trace.fates import KEPT, LATE, Fate, Fates
from minispark_stream.lens.trace.values import name_of
from minispark_stream.lens.view.words import plain, row_words, short_clock, source_words

MOST_LANES, MOST_BATCHES, MOST_PAIRS = 14, 16, 12  # lanes of a side, pairs of a batch


@dataclass(frozen=True)
class RowLane:
    """A row of one side. `last`: the batch that evicted it (None: none so far); numbers of batches count from 0.

    `lost`: the batch from which on nothing is known of it. `is_late`: it was dropped. `is_stored`: False if it met the other
    side but was not stored. `is_alone`: it is emitted with nulls.
    """

    label: str
    key: str
    row: Mapping[str, Any]
    first: int
    last: int | None
    lost: int | None = None
    is_late: bool = False
    is_stored: bool = True
    is_alone: bool = False

    @property
    def end(self) -> int | None:
        """The last batch in which it is known to be held; None: it is still held."""
        return self.last if self.lost is None else self.lost - 1


@dataclass(frozen=True)
class DrawnPair:
    """Two rows that met in a batch, by their places in `left` and `right`; their joined row was emitted."""

    batch: int
    left: int
    right: int


@dataclass(frozen=True)
class DrawnJoin:
    """One join. `leaves_ms` is the state watermark of each side in each batch; `rows` are all rows of each side.

    `left_out` are pairs of the lanes that are not drawn; `is_told` says whether the tasks told all of them.
    """

    title: str
    batch_ids: tuple[int, ...]
    left: tuple[RowLane, ...]
    right: tuple[RowLane, ...]
    pairs: tuple[DrawnPair, ...]
    leaves_ms: tuple[tuple[int | None, ...], tuple[int | None, ...]]
    rows: tuple[int, int]
    first_batch: int = 0
    left_out: int = 0
    is_told: bool = True


def buffers(found: Fates) -> tuple[DrawnJoin, ...]:
    """Every join of a trace that has rows."""
    joins: dict[int, OperatorFacts] = {}
    for batch in found.batches:
        joins |= {number: one for number, one in batch.operators.items() if one.join_type}
    made = (_buffers(found, joins[number]) for number in sorted(joins, reverse=True))
    return tuple(one for one in made if any(one.rows))


def _buffers(found: Fates, join: OperatorFacts) -> DrawnJoin:
    fates = [f for f in found.rows if f.operator is not None and f.operator.operator_id == join.operator_id]
    sides = tuple([fate for fate in fates if fate.side == side] for side in (0, 1))
    lanes = tuple([_lane(found, fate) for fate in side] for side in sides)
    pairs = list(_pairs(found, sides[0], *lanes))
    first = max(len(found.batches) - MOST_BATCHES, 0)
    shown = _shown(lanes, first)
    place = tuple({old: new for new, old in enumerate(side)} for side in shown)
    drawn = [
        DrawnPair(p.batch, place[0][p.left], place[1][p.right])
        for p in pairs if p.batch >= first and p.left in place[0] and p.right in place[1]
    ]
    few = [p for _, of_batch in groupby(sorted(drawn, key=lambda p: p.batch), key=lambda p: p.batch)
           for p in list(of_batch)[:MOST_PAIRS]]
    bounds = tuple(
        tuple(_bound(batch.operators.get(join.operator_id), side) for batch in found.batches[first:]) for side in (0, 1)
    )
    return DrawnJoin(
        title=f"operator {join.operator_id}: {join.join_type} join{_of_sources(sides)}",
        batch_ids=tuple(batch.batch_id for batch in found.batches[first:]),
        left=tuple(lanes[0][n] for n in shown[0]),
        right=tuple(lanes[1][n] for n in shown[1]),
        pairs=tuple(few),
        leaves_ms=(bounds[0], bounds[1]),
        rows=(len(lanes[0]), len(lanes[1])),
        first_batch=first,
        left_out=len(drawn) - len(few),
        is_told=all(one.told is not None for batch in found.batches if (one := batch.operators.get(join.operator_id))),
    )


def _of_sources(sides: Sequence[Sequence[Fate]]) -> str:
    """Which source is which side, if each side has one of its own."""
    left, right = ({fate.source for fate in side} for side in sides)
    if len(left) != 1 or len(right) != 1 or left == right:
        return ""
    return f" of {source_words(*left)} (left, above) and {source_words(*right)} (right, below)"


def _lane(found: Fates, fate: Fate) -> RowLane:
    key = fate.at.get("key") or {}
    words = " ".join(plain(value) for value in key.values())
    clock = "" if fate.time_ms is None else short_clock(fate.time_ms)
    held = fate.holding
    return RowLane(
        label=f"{words} {clock}".strip() or row_words(fate.row),
        key=words,
        row=fate.at.get("row") or {},
        first=fate.batch.number,
        last=fate.batch.number if held is None else held.evicted,  # (1)
        lost=None if held is None else held.lost,
        is_late=fate.what == LATE,
        is_stored=fate.what == KEPT,
        is_alone=_is_alone(found, fate),
    )


def _bound(operator: OperatorFacts | None, side: int) -> int | None:
    return operator.leaves(side) if operator is not None and operator.eviction_ms else None


def _pairs(found: Fates, fates: Sequence[Fate], left: Sequence[RowLane], right: Sequence[RowLane]) -> Iterator[DrawnPair]:
    """(2) What the tasks told about the left rows: a pair is emitted in the batch that brings the second of the two."""
    by_row: dict[str, list[int]] = {}
    for number, lane in enumerate(right):
        by_row.setdefault(name_of(lane.row), []).append(number)
    for number, (fate, one) in enumerate(zip(fates, left)):
        for batch, _, partner in found.emissions(fate) or ():
            for other in by_row.get(name_of(partner), ()):
                if max(one.first, right[other].first) == batch.number and not one.is_late and not right[other].is_late:
                    yield DrawnPair(batch.number, number, other)


def _is_alone(found: Fates, fate: Fate) -> bool:
    """(3) Whether a row was emitted with nulls."""
    return any(partner is None for _, _, partner in found.emissions(fate) or ())


def _shown(lanes: tuple[list[RowLane], ...], first: int) -> tuple[list[int], ...]:
    """(4) The places of the lanes that are drawn, by side: those of the first keys; keys that both sides have come first."""
    alive = [[n for n, lane in enumerate(side) if lane.end is None or lane.end >= first] for side in lanes]
    left, right = ({lanes[side][n].key for n in alive[side]} for side in (0, 1))
    came = sorted((lanes[side][n].first, n, lanes[side][n].key) for side in (0, 1) for n in alive[side])
    keys = list(dict.fromkeys(key for _, _, key in came))
    rank = {key: place for place, key in enumerate(sorted(keys, key=lambda key: key not in left & right))}
    return tuple(sorted(sorted(places, key=lambda n: rank[side[n].key])[:MOST_LANES]) for side, places in zip(lanes, alive))
