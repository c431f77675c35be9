"""The files of a checkpoint, in a form that can be compared between two runs.

    commits/3                      text
    offsets/3                      text without the batch's wall-clock time
    state/0/1/4.delta              {(key bytes, value bytes or None): how often}, in no order; so is 4.changelog of RocksDB
    state/0/1/4.zip                how many keys it has
    state/0/0/_metadata/schema     bytes

Snapshots are left out, because maintenance writes them in the background at its own pace; so are zips of versions that have a
changelog. The tables in `SSTs/` are, too, because RocksDB may compact them at any time; so are `metadata` (a random id), `.crc`
files and temporary files.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from minispark_stream.engine.checkpointing.lz4_block import decompress
from minispark_stream.engine.state.state_records import decode_records


def comparable_files(checkpoint: str) -> dict[str, Any]:
    """Relative name -> comparable content of every file that two equal runs must have in common."""
    found: dict[str, Any] = {}
    for folder, _, names in os.walk(checkpoint):
        for name in names:
            path = Path(folder, name)
            relative = path.relative_to(checkpoint).as_posix()
            if not name.startswith(".") and relative != "metadata" and not _is_written_at_its_own_pace(path):
                found[relative] = _content(path)
    return found


def _is_written_at_its_own_pace(path: Path) -> bool:
    return path.suffix in (".snapshot", ".sst") or path.suffix == ".zip" and path.with_suffix(".changelog").exists()


def _codec(data: bytes) -> str:
    """Two engines may compress the same records differently; what a stream is shows in its first bytes."""
    return {b"LZ4B": "lz4", b"\x28\xb5\x2f\xfd": "zstd", b"\x82SNA": "snappy"}.get(data[:4], "lz4")


def _content(path: Path) -> Any:
    data = path.read_bytes()
    if path.suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                metadata = json.loads(archive.read("metadata").partition(b"\n")[2])
            return f"{metadata['numKeys']} keys, {metadata['numInternalKeys']} of the engine's own"
        except (zipfile.BadZipFile, ValueError, KeyError):  # damaged: compare it as it is
            return data
    if path.suffix in (".delta", ".changelog"):
        try:
            return Counter(decode_records(decompress(data, _codec(data))))
        except ValueError:  # damaged, or with row checksums: compare it as it is
            return data
    if path.parent.name == "offsets":
        return without_time(data.decode("utf-8", "replace"))
    return data


def without_time(entry: str) -> str:
    """An entry of a log without the wall-clock time of its batch; in version 2 of the offset log, lines may be in any order."""
    version, metadata, *lines = re.sub(r'"batchTimestampMs":\d+,?', "", entry).split("\n") if entry.count("\n") else (entry, "")
    return "\n".join([version, metadata, *(sorted(lines) if version == "v2" else lines)])
