"""How much memory a row in Avro needs, found out before any of its values is made.

1. The bytes are followed by the schema that they were written with. Each value is counted, also those that take no bytes.
2. A record also has a value for each field of the schema that it is read with, whether it was written or not.

    an array of records without fields: 02 02 02 00     three bytes are three values; "40000000 times" would be five bytes

Models: nothing of Spark.
Shown by tests/unit/tools/inspection/test_budget.py::test_a_bomb_takes_no_more_than_a_small_multiple_of_the_budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minispark_stream.engine.checkpointing.budget import BYTES_PER_VALUE, Budget

_PER_VALUE = 2 * BYTES_PER_VALUE  # as Avro's value, and as the one that is made of it
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def take_avro(data: bytes, written: Any, read: Any, budget: Budget) -> None:
    """Take what a row needs. Raises LimitExceeded; ValueError if the bytes end too early."""
    _Walk(data, budget).value(written, read)


class _Walk:
    def __init__(self, data: bytes, budget: Budget):
        self.data, self.at, self.budget = data, 0, budget

    def value(self, written: Any, read: Any) -> None:  # (1)
        self.budget.take(_PER_VALUE)
        if isinstance(written, list):
            branch = self._long()
            if not 0 <= branch < len(written):
                raise ValueError(f"a row in Avro with branch {branch} of a union of {len(written)}")
            of_reader = [one for one in read if _kind(one) == _kind(written[branch])] if isinstance(read, list) else [read]
            return self.value(written[branch], of_reader[0] if of_reader else None)
        match _kind(written):
            case "record":
                fields = {f["name"]: f["type"] for f in read["fields"]} if _kind(read) == "record" else {}
                self.budget.take(_PER_VALUE * len(fields))  # (2)
                for field in written["fields"]:
                    self.value(field["type"], fields.get(field["name"]))
            case "array":
                items = read["items"] if _kind(read) == "array" else None
                self._blocks(lambda: self.value(written["items"], items))
            case "map":
                values = read["values"] if _kind(read) == "map" else None
                self._blocks(lambda: self._entry(written["values"], values))
            case "fixed":
                self._skip(written["size"])
            case "string" | "bytes":
                self._skip(self._long())
            case "int" | "long":
                self._long()
            case kind:
                self._skip(_SIZES[kind])

    def _entry(self, written: Any, read: Any) -> None:
        self._skip(self._long())  # the key
        self.value(written, read)

    def _blocks(self, element: Callable[[], None]) -> None:
        while count := self._long():
            if count < 0:
                self._long()  # the bytes of the block
            for _ in range(abs(count)):
                element()

    def _skip(self, size: int) -> None:
        self.at += size
        if size < 0 or self.at > len(self.data):
            raise ValueError(f"a row in Avro that ends at byte {len(self.data)}, within a value")
        self.budget.take(4 * size)

    def _long(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self.data) or shift > 63:
                raise ValueError(f"a row in Avro that ends at byte {len(self.data)}, within a number")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)


def _kind(schema: Any) -> Any:
    return schema["type"] if isinstance(schema, dict) else schema
