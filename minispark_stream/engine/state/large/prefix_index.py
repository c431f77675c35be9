"""Finds the rows of a table whose keys have the same prefix: for example, all sessions of one user, without a look at others.

Models: the `prefixKeyToKeysMap` of PrefixScannableHDFSBackedStateStoreMap (About state).

1. For each prefix, the index knows the last line with it, and for each line, the line before it with the same prefix.
2. A line keeps its key, so only new lines have to be added, and only when somebody searches. After the table has moved to other
   memory, all lines are new.
3. A line whose key has been removed is skipped.

    line    0: a1   1: b1   2: a2   3: a3        last    a: 3   b: 1        before    3: 2   2: 0   1: none   0: none
    the lines of a       3, 2, 0

Differs from Spark: nothing.
"""

from __future__ import annotations

import numpy as np

from minispark_stream.engine.checkpointing.unsafe_row.columns import Ints
from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows, Shape, comparable
from minispark_stream.engine.state.large.row_table import RowTable
from minispark_stream.engine.state.state_store import Found, PrefixesOf

NONE = -1


class PrefixIndex:
    """The index of `table`; `prefixes_of` computes the prefixes of keys, in every call in the same way."""

    def __init__(self, table: RowTable, prefixes_of: PrefixesOf):
        self._table, self._prefixes_of = table, prefixes_of
        self._begin_again()

    def _begin_again(self) -> None:
        self._generation, self._known = self._table.generation, 0
        self._last: RowTable | None = None  # prefix -> number of a line
        self._before = np.empty(8, np.int64)

    def scan(self, prefixes: Rows) -> Found:
        """The rows with one of `prefixes`, which are all different."""
        self._catch_up()
        line, of = self._last_of(prefixes), np.arange(len(prefixes))
        lines, positions = [line[:0]], [of[:0]]
        while len(line):
            line, of = line[line != NONE], of[line != NONE]
            lines.append(line)
            positions.append(of)
            line = self._before[line]
        found = np.concatenate(lines)
        is_there = self._table.is_there(found)  # (3)
        return Found(*self._table.rows_at(found[is_there]), np.concatenate(positions)[is_there])

    def _catch_up(self) -> None:  # (2)
        if self._generation != self._table.generation:
            self._begin_again()
        lines = np.arange(self._known, self._table.num_lines)
        if len(lines):
            prefixes = Rows.of(self._prefixes_of(self._table.rows_at(lines)[0]))
            assert isinstance(prefixes, Rows)
            self._add(prefixes, lines)
            self._known = self._table.num_lines

    def _add(self, prefixes: Rows, lines: Ints) -> None:  # (1)
        if self._last is None:
            self._last = RowTable(prefixes.shape, Shape(8, False))
        if len(self._before) < self._table.num_lines:
            self._before = np.resize(self._before, 2 * self._table.num_lines)
        number = np.asarray(comparable(prefixes).dictionary_encode().indices)
        order = np.argsort(number, kind="stable")
        chain, is_first = lines[order], np.diff(number[order], prepend=NONE) != 0
        firsts = prefixes.some(order[is_first])
        before = np.roll(chain, 1)
        before[is_first] = self._last_of(firsts)
        self._before[chain] = before
        self._last.put_for_good(firsts, Rows(chain[np.roll(is_first, -1)].reshape(-1, 1).view(np.uint8)))

    def _last_of(self, prefixes: Rows) -> Ints:
        last = np.full(len(prefixes), NONE)
        if self._last is not None:
            is_there, values = self._last.get(prefixes)
            last[is_there] = values.table.view(np.int64).ravel()
        return last
