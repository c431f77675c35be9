"""Which stores have metrics of their own in a progress report; the metrics of all single stores would be too many.

Models: the instance metrics in StateStoreWriter.getProgress (About state).

1. Of all metrics with the same prefix, only as many are reported as the conf says (5): those with the smallest values.
2. Of metrics with equal values, those are reported that come first in Scala's immutable HashMap. Its order is that of the
   hashes of the names: it is a trie with 5 bits of the hash on each level, and on each level, leaves precede subtrees.

    SnapshotLastUploaded.partition_{0,1}_{left,right}-{keyToNumValues,keyWithIndexToValue}, all -1     5 of the 8

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

CONF = "spark.sql.streaming.stateStore.numStateStoreInstanceMetricsToReport"
_32_BITS = 0xFFFFFFFF


def reported(metrics: Mapping[str, int], at_most: int) -> dict[str, int]:
    """The metrics of single stores that a report contains, by name."""
    ordered = sorted(_scala_order(tuple(metrics)), key=metrics.__getitem__)  # (1)
    return {name: metrics[name] for name in ordered[:at_most]}


@lru_cache(maxsize=100)  # an operator asks for the same names in every batch
def _scala_order(names: tuple[str, ...], shift: int = 0) -> tuple[str, ...]:  # (2)
    if shift > 30:
        return names
    slots: dict[int, list[str]] = {}
    for name in names:
        slots.setdefault(_hash(name) >> shift & 31, []).append(name)
    nodes = [tuple(slots[slot]) for slot in sorted(slots)]
    alone = [name for node in nodes if len(node) == 1 for name in node]
    below: Iterable[str] = (name for node in nodes if len(node) > 1 for name in _scala_order(node, shift + 5))
    return (*alone, *below)


def _hash(text: str) -> int:
    """Java's String.hashCode of a text in ASCII, mixed as Scala's HashMap does it (`improve`)."""
    h = 0
    for character in text:
        h = (31 * h + ord(character)) & _32_BITS
    h = (h + (~(h << 9) & _32_BITS)) & _32_BITS
    h ^= h >> 14
    h = (h + (h << 4)) & _32_BITS
    return h ^ h >> 10
