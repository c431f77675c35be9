"""How state files are compressed.

Models: CompressionCodec, and LZ4BlockOutputStream of lz4-java (About state: state files).

The codec is `spark.sql.streaming.stateStore.compression.codec`, by default lz4. Spark's lz4 streams do not have the LZ4 frame
format; they are raw LZ4 blocks with a header of lz4-java's own:

    block := "LZ4Block" | token u8 | compressed length i32 | raw length i32 | checksum i32 | payload   (little-endian)

1. The data is cut into blocks of 32 KiB. token = method | level; level = log2(block size) - 10 = 5.
2. Method 0x20 means an LZ4 block; method 0x10 means raw bytes, for data that does not get smaller.
3. checksum = xxhash32(raw bytes, seed 0x9747B28C), with the upper 4 bits cleared. Reading verifies it.
4. An empty block (token 0x15, three zeros) ends the stream. Readers also accept a stream without it, and several streams in a
   row.

    an empty delta, ffffffff, is   4c5a34426c6f636b 15 04000000 04000000 db804d08 ffffffff
                                   4c5a34426c6f636b 15 00000000 00000000 00000000

pyarrow's `lz4_raw` compresses to the same bytes as Spark does. Lengths are checked before memory is allocated: a raw length may
not exceed the block size in the token, nor 255 times the payload, since LZ4 cannot compress more than that. Whoever reads files
that somebody else wrote also gives a `Budget`, because 255 times the size of a file may be too much.

Differs from Spark: zstd and snappy streams are read and written in Spark's formats, but the bytes may differ, because another
library compresses them; lzf, for which there is no library, is refused.
Shown by tests/unit/engine/state/test_state_store.py::test_other_codecs,
tests/unit/engine/checkpointing/test_lz4_block.py::test_lengths_of_other_codecs_are_bounded_too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pyarrow as pa
import xxhash

from minispark_stream.engine.checkpointing.budget import Budget

BLOCK_SIZE = 32 * 1024  # spark.io.compression.lz4.blockSize
_MAGIC = b"LZ4Block"
_HEADER = struct.Struct("<8sBiii")
_RAW, _LZ4 = 0x10, 0x20
_LEVEL = 5
_END = _HEADER.pack(_MAGIC, _RAW | _LEVEL, 0, 0, 0)
_lz4 = pa.Codec("lz4_raw")
_snappy = pa.Codec("snappy")
_SNAPPY_HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


CODECS = ("lz4", "zstd", "snappy")  # those of Spark's that can be read and written here

Take = Callable[[int], None]  # is called with a number of bytes before they are allocated


def compress(data: bytes, codec: str = "lz4") -> bytes:
    """`data` as a stream of Spark's codec `codec`: lz4, zstd or snappy."""
    match codec.lower():
        case "lz4":
            blocks = (data[at : at + BLOCK_SIZE] for at in range(0, len(data), BLOCK_SIZE))  # (1)
            return b"".join([*map(_block, blocks), _END])  # (4)
        case "zstd":
            return pa.Codec("zstd", compression_level=1).compress(data, asbytes=True)
        case "snappy":
            chunks = [
                _snappy.compress(data[at : at + BLOCK_SIZE], asbytes=True) for at in range(0, len(data), BLOCK_SIZE)
            ]
            return b"".join([_SNAPPY_HEADER, *(struct.pack(">i", len(c)) + c for c in chunks)])
        case _:
            raise _unsupported(codec)


def decompress(data: bytes, codec: str = "lz4", budget: Budget | None = None) -> bytes:
    """The bytes in a stream.

    Raises:
        ValueError: it is not such a stream; the text says at which byte it is damaged.
        LimitExceeded: it contains more bytes than the budget has.
    """
    readers = {"lz4": _read_blocks, "zstd": _read_zstd, "snappy": _read_snappy}
    if codec.lower() not in readers:
        raise _unsupported(codec)
    return b"".join(readers[codec.lower()](data, budget.take if budget else _take_any))


