"""Compressed streams are Spark's to the byte; damage is found and named."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minispark_stream.engine.checkpointing.lz4_block import compress, decompress

END = bytes.fromhex("4c5a34426c6f636b 15 00000000 00000000 00000000")
EMPTY_DELTA = bytes.fromhex("4c5a34426c6f636b 15 04000000 04000000 db804d08 ffffffff") + END


def test_the_empty_delta_is_that_of_spark() -> None:
    assert compress(b"\xff\xff\xff\xff") == EMPTY_DELTA
    assert decompress(EMPTY_DELTA) == b"\xff\xff\xff\xff"


def test_blocks_are_cut_at_32_kib() -> None:
    stream = compress(b"abcd" * 10_000)
    assert stream[8] == 0x25 and int.from_bytes(stream[13:17], "little") == 32_768
    assert stream.count(b"LZ4Block") == 3 and stream.endswith(END)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 2000), st.sampled_from(["lz4", "zstd", "snappy"]))
def test_what_was_compressed_is_decompressed(data: bytes, times: int, codec: str) -> None:
    assert decompress(compress(data * times, codec), codec) == data * times


def test_what_other_writers_may_do_is_read() -> None:
    data = b"some state " * 10
    stream = compress(data)
    assert decompress(stream[: -len(END)]) == data  # no end mark
    assert decompress(stream + stream) == data * 2  # one stream behind another
    assert decompress(b"") == b""


def test_a_flipped_bit_is_found_or_changes_nothing() -> None:
    data = b"key value " * 20
    stream, found = compress(data), 0
    for i in range(len(stream)):
        for bit in range(8):
            damaged = bytearray(stream)
            damaged[i] ^= 1 << bit
            try:
                assert decompress(bytes(damaged)) == data
            except ValueError as e:
                assert str(e).startswith("byte ")
                found += 1
    assert found > 0.97 * 8 * len(stream)  # another block size in the token, or another match of the same bytes


@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy"])
def test_garbage_ends_in_one_clear_error_or_in_some_bytes(codec: str) -> None:
    rng = random.Random(0)
    stream = compress(b"some state " * 1000, codec)
    for _ in range(300):
        damaged = bytearray(stream[: rng.randrange(len(stream))])
        for _ in range(rng.randrange(4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            decompress(bytes(damaged), codec)
        except ValueError:
            pass


def block(token: int, packed: int, size: int, payload: bytes = b"") -> bytes:
    lengths = packed.to_bytes(4, "little", signed=True) + size.to_bytes(4, "little", signed=True)
    return b"LZ4Block" + bytes([token]) + lengths + bytes(4) + payload


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"LZ4Bl", "byte 0: the file ends inside a block header"),
        (b"x" * 21, "byte 0: not the beginning of an LZ4 block"),
        (EMPTY_DELTA[:-21] + b"junk" * 6, "byte 25: not the beginning of an LZ4 block"),
        (EMPTY_DELTA[:24], "byte 0: the file ends inside a block of 4 bytes"),
        (block(0x25, 4, 2**31 - 1), "byte 0: an LZ4 block of impossible lengths"),
        (block(0x2F, 4, 1 << 25, b"abcd"), "impossible lengths"),
        (block(0x25, -1, 5), "impossible lengths"),
        (block(0x25, 4, 100, b"\xff\xff\xff\xff"), "byte 0: the block does not decompress"),
    ],
)
def test_damage_is_named_with_its_byte(stream: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decompress(stream)


def test_lengths_of_other_codecs_are_bounded_too() -> None:
    with pytest.raises(ValueError, match="impossible lengths"):
        decompress(b"\x82SNAPPY\0" + bytes(8) + b"\0\0\0\x06" + b"\xff\xff\xff\xff\x0fx", "snappy")
    with pytest.raises(ValueError, match="lzf.* is not supported"):
        decompress(b"ZV", "lzf")


def test_what_compresses_well_is_read_back() -> None:
    """zstd writes four bytes for a block of 128 KiB that is one byte over and over."""
    block = b"a" * (100 << 20)
    assert decompress(compress(block, "zstd"), "zstd") == block
