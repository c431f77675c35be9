"""How much memory may be taken to read files that somebody else wrote, whatever their format.

1. A decoder that is given a `Budget` takes from it before it allocates: the bytes of a file, the bytes that they unpack to, and
   what Python needs for the objects in them, which may be many times as much. The engine, which trusts its own files as far as
   their memory goes, gives none, and then nothing is counted.
2. What is dropped soon is `lent`: at the end of the block it has been given back.
3. When the budget is used up, there is one error, `LimitExceeded`. Who knows the name of the file puts it before the text.

    budget of 1,000 bytes     take(400), take(500)     900 are taken
    with budget.lent():       take(200)                more than 1,000 bytes of memory: allow more with --max-bytes (max_bytes)

The estimates are those of CPython, rounded up. So the memory that a process takes stays within a small multiple of its budget,
and it does so for the smallest file that makes the most objects.

Models: nothing of Spark.
Shown by tests/unit/tools/inspection/test_budget.py::test_a_bomb_takes_no_more_than_a_small_multiple_of_the_budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

BYTES_PER_VALUE = 150  # a number, an empty text or a null in an Arrow array, as a Python object, and in a dict or a list
BYTES_PER_RECORD = 130  # a pair of keys and values in a list or a dict, besides their own bytes


class LimitExceeded(ValueError):
    """A file needs more memory than may be taken to read it."""


class Budget:
    """`limit`: how many bytes may be taken. `taken`: how many have been."""

    def __init__(self, limit: int):
        self.limit = limit
        self.taken = 0

    @property
    def left(self) -> int:
        return self.limit - self.taken

    def take(self, size: int) -> None:  # (1)
        """Take so many bytes; a negative number gives some back. Raises LimitExceeded, and then takes nothing."""
        if self.taken + size > self.limit:  # (3)
            raise LimitExceeded(f"more than {self.limit:,} bytes of memory: allow more with --max-bytes (max_bytes)")
        self.taken += size

    def take_text(self, text: bytes) -> None:
        """Take what a text needs that is cut into lines or parsed as JSON: its characters, and a value between two marks."""
        marks = sum(map(text.count, (b"[", b",", b":")))
        self.take(4 * len(text) + 250 * text.count(b"{") + 100 * marks + 60 * text.count(b"\n"))

    @contextmanager
    def lent(self) -> Iterator[None]:  # (2)
        """What is taken in the block is given back at its end."""
        before = self.taken
        try:
            yield
        finally:
            self.taken = before
