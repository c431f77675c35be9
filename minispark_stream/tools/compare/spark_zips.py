"""The zips of RocksDB that real Spark has in a checkpoint after a batch, and their tables.

Models: nothing of Spark, whose progress reports say which version was uploaded last, but not which tables it has.

1. The versions in question are the one that the batch has written, and those that were uploaded last, according to the report.
2. A version with several zips, which checkpoint format 2 allows, is left out: only the commit log says which of them counts.

    state/0/1/5.zip     {"partition": 1, "store": "default", "version": 5, "tables": {"000008-<uuid>.sst": 1235}}

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.state.maintenance import find_stores
from minispark_stream.engine.state.state_files import LAST_UPLOADED_OF
from minispark_stream.extras.rocksdb.changelog import FILE
from minispark_stream.extras.rocksdb.snapshot_zip import read_zip_metadata


def read_zips(checkpoint: str, progress: Mapping[str, Any]) -> dict[int, Sequence[Mapping[str, Any]]]:
    """For each stateful operator of a progress report that has its state in RocksDB, the zips of the versions (1)."""
    return {
        i: list(_zips(f"{checkpoint}/state", i, op, int(progress["batchId"]) + 1))
        for i, op in enumerate(progress.get("stateOperators", []))
        if any(name.startswith("rocksdb") for name in op.get("customMetrics", {}))
    }


def _zips(state_dir: str, operator: int, report: Mapping[str, Any], written: int) -> Iterator[Mapping[str, Any]]:
    versions = {written} | {version for name, version in report["customMetrics"].items() if LAST_UPLOADED_OF.fullmatch(name)}
    for partition in range(report["numShufflePartitions"]):
        with suppress(FileNotFoundError):
            for store_id in find_stores(state_dir, operator, partition):
                files = CheckpointFileManager(store_id.location)
                by_version: dict[int, list[str]] = {}
                for name, *_ in files.list():
                    if (of := FILE.fullmatch(name)) and of[3] == "zip" and int(of[1]) in versions:
                        by_version.setdefault(int(of[1]), []).append(name)
                for version, names in sorted(by_version.items()):
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        if len(names) == 1:  # (2)
                            tables = dict(read_zip_metadata(files.open(names[0])).ssts)
                            yield {"partition": partition, "store": store_id.store_name, "version": version, "tables": tables}
