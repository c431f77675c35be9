"""The offset log: what each batch will read, written before it reads anything.

Models: OffsetSeqLog, OffsetSeq and OffsetSeqMetadata (Execution flow; SIGMOD'18 paper, section 6.1: the write-ahead log).

    offsets/7      v1
                   {"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"2",...}}
                   {"logOffset":7}            one line per source, in the order of the sources
                   -                          a source that has no offset yet

The metadata line is what makes a batch repeatable: the watermark that evicts, the time that current_timestamp() gives, and
the confs that shape state. On a restart the logged confs win over the session's, because the state was laid out by them;
a conf that an older Spark did not log yet gets the value that older Spark implied. The number of shuffle partitions is logged
for the state alone: a shuffle that keeps no state goes by the session's.

Differs from Spark: a v2 entry (`sourceId:offset` lines) is read when its ids are 0, 1, 2, ...; those of named sources are
refused, because the model has no named sources. No v2 entry is written, whatever `offsetLog.formatVersion` says.
Shown by tests/unit/test_checkpoint_logs.py::TestOffsetSeqLog::test_version_2_is_read_by_source_number,
tests/unit/test_checkpoint_logs.py::TestOffsetSeqLog::test_damage_is_named_with_its_file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog, json_object, number, to_json

logger = logging.getLogger(__name__)

_VOID = "-"

# The confs that Spark logs, in the order in which it writes them, and what a missing one means (None: the session's value).
RELEVANT_CONFS: dict[str, str | None] = {
    "spark.sql.streaming.stateStore.providerClass": None,
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "false",
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": "1",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": None,
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.streaming.statefulOperator.useStrictDistribution": "false",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "1",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.stateStore.rowChecksum.enabled": "false",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "false",
    "spark.sql.streaming.aggregation.stateFormatVersion": "1",
    "spark.sql.function.protobufExtensions.enabled": "false",
    "spark.sql.shuffle.partitions": None,
    "spark.sql.streaming.join.stateFormatVersion": "1",
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "true",
}


# Under which other name a session has a conf that was logged; until then, the session's own value is the one to log.
_IN_SESSION = {"spark.sql.shuffle.partitions": "spark.sql.streaming.internal.stateStore.partitions"}


@dataclass(frozen=True)
class OffsetSeqMetadata:
    """The second line of an entry. Times in milliseconds since the epoch."""

    batch_watermark_ms: int = 0
    batch_timestamp_ms: int = 0
    conf: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def from_session(conf_get: Callable[[str], str | None]) -> OffsetSeqMetadata:
        """The session's values of the confs that are to be logged."""
        values = {key: conf_get(_IN_SESSION.get(key, key)) or conf_get(key) for key in RELEVANT_CONFS}
        return OffsetSeqMetadata(conf={key: value for key, value in values.items() if value is not None})

    def apply_to_session(self, conf_set: Callable[[str, str], None], conf_get: Callable[[str], str | None]) -> None:
        """Put the logged confs into a session."""
        for logged_key, default in RELEVANT_CONFS.items():
            value, key = self.conf.get(logged_key, default), _IN_SESSION.get(logged_key, logged_key)
            if value is None:
                continue
            current = conf_get(key)
            if current is not None and current != value:
                logger.warning("Updating the value of conf '%s' in current session from '%s' to '%s'.", key, current, value)
            conf_set(key, value)

    def to_json(self) -> str:
        return to_json(
            {"batchWatermarkMs": self.batch_watermark_ms, "batchTimestampMs": self.batch_timestamp_ms, "conf": dict(self.conf)}
        )

    @staticmethod
    def from_json(text: str) -> OffsetSeqMetadata:
        """Raises ValueError."""
        values = json_object(text)
        conf = values.get("conf", {})
        if not isinstance(conf, dict) or not all(isinstance(v, str) for v in conf.values()):
            raise ValueError("conf must map names to texts")
        return OffsetSeqMetadata(number(values, "batchWatermarkMs"), number(values, "batchTimestampMs"), conf)


@dataclass(frozen=True)
class OffsetSeq:
    """One offset per source (None: none yet), and the metadata (None in entries of the continuous engine)."""

    offsets: tuple[str | None, ...]
    metadata: OffsetSeqMetadata | None

    def to_stream_progress(self, leaf_sources: Sequence[int]) -> dict[int, str]:
        """The offsets by the number of their source; `leaf_sources` says whose offset each line is.

        Raises:
            AssertionError: the query has another number of sources.
        """
        if len(self.offsets) != len(leaf_sources):
            raise AssertionError(
                f"assertion failed: There are [{len(self.offsets)}] sources in the checkpoint offsets and now there are "
                f"[{len(leaf_sources)}] sources requested by the query. Cannot continue. Give the query the sources that "
                "it had, in their order, or a new checkpoint location."
            )
        return {source: offset for source, offset in zip(leaf_sources, self.offsets) if offset is not None}


class OffsetSeqLog(HDFSMetadataLog[OffsetSeq]):
    """The log in `<checkpoint>/offsets`."""

    max_version = 2

    def serialize(self, entry: OffsetSeq) -> bytes:
        metadata = "" if entry.metadata is None else entry.metadata.to_json()
        return "\n".join(["v1", metadata, *(_VOID if o is None else o for o in entry.offsets)]).encode()

    def deserialize_lines(self, version: int, lines: list[str]) -> OffsetSeq:
        if not lines:
            raise ValueError(self.incomplete)
        metadata = OffsetSeqMetadata.from_json(lines[0]) if lines[0].strip() else None
        offsets = lines[1:] if version == 1 else _by_source_id(lines[1:])
        return OffsetSeq(tuple(None if o == _VOID else o for o in offsets), metadata)


def _by_source_id(lines: list[str]) -> list[str]:
    found: dict[str, str] = {}
    for line in lines:
        source_id, colon, offset = line.partition(":")
        if not colon:
            raise ValueError(f"Invalid OffsetMap format: {line[:80]}")
        found[source_id] = offset
    ids = [str(i) for i in range(len(found))]
    if set(found) != set(ids):
        raise ValueError(f"the sources must be numbered from 0, not {', '.join(found)[:80]}")
    return [found[i] for i in ids]
