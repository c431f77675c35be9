"""What a file source finds below its path: files, and the columns that the names of folders add to their rows.

Models: FileStreamSource.fetchAllFiles, MetadataLogFileIndex, DataSource.sourceSchema (Source document, "FileStreamSource").

1. A folder, or all folders that a path with wildcards matches, is listed by Spark's own batch file index (without hidden
   files).
2. If another query writes into the folder, its manifest `_spark_metadata` says which files count, and nothing is listed. This
   is decided only once: as soon as the manifest or a first file is there. For a path with wildcards, and with the conf
   `spark.sql.streaming.fileStreamSink.ignoreMetadata`, the manifest is never used.
3. The schema of the source consists of the schema of the files, or the given one, and the partition columns at its end.

    /in/day=2024-01-01/a b.json   ->   File("file:///in/day=2024-01-01/a%20b.json", 42, 1704067200000), column day date

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType, VariantType

from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf
from minispark_stream.engine.checkpointing.file_stream_sink_log import FOLDER, FileStreamSinkLog
from minispark_stream.engine.jvm import escaped_paths, expressions, files, plans, sessions
from minispark_stream.engine.jvm.scala import JavaObject


@dataclass(frozen=True)
class File:
    """A file that a listing found: percent-encoded URI, size in bytes, modification time in ms."""

    uri: str
    size: int
    timestamp: int


class Folder:
    """The path of a file source as Spark sees it: a full path, perhaps with wildcards. `options` may have Hadoop's settings."""

    def __init__(self, session: SparkSession, path: str, options: Mapping[str, str] | None = None):
        self._session = session
        self._files, self._path = files.qualified(session, path, options)
        self.root = str(self._path.toString())
        self.is_glob = files.is_glob(session, path)
        self.has_manifest = False if self.is_glob else None  # None: not known yet

    def roots(self) -> JavaObject:
        """The folder itself, or the paths that match it, as a Scala Seq."""
        return files.expand_glob(self._session, self._files, self._path)

    def exists(self) -> bool:
        return bool(self._files.exists(self._path))

    def files(self, options: Mapping[str, str]) -> list[File]:
        """All files below the folder, in the order of Spark's batch file index."""
        if self.has_manifest is None:
            self.has_manifest = self._finds_manifest() or None
        listed = [] if self.has_manifest else self._listed(options)
        if self.has_manifest is None and listed:  # the manifest may have appeared after the first look, with the first files
            self.has_manifest = self._finds_manifest()
        return self._named_by_manifest(options) if self.has_manifest else listed

    def partition_schema(self, options: Mapping[str, str], schema: StructType) -> StructType:
        """The partition columns in the names of the folders; `schema` may say which types they have."""
        return expressions.python_schema(self._index(options, schema).partitionSchema())

    def _listed(self, options: Mapping[str, str]) -> list[File]:  # (1)
        return [File(*found) for found in files.all_files(self._session, self._index(options, StructType()))]

    def _finds_manifest(self) -> bool:
        ignored = sessions.flag(self._session, "spark.sql.streaming.fileStreamSink.ignoreMetadata")
        if ignored or not self._files.isDirectory(self._path):
            return False
        uri = self._path.toUri()
        if uri.getRawPath() != uri.getPath():  # it has a space or another character that is escaped
            escaped_paths.check_not_escaped(self._session, f"{self.root}/{FOLDER}", escaped_paths.MANIFEST)
        return bool(self._files.exists(files.path(self._session, self._path, FOLDER)))

    def _named_by_manifest(self, options: Mapping[str, str]) -> list[File]:  # (2)
        log = FileStreamSinkLog(f"{self.root}/{FOLDER}", CompactionConf(*sessions.compaction_confs(self._session, "fileSink")))
        named = [File(one.path, one.size, one.modification_time) for one in log.all_files()]
        if (pattern := options.get("pathglobfilter")) is None:
            return named
        return [one for one in named if files.glob_accepts(self._session, pattern, unquote(one.uri).rsplit("/", 1)[-1])]

    def _index(self, options: Mapping[str, str], schema: StructType) -> JavaObject:
        return files.file_index(self._session, self.roots(), options, schema)


def fixed_schema(file_format: str, options: Mapping[str, str]) -> StructType | None:
    """(3) The schema of the files, if it does not depend on their content, so that there need not be any files yet."""
    if file_format == "text":
        return StructType([StructField("value", StringType())])
    if file_format in ("json", "csv") and "singlevariantcolumn" in options:
        return StructType([StructField(options["singlevariantcolumn"], VariantType())])
    return None


def resolve_schema(
    spark: SparkSession, folder: Folder, file_format: str, schema: StructType | None, options: Mapping[str, str]
) -> tuple[StructType, tuple[str, ...]]:
    """(3) The schema of the source (data columns, then partition columns), and the names of the partition columns."""
    if schema is None:
        paths = [] if folder.roots().isEmpty() else [folder.root]  # no file has no schema, which is another error than no path
        relation = plans.analyzed(spark.read.format(file_format).options(**options).load(paths)).relation()
        data, partitions = map(expressions.python_schema, (relation.dataSchema(), relation.partitionSchema()))
    else:
        partitions = folder.partition_schema(options, schema)
        case_sensitive = sessions.flag(spark, "spark.sql.caseSensitive")
        data = StructType([f for f in schema if _find(partitions, f.name, case_sensitive) is None])
        partitions = StructType([_find(schema, f.name, case_sensitive) or f for f in partitions])
    resolved = StructType([*data, *partitions])
    if sessions.flag(spark, "spark.sql.streaming.fileSource.schema.forceNullable"):
        resolved = expressions.as_nullable(spark, resolved)
    return resolved, tuple(partitions.names)


def _find(schema: StructType, name: str, case_sensitive: bool) -> StructField | None:
    return next((f for f in schema if f.name == name or not case_sensitive and f.name.lower() == name.lower()), None)
