"""The inputs of a query: what each `withWatermark` has measured, and from which sources its rows come.

Two inputs may have the same column for their event time. Those of a column stand in the same order in the plan (`tree` of the
step queryPlanning) and in what was measured (step updateWatermark).

    plan    union of withWatermark ts 2 min over a, withWatermark ts 10 min over b
    found   ts 2 min, sources a           ts 10 min, sources b
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minispark_stream.lens.trace.values import as_list, as_map


def named_inputs(measured: Sequence[Any], tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What the `withWatermark` operators measured, each with its `sources`."""
    of_column: dict[str, list[Sequence[str]]] = {}
    for column, sources in _watermarks(tree):
        of_column.setdefault(column, []).append(sources)
    for one in map(as_map, measured):
        known = of_column.get(str(one.get("node")), [])
        yield {**one, "sources": known.pop(0) if known else ()}


def _watermarks(tree: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Column and sources of each `withWatermark` of a plan, from left to right."""
    if "watermark" in tree:
        yield str(tree["watermark"]), [re.sub(r"^\d+: ", "", name) for name in _sources(tree)]
    for child in map(as_map, as_list(tree.get("below"))):
        yield from _watermarks(child)


def _sources(tree: Mapping[str, Any]) -> Iterator[str]:
    if "source" in tree:
        yield str(tree["source"])
    for child in map(as_map, as_list(tree.get("below"))):
        yield from _sources(child)
