"""The inputs of a query: what each `withWatermark` has measured, and from which sources its rows come.

Two inputs may use the same column for their event time. The inputs of a column are in the same order in the plan (`tree` of the
step queryPlanning) and in what was measured (step updateWatermark).

    plan    union of withWatermark ts 2 min over a, withWatermark ts 10 min over b
    found   ts 2 min, sources a           ts 10 min, sources b

The text of a plan has the column, the delay and the sources, too, and also the kinds of its joins and timers. Real Spark keeps
what was measured in a table, by the id that each `withWatermark` has in the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minispark_stream.tools.inspection.plan_text import below, nodes

UNITS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000, "millisecond": 1}
TIMERS = {"event time": r"\bEventTime(Timeout)?\b", "processing time": r"\bProcessingTime(Timeout)?\b"}
_WATERMARK = re.compile(r"EventTimeWatermark .*?([^\s,]+)#\d+[^,]*, ([^,]+)")
_SOURCE = re.compile(r"Streaming\w*Relation\w* (\S+?),? \[")


def named_inputs(measured: Sequence[Any], tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What the `withWatermark` operators measured, each with its `sources`."""
    of_column: dict[str, list[Sequence[str]]] = {}
    for column, sources in _watermarks(tree):
        of_column.setdefault(column, []).append(sources)
    for one in measured:
        known = of_column.get(str(one.get("node")), [])
        yield {**one, "sources": known.pop(0) if known else ()}


def planned_inputs(plan: str, measured: Mapping[str, int | None] | None = None) -> Iterator[Mapping[str, Any]]:
    """The `withWatermark` operators of a plan: `node`, `delayMs`, `sources` and, if something was measured, `watermark`.

    Args:
        plan: as Spark prints it.
        measured: their watermarks, by the ids that they have in the plan.
    """
    found = nodes(plan)
    for i, node in enumerate(found):
        if (at := _WATERMARK.search(node.text)) is not None:
            leaves = [leaf[1] for one in below(found, i) if (leaf := _SOURCE.search(one.text)) is not None]
            sources = [re.sub(r"^FileSource\b", "FileStreamSource", leaf) for leaf in leaves]  # as progress reports call it
            sizes = [int(n) * UNITS[unit] for n, unit in re.findall(r"(\d+) (\w+?)s?\b", at[2]) if unit in UNITS]
            own = next(({"watermark": ms} for id, ms in (measured or {}).items() if id in node.text), {})
            yield {"node": at[1], "delayMs": sum(sizes), "sources": sources, **own}


def join_types(plan: str) -> set[str]:
    """The types of the joins of a plan, as Spark prints it."""
    return set(re.findall(r"\bJoin (\w+)", plan))


def timers(plan: str) -> str | None:
    """The time that the timers of a plan's functions refer to: "event time" or "processing time"; None if neither, or both."""
    kinds = {kind for kind, words in TIMERS.items() if re.search(words, plan)}
    return kinds.pop() if len(kinds) == 1 else None


def _watermarks(tree: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Column and sources of each `withWatermark` of a plan, from left to right."""
    if "watermark" in tree:
        yield str(tree["watermark"]), [re.sub(r"^\d+: ", "", name) for name in _sources(tree)]
    for child in tree.get("below", ()):
        yield from _watermarks(child)


def _sources(tree: Mapping[str, Any]) -> Iterator[str]:
    if "source" in tree:
        yield str(tree["source"])
    for child in tree.get("below", ()):
        yield from _sources(child)
