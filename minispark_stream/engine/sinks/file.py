"""The file sink: a folder of files, and a log that says which of them belong to the output.

Models: FileStreamSink (Sink document).

`add_batch`:
1. A batch that is in the log already is skipped: it is run again after a crash. If the source can be read again, every row
   therefore is in the output exactly once.
2. Otherwise write the files, and then list them in the log (manifest_file_commit_protocol.py).
3. If the folder is a table (table.py), let Spark forget which files the table had.

The log is in the output folder, not in the checkpoint (engine/checkpointing/file_stream_sink_log.py):

    out/_spark_metadata/0      {"path":"file:///out/part-00000-…","size":48,…}      batch 0: one file
    out/_spark_metadata/1      v1 and nothing else                                  batch 1: no file
    out/part-00000-…           listed in 0: visible     out/part-00000-xyz   not listed: invisible

`spark.read` looks at `_spark_metadata` first, so a reader only sees whole batches; a program that lists the folder sees all
files. The only output mode is `append`, because a file in the log cannot be taken back.

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from minispark_stream.engine.checkpointing.compactible_file_stream_log import CompactionConf
from minispark_stream.engine.checkpointing.file_stream_sink_log import FOLDER, FileStreamSinkLog
from minispark_stream.engine.jvm import escaped_paths, files, sessions
from minispark_stream.engine.jvm.errors import analysis_error, spark_error
from minispark_stream.engine.jvm.sessions import time_string_as_ms
from minispark_stream.engine.sinks.base import Sink, SinkSpec
from minispark_stream.engine.sinks.manifest_file_commit_protocol import ManifestFileCommitProtocol, delete_leftovers

logger = logging.getLogger(__name__)


class FileStreamSink(Sink):
    """`writeStream.format(...).partitionBy(...).options(...).start(path)`, for the formats that Spark's batch writer knows.

    `spec.options` are the options of the writer; `path` is required. Clustering columns must exist, but have no effect on
    files.

    Raises:
        IllegalArgumentException: there is no path, or (NumberFormatException) `retention` is not a time.
        AnalysisException: the mode is not append, or a partition or clustering column is not valid.
        JavaError: the log is under an escaped path, as Spark 2.4 wrote it.
    """

    is_v1 = True

    def __init__(self, spec: SinkSpec):
        session, options = spec.session, spec.options
        self._session, self._table = session, spec.table
        columns = normalized_columns(session, spec.df, spec.partition_by, "Partition")
        normalized_columns(session, spec.df, spec.cluster_by, "Clustering")
        if (path := options.get("path")) is None:
            raise spark_error(session, IllegalArgumentException, "_LEGACY_ERROR_TEMP_2047")
        if spec.output_mode != "append":
            raise analysis_error(
                session, "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE", className=spec.format, outputMode=spec.output_mode
            )
        if columns:
            case_sensitive = sessions.flag(session, "spark.sql.caseSensitive")
            files.check_partition_columns(session, spec.df.schema, columns, case_sensitive)
        self._partition_columns = columns
        self._format, self._options = spec.format, options
        self._files, self._path = files.qualified(session, path)
        self.layout = (spec.format, *columns)
        self.description = f"FileSink[{self._path.toString()}]"
        escaped_paths.check_not_escaped(session, f"{self._path.toString()}/{FOLDER}", escaped_paths.MANIFEST)
        retention_ms = time_string_as_ms(session, options["retention"]) if "retention" in options else math.inf
        conf = CompactionConf(*sessions.compaction_confs(session, "fileSink"))
        self.log = FileStreamSinkLog(f"{self._path.toString()}/{FOLDER}", conf, retention_ms)
        self._has_committed = False

    def begin(self) -> None:
        if not self.log.files.exists(""):  # if it is a file, the first batch fails, as in Spark
            self.log.files.mkdirs()

    def add_batch(self, batch_id: int, data: DataFrame) -> None:
        latest = self.log.get_latest_batch_id()
        if latest is not None and batch_id <= latest:  # (1)
            logger.info("Skipping already committed batch %d", batch_id)
            self.written = {"file": self.log.file_name(batch_id), "skipped": True}
        else:
            added = self._write(batch_id, data)  # (2)
            self.written = {"file": self.log.file_name(batch_id), "added": added}
        if self._table is not None:
            self._session.catalog.refreshTable(self._table)  # (3)

    def _write(self, batch_id: int, data: DataFrame) -> list[str]:
        protocol = ManifestFileCommitProtocol(data.sparkSession, self._files, self._path)
        statuses = protocol.write(data, self._format, self._partition_columns, self._options)
        protocol.commit(self.log, batch_id, statuses)
        if not self._has_committed:  # an earlier run that is still writing here can no longer write its manifest
            delete_leftovers(data.sparkSession, self._files, self._path)
            self._has_committed = True
        return [unquote(status.path) for status in statuses]


def normalized_columns(session: SparkSession, df: DataFrame, names: Iterable[Any], kind: str) -> list[str]:
    """The names of some columns as the DataFrame spells them; `kind` is "Partition" or "Clustering".

    Raises:
        AnalysisException: the DataFrame does not have such a column.
        Py4JJavaError: a name is no text.
    """
    names = list(names)
    if not all(isinstance(name, str) for name in names):
        writer = DataStreamWriter(df)
        (writer.partitionBy if kind == "Partition" else writer.clusterBy)(names).start("never")  # Spark's own writer raises
    case_sensitive = sessions.flag(session, "spark.sql.caseSensitive")

    def same(a: str, b: str) -> bool:
        return a == b if case_sensitive else a.lower() == b.lower()

    found = []
    for name in names:
        column = next((c for c in df.columns if same(c, name)), None)
        if column is None:
            raise analysis_error(
                session, "_LEGACY_ERROR_TEMP_1196", columnType=kind, columnName=name,
                validColumnNames=", ".join(df.columns),
            )
        found.append(column)
    return found
