"""What a user's function returned for a key, and when a timer of the key fired, as its tasks told.

    batch 2   told emitted: n=3, key ann                         Given(batch 2, place 0, n=3, by_timer=False)
    batch 5   told fired: key ann; emitted: n=-1, key ann        Given(batch 5, place 0, n=-1, by_timer=True), and that it fired

Nobody but the function itself knows from which rows of the key it makes what it returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.lens.trace.facts import EMITTED, FIRED, BatchFacts
from minispark_stream.lens.trace.values import name_of


@dataclass(frozen=True)
class Given:
    """A row that a user's function returned, and its place; or (without a place) the fact that a timer of the key fired.

    `by_timer`: the function was called because of a timer, not because of rows.
    """

    batch: BatchFacts
    place: int | None
    row: Mapping[str, Any]
    by_timer: bool


def given_for_keys(batches: Sequence[BatchFacts]) -> Mapping[tuple[int, int, str], Sequence[Given]]:
    """What functions returned, by operator, number of the batch, and name of the key."""
    found: dict[tuple[int, int, str], list[Given]] = {}
    for batch in batches:
        for operator in (one for one in batch.operators.values() if one.keeps == "values"):
            fired = [(item, Given(batch, None, {}, True)) for item in operator.told_of(FIRED)]
            given = [
                (item, Given(batch, place, item.get("row") or {}, item.get("why") == FIRED))
                for place, item in enumerate(operator.told_of(EMITTED))
            ]
            for item, one in (*given, *fired):
                found.setdefault((operator.operator_id, batch.number, key_name(item.get("key"))), []).append(one)
    return found


def key_name(key: Any) -> str:
    """A key as a text that all rows of its group have in common: 0.0 and -0.0 are the same number."""
    return name_of(_even(key))


def _even(value: Any) -> Any:
    match value:
        case Mapping():
            return {name: _even(one) for name, one in value.items()}
        case list() | tuple():
            return [_even(one) for one in value]
        case float():
            return "NaN" if value != value else value + 0.0
    return value
