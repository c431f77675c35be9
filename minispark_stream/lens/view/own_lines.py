"""The lines of the user's own query beside the steps: the line that a step belongs to is lit.

lens/trace/query_lines.py knows which line belongs to which step. The page has the lines once, as HTML, with the steps of each;
and for every step of the walk the numbers of its lines.

    {"lines": ["rows = session.readStream.json(folder)", ..], "steps": [["latestOffset", "getBatch"], ..]}
    {"step": "getBatch", "own": [0], ..}

With two engines, the query is that of the engine that tells it; both run the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minispark_stream.lens.trace.query_lines import calls_of_a_query, lines_of
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.merged_walk import Stop
from minispark_stream.lens.view.step_source import coloured


class OwnLines:
    """The lines of the query of one or more recordings of it."""

    def __init__(self, recordings: Iterable[Recording]):
        recordings = tuple(recordings)
        self._code = next((one.query for one in recordings if one.query and any(calls_of_a_query(one.query))), None)
        self._operators = _operators(recordings)

    def data(self, steps: Iterable[str]) -> Mapping[str, Any] | None:
        """What the page shows, with those of the `steps` that a line belongs to; None if the lines are not known."""
        if self._code is None:
            return None
        lines = coloured(self._code).rstrip("\n").split("\n")
        of_line: list[list[str]] = [[] for _ in lines]
        for step in steps:
            names: Sequence[str | None] = [name for _, name in self._operators] if step == "stateOperator" else [None]
            for line in sorted({line for name in names for line in lines_of(self._code, step, name)}):
                of_line[line].append(step)
        return {"lines": lines, "steps": of_line}

    def of(self, stop: Stop) -> Sequence[int]:
        """The lines that a step belongs to."""
        if self._code is None:
            return ()
        event = stop.moment.event
        name, number = event.inputs.get("operator"), event.inputs.get("operatorId")
        same = [one for one, other in self._operators if other == name]
        place = (same.index(number), len(same)) if number in same else (0, 1)
        return lines_of(self._code, event.step, None if name is None else str(name), place)


def _operators(recordings: Iterable[Recording]) -> list[tuple[int | None, str]]:
    """The stateful operators, number and name, from the lowest to the highest."""
    events = [event for one in recordings for event in one.events if event.step == "stateOperator"]
    found = {(event.inputs.get("operatorId"), str(event.inputs.get("operator"))) for event in events}
    return sorted(found, key=lambda one: -(one[0] or 0))
