"""The files of one state store (About state: delta and snapshot files; HDFSBackedStateStoreProvider's file half).

    state/<operator>/<partition>[/<store>]/7.delta       what batch 6 changed: version 6 -> version 7
                                           11.snapshot   everything there is in version 11

1. Both are a compressed stream (checkpointing/lz4_block.py) of records with big-endian lengths:

       put     i32 key length, key, i32 value length, value
       remove  i32 key length, key, i32 -1                     in deltas only
       end     i32 -1

2. With `rowChecksum.enabled` a put value is preceded by the CRC32C of key and value (i32, little-endian, part of the
   value's length), and the key of a remove by the CRC32C of the key.
3. A file appears whole or not at all (written aside, then renamed) and may be replaced by a batch that runs again, so
   a reader who keeps what it read remembers the `identity` of the file.

    {a: 1} then remove b     00000001 61 00000001 31 | 00000001 62 ffffffff | ffffffff

Files are not trusted: lengths are checked before they are used, and every error names the file and the byte.
Differs from Spark: the error of a damaged file, CANNOT_LOAD_STATE_STORE.UNCATEGORIZED, has the reason in its message,
Spark's has it in the cause.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from pyspark.errors import SparkRuntimeException

from minispark_stream.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.checkpointing.lz4_block import LimitExceeded, compress, decompress
from minispark_stream.state.state_store import StateStoreConf, StateStoreId, state_error

Pair = tuple[bytes, "bytes | None"]  # a put, or with None a remove
Change = tuple[Sequence[bytes], "Sequence[bytes] | None"]  # keys that were put with their values, or were removed

_END = b"\xff\xff\xff\xff"
_length = struct.Struct(">i")


class StoreFile(NamedTuple):
    version: int
    name: str
    is_snapshot: bool


class StateFiles:
    """Reads, writes, lists and deletes the delta and snapshot files of one store.

    `manager`: for the store's directory, if not the usual one; `max_bytes`: of a file's records, in bytes.
    """

    def __init__(
        self, store_id: StateStoreId, conf: StateStoreConf,
        manager: CheckpointFileManager | None = None, max_bytes: int | None = None,
    ):
        self.store_id, self.conf, self.max_bytes = store_id, conf, max_bytes
        self.manager = manager or CheckpointFileManager(store_id.location)
        self.root = self.manager.root
        self._local = self.root.removeprefix("file:").replace("///", "/", 1) if self.root.startswith("file:") else None
        self._has_directory = False

    def __str__(self) -> str:
        s = self.store_id
        which = f"operatorId={s.operator_id}, partitionId={s.partition_id}, storeName={s.store_name}"
        return f"HDFSStateStoreProvider[StateStoreId[ {which} ]]"

    def write_delta(self, version: int, changes: Iterable[Change]) -> None:
        self._write(f"{version}.delta", encode_records(changes, self.conf.row_checksum_enabled))

    def write_snapshot(self, version: int, state: dict[bytes, bytes]) -> None:
        changes = [(list(state), list(state.values()))]
        self._write(f"{version}.snapshot", encode_records(changes, self.conf.row_checksum_enabled))

    def read_delta(self, version: int) -> list[Pair]:
        """The records of a delta, in order. A missing file is CANNOT_READ_DELTA_FILE_NOT_EXISTS."""
        try:
            return self._read(f"{version}.delta", "delta")
        except FileNotFoundError as e:
            file = f"{version}.delta"
            raise self._error("CANNOT_READ_DELTA_FILE_NOT_EXISTS", "delta", file, "{f} does not exist") from e

    def read_snapshot(self, version: int) -> dict[bytes, bytes]:
        try:
            pairs = self._read(f"{version}.snapshot", "snapshot")
        except FileNotFoundError as e:
            file = f"{version}.snapshot"
            raise self._error("CANNOT_READ_MISSING_SNAPSHOT_FILE", "snapshot", file, "{f} does not exist") from e
        state = dict(pairs)
        if None in state.values():
            reason = "value size cannot be -1"
            raise self._error("CANNOT_READ_SNAPSHOT_FILE_VALUE_SIZE", "snapshot", f"{version}.snapshot", reason)
        return state  # type: ignore[return-value]

    def delete(self, name: str) -> None:
        self.manager.delete(name)

    def store_files(self) -> list[StoreFile]:
        """The delta and snapshot files by version; where a version has both, the snapshot (Spark's fetchFiles)."""
        found: dict[int, StoreFile] = {}
        for name, *_ in self._names():
            stem, _, suffix = name.partition(".")
            if stem.isdecimal() and suffix in ("delta", "snapshot"):
                version, is_snapshot = int(stem), suffix == "snapshot"
                if is_snapshot or version not in found:
                    found[version] = StoreFile(version, name, is_snapshot)
        return [found[version] for version in sorted(found)]

    def snapshots(self) -> list[int]:
        return [f.version for f in self.store_files() if f.is_snapshot]

    def identity(self, version: int) -> object:
        """What tells this file of `version` from one that replaced it; None when there is no file."""  # (3)
        for name in (f"{version}.delta", f"{version}.snapshot"):
            if self._local is None:
                found = [(size, mtime) for n, size, mtime in self._names() if n == name]
                if found:
                    return name, *found[0]
            else:
                try:
                    stat = os.stat(f"{self._local}/{name}")
                    return name, stat.st_size, stat.st_mtime_ns, stat.st_ino
                except FileNotFoundError:
                    pass
        return None

    def _names(self) -> list[tuple[str, int, int]]:
        try:
            return self.manager.list("")
        except FileNotFoundError:
            return []

    def _write(self, name: str, records: bytes) -> None:
        if not self._has_directory:
            self.manager.mkdirs("")
            self._has_directory = True
        self.manager.create_atomic(name, compress(records, self.conf.compression_codec), overwrite=True)

    def _read(self, name: str, kind: str) -> list[Pair]:
        data = self.manager.open(name)
        try:
            records = decompress(data, self.conf.compression_codec, self.max_bytes)
            return decode_records(records, self.conf.row_checksum_enabled)
        except LimitExceeded as e:
            raise LimitExceeded(f"{self.root}/{name}: {e}") from e
        except NegativeKeySize as e:
            raise self._error(f"CANNOT_READ_{kind.upper()}_FILE_KEY_SIZE", kind, name, str(e)) from e
        except RowChecksumMismatch as e:
            text = f"Row checksum verification failed for stateStore={self}. The row may be corrupted.\n{e}, in {name}."
            raise state_error("STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED", text, "XXKST", stateStoreId=self) from e
        except ValueError as e:
            reason = f"{e}. Restore the file from a copy, or start the query with a new checkpoint"
            raise self._error("UNCATEGORIZED", kind, name, reason) from e

    def _error(self, sub_condition: str, kind: str, name: str, reason: str) -> SparkRuntimeException:
        file = f"{self.root}/{name}"
        text = f"Error reading {kind} file {file} of {self}: {reason.replace('{f}', file)}."
        condition = f"CANNOT_LOAD_STATE_STORE.{sub_condition}"
        text = f"An error occurred during loading state. {text}"
        return state_error(condition, text, "58030", fileToRead=file, clazz=self)


# --- (1) records -----------------------------------------------------------------------------------------------


class NegativeKeySize(ValueError):
    pass


class RowChecksumMismatch(ValueError):
    pass


class _Lengths(dict[int, bytes]):
    """Each length as four bytes, made once."""

    def __missing__(self, length: int) -> bytes:
        self[length] = packed = _length.pack(length)
        return packed


def encode_records(changes: Iterable[Change], checksum: bool = False) -> bytes:
    """`changes` in order as the payload of a delta or snapshot file."""
    lengths = _Lengths()
    out: list[bytes] = []
    for keys, values in changes:
        if checksum:  # (2)
            keys, values = _with_checksum(keys, values)
        if values is not None and (puts := _puts_of_one_size(keys, values)) is not None:
            out.append(puts)
            continue
        columns = [map(lengths.__getitem__, map(len, keys)), keys]
        columns += [[_END] * len(keys)] if values is None else [map(lengths.__getitem__, map(len, values)), values]
        records: list[bytes] = [b""] * (len(keys) * len(columns))
        for i, column in enumerate(columns):
            records[i :: len(columns)] = column
        out += records
    return b"".join([*out, _END])


def _puts_of_one_size(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes | None:
    """The records of puts of rows without variable parts, several times faster; None for others."""
    key_sizes, value_sizes = set(map(len, keys)), set(map(len, values))
    if len(key_sizes) != 1 or len(value_sizes) != 1 or len(keys) != len(values):
        return None
    (key,), (value,) = key_sizes, value_sizes
    table = np.empty((len(keys), 8 + key + value), np.uint8)
    table[:, :4] = np.frombuffer(_length.pack(key), np.uint8)
    table[:, 4 : 4 + key] = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), key)
    table[:, 4 + key : 8 + key] = np.frombuffer(_length.pack(value), np.uint8)
    table[:, 8 + key :] = np.frombuffer(b"".join(values), np.uint8).reshape(len(keys), value)
    return table.tobytes()


