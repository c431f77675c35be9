"""How the files of one batch appear all at once: first they are written, and then one manifest file lists them.

Models: ManifestFileCommitProtocol (Sink document).

1. Spark's batch writer (FileFormatWriter, which `df.write` uses, too) writes the batch into a hidden folder of its own inside
   the output folder. A task that fails and is tried again leaves nothing behind.
2. The files are moved to their final places; their names are unique. They are *pending*: whoever reads the folder by its
   manifest does not see them yet.
3. The manifest `_spark_metadata/<batch id>` is written in one step: now the batch is visible.
4. If (1) or (2) fails, the pending files are deleted. Once (3) has begun, they stay, because the manifest may exist already.

    out/_staging-<uuid>/k=a/part-00000-<uuid>.c000.json      (1)
    out/k=a/part-00000-<uuid>.c000.json                      (2)
    out/_spark_metadata/7  {"path":"file:///out/k=a/part-00000-…","size":24,…,"action":"add"}   (3)

A kill during (1) leaves the hidden folder. The next run of a file sink deletes it when it has committed a batch of its own
(`delete_leftovers`), but not before: otherwise a run that is still writing there could commit a part of its files. In a Delta
table, where another query may be writing, the folder stays. A kill after (2) leaves files that are in no manifest; these do no
harm, and Spark leaves them, too. After a kill after (3), the batch is run again, finds its manifest and is skipped (see
FileStreamSink).

Differs from Spark: Spark's tasks write to the final place at once; here the files are written to a hidden folder first, so
that Spark's unchanged batch writer can be used. A kill may leave that folder until the next run. The rows of a task that
belong into one folder are in one file, even if their values differ (null and the text `__HIVE_DEFAULT_PARTITION__`); Spark
begins a new file for each value.
Shown by tests/conformance/test_sinks.py::test_files_without_a_manifest_are_invisible,
tests/conformance/test_sinks.py::test_two_values_with_one_folder.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from minispark_stream.engine.checkpointing.file_stream_sink_log import FileStreamSinkLog, SinkFileStatus
from minispark_stream.engine.jvm import files
from minispark_stream.engine.jvm.errors import java_error
from minispark_stream.engine.jvm.scala import JavaObject

logger = logging.getLogger(__name__)


STAGING = "_staging-????????-????-????-????-????????????"


def delete_leftovers(session: SparkSession, hadoop_files: JavaObject, path: JavaObject) -> None:
    """Delete the hidden folders of other runs. Only for a run that has just committed a batch, and is not writing now."""
    for folder in files.below(session, hadoop_files, path, STAGING):
        hadoop_files.delete(folder, True)


class ManifestFileCommitProtocol:
    """The commit of one batch.

    Args:
        session: the session of the query.
        files: the Hadoop file system of the output folder.
        path: the output folder, a Hadoop path.
    """

    def __init__(self, session: SparkSession, files: JavaObject, path: JavaObject):
        self._session = session
        self._files = files
        self._root = path.toString()
        self._job_id = str(uuid.uuid4())
        self._staging = f"{self._root}/_staging-{self._job_id}"
        self._pending: list[str] = []

    def write(
        self, data: DataFrame, format_name: str, partition_columns: list[str], options: Mapping[str, str]
    ) -> tuple[SinkFileStatus, ...]:
        """Write a batch; returns its files, which are not visible yet.

        Raises:
            Exception: the error of the writer or of the file system; then the files have been deleted.
        """
        try:
            files.write_files(data, format_name, partition_columns, options, self._staging, self._job_id)  # (1)
            return tuple(self._move(path) for path in self._written())  # (2)
        except BaseException:
            self._abort()  # (4)
            raise
        finally:
            self._delete(self._staging)

    def commit(self, log: FileStreamSinkLog, batch_id: int, statuses: tuple[SinkFileStatus, ...]) -> None:
        """List the files in the manifest of the batch.

        Raises:
            JavaError: IllegalStateException, another run has written this batch meanwhile.
        """
        if not log.add(batch_id, statuses):  # (3)
            raise java_error(
                self._session, "java.lang.IllegalStateException",
                f"Race while writing batch {batch_id} to the file sink metadata log at {self._root}: another writer already "
                "committed this batch. This usually means multiple concurrent streaming queries are writing to the same output "
                "path (they share one _spark_metadata log).",
            )

    def _written(self) -> list[JavaObject]:
        """The paths of the files in the hidden folder, in the order of the tasks that wrote them."""
        found = []
        files = self._files.listFiles(self._path(self._staging), True)
        while files.hasNext():
            path = files.next().getPath()
            if path.getName()[:1] not in "._":  # _SUCCESS
                found.append((path.getName(), path.toString(), path))
        return [path for _, _, path in sorted(found, key=lambda f: f[:2])]

    def _move(self, source: JavaObject) -> SinkFileStatus:
        below = source.toUri().getPath().split(f"/_staging-{self._job_id}/", 1)[1]
        target = self._path(f"{self._root}/{below}")
        self._files.mkdirs(target.getParent())
        self._pending.append(target.toString())
        if not self._files.rename(source, target):
            raise OSError(f"Failed to move {source.toString()} to {target.toString()}")
        status = self._files.getFileStatus(target)
        return SinkFileStatus(
            status.getPath().toUri().toString(), status.getLen(), status.isDirectory(), status.getModificationTime(),
            status.getReplication(), status.getBlockSize(),
        )

    def _abort(self) -> None:
        for path in self._pending:
            self._delete(path)

    def _delete(self, path: str) -> None:
        try:
            self._files.delete(self._path(path), True)
        except Exception:
            logger.warning("Fail to remove temporary file %s, continue removing next.", path, exc_info=True)

    def _path(self, path: str) -> JavaObject:
        return files.path(self._session, path)
