"""An inspection takes no more memory than it may, whatever small file would like to be large.

Each bomb is the smallest file of its format that makes the most objects. All of them are opened in one process, which is asked
how much memory it has taken at most. Its address space is limited, so that a bomb that goes off ends that process alone.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from minispark_stream.engine.checkpointing.budget import Budget, LimitExceeded
from minispark_stream.engine.checkpointing.lz4_block import compress
from minispark_stream.engine.state.schema_files import encode_schemas
from minispark_stream.engine.state.state_records import encode_records
from minispark_stream.extras.rocksdb.changes import PUT, Record
from tests.unit.hand_made import CONF, encode, log_batch, windowed_count
from tests.unit.rocksdb_files import ROCKSDB_CONF, block, changelog, rocksdb_checkpoint, sst, varint

MB = 1 << 20
BUDGET = 16 * MB
MULTIPLE = 6  # what a process may take, times the budget
KEY = StructType().add("k", LongType())


def bytes_of(path: str, make: Callable[[], bytes], base: Callable[[Path], Any] = windowed_count) -> Callable[[Path], None]:
    """Writes a checkpoint with a file that has these bytes."""

    def write(folder: Path) -> None:
        base(folder)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(make())

    return write


def in_codec(codec: str, make: Callable[[], bytes]) -> Callable[[Path], None]:
    """Writes a checkpoint with one snapshot, in another codec."""

    def write(folder: Path) -> None:
        windowed_count(folder, {**CONF, "spark.sql.streaming.stateStore.compression.codec": codec})
        for old in folder.glob("state/0/*/*.delta"):
            old.unlink()
        (folder / "state/0/0/3.snapshot").write_bytes(make())

    return write


def value(kind: DataType, row: Callable[[StructType], bytes]) -> Callable[[Path], None]:
    """Writes a checkpoint with one row of state, whose value is one column of this type."""
    schema = StructType().add("v", kind)

    def write(folder: Path) -> None:
        windowed_count(folder)
        (folder / "state/0/0/_metadata/schema").write_bytes(encode_schemas(KEY, schema))
        key = encode(KEY, [1])
        (folder / "state/0/0/3.snapshot").write_bytes(compress(encode_records([(key, [row(schema)])])))
        (folder / "state/0/0/3.delta").unlink()

    return write


def array(count: int, width: int) -> Callable[[StructType], bytes]:
    """A row with an array of so many elements, all of whose bytes are 0."""
    size = 8 + (count + 63) // 64 * 8 + (count * width + 7) // 8 * 8
    return lambda schema: bytes(8) + struct.pack("<q", 16 << 32 | size) + struct.pack("<q", count) + bytes(size - 8)


def nulls(count: int) -> Callable[[StructType], bytes]:
    """A row with an array of so many nulls, each of which takes a word."""
    bits = (count + 63) // 64 * 8
    size = 8 + bits + 8 * count
    return lambda schema: bytes(8) + struct.pack("<qq", 16 << 32 | size, count) + b"\xff" * bits + bytes(size - 8 - bits)


def structs(count: int) -> Callable[[StructType], bytes]:
    """A row with an array of so many structs without fields."""
    bits = (count + 63) // 64 * 8
    slots = b"".join(struct.pack("<q", 8 + bits + 8 * count << 32) for _ in range(count))
    return lambda schema: bytes(8) + struct.pack("<qq", 16 << 32 | 8 + bits + 8 * count, count) + bytes(bits) + slots


WIDE = StructType([StructField(f"c{i}", LongType()) for i in range(1000)])


def deep_texts() -> Callable[[Path], None]:
    """200 texts that are all at one place, in a schema that is deep enough for that to be possible."""
    deep: DataType = LongType()
    for _ in range(60):
        deep = StructType().add("d", deep)
    fields = [StructField(f"s{i}", StringType()) for i in range(50)]
    kind = StructType([*fields, StructField("deep", deep)])

    def row(schema: StructType) -> bytes:
        fixed, size = 8 + 8 * 51, 4 * MB
        inner = bytes(8) + struct.pack("<q", fixed << 32 | size) * 50 + bytes(8)
        inner = (1 << 50).to_bytes(8, "little") + inner[8:] + b"a" * size
        return bytes(8) + struct.pack("<q", 16 << 32 | len(inner)) + inner

    return value(kind, row)


def laughing_variant(schema: StructType) -> bytes:
    """Nine arrays of 255 elements, each of which is the next array."""
    data = b"\x00"  # null
    for _ in range(9):
        data = bytes([0b000_0_11, 255]) + bytes(256) + data
    whole = struct.pack("<i", len(data)) + data + b"\x01\x00\x00"
    return bytes(8) + struct.pack("<q", 16 << 32 | len(whole)) + whole + bytes(-len(whole) % 8)


def avro(kind: DataType, row: bytes) -> Callable[[Path], None]:
    """Writes a checkpoint in RocksDB, with a value in Avro."""

    def write(folder: Path) -> None:
        conf = {**ROCKSDB_CONF, "spark.sql.streaming.stateStore.encodingFormat": "avro"}
        windowed_count(folder, conf)
        for old in folder.glob("state/0/*/*.delta"):
            old.unlink()
        schema = StructType().add("v", kind)

        def chunk(text: str) -> bytes:
            return struct.pack(">i", 1) + utf(text)

        def utf(text: str) -> bytes:
            return struct.pack(">H", len(text)) + text.encode()

        ids = struct.pack(">h", 0)
        of_family = utf("default") + ids + chunk(KEY.json()) + ids + chunk(schema.json())
        of_family += chunk('{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}') + chunk("{    }")
        (folder / "state/0/_stateSchema/default").mkdir(parents=True)
        (folder / "state/0/_stateSchema/default/0_x").write_bytes(utf("v3") + struct.pack(">i", 1) + of_family)
        (folder / "state/0/0/_metadata/schema").unlink()
        for version in (1, 2, 3):
            records = [Record(PUT, b"\0\0\0\2\2", b"\0\0\0" + row)] if version == 3 else []
            (folder / f"state/0/0/{version}.changelog").write_bytes(changelog(records, 1))

    return write


def families(tail: bytes) -> Callable[[Path], None]:
    """Writes a checkpoint whose file of column families ends with this."""

    def write(folder: Path) -> None:
        rocksdb_checkpoint(folder)
        for old in (folder / "state/1/_stateSchema").glob("*/*"):
            old.write_bytes(b"\0\2v3" + tail)

    return write


def chunks(count: int) -> bytes:
    """A name of a family, and a schema in so many pieces without a character."""
    return struct.pack(">i", 1) + b"\0\1d" + bytes(2) + struct.pack(">i", count) + bytes(2 * count)


def rocksdb_zip(folder: Path, data: bytes) -> None:
    rocksdb_checkpoint(folder)
    for name in ("state/0/0/2.zip", "state/1/0/2.zip"):
        (folder / name).write_bytes(data)


def zipped(text: bytes, members: int = 0) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", text)
        for i in range(members):
            archive.writestr(str(i), b"")
    return out.getvalue()


def packed_table(folder: Path) -> None:
    """A table with one block, which LZ4 has made 200 times smaller."""
    import pyarrow as pa

    rocksdb_checkpoint(folder)
    raw = block([(b"k" * 9, bytes(100 * MB))])
    packed = varint(len(raw)) + pa.Codec("lz4_raw").compress(raw, asbytes=True)
    out = bytearray()

    def add(data: bytes, kind: int) -> bytes:
        handle = varint(len(out)) + varint(len(data))
        checksum = xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF ^ kind * 0x6B9083D9 & 0xFFFFFFFF
        out.extend(data + bytes([kind]) + struct.pack("<I", checksum))
        return handle

    index = add(block([(b"\xff", add(packed, 4))]), 0)
    handles = (add(block([]), 0) + index).ljust(40, b"\0")
    replace_table(folder, bytes(out) + b"\4" + handles + struct.pack("<IQ", 5, 0x88E241B785F4CFF7))


def long_keys(folder: Path) -> None:
    """Entries whose keys share all but a byte of a long one."""
    rocksdb_checkpoint(folder)
    long = varint(0) + varint(5000) + varint(0) + bytes(4992) + struct.pack("<Q", 1 << 8 | 1)
    body = long + (varint(5000) + varint(0) + varint(0)) * 1_000_000
    replace_table(folder, sst([], body + struct.pack("<II", 0, 1)))


def replace_table(folder: Path, table: bytes) -> None:
    [name] = [p for p in (folder / "state/1/0/SSTs").iterdir() if p.name.startswith("000000")]
    archive = folder / "state/1/0/2.zip"
    metadata = json.loads(zipfile.ZipFile(archive).read("metadata").split(b"\n", 1)[1])
    metadata["sstFiles"][0]["sizeBytes"] = len(table)
    name.write_bytes(table)
    archive.write_bytes(zipped(b"v1\n" + json.dumps(metadata).encode()))


def gigabytes(path: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        windowed_count(folder)
        with open(folder / path, "wb") as file:
            file.truncate(8 << 30)  # none of which is on the disk

    return write


def in_each_version(folder: Path) -> None:
    """Nothing of a bomb may stay in memory with its error."""
    windowed_count(folder)
    for version in range(3, 40):
        (folder / f"state/0/0/{version}.snapshot").write_bytes(compress(bytes(8 * 100_000) + b"\xff\xff"))


def many_batches(folder: Path) -> None:
    """Each of the entries is small; together they are too much."""
    windowed_count(folder)
    for batch in range(3, 60):
        log_batch(folder, batch, '{"logOffset":1}')
        (folder / f"offsets/{batch}").write_bytes(b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n' + b"x" * (300 << 10))




def small_keys(count: int) -> bytes:
    return encode_records([([struct.pack(">i", i) for i in range(count)], [b""] * count)])


V1 = b"v1\n"
METADATA = V1 + b'{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n'
BOMBS: dict[str, Callable[[Path], None]] = {
    "nothing": lambda folder: None if windowed_count(folder) else None,
    "lz4": bytes_of("state/0/0/3.delta", lambda: compress(bytes(200 * MB))),
    "damage in each version, allowed": in_each_version,
    "lz4, one block": bytes_of("state/0/0/3.delta", lambda: b"LZ4Block" + struct.pack("<Biii", 0x2F, 140_000, 32 * MB, 7) + bytes(140_000)),
    "zstd": in_codec("zstd", lambda: compress(bytes(200 * MB), "zstd")),
    "snappy": in_codec("snappy", lambda: compress(bytes(200 * MB), "snappy")),
    "snappy, one chunk": in_codec(
        "snappy", lambda: b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", 2 * MB) + varint(100 * MB) + bytes(2 * MB - 4)
    ),
    "empty records": bytes_of("state/0/0/3.delta", lambda: compress(bytes(8 * 1_500_000) + b"\xff" * 4)),
    "small keys": bytes_of("state/0/0/3.delta", lambda: compress(small_keys(1_000_000))),
    "small keys, allowed": bytes_of("state/0/0/3.delta", lambda: compress(small_keys(70_000))),
    "array of boolean": value(ArrayType(BooleanType()), array(2_000_000, 1)),
    "array of boolean, allowed": value(ArrayType(BooleanType()), array(40_000, 1)),
    "array of null": value(ArrayType(NullType()), nulls(300_000)),
    "array of structs without fields": value(ArrayType(StructType()), structs(400_000)),
    "array of structs without fields, allowed": value(ArrayType(StructType()), structs(40_000)),
    "array of null structs": value(ArrayType(WIDE), nulls(100_000)),
    "array of null structs, allowed": value(ArrayType(WIDE), nulls(40)),
    "map": value(MapType(BooleanType(), BooleanType()), lambda schema: (
        bytes(8) + struct.pack("<q", 16 << 32 | 8 + 2 * (8 + 62_504 + 500_000)) + struct.pack("<q", 8 + 62_504 + 500_000)
        + 2 * (struct.pack("<q", 500_000) + bytes(562_504)))),
    "texts at one place": deep_texts(),
    "variant": value(VariantType(), laughing_variant),
    "avro, structs without fields": avro(ArrayType(StructType()), b"\2" + varint(2_000_000) + b"\2" * 1_000_000 + b"\0"),
    "avro, array of boolean": avro(ArrayType(BooleanType()), b"\2" + varint(2_000_000) + b"\2\1" * 1_000_000 + b"\0"),
    "avro, allowed": avro(ArrayType(StructType()), b"\2" + varint(30_000) + b"\2" * 15_000 + b"\0"),
    "avro, wide": avro(ArrayType(WIDE), b"\2" + varint(2_000) + (b"\2" + b"\0" * 1000) * 1_000 + b"\0"),
    "zip, deflate": lambda folder: rocksdb_zip(folder, zipped(V1 + b" " * 15 * MB)),
    "zip, json": lambda folder: rocksdb_zip(folder, zipped(V1 + b'{"sstFiles":[' + b"{}," * 1_000_000 + b"{}]}")),
    "zip, members": lambda folder: rocksdb_zip(folder, zipped(V1 + b"{}", 60_000)),
    "sst, a packed block": packed_table,
    "sst, long keys": long_keys,
    "changelog": bytes_of(
        "state/1/0/3.changelog", lambda: compress(b"\0\2v2" + (b"\1" + bytes(8)) * 1_000_000 + b"\0"), rocksdb_checkpoint
    ),
    "offsets, json": bytes_of("offsets/3", lambda: METADATA[:-3] + b',"a":[' + b"{}," * 1_000_000 + b"{}]}\n-"),
    "offsets, json, allowed": bytes_of("offsets/3", lambda: METADATA[:-2] + b',"a":[' + b"{}," * 30_000 + b"{}]}\n-"),
    "offsets, nested": bytes_of("offsets/3", lambda: METADATA + b'{"a":' * 3_000_000),
    "offsets, lines": bytes_of("offsets/3", lambda: METADATA + b"\n" * 10_000_000),
    "offsets, wide characters": bytes_of("offsets/3", lambda: METADATA + b"x" * 12_000_000 + "𝄞".encode()),
    "offsets, gigabytes": gigabytes("offsets/3"),
    "offsets, together": many_batches,
    "commits, json": bytes_of("commits/2", lambda: V1 + b'{"a":[' + b"[]," * 3_000_000 + b"0]}"),
    "metadata, json": bytes_of("metadata", lambda: b'{"id":"x","a":[' + b'{"":0},' * 2_000_000 + b"0]}"),
    "source, lines": bytes_of("sources/0/9.compact", lambda: V1 + b"\n" * 14_000_000),
    "source, entries": bytes_of("sources/0/9.compact", lambda: V1 + b'{"path":"","timestamp":1,"batchId":0}\n' * 380_000),
    "source, entries, allowed": bytes_of("sources/0/9.compact", lambda: V1 + b'{"path":"","timestamp":1,"batchId":0}\n' * 15_000),
    "source, gigabytes": gigabytes("sources/0/9.compact"),
    "source of another kind": bytes_of("sources/1/0", lambda: bytes(15 * MB)),
    "operator metadata": bytes_of("state/0/_metadata/metadata", lambda: V1 + b'{"a":[' + b"{}," * 4_000_000 + b"0]}"),
    "operator metadata, second version": bytes_of(
        "state/1/_metadata/v2/9", lambda: b'v2\n{"a":[' + b"{}," * 4_000_000 + b"0]}", rocksdb_checkpoint
    ),
    "column families, a schema in pieces": families(chunks(7_000_000)),
    "column families, names": families(struct.pack(">i", 500_000) + (b"\0\1d" + bytes(2)) * 3_000_000),
    "column families, a schema that is JSON": families(
        struct.pack(">i", 1) + b"\0\1d" + bytes(2) + struct.pack(">i", 200) + (b"\xff\xff" + b"[]," * 21_845) * 200
    ),
    "offsets, named sources": bytes_of(
        "offsets/3", lambda: b'v2\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{},"sourceMetadataInfo":{}}\n'
        + b"\n".join(b"s%d:-" % i for i in range(900_000))
    ),
    "commits, ids of versions": bytes_of(
        "commits/2", lambda: b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[' + b'["a"],' * 2_000_000 + b'["a"]]}}'
    ),
    "schema, a nested type": bytes_of(
        "state/0/0/_metadata/schema", lambda: b"\0\2v2" + struct.pack(">i", 200) + (b"\xff\xff" + (b'{"type":' * 8192)[:65535]) * 200
    ),
    "schema": bytes_of("state/0/0/_metadata/schema", lambda: b"\0\2v1" + (b"\xff\xff" + b'{"a":[' + b"{}," * 21_843) * 100),
}

READ = """
import json, resource, sys, time
from minispark_stream import inspect
from minispark_stream.engine.checkpointing.errors import PySparkException

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
peak = lambda: next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
for path in sys.argv[2:]:
    began, said = time.monotonic(), []
    try:
        report = inspect(path, max_bytes=int(sys.argv[1]))
        said += [str(f) for f in report.findings]
        report.to_json(), str(report), report._repr_html_(), report.to_html(path + ".html")
        for store in report.states:
            for ask in (report.rows, lambda *a, **k: report.find(1, *a, **k), lambda *a, **k: report.diff(2, 3, *a, **k)):
                try:
                    ask(store.operator_id, store=store.name)
                except (ValueError, PySparkException) as e:
                    said.append(str(e))
    except (ValueError, PySparkException) as e:
        said.append(str(e))
    print(json.dumps([path, peak(), time.monotonic() - began, said]), flush=True)
