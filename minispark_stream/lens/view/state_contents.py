"""What each version of a state has changed, as lines: the rows that the deltas of a batch hold, in the words of the query.

    version 2    ~ a   n: 1 → 2          version 3    ~ b   n: 1 → 2
                 + c   n: 1

The buffers of a join are left out, because they have a picture of their own (join_lanes.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.state_words import key_words, value_words
from minispark_stream.lens.view.world_changes import worlds

_DATE = re.compile(r"\b\d{4}-\d\d-\d\d ")


class ChangedRow(NamedTuple):
    """A row that a batch has changed. `mark`: see StateRow. Times are those of the day alone."""

    mark: str
    key: str
    value: str


def contents(recording: Recording) -> Mapping[tuple[int, int], tuple[ChangedRow, ...]]:
    """(Operator, version) -> the rows that the batch which wrote this version has changed."""
    found = {}
    for world in worlds(recording.events):
        for view in world.operators:
            if view.changed and view.version is not None and view.rows and view.operator != "symmetricHashJoin":
                found[view.operator_id, view.version] = tuple(
                    ChangedRow(row.mark, _of_day(key_words(row)), _of_day(value_words(view, row)))
                    for row in view.rows if row.mark
                )
    return found


def _of_day(words: str) -> str:
    return _DATE.sub("", words)
