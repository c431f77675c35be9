"""The newest versions of each state, row by row, with what each of them changed: for the slider of the page.

1. The versions of a store that are known in all partitions, and are small enough, are read, the oldest first.
2. Each is compared with the one before it. In the first one, nothing is known to be new, unless it is version 1.

    version 6     [12:05, 12:10) a -> 1
    version 7   - [12:05, 12:10) a -> 1   + [12:15, 12:20) b -> 1

A version that cannot be read is left out: the findings of the report say why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.lens.trace.values import name_of
from minispark_stream.tools.inspection.contents import Contents, DecodedStateRow, StateChange

VERSIONS, ROWS = 30, 200  # the most of a store; a version with more rows is left out

ReadVersion = Callable[..., Sequence[DecodedStateRow]]


@dataclass(frozen=True)
class VersionRows:
    """The rows of a version, and those that it removed; a row with the mark "" has not changed."""

    version: int
    rows: tuple[StateChange, ...]

    @property
    def says(self) -> str:
        """`version 7: 1 added, 1 removed`."""
        counts = [
            f"{count} {word}" for mark, word in (("+", "added"), ("~", "changed"), ("-", "removed"))
            if (count := sum(row.mark == mark for row in self.rows))
        ]
        return f"version {self.version}: {', '.join(counts) or 'nothing changed'}"


def read_versions(contents: Contents, read: ReadVersion) -> Mapping[tuple[int, str], tuple[VersionRows, ...]]:
    """(operator, store) -> its versions.

    Args:
        read: returns the rows of a version, as `CheckpointReport.rows` does.
    """
    return {  # (1)
        (operator.operator_id, store.name): tuple(_versions(operator.operator_id, store.name, _small(store.history), read))
        for operator in contents.operators for store in operator.stores
    }


def _small(history: Mapping[int, int]) -> list[int]:
    return [version for version, keys in history.items() if keys <= ROWS][-VERSIONS:]


def _versions(operator: int, store: str, versions: Sequence[int], read: ReadVersion) -> list[VersionRows]:
    found: list[VersionRows] = []
    before: dict[str, DecodedStateRow] | None = {}
    for version in versions:
        if not found and version > 1:
            before = None
        try:
            rows = {name_of([row.partition, row.key]): row for row in read(operator, store=store, version=version)}
        except (ValueError, OSError, PySparkException):
            continue
        found.append(VersionRows(version, _changes(rows if before is None else before, rows)))
        before = rows
    return found


def _changes(before: Mapping[str, DecodedStateRow], after: Mapping[str, DecodedStateRow]) -> tuple[StateChange, ...]:  # (2)
    return tuple(StateChange.of(before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys()))
