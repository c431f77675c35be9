"""Folders that Spark 2.4 has under another path: it escaped a path with a space or a `%`, once or several times.

    checkpoint "a b"    in Spark 2.4 "a%252520b": escaped three times
    manifest   "a b/_spark_metadata"   in Spark 2.4 "a%20b/_spark_metadata": escaped once

Whoever went on without such a folder would begin anew, so a query does not start, and the error says what to move.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import files, sessions
from minispark_stream.engine.jvm.errors import spark_exception
from minispark_stream.engine.jvm.scala import JavaObject

_ESCAPED_PATH_CHECK = "spark.sql.streaming.checkpoint.escapedPathCheck.enabled"

# How often the path was escaped, the condition of the error, and what the error calls the two paths.
CHECKPOINT = (3, "_LEGACY_ERROR_TEMP_2263", "checkpointPath", "legacyCheckpointDir")
MANIFEST = (1, "_LEGACY_ERROR_TEMP_2200", "metadataPath", "legacyMetadataPath")


def check_not_escaped(session: SparkSession, folder: str, kind: tuple[int, str, str, str]) -> None:
    """Refuse a folder if there is one under its escaped path.

    Args:
        kind: `CHECKPOINT` or `MANIFEST`.

    Raises:
        JavaError: a SparkException that says what to move.
    """
    if not sessions.flag(session, _ESCAPED_PATH_CHECK):
        return
    times, condition, *names = kind
    wanted = escaped = files.path(session, folder)
    for _ in range(times):
        escaped = files.path(session, escaped.toUri().toString())
    if escaped.toUri().getPath() != wanted.toUri().getPath() and _exists(session, escaped):
        parameters = dict(zip(names, (wanted.toString(), escaped.toString())))
        raise spark_exception(session, condition, StreamingCheckpointEscapedPathCheckEnabled=_ESCAPED_PATH_CHECK, **parameters)


def _exists(session: SparkSession, whole: JavaObject) -> bool:
    try:
        return bool(files.qualified(session, whole.toString())[0].exists(whole))
    except Exception:  # nobody may look there, or there is no such file system
        return False
