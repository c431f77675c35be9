"""Keeps keys and values in arrays, with a hash table that looks up many rows together.

Models: nothing of Spark, whose state is a hash map of the JVM.

1. An entry is a line of `keys`, of `values` and of `is_there`. A new key takes the next line. A key that is removed keeps its
   line, and uses it again if it is put once more.
2. `slots` is the hash table: the slot at the hash of a key contains the number of its line. If that slot belongs to another
   key, the key takes the next free slot.
3. To find many keys, all of them look into their slots at once. Those that find another key there look into the next slot,
   until each has found its line or a free slot.
4. There are at least twice as many slots as lines, so that few keys need more than two looks. If the table is full, its entries
   move to a larger one; removed keys are left behind.
5. All keys are lines of one shape, and so are all values (engine/checkpointing/unsafe_row/rows.py). If a row is too long for a
   line, the entries move to a table with longer lines.

    slots        .  2  .  0  1  .         keys (8-byte words)     0: a   1: b   2: c
    find b, d    b's slot is 3: another key, next, 4: line 1      d's slot is 0: free, so there is no d

Methods that change the entries return what undoes the change. The hash depends on a random number that each table draws, so
nobody can choose keys that all have the same slot. The order of the rows does not depend on it: it is that in which keys came.

All arrays are in one piece of memory. If the table is `shared` and not small, other processes can use that memory, too
(shared_memory.py); a `TableInMemory` has everything else that a process needs to use the table.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np

from minispark_stream.engine.checkpointing.unsafe_row.columns import Ints
from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows, Shape, Table, pieces
from minispark_stream.engine.state.large.shared_memory import Address, SharedMemory
from minispark_stream.engine.state.state_records import Change

FREE = -1
SMALLEST_SHARED = 64 << 10  # bytes; of a smaller table, each process may have its own copy
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits spread evenly: 2**64 divided by the golden ratio


Shapes = tuple[Shape, Shape]  # of keys and of values


class TableInMemory(NamedTuple):
    """A table that several processes share: where its memory is, and what else a process must know to use it."""

    address: Address
    shapes: Shapes
    seed: int
    room: int
    used: int


class RowTable:
    """A table for keys and values that have these shapes at first; the width of a key must be a multiple of 8.

    `shared`: other processes may use it, too, if it is not small.
    """

    def __init__(self, keys: Shape, values: Shape, room: int = 8, shared: bool = False):
        self._shapes, self._shared = (keys, values), shared
        self._seed = np.uint64(secrets.randbits(64))
        self.generation = 0
        self._allot(room)

    @staticmethod
    def of(table: TableInMemory, memory: SharedMemory) -> RowTable:
        """A table that another process has put into shared memory, in this process."""
        of = RowTable(*table.shapes, shared=True)
        of._seed = np.uint64(table.seed)
        of._lay_out(table.room, memory)
        of._used = table.used
        return of

    def in_memory(self) -> TableInMemory | None:
        """What another process needs to use this table; None if the table is in this process's memory only."""
        if self._memory is None:
            return None
        return TableInMemory(self._memory.address, self._shapes, int(self._seed), len(self._keys), self._used)

    def catch_up(self, table: TableInMemory) -> bool:
        """Take over what other processes have changed in `table`; returns False if it is not in the memory of this table."""
        if self._memory is None or self._memory.address.file != table.address.file:
            return False
        self._used = table.used
        return True

    def free(self) -> None:
        """Give the memory back. Nobody may use the table any more."""
        if self._memory is not None:
            self._memory.free()

    def _allot(self, room: int) -> None:
        self.generation += 1
        num_bytes = _num_bytes(self._shapes, room)
        self._lay_out(room, SharedMemory.new(num_bytes) if self._shared and num_bytes >= SMALLEST_SHARED else None)
        self._is_there[:] = False
        self._slots[:] = FREE
        self._used = 0

    def _lay_out(self, room: int, memory: SharedMemory | None) -> None:
        self._memory = memory
        every = np.empty(_num_bytes(self._shapes, room), np.uint8) if memory is None else memory.bytes
        keys, slots, values, is_there = np.split(every, np.cumsum(_parts(self._shapes, room))[:-1])
        self._keys, self._values = (  # (1)
            Rows(part.reshape(room, shape.width), shape.differ) for part, shape in zip((keys, values), self._shapes)
        )
        self._slots, self._is_there = slots.view(np.int32), is_there.view(np.bool_)  # (2)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_there[: self._used]))

    def num_bytes(self, entries: int) -> int:
        return entries * sum(shape.width for shape in self._shapes)

    @property
    def memory_used_bytes(self) -> int:
        return self._keys.table.nbytes + self._values.table.nbytes + self._is_there.nbytes + self._slots.nbytes

    def get(self, keys: Rows) -> tuple[Table, Rows]:
        """Which of the keys have a value, and the values of those."""
        lines = self._lines_of(keys)
        is_there = self._have_values(lines)
        return is_there, self._values.some(lines[is_there])

    def takes(self, keys: Rows, values: Rows) -> bool:
        """(5) Whether lines of some shape have room both for the rows of the table and for these."""
        return None not in self._shapes_with(keys, values)

    def put(self, keys: Rows, values: Rows) -> list[Change]:
        """Put rows that the table `takes`; returns what undoes it. If a key comes twice, its last value counts."""
        self._make_room(keys, values)
        lines = self._lines_for(keys)
        were_there = self._is_there[lines]
        before = keys.some(were_there), self._values.some(lines[were_there])
        nothing_before = keys.some(~were_there), [None] * int((~were_there).sum())
        self._write(lines, values)
        return [nothing_before, before]

    def put_for_good(self, keys: Rows, values: Rows) -> None:
        """Like `put`, without an undo record."""
        self._make_room(keys, values)
        self._write(self._lines_for(keys), values)

    def remove(self, keys: Rows) -> Change:
        """Remove the keys; returns those that had a value, with that value."""
        lines = self._lines_of(keys)
        gone, before = lines[self._have_values(lines)], len(self)
        self._is_there[gone] = False
        if len(self) != before - len(gone):  # a key came twice
            gone = np.unique(gone)
        return self.rows_at(gone)

    def rows(self) -> tuple[Rows, Rows]:
        """All keys, and their values."""
        return self.rows_at(np.flatnonzero(self._is_there[: self._used]))

    @property
    def num_lines(self) -> int:
        """How many lines have been used since the table last moved (`generation`). A line keeps its key."""
        return self._used

    def is_there(self, lines: Ints) -> Table:
        """Whether the keys of some lines have values."""
        return self._is_there[lines]

    def rows_at(self, lines: Ints) -> tuple[Rows, Rows]:
        """The keys and values of some lines."""
        return self._keys.some(lines), self._values.some(lines)

    def _lines_of(self, keys: Rows) -> Ints:
        """The line of each key; FREE if it has none."""
        if keys.shape == self._keys.shape:
            return self._slots.take(self._find(keys))
        lines, fit = np.full(len(keys), FREE, np.int32), keys.fit(self._keys.shape)
        lines[fit] = self._slots.take(self._find(keys.some(fit).in_shape(self._keys.shape)))
        return lines

    def _have_values(self, lines: Ints) -> Table:
        return (lines != FREE) & self._is_there[lines]

    def _lines_for(self, keys: Rows) -> Ints:
        """(1) The line of each key; new keys take the next lines, in the order in which they come."""
        keys = keys.in_shape(self._keys.shape)
        begin, own = self._used, self._used + np.arange(len(keys))
        self._keys.table[begin : begin + len(keys)] = keys.table  # as if all were new
        slots = self._find(keys, own)
        is_new = self._slots.take(slots) == own
        self._used += int(np.count_nonzero(is_new))
        self._keys.table[begin : self._used] = keys.some(is_new).table
        self._slots[slots[is_new]] = np.arange(begin, self._used)
        return self._slots.take(slots)

    def _write(self, lines: Ints, values: Rows) -> None:
        """Write each value as a single item of numpy: this takes a fifth of the time of `table[lines] = values.table`."""
        value = np.dtype((np.void, self._values.shape.width))
        self._values.table.view(value)[lines, 0] = values.in_shape(self._values.shape).table.view(value)[:, 0]
        self._is_there[lines] = True

    def _find(self, keys: Rows, lines: Ints | None = None) -> Ints:
        """(3) The slot of each key. The slot of a key without a line is free, and with `lines`, it gets the key's own line."""
        slots = np.empty(len(keys), np.int64)
        for some in pieces(len(keys), keys.shape.width):
            slots[some] = self._find_some(keys[some], None if lines is None else lines[some])
        return slots

    def _find_some(self, keys: Rows, lines: Ints | None) -> Ints:
        mask = len(self._slots) - 1
        at = self._hashes(keys).astype(np.int64) & mask
        slots, left = at, np.arange(len(keys))
        while len(left):
            there = self._slots.take(at)
            if lines is not None:
                free = np.flatnonzero(there == FREE)[::-1]  # if several keys want the same slot, the first one writes last
                self._slots[at[free]] = lines[left[free]]
                there = self._slots.take(at)
            is_other = np.zeros(len(left), np.bool_)
            for word, wanted in zip(_words(self._keys.some(there)), _words(keys)):
                is_other |= word != wanted
            on = np.flatnonzero(is_other & (there != FREE))
            keys, left, at = keys.some(on), left[on], (at[on] + 1) & mask
            slots[left] = at
        return slots

    def _hashes(self, keys: Rows) -> Table:
        hashes = np.full(len(keys), self._seed)
        for word in _words(keys):
            hashes ^= word
            for _ in range(2):  # so that each bit of the key affects each bit of the hash
                hashes ^= hashes >> np.uint64(32)
                hashes *= MIX
        return hashes ^ (hashes >> np.uint64(32))

    def _make_room(self, keys: Rows, values: Rows) -> None:
        """(4), (5) Move the entries to a larger table if these rows need more or longer lines."""
        more, shapes = len(keys), self._shapes_with(keys, values)
        if self._used + more <= len(self._keys) and shapes == self._shapes:
            return
        (keys, values), before = self.rows(), self._memory
        assert shapes[0] is not None and shapes[1] is not None
        self._shapes = shapes[0], shapes[1]
        self._allot(2 * (len(keys) + more))
        self._write(self._lines_for(keys), values)
        if before is not None:
            before.free()

    def _shapes_with(self, keys: Rows, values: Rows) -> tuple[Shape | None, Shape | None]:
        return self._shapes[0].for_both(keys.shape), self._shapes[1].for_both(values.shape)


def _parts(shapes: Shapes, room: int) -> list[int]:
    """The sizes of the keys, slots, values and `is_there`; in this order, each begins at a multiple of its word size."""
    keys, values = shapes
    return [room * keys.width, 4 * (2 << room.bit_length()), room * values.width, room]


def _num_bytes(shapes: Shapes, room: int) -> int:
    return sum(_parts(shapes, room))


def _words(keys: Rows) -> Table:
    """The first eight bytes of all keys, the next eight bytes of all keys, ..."""
    return keys.table.view(np.uint64).T