"""


@pytest.fixture(scope="module")
def peaks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, float, list[str]]]:
    """Bomb -> the peak of the process after it, the seconds that it took, and what was said about it."""
    paths = {}
    for i, (name, write) in enumerate(BOMBS.items()):
        folder = tmp_path_factory.mktemp(f"bomb{i}")
        write(folder)
        paths[str(folder)] = name
    run = subprocess.run([sys.executable, "-c", READ, str(BUDGET), *paths], capture_output=True, text=True, env={**os.environ}, timeout=540)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"after {[paths[path] for path, *_ in lines]}: {run.stderr[-2000:]}"
    return {paths[path]: (peak, seconds, said) for path, peak, seconds, said in lines}


PLACES = ("file:/", "offsets/", "commits/", "sources/", "state/")  # an error has the whole path, a finding that in the checkpoint


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what a process has taken at most")
@pytest.mark.parametrize("name", [name for name in BOMBS if name != "nothing"])
def test_a_bomb_takes_no_more_than_a_small_multiple_of_the_budget(peaks: dict[str, tuple[int, float, list[str]]], name: str) -> None:
    peak, seconds, said = peaks[name]
    before = peaks["nothing"][0]
    assert peak - before < MULTIPLE * BUDGET, f"{(peak - before) / BUDGET:.1f} times the budget"
    assert seconds < 60
    limited = [one for one in said if "allow more with --max-bytes (max_bytes)" in one]
    assert bool(limited) != name.endswith("allowed"), said
    assert all(any(place in one for place in PLACES) and "\n" not in one for one in limited)


def test_what_was_lent_is_given_back() -> None:
    budget = Budget(10)
    with budget.lent():
        budget.take(9)
    assert budget.left == 10
    with pytest.raises(LimitExceeded), budget.lent():
        budget.take(9)
        budget.take(2)
    assert budget.left == 10
