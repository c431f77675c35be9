"""The offset log: what each batch will read, written before it reads anything.

Models: OffsetSeqLog, OffsetSeq, OffsetMap and OffsetSeqMetadata (Execution flow; SIGMOD'18 paper, section 6.1: the write-ahead
log).

    offsets/7      v1
                   {"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"2",...}}
                   {"logOffset":7}            one line per source, in the order of the sources
                   -                          a source that has no offset yet

    offsets/7      v2                         for named sources, which may be others when the query is restarted
                   {"batchWatermarkMs":0, ... ,"sourceMetadataInfo":{}}
                   clicks:{"logOffset":7}     one line per source that has an offset, in any order

The metadata line makes a batch repeatable: it holds the watermark that evicts state, the time that current_timestamp() returns,
and the confs that the layout of the state depends on. On a restart, the logged confs take precedence over the session's,
because the state was written under them. A conf that an older Spark did not log yet gets the value that the older Spark behaved
by. The logged number of shuffle partitions is that of the state; other shuffles have the session's number.

Differs from Spark: an entry with a name that no source can have (`../x:0`) is an error; Spark ignores the line. If the query
now has another number of sources, or another source in the place of one, the error also says what to do; of another source,
Spark often says no more than "No usable value for offset".
Shown by tests/unit/engine/checkpointing/test_checkpoint_logs.py::TestOffsetSeqLog::test_damage_is_named_with_its_file,
tests/spark/test_differences.py::test_what_is_said_of_sources_that_have_changed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog, json_object, number, to_json

logger = logging.getLogger(__name__)

_VOID = "-"
SOURCE_NAME = re.compile("[a-zA-Z0-9_]+")

# The confs that Spark logs, in the order in which it writes them, and the value if one is missing (None: the session's value).
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


# A conf that is kept in the session under another name after it was logged; until then, the value to log is the session's own.
_IN_SESSION = {"spark.sql.shuffle.partitions": "spark.sql.streaming.internal.stateStore.partitions"}


@dataclass(frozen=True)
class OffsetSeqMetadata:
    """The second line of an entry. Times are in milliseconds since the epoch; `version` is that of the whole entry."""

    batch_watermark_ms: int = 0
    batch_timestamp_ms: int = 0
    conf: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    @staticmethod
    def from_session(conf_get: Callable[[str], str | None]) -> OffsetSeqMetadata:
        """The session's values of the confs that are to be logged."""
        values = {key: conf_get(_IN_SESSION.get(key, key)) or conf_get(key) for key in RELEVANT_CONFS}
        return OffsetSeqMetadata(conf={key: value for key, value in values.items() if value is not None})

    def apply_to_session(self, conf_set: Callable[[str, str], None], conf_get: Callable[[str], str | None]) -> None:
        """Set the logged confs in a session."""
        for logged_key, default in RELEVANT_CONFS.items():
            value, key = self.conf.get(logged_key, default), _IN_SESSION.get(logged_key, logged_key)
            if value is None:
                continue
            current = conf_get(key)
            if current is not None and current != value:
                logger.warning("Updating the value of conf '%s' in current session from '%s' to '%s'.", key, current, value)
            conf_set(key, value)

    def to_json(self) -> str:
        values: dict[str, object] = {
            "batchWatermarkMs": self.batch_watermark_ms, "batchTimestampMs": self.batch_timestamp_ms, "conf": dict(self.conf)
        }
        if self.version == 2:
            values["sourceMetadataInfo"] = {}  # Spark has no use for it yet
        return to_json(values)

    @staticmethod
    def from_json(text: str, version: int = 1) -> OffsetSeqMetadata:
        """Raises ValueError."""
        values = json_object(text)
        conf = values.get("conf", {})
        if not isinstance(conf, dict) or not all(isinstance(v, str) for v in conf.values()):
            raise ValueError("conf must map names to texts")
        return OffsetSeqMetadata(number(values, "batchWatermarkMs"), number(values, "batchTimestampMs"), conf, version)