def _unsupported(codec: str) -> ValueError:
    return ValueError(f"compression codec {codec!r} is not supported for state files: use lz4, zstd or snappy")


def _take_any(size: int) -> None:
    pass


def _block(raw: bytes) -> bytes:
    checksum = xxhash.xxh32_intdigest(raw, 0x9747B28C) & 0x0FFFFFFF  # (3)
    payload = _lz4.compress(raw, asbytes=True)
    method = _LZ4
    if len(payload) >= len(raw):  # (2)
        method, payload = _RAW, raw
    return _HEADER.pack(_MAGIC, method | _LEVEL, len(payload), len(raw), checksum) + payload


def _read_blocks(data: bytes, take: Take) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise ValueError(f"byte {at}: the file ends inside a block header")
        magic, token, packed, size, checksum = _HEADER.unpack_from(data, at)
        method, block_size = token & 0xF0, 1 << (10 + (token & 0x0F))
        start, end = at + _HEADER.size, at + _HEADER.size + packed
        if magic != _MAGIC or method not in (_RAW, _LZ4):
            raise ValueError(f"byte {at}: not the beginning of an LZ4 block")
        if size == packed == checksum == 0:  # (4)
            at = start
            continue
        if not 0 < size <= block_size or packed <= 0 or size > 255 * packed or (method == _RAW and packed != size):
            raise ValueError(f"byte {at}: an LZ4 block of impossible lengths ({packed} bytes for {size})")
        if end > len(data):
            raise ValueError(f"byte {at}: the file ends inside a block of {packed} bytes")
        take(size)
        raw = data[start:end] if method == _RAW else _unpack(data[start:end], size, at)
        if xxhash.xxh32_intdigest(raw, 0x9747B28C) & 0x0FFFFFFF != checksum:  # (3)
            raise ValueError(f"byte {at}: the block's checksum does not match: Stream is corrupted")
        yield raw
        at = end


def _unpack(payload: bytes, size: int, at: int) -> bytes:
    try:
        raw: bytes = _lz4.decompress(payload, size, asbytes=True)
    except (OSError, pa.ArrowException) as e:
        raise ValueError(f"byte {at}: the block does not decompress: Stream is corrupted") from e
    return raw


def _read_zstd(data: bytes, take: Take) -> Iterator[bytes]:
    limit = (64 << 20) + 32768 * len(data)  # four bytes may stand for a block of 128 KiB
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while chunk := stream.read(1 << 20):
                limit -= len(chunk)
                take(len(chunk))
                if limit < 0:
                    raise ValueError("the zstd stream grows beyond reason")
                yield chunk
    except (OSError, pa.ArrowException) as e:
        raise ValueError(f"not a zstd stream: {e}") from e


def _read_snappy(data: bytes, take: Take) -> Iterator[bytes]:
    if data[:8] != _SNAPPY_HEADER[:8]:
        raise ValueError("byte 0: not the beginning of a snappy stream")
    at = len(_SNAPPY_HEADER)
    while at < len(data):
        packed = int.from_bytes(data[at : at + 4], "big")
        chunk = data[at + 4 : at + 4 + packed]
        if len(chunk) < packed or not packed:
            raise ValueError(f"byte {at}: the file ends inside a snappy chunk")
        size = _varint(chunk)
        if size > 64 * packed:
            raise ValueError(f"byte {at}: a snappy chunk of impossible lengths ({packed} bytes for {size})")
        take(size)
        try:
            raw: bytes = _snappy.decompress(chunk, size, asbytes=True)
        except (OSError, pa.ArrowException) as e:
            raise ValueError(f"byte {at}: the snappy chunk does not decompress") from e
        yield raw
        at += 4 + packed


def _varint(chunk: bytes) -> int:
    value = 0
    for shift, byte in enumerate(chunk[:5]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            break
    return value
