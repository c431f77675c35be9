"""What a join did with a row, in words.

    emitted in batch 2 with k=a v=2
    not emitted so far
    not stored: its event time, 12:01:00, was at or before the state watermark of its side, 12:02:00
"""

from __future__ import annotations

from itertools import groupby

from minispark_stream.lens.trace.facts import OperatorFacts
from minispark_stream.lens.trace.fates import Fate, Fates
from minispark_stream.lens.view.words import row_words, two_clocks


def joined(found: Fates, fate: Fate) -> str:
    """What a join emitted for a row, as its tasks reported."""
    emissions = found.emissions(fate)
    if emissions is None:
        return "with which partners it was emitted is not known"
    if not emissions:
        return "not emitted" if fate.holding is None or fate.holding.evicted is not None else "not emitted so far"
    said = []
    for batch, partners in groupby(emissions, key=lambda emission: emission[0]):
        known = [row_words(partner) for _, _, partner in partners if partner is not None]
        with_whom = f"with {' and '.join(known)}" if known else "without a partner, with nulls"
        said.append(f"emitted in batch {batch.batch_id} {with_whom}")
    return ", ".join(said)


def not_stored(fate: Fate, operator: OperatorFacts) -> str:
    """Why a join did not keep a row, as its task told."""
    if fate.why == "unfit":
        return "the part of the join condition that concerns only its own side is false, so it can have no partner"
    if fate.why == "matched":
        return "it has met a partner, and a left semi join emits a row only once"
    time, bound = two_clocks(fate.time_ms, operator.leaves(fate.side))
    return f"its event time, {time}, was at or before the state watermark of its side, {bound}"
