"""A batch of real Structured Streaming: its progress report, and what the checkpoint still has of it.

    spark_batches("/data/checkpoint", query.recentProgress)
    [SparkBatch(batch_id=0, watermark_ms=0, logs={"offsets/0": "v1...", "commits/0": "v1..."}), ...]

`read_logs` keeps the log files of each batch while they exist (Spark purges them later). A watermark that is no longer in a log
is taken from the report. A batch without a `walCommit` was already in the log: it is run again after a restart. This cannot be
in real-time mode, in which an entry without its commit is deleted at the start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.compactible_file_stream_log import log_offset, names_of_batch
from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.values import entry_metadata
from minispark_stream.tools.compare.spark_zips import read_zips
from minispark_stream.tools.reports import plain

Sources = list[tuple[str, Mapping[str, Any]]]  # name or number -> what a progress report says about it


@dataclass(frozen=True)
class SparkBatch:
    """One batch that Spark ran: its progress report, its log files (name -> text), and the rows that the sink received.

    `names`: those of the sources, in the order of the report; without them, sources are called by their numbers. `zips`: by
    operator, the versions of RocksDB stores that exist as a whole.
    """

    progress: Mapping[str, Any]
    logs: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]] | None = None
    names: Sequence[str] = ()
    zips: Mapping[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    is_real_time: bool = False

    @property
    def sources(self) -> Sources:
        """Each source as its name or number, and what the report says about it."""
        return named_sources(self.progress, self.names)

    @property
    def batch_id(self) -> int:
        return int(self.progress["batchId"])

    @property
    def rerun(self) -> bool:
        """Whether an earlier run had logged the batch but not finished it."""
        took = self.progress.get("durationMs", {})
        return not self.is_real_time and "addBatch" in took and "walCommit" not in took

    @property
    def watermark_ms(self) -> int | None:
        """The watermark that the batch ran under."""
        logged = entry_metadata(self.logs.get(f"offsets/{self.batch_id}")).get("batchWatermarkMs")
        return iso_ms(self.progress.get("eventTime", {}).get("watermark")) if logged is None else logged

    @property
    def timestamp_ms(self) -> int | None:
        return entry_metadata(self.logs.get(f"offsets/{self.batch_id}")).get("batchTimestampMs")

    @property
    def next_watermark_ms(self) -> int | None:
        return entry_metadata(self.logs.get(f"commits/{self.batch_id}")).get("nextBatchWatermarkMs")


def named_sources(progress: Mapping[str, Any], names: Sequence[str]) -> Sources:
    """The sources of a progress report, with their names in the checkpoint."""
    sources = progress.get("sources", ())
    return list(zip(names or map(str, range(len(sources))), sources))


def ran_a_batch(progress: Mapping[str, Any]) -> bool:
    """Whether a progress report is that of a batch."""
    return "addBatch" in progress["durationMs"]


def read_logs(checkpoint: str, batch_id: int, progress: Mapping[str, Any], names: Sequence[str] = ()) -> dict[str, str]:
    """The log files of one batch: its offsets, its commit, and the entries of source logs that belong to it."""
    files = CheckpointFileManager(checkpoint)
    paths = [f"offsets/{batch_id}", f"commits/{batch_id}"]
    for called, source in named_sources(progress, names):
        start, end = (log_offset(offset_text(source.get(key))) for key in ("startOffset", "endOffset"))
        if end is not None:
            for n in range(0 if start is None else start + 1, end + 1):
                paths += [f"sources/{called}/{name}" for name in names_of_batch(n)]
    found = {}
    for name in paths:
        with suppress(FileNotFoundError):
            found[name] = files.open(name).decode("utf-8", "replace")
    return found


def spark_batches(
    checkpoint: str | None, reports: Iterable[Mapping[str, Any]], names: Sequence[str] = (), is_real_time: bool = False
) -> list[SparkBatch]:
    """The batches of some progress reports, with what the checkpoint still has of them. Their rows are not known.

    Args:
        checkpoint: where it is; None if there are only the reports.
    """
    found = []
    for one in (plain(report) for report in reports if ran_a_batch(report)):
        logs = {} if checkpoint is None else read_logs(checkpoint, one["batchId"], one, names)
        zips = {} if checkpoint is None else read_zips(checkpoint, one)
        found.append(SparkBatch(one, logs, names=names, zips=zips, is_real_time=is_real_time))
    return found


def offset_text(offset: Any) -> str | None:
    """An offset as the log has it; progress reports put spaces into its JSON, and have `null` if there is none."""
    try:
        value = json.loads(offset or "null")
    except (TypeError, ValueError):
        return str(offset)
    return None if value is None else json.dumps(value, separators=(",", ":"))
