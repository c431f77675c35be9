"""A small checkpoint of a windowed count, written by hand with the project's own writers: no Spark, no query.

    3 batches, a file in each of the first two; batch 2 has no data and evicts the first window
    state/0/0, state/0/1     keys (window, k) -> (count, sum), versions 1 to 3
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DecimalType, LongType, StringType, StructType, TimestampType

from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf, FileEntry, FileStreamSourceLog
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeq, OffsetSeqLog, OffsetSeqMetadata
from minispark_stream.engine.checkpointing.stream_metadata import read_or_create
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.state.operator_state_metadata import (
    OperatorStateMetadata,
    StateStoreMetadata,
    write_operator_metadata,
)
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_schema_compatibility_checker import validate_or_write_schema
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId

WINDOW = StructType().add("start", TimestampType()).add("end", TimestampType())
KEY = StructType().add("window", WINDOW).add("k", StringType())
VALUE = StructType().add("count", LongType()).add("sum", DecimalType(30, 2))
CONF = {
    "spark.sql.shuffle.partitions": "2", "spark.sql.streaming.stateStore.compression.codec": "lz4",
    "spark.sql.streaming.aggregation.stateFormatVersion": "2",
}
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)

Row = tuple[int, str, int]  # minute of the window, k, count


def windowed_count(path: Path, conf: Mapping[str, str] = CONF) -> Path:
    """Write the checkpoint into `path`."""
    read_or_create(str(path), lambda key: None)
    log_batch(path, 0, '{"logOffset":0}', watermark=0, next_watermark=NOON_MS, conf=conf)
    log_batch(path, 1, '{"logOffset":1}', watermark=NOON_MS, next_watermark=NOON_MS + 300_000, conf=conf)
    log_batch(path, 2, '{"logOffset":1}', watermark=NOON_MS + 300_000, next_watermark=NOON_MS + 300_000, conf=conf)
    source = FileStreamSourceLog(str(path / "sources/0"), CompactionConf())
    for i in range(2):
        source.add(i, (FileEntry(f"file:///in/{i}.json", 1_700_000_000_000 + i, i),))
    write_operator_metadata(str(path / "state"), OperatorStateMetadata(0, "stateStoreSave", (StateStoreMetadata("default", 0, 2),)))
    validate_or_write_schema(str(path / "state"), 0, "default", KEY, VALUE)
    changes: dict[int, list[tuple[list[Row], list[Row]]]] = {  # partition -> of each version, what was put and removed
        0: [([(0, "a", 1)], []), ([(0, "a", 2), (5, "a", 1)], []), ([], [(0, "a", 2)])],
        1: [([(0, "b", 1)], []), ([], []), ([], [(0, "b", 1)])],
    }
    for partition, versions in changes.items():
        files = state_files(path, partition)
        for version, (puts, removes) in enumerate(versions, 1):
            files.write_delta(version, [(keys_of(puts), values_of(puts)), (keys_of(removes), [None] * len(removes))])
    return path


def log_batch(
    path: Path, batch_id: int, *offsets: str | None, watermark: int = 0, next_watermark: int | None = 0,
    conf: Mapping[str, str] = CONF,
) -> None:
    """An entry in the offset log, and one in the commit log unless `next_watermark` is None."""
    metadata = OffsetSeqMetadata(watermark, 1_710_000_000_000 + batch_id, conf)
    OffsetSeqLog(str(path / "offsets")).add(batch_id, OffsetSeq(offsets, metadata))
    if next_watermark is not None:
        CommitLog(str(path / "commits")).add(batch_id, CommitMetadata(next_watermark))


def state_files(path: Path, partition: int) -> StateFiles:
    return StateFiles(StateStoreId(str(path / "state"), 0, partition), StateStoreConf())


def keys_of(rows: list[Row]) -> list[bytes]:
    windows = [{"start": NOON + timedelta(minutes=m), "end": NOON + timedelta(minutes=m + 5)} for m, _, _ in rows]
    return encode(KEY, windows, [k for _, k, _ in rows])


def values_of(rows: list[Row]) -> list[bytes]:
    return encode(VALUE, [n for _, _, n in rows], [10 * n for _, _, n in rows])


def encode(schema: StructType, *columns: list[Any]) -> list[bytes]:
    codec = UnsafeRowCodec(schema)
    return codec.encode([pa.array(values, kind) for values, kind in zip(columns, codec.arrow_types)])


def content(path: Path) -> dict[str, bytes]:
    """Every file, by its relative name."""
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