def decode_records(data: bytes, checksum: bool = False) -> list[Pair]:
    """The records of a payload, in order. Raises ValueError with the byte at which the payload is broken."""
    pairs = _records_of_one_size(data)
    if pairs is None:
        pairs = list(_records(data))
    return _checked(pairs) if checksum else pairs


def _records(data: bytes) -> Iterator[Pair]:
    at, end, read = 0, len(data), _length.unpack_from
    while True:
        if end - at < 4:
            raise ValueError(f"byte {at} of the records: the file ends without its end mark (-1)")
        (size,) = read(data, at)
        if size < 0:
            if size == -1:
                return
            raise NegativeKeySize(f"key size cannot be {size}")
        key = data[at + 4 : at + 4 + size]
        if at + 8 + size > end:
            raise ValueError(f"byte {at} of the records: a key of {size} bytes, but the file ends before")
        at += 4 + size
        (size,) = read(data, at)
        if size < 0:
            yield key, None
            at += 4
            continue
        if at + 4 + size > end:
            raise ValueError(f"byte {at} of the records: a value of {size} bytes, but the file ends before")
        yield key, data[at + 4 : at + 4 + size]
        at += 4 + size


def _records_of_one_size(data: bytes) -> list[Pair] | None:
    """The same as `_records`, several times faster, for puts of rows without variable parts; None for others."""
    if len(data) < 12 or data[-4:] != _END:
        return None
    (key,) = _length.unpack_from(data)
    if key < 0 or key + 8 > len(data):
        return None
    (value,) = _length.unpack_from(data, 4 + key)
    if value < 0 or (len(data) - 4) % (8 + key + value):
        return None
    table = np.frombuffer(data, np.uint8, len(data) - 4).reshape(-1, 8 + key + value)
    sizes = [table[:, :4], table[:, 4 + key : 8 + key]]
    if any((size != size[0]).any() for size in sizes):
        return None
    return list(struct.iter_unpack(f"4x{key}s4x{value}s", memoryview(data)[:-4]))