@dataclass(frozen=True)
class OffsetSeq:
    """Version 1: an offset for each source (None: none yet), and the metadata (None in entries of the continuous engine)."""

    offsets: tuple[str | None, ...]
    metadata: OffsetSeqMetadata | None
    version: ClassVar[int] = 1

    def to_stream_progress(self, source_ids: Mapping[str, int]) -> dict[int, str]:
        """The offsets by the numbers of their sources.

        Args:
            source_ids: the number of each source by its id, in the order of the query.

        Raises:
            AssertionError: the query has more or fewer sources than the entry.
        """
        if len(self.offsets) != len(source_ids):
            raise AssertionError(
                f"assertion failed: There are [{len(self.offsets)}] sources in the checkpoint offsets and now there are "
                f"[{len(source_ids)}] sources requested by the query. Cannot continue. Give the query the sources that "
                "it had, in their order, or a new checkpoint location."
            )
        return {source: offset for source, offset in zip(source_ids.values(), self.offsets) if offset is not None}

    def by_id(self) -> dict[str, str | None]:
        """The offsets by the ids of their sources; an id is the number of the line."""
        return {str(i): offset for i, offset in enumerate(self.offsets)}

    def lines(self) -> list[str]:
        """The offsets as lines of the log."""
        return [_VOID if offset is None else offset for offset in self.offsets]


@dataclass(frozen=True)
class OffsetMap:
    """Version 2: the offset of each source by its id. The query may lack some of these sources, and have others."""

    offsets: Mapping[str, str | None]
    metadata: OffsetSeqMetadata
    version: ClassVar[int] = 2

    def to_stream_progress(self, source_ids: Mapping[str, int]) -> dict[int, str]:
        return {source_ids[i]: o for i, o in self.offsets.items() if o is not None and i in source_ids}

    def by_id(self) -> dict[str, str | None]:
        return dict(self.offsets)

    def lines(self) -> list[str]:
        return [f"{source_id}:{_VOID if offset is None else offset}" for source_id, offset in self.offsets.items()]


OffsetSeqBase = OffsetSeq | OffsetMap


def to_offsets(progress: Mapping[int, str], source_ids: Mapping[str, int], metadata: OffsetSeqMetadata) -> OffsetSeqBase:
    """The entry for a batch that ends at `progress`, which has an offset by the number of each source."""
    if metadata.version == 1:
        return OffsetSeq(tuple(progress.get(source) for source in source_ids.values()), metadata)
    last_id = {source: source_id for source_id, source in source_ids.items()}  # a source may be in the query under two ids
    return OffsetMap({last_id[source]: offset for source, offset in progress.items()}, metadata)


class OffsetSeqLog(HDFSMetadataLog[OffsetSeqBase]):
    """The log in `<checkpoint>/offsets`."""

    max_version = 2

    def entry_before(self, batch_id: int) -> OffsetSeqBase | None:
        """The entry where batch `batch_id` begins; None for the first batch.

        Raises:
            RuntimeError: it is missing.
        """
        if batch_id == 0:
            return None
        before = self.get(batch_id - 1)
        if before is None:
            raise RuntimeError(
                f"batch {batch_id - 1} doesn't exist. The offset log in {self.files.root} must hold two subsequent entries to "
                f"restart from batch {batch_id}: restore offsets/{batch_id - 1}, or delete the newest entries of offsets/ and "
                "commits/ until the last two offsets follow each other and the last commit is equal to the last offset or one "
                "batch earlier."
            )
        return before

    def done_before(self, batch_id: int) -> list[OffsetSeqBase]:
        """The entries of which no restart can need the rows any more, now that batch `batch_id` is in the log."""
        before = self.entry_before(batch_id)
        return [] if before is None else [before]

    def serialize(self, entry: OffsetSeqBase) -> bytes:
        metadata = "" if entry.metadata is None else entry.metadata.to_json()
        return "\n".join([f"v{entry.version}", metadata, *entry.lines()]).encode()

    def deserialize_lines(self, version: int, lines: list[str]) -> OffsetSeqBase:
        if not lines:
            raise ValueError(self.incomplete)
        metadata = OffsetSeqMetadata.from_json(lines[0], version) if lines[0].strip() else None
        if version == 1:
            return OffsetSeq(tuple(map(_offset, lines[1:])), metadata)
        if metadata is None:
            raise ValueError("VERSION_2 offset log requires metadata")
        return OffsetMap(dict(map(_named_offset, lines[1:])), metadata)


def _offset(text: str) -> str | None:
    return None if text == _VOID else text


def _named_offset(line: str) -> tuple[str, str | None]:
    source_id, colon, offset = line.partition(":")
    if not colon:
        raise ValueError(f"Invalid OffsetMap format: {line[:80]}")
    if not SOURCE_NAME.fullmatch(source_id):
        raise ValueError(f"{source_id[:80]!r} is no name of a source: it must be made of ASCII letters, digits and underscores")
    return source_id, _offset(offset)
