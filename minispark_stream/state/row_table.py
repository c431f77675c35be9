"""Keys and values that are all of one size: arrays, and a hash table over all of their rows at a time.

Models: nothing of Spark, whose state is a hash map of the JVM.

1. An *entry* is a line of `keys`, of `values` and of `is_there`. A new key takes the next line; a key that is removed keeps
   its own, so that it finds it again when it comes back.
2. `slots` says which entry has a hash. Two keys with one hash: the second takes the next free slot.
3. To find many keys, all of them look into their slots at once. Those that find another key there look into the next one,
   until each has found its entry or a free slot.
4. There are at least twice as many slots as entries, so that few keys look more than twice. A table that is too full moves
   into a larger one, without the keys that are gone.

    slots        .  2  .  0  1  .         keys (8-byte words)     0: a   1: b   2: c
    find b, d    b's slot is 3: another key, next, 4: entry 1     d's slot is 0: free, so there is no d

What changes the entries also gives what undoes it. The hash begins with a number that is drawn for each table: nobody can know
which keys will have one slot.

Differs from Spark: nothing.
"""

from __future__ import annotations

import secrets

import numpy as np

from minispark_stream.checkpointing.unsafe_row.rows import Ints, Rows, Table
from minispark_stream.state.state_records import Change

FREE = -1
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits spread evenly: 2**64 divided by the golden ratio


class RowTable:
    """Entries with keys of `key_size` bytes (a multiple of 8) and values of `value_size` bytes."""

    def __init__(self, key_size: int, value_size: int, room: int = 8):
        self.sizes = self._key_size, self._value_size = key_size, value_size
        self._seed = np.uint64(secrets.randbits(64))
        self.generation = 0
        self._allot(room)

    def _allot(self, room: int) -> None:
        self.generation += 1
        self._keys = np.empty((room, self._key_size // 8), np.uint64)  # (1)
        self._values = np.empty((room, self._value_size), np.uint8)
        self._is_there = np.zeros(room, np.bool_)
        self._slots = np.full(2 << room.bit_length(), FREE, np.int32)  # (2)
        self._used = self._number = 0

    def __len__(self) -> int:
        return self._number

    @property
    def bytes_per_entry(self) -> int:
        return sum(self.sizes)

    @property
    def num_bytes(self) -> int:
        return self._keys.nbytes + self._values.nbytes + self._is_there.nbytes + self._slots.nbytes

    def values_of(self, keys: Rows) -> tuple[Table, Rows]:
        """Which of some keys are there, and the values of those."""
        if keys.size != self._key_size:
            return np.zeros(len(keys), np.bool_), Rows(self._values[:0])
        entries = self._find(_words(keys))
        is_there = self._have_values(entries)
        return is_there, Rows(self._values[entries[is_there]])

    def put(self, keys: Rows, values: Rows) -> list[Change]:
        """What undoes it. Of a key that comes twice, the last value counts."""
        self._make_room(len(keys))
        words = _words(keys)
        entries = self._find(words)
        were_there = self._have_values(entries)
        before = Rows(keys.table[were_there]), Rows(self._values[entries[were_there]])
        nothing_before = Rows(keys.table[~were_there]), [None] * int((~were_there).sum())
        come_back = np.unique(entries[(entries != FREE) & ~were_there])
        new = np.flatnonzero(entries == FREE)
        lines = self._used + np.arange(len(new))
        self._keys[lines] = words[new]
        self._used += len(new)
        entries[new] = self._find(words[new], lines)
        self._values[entries] = values.table
        self._is_there[entries] = True
        self._number += len(come_back) + int((entries[new] == lines).sum())
        return [nothing_before, before]

    def remove(self, keys: Rows) -> Change:
        """The keys that were there, with their values."""
        if keys.size != self._key_size:
            return [], []
        entries = self._find(_words(keys))
        gone = np.unique(entries[self._have_values(entries)])
        self._is_there[gone] = False
        self._number -= len(gone)
        return self.rows_at(gone)

    def rows(self) -> tuple[Rows, Rows]:
        """All keys, and their values."""
        return self.rows_at(np.flatnonzero(self._is_there[: self._used]))

    @property
    def num_lines(self) -> int:
        """How many lines have been used since the table last moved (`generation`). A line keeps its key."""
        return self._used

    def is_there(self, lines: Ints) -> Table:
        """Whether the keys of some lines are in the table."""
        return self._is_there[lines]

    def rows_at(self, entries: Ints) -> tuple[Rows, Rows]:
        """The keys and values of some lines."""
        return Rows(self._keys[entries].view(np.uint8).reshape(len(entries), self._key_size)), Rows(self._values[entries])

    def _have_values(self, entries: Ints) -> Table:
        return (entries != FREE) & self._is_there[entries]

    def _find(self, keys: Table, lines: Ints | None = None) -> Ints:
        """(3) The entry of each key; FREE where it has none. With `lines`, it then takes the line and the slot."""
        mask = len(self._slots) - 1
        at = self._hashes(keys).astype(np.int64) & mask
        found = np.full(len(keys), FREE, np.int64)
        left = np.arange(len(keys))
        while len(left):
            entries = self._slots[at]
            if lines is not None:
                is_free = entries == FREE
                self._slots[at[is_free]] = lines[left[is_free]]  # of several keys that want one slot, one gets it
                entries = self._slots[at]
            is_taken = entries != FREE
            is_own = is_taken.copy()
            for there, wanted in zip(self._keys[entries].T, keys.T):
                is_own &= there == wanted
            found[left[is_own]] = entries[is_own]
            on = is_taken & ~is_own
            left, keys, at = left[on], keys[on], (at[on] + 1) & mask
        return found

    def _hashes(self, keys: Table) -> Table:
        hashes = np.full(len(keys), self._seed)
        for word in keys.T:
            hashes ^= word
            for _ in range(2):  # each bit of the key reaches each bit of the hash
                hashes ^= hashes >> np.uint64(32)
                hashes *= MIX
        return hashes ^ (hashes >> np.uint64(32))

    def _make_room(self, more: int) -> None:
        """(4) For so many more entries."""
        if self._used + more <= len(self._keys):
            return
        keys, values = self.rows()
        self._allot(2 * (len(keys) + more))
        if len(keys):
            self.put(keys, values)


def _words(keys: Rows) -> Table:
    return keys.table.view(np.uint64)
