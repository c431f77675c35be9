"""What is done with a file when its batch is done: nothing, or it is archived or deleted.

Models: FileStreamSource.FileStreamSourceCleaner (Source document, "cleaner").

1. `cleanSource=delete` deletes the file; `archive` moves it below `sourceArchiveDir` and keeps its whole path.
2. This is done when the *next* batch is constructed (source.commit), so the files of the last batch stay.
3. It is done on `spark.sql.streaming.fileSource.cleaner.numThreads` threads (1), or, with 0, on the query's own thread. If it
   fails, a warning is logged and the query continues.
4. When the query ends, it waits up to 30 s for this. Files that are still waiting then stay where they are.

    /in/a.json   ->   /archive/in/a.json

The archive must not be in a place where the source looks, or every archived file would be read again.

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import files
from minispark_stream.engine.jvm.errors import illegal_argument, java_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.sources.file_stream_options import FileStreamOptions

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 30.0


class FileStreamSourceCleaner:
    """Cleans up the files of one source.

    Args:
        path: the path of the source, which may contain wildcards.
        archive_dir: where files are moved to; None: they are deleted.

    Raises:
        IllegalArgumentException: the archive is on another file system, or in a place where the source would read it.
        JavaError: IndexOutOfBoundsException, the archive is the root of the file system.
    """

    def __init__(self, session: SparkSession, path: str, archive_dir: str | None):
        self._session = session
        self._files, source = files.qualified(session, path)
        self._archive: str | None = None
        if archive_dir is not None:
            archive_files, archive = files.qualified(session, archive_dir)
            self._check(archive_files, source, archive)
            self._archive = str(archive.toString()).rstrip("/")
        threads = int(session.conf.get("spark.sql.streaming.fileSource.cleaner.numThreads"))  # type: ignore[arg-type]
        self._pool = ThreadPoolExecutor(threads, "file-source-cleaner-threadpool") if threads > 0 else None

    @staticmethod
    def of(session: SparkSession, path: str, options: FileStreamOptions) -> FileStreamSourceCleaner:
        """The cleaner that the options ask for (not `cleanSource=off`)."""
        archive_dir = options.source_archive_dir if options.clean_source == "ARCHIVE" else None
        return FileStreamSourceCleaner(session, path, archive_dir)

    def clean(self, path: str) -> None:
        if self._pool is None:
            self._clean(path)
        else:
            self._pool.submit(self._clean, path)

    def stop(self) -> None:
        if self._pool is not None:
            whole = threading.Thread(target=self._pool.shutdown, daemon=True)
            whole.start()
            whole.join(STOP_TIMEOUT_S)
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _clean(self, path: str) -> None:
        source = files.path(self._session, path)
        try:
            if self._archive is None:
                if not self._files.delete(source, False):
                    logger.warning("Failed to remove %s / skip removing file.", path)
                return
            target = files.path(self._session, self._archive + source.toUri().getPath())
            self._files.mkdirs(target.getParent())
            if not self._files.rename(source, target):
                logger.warning("Fail to move %s to %s / skip moving file.", path, target)
        except Exception:
            logger.warning("Fail to clean up %s / skip it.", path, exc_info=True)

    def _check(self, archive_files: JavaObject, source: JavaObject, archive: JavaObject) -> None:
        if not self._files.getUri().equals(archive_files.getUri()):
            raise illegal_argument(
                "requirement failed: Base archive path is located on a different file system than the source files. source "
                f"path: {source.toString()} / base archive path: {archive.toString()}"
            )
        if archive.isRoot():
            raise java_error(self._session, "java.lang.IndexOutOfBoundsException", "0")
        if self._overlap(source, archive):
            raise illegal_argument(
                "requirement failed: Base archive path cannot be set to the path where archived path can possibly match with "
                "source pattern. Ensure the base archive path doesn't match with source pattern in depth, where the depth is "
                "minimum of depth on both paths."
            )

    def _overlap(self, source: JavaObject, archive: JavaObject) -> bool:
        """Whether both paths agree up to the end of the shorter one; `source` may have wildcards."""
        parts = [str(p.toUri().getPath()).strip("/").split("/") for p in (source, archive)]
        return all(files.glob_accepts(self._session, pattern, name) for pattern, name in zip(*parts))
