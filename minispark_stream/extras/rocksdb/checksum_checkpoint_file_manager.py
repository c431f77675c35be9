"""The files of a checkpoint, with their checksums beside them.

Models: ChecksumCheckpointFileManager (About state: RocksDB).

    7_<uuid>.changelog
    7_<uuid>.changelog.crc     {"algorithm":"CRC32C","value":-42150109,"mainFileSize":218,...}

1. The checksum is written first, so that no file is ever seen without it. A kill in between leaves a checksum without a file.
2. When the file is read, its size and its checksum are compared. A file without a checksum is read unchecked, as in Spark.
3. Files in subfolders have none: they are tables, in which RocksDB has checksums of its own.
4. CRC32C is computed byte by byte. Here a file is cut into equal pieces, whose sums are computed side by side and then
   combined. The sum is linear: that of a piece can be moved on over the bytes of the next piece, and added to its sum.

Differs from Spark: `creator`, which only people read, names the Python worker and not the task.
Shown by tests/unit/extras/rocksdb/test_files_with_ids.py::test_each_file_has_its_checksum,
tests/conformance/test_rocksdb_provider.py::test_a_wrong_checksum_is_an_error_in_both_engines.
"""

from __future__ import annotations

import math
import os
import time

import numpy as np

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.metadata_log import json_object, number, to_json
from minispark_stream.engine.state.state_records import after_byte


class ChecksumCheckpointFileManager(CheckpointFileManager):
    """`CheckpointFileManager`, with a checksum for each file that is not in a subfolder."""

    def create_atomic(self, name: str, data: bytes, overwrite: bool = False, new_folder: bool = True) -> object:
        if "/" not in name:  # (3)
            sums = {"algorithm": "CRC32C", "value": _signed(crc32c_of(data)), "mainFileSize": len(data)}
            creator = {"executorId": f"python-{os.getpid()}", "taskInfo": ""}
            text = to_json({**sums, "timestampMs": round(time.time() * 1000), "creator": creator})
            super().create_atomic(f"{name}.crc", text.encode(), True, new_folder)  # (1)
        return super().create_atomic(name, data, overwrite, new_folder)

    def open(self, name: str) -> bytes:
        """Raises ValueError if the file does not have its checksum."""
        data = super().open(name)
        if "/" in name:
            return data
        try:
            expected = json_object(super().open(f"{name}.crc").decode("utf-8", "replace"))
        except FileNotFoundError:  # (2)
            return data
        size, value = number(expected, "mainFileSize", -1), number(expected, "value", 0)
        if (size, value) != (len(data), computed := _signed(crc32c_of(data))):
            raise ValueError(
                "[CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED] Checksum verification failed, the file may be corrupted. "
                f"Expected (file size: {size}, checksum: {value}), Computed (file size: {len(data)}, checksum: {computed})"
            )
        return data

    def delete(self, name: str) -> None:
        super().delete(name)
        if "/" not in name:
            super().delete(f"{name}.crc")


def crc32c_of(data: bytes) -> int:
    """The CRC32C of a file."""  # (4)
    width = max(1, math.isqrt(len(data)))
    rest = len(data) % width
    first = np.uint32(0xFFFFFFFF)
    for byte in np.frombuffer(data, np.uint8, rest):
        first = after_byte(first, byte)
    pieces = np.frombuffer(data, np.uint8, offset=rest).reshape(-1, width)
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    sums = np.concatenate([np.zeros(len(pieces), np.uint32), bits])  # of the pieces, and of one bit that moves over one
    columns = np.concatenate([pieces, np.zeros((32, width), np.uint8)])
    for column in np.ascontiguousarray(columns.T):
        sums = after_byte(sums, column)
    moved, total = sums[len(pieces) :], first
    for piece in sums[: len(pieces)]:
        total = np.bitwise_xor.reduce(moved[(total & bits) != 0]) ^ piece
    return int(~total)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
