"""The file source: which files belong to the next batch?

Models: FileStreamSource (Source document, "FileStreamSource" and "fetchMaxOffset").

`latest_offset`, in this order:
1. Use the files that are left from the last listing, if there are any; otherwise list the folder, the oldest modification time
   first (with `latestFirst`, the newest; with availableNow, use the listing of the start). This time only orders files; it is
   not event time.
2. Keep the new files: those whose paths are not in `seen_files`, and that are not older than the files that it has forgotten.
3. Take as many as the limit allows: only whole files, and under `maxBytesPerTrigger` at least one.
4. Keep the rest for the next batch, at most `maxCachedFiles`, unless it is so little (less than `discardCachedInputRatio`, 0.2,
   of a batch) that a new listing is better. With `latestFirst` or availableNow, nothing is kept.
5. Remember the files as seen, and forget those older than `maxFileAge` (relative to the newest file, not to the clock).
6. If any files were taken, write them into the source log under the next log offset. This number is the offset.

       log offset 0   a.json b.json          maxFilesPerTrigger 2
       log offset 1   c.json                 offsets/1 says {"logOffset":1}

`get_batch(start, end)` reads the log entries after `start` up to `end`. These may be several: a *log entry* is what one search
for new files took, and a *batch* is what the engine runs. If somebody deletes the last entries of offsets/ and commits/, the
source log keeps its own, and one batch gets several of them. If `end` is before `start` (somebody restored an older entry or an
older source log), the query fails: the files in between would be read twice or never.

Listing and reading are Spark's own batch file index and readers.

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from pyspark.errors import IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.compactible_file_stream_log import (
    CompactionConf,
    FileEntry,
    FileStreamSourceLog,
    log_offset,
)
from minispark_stream.engine.checkpointing.metadata_log import to_json
from minispark_stream.engine.jvm import expressions, files, plans, sessions
from minispark_stream.engine.jvm.errors import analysis_error, spark_error
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.sources.base import (
    ALL_AVAILABLE,
    Offset,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
    offset_of_another_source,
)
from minispark_stream.engine.sources.file_listing import File, Folder, fixed_schema, resolve_schema
from minispark_stream.engine.sources.file_stream_options import FileStreamOptions
from minispark_stream.engine.sources.file_stream_source_cleaner import FileStreamSourceCleaner
from minispark_stream.engine.sources.seen_files_map import SeenFilesMap

logger = logging.getLogger(__name__)

FILE_FORMATS = ("csv", "json", "text", "parquet", "orc", "xml", "binaryfile")


def file_stream_relation(
    spark: SparkSession, file_format: str, path: str | None, schema: StructType | None, options: Mapping[str, str],
    hadoop_options: Mapping[str, str] | None = None,
) -> StreamingRelation:
    """`readStream.format(file_format).schema(schema).options(options).load(path)`.

    Args:
        hadoop_options: the options as they are spelt, among which settings of Hadoop may be.

    Raises:
        AnalysisException: PATH_NOT_FOUND (a glob may match nothing yet).
        IllegalArgumentException: there is no path; or no schema, although `spark.sql.streaming.schemaInference` is off.
    """
    if path is None:
        raise spark_error(spark, IllegalArgumentException, "_LEGACY_ERROR_TEMP_2047")
    folder = Folder(spark, path, hadoop_options)
    if not folder.is_glob and not folder.exists():
        raise analysis_error(spark, "PATH_NOT_FOUND", path=path)
    if schema is None:
        schema = fixed_schema(file_format, options)
    if schema is None and not sessions.flag(spark, "spark.sql.streaming.schemaInference"):
        raise spark_error(spark, IllegalArgumentException, "_LEGACY_ERROR_TEMP_2048")
    resolved, partition_columns = resolve_schema(spark, folder, file_format, schema, options)
    return StreamingRelation(
        f"FileSource[{path}]",
        resolved,
        lambda _, metadata_path: FileStreamSource(  # files are read by the confs that the reader's session has by then
            spark, path, file_format, resolved, partition_columns, metadata_path, options
        ),
        file_format,
    )


class LastLook(NamedTuple):
    """What a search for new files found; `listed` is None if the rest of an earlier listing was used."""

    listed: int | None
    taken: list[File]
    left: list[File]


class FileStreamSource(SupportsTriggerAvailableNow):
    """A source over the files of a folder or glob. Created on the query's thread; see `file_stream_relation`.

    Args:
        schema: data columns, then partition columns.
        metadata_path: the source's folder in the checkpoint, where its log is kept.
        options: the reader's options, names in lower case.

    Raises:
        IllegalArgumentException: an option has a value that Spark refuses.
        UnsupportedOperationException: (from the first listing) `cleanSource` for the output of a file sink.
    """

    def __init__(
        self,
        session: SparkSession,
        path: str,
        file_format: str,
        schema: StructType,
        partition_columns: tuple[str, ...],
        metadata_path: str,
        options: Mapping[str, str],
    ):
        self._session = session
        self.folder = Folder(session, path)
        base_path = {} if self.folder.is_glob else {"basepath": path}
        reader_options = {**options, "__globPaths__": "false", **base_path}
        what_files_hold = expressions.as_nullable(session, schema)  # whatever the schema of the stream says
        self._reader = files.FileReader(session, file_format, what_files_hold, partition_columns, reader_options)
        self._listing_options = dict(options)
        self.options = FileStreamOptions.of(session, options)
        self.description = f"FileStreamSource[{self.folder.root}]"
        self._log = FileStreamSourceLog(metadata_path, CompactionConf(*sessions.compaction_confs(session, "fileSource")))
        self._log_offset = -1 if (latest := self._log.get_latest_batch_id()) is None else latest
        cleans = self.options.clean_source != "OFF"
        self._cleaner = FileStreamSourceCleaner.of(session, path, self.options) if cleans else None
        limited = self.options.max_files_per_trigger or self.options.max_bytes_per_trigger
        forever = self.options.latest_first and limited is not None
        self.seen_files = SeenFilesMap(None if forever else self.options.max_file_age_ms, self.options.file_name_only)
        entries = self._log.all_files()
        for entry in entries:
            self.seen_files.add(entry.path, entry.timestamp)
        self.seen_files.purge()
        if entries and not self.folder.is_glob and not any(is_below(entry.path, self.folder.root) for entry in entries):
            logger.warning(
                "The checkpoint has read %s and other files outside of %s, which this query reads: is it the checkpoint of "
                "another query?", unquote(entries[-1].path), self.folder.root,
            )
        self._unread: list[File] = []
        self._last_look = LastLook(None, [], [])
        self._available_now: list[File] | None = None

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """All files that its log says were read."""
        return tuple(self._log.all_files())

    def default_read_limit(self) -> ReadLimit:
        if self.options.max_files_per_trigger is not None:
            return ReadMaxFiles(self.options.max_files_per_trigger)
        if self.options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        return ALL_AVAILABLE

    def prepare_for_trigger_available_now(self) -> None:
        self._available_now = self.list_files()

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        listed = None if self._unread else self._listing()  # (1)
        new = self._unread if listed is None else self._new_files(listed)  # (2)
        taken, rest = self._split(new, limit)  # (3)
        self._unread = rest[: self.options.max_cached_files]
        for file in taken:  # (5)
            self.seen_files.add(file.uri, file.timestamp)
        self.seen_files.purge()
        self._last_look = LastLook(None if listed is None else len(listed), taken, new[len(taken):])  # for the trace
        if taken:  # (6)
            self._log_offset += 1
            entries = tuple(FileEntry(file.uri, file.timestamp, self._log_offset) for file in taken)
            if not self._log.add(self._log_offset, entries):
                raise RuntimeError(
                    f"Concurrent update to the log. Multiple streaming jobs detected for {self._log_offset}. Only one query "
                    f"may use the checkpoint {self._log.files.root}"
                )
        return None if self._log_offset < 0 else to_json({"logOffset": self._log_offset})

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:
        return plans.of_rows(self._session, self._reader.plan(self.files_between(start, end)))

    def files_between(self, start: Offset | None, end: Offset) -> list[str]:
        """The files of a batch. Raises AssertionError: it ends before it begins, because one of the two logs went back."""
        return [unquote(entry.path) for entry in self._entries(start, end)]

    def last_look(self, most: int) -> dict[str, Any]:
        """The files to read; how many files were listed (None: the rest of an earlier listing was used); which new files are
        left, and how many of these are kept for the next batch."""
        listed, taken, left = self._last_look
        files, others = ([unquote(file.uri) for file in some] for some in (taken, left[:most]))
        return {"listed": listed, "files": files, "left": others, "leftCount": len(left), "kept": len(self._unread)}

    def commit(self, end: Offset) -> None:
        if self._cleaner is not None:
            for entry in self._log.files_of(_log_offset(end), _log_offset(end)):
                self._cleaner.clean(unquote(entry.path))

    def stop(self) -> None:
        if self._cleaner is not None:
            self._cleaner.stop()

    def _listing(self) -> list[File]:
        return self.list_files() if self._available_now is None else self._available_now

    def _new_files(self, listed: list[File]) -> list[File]:
        return [file for file in listed if self.seen_files.is_new_file(file.uri, file.timestamp)]

    def list_files(self) -> list[File]:
        """All files that are there now, in the order in which they are read."""
        files = self.folder.files(self._listing_options)
        if self.folder.has_manifest and self._cleaner is not None:
            raise spark_error(self._session, UnsupportedOperationException, "_LEGACY_ERROR_TEMP_2261")
        return sorted(files, key=lambda file: file.timestamp, reverse=self.options.latest_first)

    def _split(self, files: list[File], limit: ReadLimit) -> tuple[list[File], list[File]]:
        """(3) The files that the batch takes, and (4) those that are kept for the next one."""
        match limit:
            case ReadMaxFiles(most):
                taken, rest = files[:most], files[most:]
                size = float(len(rest))
            case ReadMaxBytes(most):
                fitting = _how_many_fit(files, most)
                taken, rest = files[:fitting], files[fitting:]
                size = float(sum(file.size for file in rest))
            case _:
                return files, []
        keep = not self.options.latest_first and self._available_now is None
        return taken, rest if keep and size >= most * self.options.discard_cached_input_ratio else []

    def _entries(self, start: Offset | None, end: Offset) -> list[FileEntry]:
        before, last = -1 if start is None else _log_offset(start), _log_offset(end)
        if before > last:
            raise AssertionError("assertion failed")
        return self._log.files_of(before + 1, last)


def _log_offset(offset: Offset) -> int:
    entry = log_offset(offset)
    if entry is None:
        raise offset_of_another_source(offset, "file")
    return entry


def is_below(uri: str, root: str) -> bool:
    """Whether a percent-encoded URI is in a folder; both may have one or three slashes after the scheme."""
    path, folder = (re.sub(r"^(\w+):/+", r"\1:/", one) for one in (unquote(uri), root))
    return path.startswith(folder.rstrip("/") + "/")


def _how_many_fit(files: list[File], max_bytes: int) -> int:
    total = 0
    for i, file in enumerate(files):
        total += file.size
        if i > 0 and total > max_bytes:
            return i
    return len(files)