# --- (2) row checksums -----------------------------------------------------------------------------------------


def _with_checksum(keys: Sequence[bytes], values: Sequence[bytes] | None) -> Change:
    rows = keys if values is None else [k + v for k, v in zip(keys, values)]
    sums = [c.to_bytes(4, "little") for c in crc32c(rows)]
    if values is None:
        return [c + k for c, k in zip(sums, keys)], None
    return keys, [c + v for c, v in zip(sums, values)]


def _checked(pairs: list[Pair]) -> list[Pair]:
    plain: list[Pair] = [(k[4:], None) if v is None else (k, v[4:]) for k, v in pairs]
    sums = [int.from_bytes((k if v is None else v)[:4], "little") for k, v in pairs]
    computed = crc32c([k if v is None else k + v for k, v in plain])
    if sums != computed:
        i = next(i for i, (a, b) in enumerate(zip(sums, computed)) if a != b)
        raise RowChecksumMismatch(f"Expected checksum: {sums[i]}, Computed checksum: {computed[i]}, record {i}")
    return plain


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ (np.uint32(0x82F63B78) * (table & np.uint32(1)))
    return table


_CRC = _crc_table()


def crc32c(rows: Sequence[bytes]) -> list[int]:
    """The CRC32C (Castagnoli) of each row: the nth bytes of all rows at a time."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    start = np.cumsum(lengths) - lengths
    sums = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    live, nth = np.flatnonzero(lengths > 0), 0
    while len(live):
        crc = sums[live]
        sums[live] = _CRC[(crc ^ data[start[live] + nth]) & np.uint32(255)] ^ (crc >> np.uint32(8))
        nth += 1
        live = live[lengths[live] > nth]
    return (~sums).tolist()
