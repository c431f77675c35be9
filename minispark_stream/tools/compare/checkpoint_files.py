"""The files of a checkpoint, in a form that can be compared between two runs.

    commits/3                      text
    offsets/3                      text without the batch's wall-clock time
    state/0/1/4.delta              {(key bytes, value bytes or None): how often}, in no order; so is 4.changelog of RocksDB
    state/0/1/4.changelog          with column families: {key: the change of its value}
    state/0/1/4.zip                how many keys it has
    state/0/0/_metadata/schema     bytes
    state/0/_stateSchema/default/0 bytes; the random id is not a part of the name here
    state/0/_metadata/v2/0         text, without such ids, nor the folder of the checkpoint

The ids of checkpoint format 2 are left out, in names and in commits. Snapshots are left out, because maintenance writes them in
the background at its own pace, and so are zips of versions that have a changelog. The tables in `SSTs/` are left out, because
RocksDB may compact them at any time, and so are `metadata` (a random id), `.crc` files and temporary files.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from minispark_stream.engine.checkpointing.lz4_block import decompress
from minispark_stream.engine.state.state_records import decode_records
from minispark_stream.extras.rocksdb.changelog import read_changelog, read_header
from minispark_stream.extras.rocksdb.changes import folded


def comparable_files(checkpoint: str) -> dict[str, Any]:
    """Relative name -> comparable content of every file that two equal runs must have in common."""
    found: dict[str, Any] = {}
    for folder, _, names in os.walk(checkpoint):
        for name in names:
            path = Path(folder, name)
            relative = path.relative_to(checkpoint).as_posix()
            if not name.startswith(".") and relative != "metadata" and not _is_written_at_its_own_pace(path):
                found[_ID.sub(r"\1", relative)] = _content(path)
    for folder in {name.rpartition("/")[0] for name, content in found.items() if isinstance(content, FamilyChanges)}:
        _leave_out_removals_of_nothing(found, folder)
    return found


class FamilyChanges(dict[bytes, "bytes | None"]):
    """The changes in a changelog with column families."""


def _leave_out_removals_of_nothing(found: dict[str, Any], folder: str) -> None:
    """Leave out the removals of keys that do not exist, which Spark writes, too."""
    there: set[bytes] = set()
    for version in itertools.count(1):
        name = f"{folder}/{version}.changelog"
        if not isinstance(found.get(name), FamilyChanges):
            return
        changes = FamilyChanges({k: v for k, v in found[name].items() if v is not None or k in there})
        there = there.union(changes) - {k for k, v in changes.items() if v is None}
        found[name] = changes


_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ID = re.compile(f"(/[0-9]+)_{_UUID}")  # of a state schema, or of a version


def _is_written_at_its_own_pace(path: Path) -> bool:
    return path.suffix in (".snapshot", ".sst", ".crc") or path.suffix == ".zip" and path.with_suffix(".changelog").exists()


def _codec(data: bytes) -> str:
    """How a file is compressed, from its first bytes: two engines may compress the same records differently."""
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
            records = decompress(data, _codec(data))
            header = read_header(records)
            if header.has_families:
                return FamilyChanges(folded(read_changelog(records, False).records, b""))
            return Counter(decode_records(records[header.end :]))
        except ValueError:  # damaged, or with row checksums: compare it as it is
            return data
    if path.parent.parts[-2:] == ("_metadata", "v2"):
        return _without_ids(data.decode("utf-8", "replace"))
    if path.parent.name == "commits":
        return without_ids(data.decode("utf-8", "replace"))
    if path.parent.name == "offsets":
        return without_time(data.decode("utf-8", "replace"))
    return data


def without_ids(commit: str) -> str:
    """A commit without the unique ids of the state, which no two runs have in common."""
    return re.sub(_UUID, "id", commit)


def _without_ids(metadata: str) -> str:
    """Operator metadata of version 2, with its variables in the order of their names: Spark's order is that of a hash map."""
    text = _ID.sub(r"\1", re.sub(r'"[^"]*/state/', '"state/', metadata))
    return re.sub(r'(?<=\[)\{\\"stateName.*(?=\])', lambda found: ",".join(sorted(re.findall(r"\{[^}]*\}", found[0]))), text)


def without_time(entry: str) -> str:
    """An entry of a log without the wall-clock time of its batch; in version 2 of the offset log, lines may be in any order."""
    version, metadata, *lines = re.sub(r'"batchTimestampMs":\d+,?', "", entry).split("\n") if entry.count("\n") else (entry, "")
    return "\n".join([version, metadata, *(sorted(lines) if version == "v2" else lines)])
