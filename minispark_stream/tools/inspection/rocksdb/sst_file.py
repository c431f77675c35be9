"""An SST file: the keys and values of a RocksDB, or of a part of it, sorted by key.

Models: the block-based table of RocksDB, as far as Spark writes it (About state: RocksDB).

    data block ... data block | properties | index | footer
    footer     checksum type, where the properties and the index are, format version, magic number
    block      entries, compressed | compression type u8 | checksum u32
    entry      how many bytes it shares with the key before, the rest of its key, its value
    key        the user's key | sequence number and type, 8 bytes

1. The footer says where the index is, and the index says where each data block is.
2. The checksum of each block is checked before the block is taken apart.
3. Sequence numbers give the order in which RocksDB received the entries: a later entry for a key replaces an earlier one, or is
   appended to it (merge), or removes it (delete). So all entries of all files of a version, in the order of these numbers, are
   a changelog from nothing to the version, and are replayed as one. In the lowest level, the numbers are 0 and keys are unique.

    (a, 5, put, 1) (a, 7, delete) (b, 0, put, 2) (b, 6, merge, 3)      b -> 2 3

RocksDB itself is not used, because the files are not trusted. RocksDB takes its merge operator from the OPTIONS file beside
them: with the file that Spark writes, lists are silently read with a comma between their elements, and without one, a look-up
ends the process. Damaged bytes may also make native code end the process, and RocksDB needs a folder to work in. Here nothing
is unpacked into a folder, every length is checked against the bytes that exist, and the memory that is used is counted.

Differs from Spark: blocks compressed with bzip2, checksums other than XXH3, a partitioned index, and deleted ranges are
refused; Spark writes none of them.
Shown by tests/unit/tools/inspection/test_sst_file.py::test_what_rocksdb_wrote_is_read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import xxhash

from minispark_stream.engine.checkpointing.budget import BYTES_PER_RECORD, Budget
from minispark_stream.extras.rocksdb.changes import DELETE, MERGE, PUT, Record

_MAGIC = 0x88E241B785F4CFF7
_FOOTER = 53
_TYPES = {0: DELETE, 1: PUT, 2: MERGE, 7: DELETE}  # 7 is a delete of a key that was put once
_CODECS = {1: "snappy", 4: "lz4_raw", 5: "lz4_raw", 7: "zstd"}
_MOST = {1: 64, 2: 1032, 4: 255, 5: 255, 7: 32768}  # how many times as long a block can become
_XXH3 = 4


class SstEntry(NamedTuple):  # (3)
    sequence: int
    record: Record


def read_sst(data: bytes, budget: Budget) -> list[SstEntry]:
    """The entries of a file, in the order of their keys.

    Raises ValueError with the byte at which it is broken; LimitExceeded if it needs more memory than the budget has.
    """
    table = _Table(data, budget)
    found = []
    for offset, size in table.data_blocks():
        for key, value in table.entries(offset, size):
            if len(key) < 8:
                raise ValueError(f"byte {offset}: a key without its sequence number")
            packed = int.from_bytes(key[-8:], "little")
            kind = _TYPES.get(packed & 0xFF)
            if kind is None:
                raise ValueError(f"byte {offset}: an entry of the unknown type {packed & 0xFF}")
            found.append(SstEntry(packed >> 8, Record(kind, key[:-8], None if kind == DELETE else value)))
    return found


class _Table:
    def __init__(self, data: bytes, budget: Budget):
        self.data, self.budget = data, budget
        if len(data) < _FOOTER:
            raise ValueError(f"a table has at least {_FOOTER} bytes, this file has {len(data)}")
        version, magic = struct.unpack_from("<IQ", data, len(data) - 12)  # (1)
        if magic != _MAGIC:
            raise ValueError(f"byte {len(data) - 8}: not the end of a RocksDB table")
        if not 2 <= version <= 5:
            raise ValueError(f"byte {len(data) - 12}: a table of format version {version}; versions 2 to 5 can be read")
        at = len(data) - _FOOTER
        if data[at] != _XXH3:
            raise ValueError(f"byte {at}: checksums of type {data[at]}, which is not supported; Spark's are of type {_XXH3}")
        properties, at = self._handle(data, at + 1, len(data))
        self.index, _ = self._handle(data, at, len(data))
        blocks = dict(self.entries(*properties))
        if b"rocksdb.range_del" in blocks:
            raise ValueError("deleted ranges, which are not supported")
        found = blocks.get(b"rocksdb.properties")
        self.properties = dict(self.entries(*self._handle(found, 0, len(found))[0])) if found else {}
        if self.properties.get(b"rocksdb.block.based.table.index.type", b"\0")[:1] == b"\2":
            raise ValueError("a partitioned index, which is not supported")

    def data_blocks(self) -> Iterator[tuple[int, int]]:
        """Where each data block is: offset and size."""
        if self.properties.get(b"rocksdb.index.value.is.delta.encoded", b"\0")[:1] == b"\1":
            yield from self._delta_encoded(self.block(*self.index))
            return
        for _, value in self.entries(*self.index):
            yield self._handle(value, 0, len(value))[0]

    def _delta_encoded(self, block: bytes) -> Iterator[tuple[int, int]]:
        """An index whose entries have no length; of a block that follows another, it only has the difference of the sizes."""
        at, end, offset, size = 0, _end_of_entries(block), 0, 0
        while at < end:
            shared, at = _varint(block, at, end)
            unshared, at = _varint(block, at, end)
            at += unshared
            if shared == 0:
                (offset, size), at = self._handle(block, at, end)
            else:
                difference, at = _varint(block, at, end)
                offset, size = offset + size + 5, size + ((difference >> 1) ^ -(difference & 1))
            yield offset, size

    def entries(self, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of each entry of a block."""
        block = self.block(offset, size)
        at, end, key = 0, _end_of_entries(block), b""
        while at < end:
            shared, unshared, length = block[at : at + 3].ljust(3, b"\xff")
            at += 3
            if shared > 127 or unshared > 127 or length > 127:
                shared, at = _varint(block, at - 3, end)
                unshared, at = _varint(block, at, end)
                length, at = _varint(block, at, end)
            middle, last = at + unshared, at + unshared + length
            if shared > len(key) or last > end:
                raise ValueError(f"byte {offset}: a block with an entry that does not fit into it")
            key = key[:shared] + block[at:middle]
            self.budget.take(len(key) + length + BYTES_PER_RECORD)
            yield key, block[middle:last]
            at = last

    def block(self, offset: int, size: int) -> bytes:
        """A block, checked and unpacked."""
        if size < 4 or offset + size + 5 > len(self.data):
            raise ValueError(f"byte {offset}: a block of {size} bytes, but the file ends before its end")
        packed, kind = self.data[offset : offset + size], self.data[offset + size]
        (expected,) = struct.unpack_from("<I", self.data, offset + size + 1)
        if _checksum(packed, kind) != expected:  # (2)
            raise ValueError(f"byte {offset}: the block's checksum does not match")
        if kind == 0:
            return packed
        if kind not in _MOST:
            raise ValueError(f"byte {offset}: a block of the unknown compression type {kind}")
        length, at = _varint(packed, 0, len(packed))
        if length > _MOST[kind] * size:
            raise ValueError(f"byte {offset}: a block of impossible lengths ({size} bytes for {length})")
        self.budget.take(length)
        raw = _unpack(kind, packed if kind == 1 else packed[at:], length, offset)
        self.budget.take(-length)  # it is dropped when its entries have been read
        return raw

    def _handle(self, data: bytes, at: int, end: int) -> tuple[tuple[int, int], int]:
        """Where a block is: offset and size."""
        offset, at = _varint(data, at, end)
        size, at = _varint(data, at, end)
        return (offset, size), at


def _unpack(kind: int, packed: bytes, length: int, offset: int) -> bytes:
    try:
        if kind == 2:
            raw = zlib.decompressobj(-15).decompress(packed, length + 1)
        else:
            raw = pa.Codec(_CODECS[kind]).decompress(packed, length, asbytes=True)
    except (OSError, ValueError, zlib.error, pa.ArrowException) as e:
        raise ValueError(f"byte {offset}: the block does not decompress") from e
    if len(raw) != length:
        raise ValueError(f"byte {offset}: the block does not have the length that it says")
    return raw


def _checksum(data: bytes, compression: int) -> int:
    return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF ^ compression * 0x6B9083D9 & 0xFFFFFFFF


def _end_of_entries(block: bytes) -> int:
    """Where the entries of a block end: after them, it has the places where some of them begin, and how many these are."""
    if len(block) < 4:
        raise ValueError("a block without an end")
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise ValueError(f"a block with {restarts} restart points, which do not fit into it")
    return end


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= end or shift > 63:
            raise ValueError("a number that does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
