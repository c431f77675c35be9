"""The manifest of a file sink: it lists the files in the output folder that belong to the output.

Models: FileStreamSinkLog and SinkFileStatus (Sink document).

The folder `_spark_metadata` in the output folder has one entry per batch, with one line of JSON per file; every tenth entry
repeats all entries before it (`9.compact`; compactible_file_stream_log.py). Files that are older than the sink's `retention`
are left out when entries are compacted and when a reader asks for the files; they are not deleted.

    out/_spark_metadata/0     v1  {"path":"file:///out/part-00000-...","size":48,...,"action":"add"}

Differs from Spark: nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactibleFileStreamLog, CompactionConf
from minispark_stream.engine.checkpointing.metadata_log import json_object, number, to_json

FOLDER = "_spark_metadata"


@dataclass(frozen=True)
class SinkFileStatus:
    """A file of the sink: percent-encoded URI, sizes in bytes, modification time in ms."""

    path: str
    size: int
    is_dir: bool
    modification_time: int
    block_replication: int
    block_size: int
    action: str = "add"


class FileStreamSinkLog(CompactibleFileStreamLog[SinkFileStatus]):
    """The manifest log. `retention_ms` is the greatest age of a file that it keeps, in milliseconds."""

    start_again = "start the query with a new checkpoint location and a new output folder"

    def __init__(self, path: str | CheckpointFileManager, conf: CompactionConf, retention_ms: float = math.inf):
        self._retention_ms = retention_ms
        super().__init__(path, conf)

    def to_line(self, entry: SinkFileStatus) -> str:
        return to_json(
            {
                "path": entry.path, "size": entry.size, "isDir": entry.is_dir, "modificationTime": entry.modification_time,
                "blockReplication": entry.block_replication, "blockSize": entry.block_size, "action": entry.action,
            }
        )

    def from_line(self, line: str) -> SinkFileStatus:
        values = json_object(line)
        if not isinstance(values["path"], str):
            raise ValueError("path must be a text")
        return SinkFileStatus(
            values["path"], number(values, "size"), values.get("isDir") is True, number(values, "modificationTime"),
            number(values, "blockReplication"), number(values, "blockSize"), str(values.get("action")),
        )

    def compact_logs(self, entries: tuple[SinkFileStatus, ...]) -> tuple[SinkFileStatus, ...]:
        now_ms = self._now_ms()
        return tuple(e for e in entries if now_ms - e.modification_time <= self._retention_ms)
