"""Files of a RocksDB store, written by hand: SST files with one block, changelogs, zips, and a checkpoint that has them.

    state/0/0, state/0/1     the windowed count of hand_made.py: changelogs 1 to 3, and 2.zip with two SST files
    state/1/0                two variables of transformWithState: changelogs 1 to 3, 2.zip; a value `v`, a list `l`
"""

from __future__ import annotations

import io
import json
import struct
import uuid
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import xxhash
from pyspark.sql.types import LongType, StringType, StructType

from minispark_stream.engine.checkpointing.lz4_block import compress
from minispark_stream.extras.rocksdb.changes import DELETE, MERGE, PUT, Record
from tests.unit.hand_made import CONF, encode, keys_of, values_of, windowed_count

KINDS = {PUT: 1, DELETE: 0, MERGE: 2}
KEY = StructType().add("k", StringType())
VALUE = StructType().add("n", LongType())
FAMILIES = {"default": 1, "v": 2, "l": 3}
PREFIX = {name: struct.pack("<h", i) for name, i in FAMILIES.items()}
ROCKSDB_CONF = {**CONF, "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": "2"}


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def block(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Entries that share nothing, one beginning."""
    body = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in entries)
    return body + struct.pack("<II", 0, 1)


def sst(entries: Iterable[tuple[int, Record]], content: bytes | None = None) -> bytes:
    """A table of (sequence number, record), or of a block with another content."""
    ordered = sorted(entries, key=lambda e: (e[1].key, -e[0]))
    out = bytearray()

    def add(data: bytes) -> bytes:
        handle = varint(len(out)) + varint(len(data))
        out.extend(data + b"\0" + struct.pack("<I", xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF))
        return handle

    data = add(content or block((r.key + struct.pack("<Q", seq << 8 | KINDS[r.kind]), r.value or b"") for seq, r in ordered))
    index = add(block([(b"\xff", data)]))
    properties = add(block([(b"rocksdb.properties", add(block([(b"rocksdb.num.entries", varint(len(ordered)))])))]))
    handles = (properties + index).ljust(40, b"\0")
    return bytes(out) + b"\4" + handles + struct.pack("<IQ", 5, 0x88E241B785F4CFF7)


def changelog(records: Sequence[Record], version: int = 1, lineage: Mapping[int, str] | None = None) -> bytes:
    def utf(text: str) -> bytes:
        return struct.pack(">H", len(text)) + text.encode()

    out = b"" if version == 1 else utf(f"v{version}")
    if version >= 3:
        out += utf(json.dumps([{"version": v, "checkpointUniqueId": i} for v, i in (lineage or {}).items()]))
    typed = version in (2, 4)
    for r in records:
        value = b"\xff" * 4 if r.kind == DELETE else struct.pack(">i", len(r.value or b"")) + (r.value or b"")
        out += bytes([r.kind] if typed else []) + struct.pack(">i", len(r.key)) + r.key + value
    return compress(out + (b"\0" if typed else b"\xff" * 4))


def write_snapshot(folder: Path, name: str, tables: Sequence[bytes], families: Mapping[str, int] | None = None) -> None:
    """`name`.zip, and its SST files."""
    (folder / "SSTs").mkdir(parents=True, exist_ok=True)
    named = []
    for i, table in enumerate(tables):
        sst_name = f"{i:06}-{uuid.uuid5(uuid.NAMESPACE_URL, f'{folder.name} {name} {i}')}.sst"
        (folder / "SSTs" / sst_name).write_bytes(table)
        named.append({"localFileName": f"{i:06}.sst", "dfsSstFileName": sst_name, "sizeBytes": len(table)})
    metadata = {"sstFiles": named, "numKeys": 1, "numInternalKeys": 0, "columnFamilyMapping": dict(families or {})}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(metadata))
    (folder / f"{name}.zip").write_bytes(out.getvalue())


def rows(schema: StructType, *columns: list) -> list[bytes]:
    """UnsafeRows as RocksDB has them, behind the zero of their encoding."""
    return [b"\0" + row for row in encode(schema, *columns)]


def element(n: int) -> bytes:
    [row] = rows(VALUE, [n])
    return struct.pack("<i", len(row)) + row


def rocksdb_checkpoint(path: Path) -> Path:
    """Write it into `path`."""
    windowed_count(path, ROCKSDB_CONF)
    zero = b"\0"
    for partition, (before, after) in enumerate([
        ([(0, "a", 1)], [(0, "a", 2), (5, "a", 1)]), ([(0, "b", 1)], []),
    ]):
        folder = path / f"state/0/{partition}"
        puts = [[Record(PUT, zero + k, zero + v) for k, v in zip(keys_of(r), values_of(r))] for r in (before, after)]
        removed = [Record(DELETE, r.key, None) for r in puts[0]]
        for version, records in enumerate([*puts, removed], 1):
            (folder / f"{version}.delta").unlink()
            (folder / f"{version}.changelog").write_bytes(changelog(records))
        write_snapshot(folder, "2", [sst(enumerate(puts[0], 1)), sst(enumerate(puts[1], 9))])
    write_families(path / "state/1")
    return path


def write_families(operator: Path) -> None:
    a, b = (PREFIX["v"] + key for key in rows(KEY, ["a", "b"]))
    of_list = PREFIX["l"] + rows(KEY, ["a"])[0]
    [one, two] = rows(VALUE, [1, 2])
    folder, empty = operator / "0", operator / "1"
    folder.mkdir(parents=True)
    empty.mkdir()
    changes = [
        [Record(PUT, a, one), Record(MERGE, of_list, element(7))],
        [Record(PUT, b, two), Record(MERGE, of_list, element(8))],
        [Record(DELETE, a, None), Record(MERGE, of_list, element(9)), Record(MERGE, of_list, element(9))],
    ]
    for version, records in enumerate(changes, 1):
        (folder / f"{version}.changelog").write_bytes(changelog(records, 2))
        (empty / f"{version}.changelog").write_bytes(changelog([], 2))
    write_snapshot(folder, "2", [sst(enumerate(changes[0], 1)), sst(enumerate(changes[1], 5))], FAMILIES)
    (operator / "_metadata/v2").mkdir(parents=True)
    (operator / "_metadata/v2/0").write_text(METADATA_V2)
    (operator / "_stateSchema/default").mkdir(parents=True)
    (operator / "_stateSchema/default/0_x").write_bytes(schema_file("v", "l"))


METADATA_V2 = 'v2\n' + json.dumps({
    "operatorInfo": {"operatorId": 1, "operatorName": "transformWithStateExec"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2, "stateSchemaFilePaths": []}],
    "operatorPropertiesJson": json.dumps({"timeMode": "NoTime", "stateVariables": [
        {"stateName": "v", "stateVariableType": "ValueState"}, {"stateName": "l", "stateVariableType": "ListState"}]}),
})


def schema_file(*families: str) -> bytes:
    """Of version 3."""

    def utf(text: str) -> bytes:
        return struct.pack(">H", len(text)) + text.encode()

    def chunk(text: str) -> bytes:
        return struct.pack(">i", 1) + utf(text)

    ids = struct.pack(">h", 0)
    encoder = chunk('{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}')
    one = ids + chunk(KEY.json()) + ids + chunk(VALUE.json()) + encoder + chunk("{    }")
    return utf("v3") + struct.pack(">i", len(families)) + b"".join(utf(name) + one for name in families)
