"""What a user asks for with `start()`, and the checks before a query begins.

Models: WriteToStream and ResolveWriteToStream (Execution flow; From query to the plan).

1. Find the checkpoint: the option, or `spark.sql.streaming.checkpointLocation`/<name>, or, for sinks that need not remember
   anything (memory, console, noop, foreachBatch, foreach), a temporary folder.
2. Check the query for unsupported operations and output modes.
3. Read or create `metadata` (the id of the query) in the checkpoint.

    option checkpointLocation "cp"          -> cp
    conf "/checkpoints", queryName "counts" -> /checkpoints/counts
    neither, format "memory"                -> /tmp/temporary-<uuid>, deleted when the query stops; after a failure, at exit

Differs from Spark: nothing.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from minispark_stream.engine.checkpointing import stream_metadata
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, redacted
from minispark_stream.engine.jvm import escaped_paths, scala, sessions
from minispark_stream.engine.jvm import files as hadoop
from minispark_stream.engine.jvm.errors import analysis_error, concurrent_queries, to_boolean
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.name_streaming_sources import check_names_are_unique
from minispark_stream.engine.plan.unsupported_operation_checker import check_for_continuous, check_for_streaming
from minispark_stream.engine.runtime.real_time_mode import check_query, tracks_progress_async
from minispark_stream.engine.runtime.trigger_executor import ContinuousTrigger, RealTimeTrigger, Trigger
from minispark_stream.engine.sinks.base import Sink

ASYNC = "asyncProgressTrackingEnabled"  # an option whose case counts, as in Spark


@dataclass(frozen=True)
class WriteToStream:
    """What a query does: compute `analyzed` and write it to `sink`, with its logs and state in `checkpoint`.

    `session` is the one in which the user starts it. A `temporary` checkpoint is deleted when the query stops, or after a
    failure when the process ends. The names of `options` are spelt as the user has spelt them.
    """

    session: SparkSession
    analyzed: JavaObject
    sink: Sink
    output_mode: str
    trigger: Trigger
    name: str | None
    checkpoint: str
    temporary: bool
    query_id: str
    options: Mapping[str, str]
    tracks_progress_async: bool

    @property
    def shown_checkpoint(self) -> str:
        """The checkpoint as people are shown it."""
        return redacted(self.checkpoint)


def resolve_write_to_stream(
    session: SparkSession,
    *,
    analyzed: JavaObject,
    sink: Sink,
    output_mode: str,
    trigger: Trigger,
    name: str | None,
    options: Mapping[str, str],
    spelling: Mapping[str, str],
    temporary_checkpoint: bool,
    recover_from_checkpoint: bool,
) -> WriteToStream:
    """Find the checkpoint and check the query.

    Args:
        options: by names in lower case.
        spelling: each of these names as the user has spelt it.
        temporary_checkpoint: whether the sink can do without a checkpoint that outlives the query.
        recover_from_checkpoint: False for a sink that loses its rows when the process ends.

    Raises:
        AnalysisException: streams do not support an operation or the output mode; or there is no checkpoint.
        JavaError: the checkpoint is under an escaped path, as Spark 2.4 wrote it.
        CapturedException: another query is being started on the same new checkpoint.
        IllegalArgumentException: the location is not a path, the id in the checkpoint is not a UUID, or an option is neither
            true nor false.
    """
    location, temporary = _checkpoint_location(session, options, name, temporary_checkpoint)  # (1)
    files = CheckpointFileManager(_absolute(session, location))
    if not recover_from_checkpoint and files.exists("offsets"):
        raise analysis_error(session, "_LEGACY_ERROR_TEMP_1299", checkpointPath=f"{redacted(location).rstrip('/')}/offsets")
    escaped_paths.check_not_escaped(session, location, escaped_paths.CHECKPOINT)
    check_names_are_unique(session, analyzed)  # (2)
    if sessions.flag(session, "spark.sql.streaming.unsupportedOperationCheck"):
        is_continuous = isinstance(trigger, ContinuousTrigger) and not sink.is_v1
        if isinstance(trigger, RealTimeTrigger):
            check_query(session, analyzed, output_mode)
        check = check_for_continuous if is_continuous else check_for_streaming
        check(session, analyzed, output_mode)
    options = {spelling.get(name, name): value for name, value in options.items()}
    is_async = not (isinstance(trigger, ContinuousTrigger) and sink.supports_continuous) and to_boolean(options.get(ASYNC))
    if isinstance(trigger, RealTimeTrigger) and ASYNC not in options:
        is_async = tracks_progress_async(session, analyzed)
    try:
        query_id = stream_metadata.read_or_create(files.location, partial(sessions.conf, session))  # (3)
    except FileExistsError:
        raise concurrent_queries(session, f"{files.root}/metadata") from None
    query_id = str(scala.java_class(session, "java.util.UUID.fromString")(query_id).toString())  # refused if it is no UUID
    return WriteToStream(
        session=session, analyzed=analyzed, sink=sink, output_mode=output_mode, trigger=trigger, name=name,
        checkpoint=files.location, temporary=temporary, query_id=query_id,
        options=options, tracks_progress_async=is_async,
    )


def _checkpoint_location(
    session: SparkSession, options: Mapping[str, str], name: str | None, temporary_allowed: bool
) -> tuple[str, bool]:
    """The location as the user has written it, and whether it is temporary."""
    location, root = options.get("checkpointlocation"), session.conf.get("spark.sql.streaming.checkpointLocation", None)
    if location is not None:
        return location, False
    if root is not None:
        return root and f"{root.rstrip('/')}/{name or uuid.uuid4()}", False  # an empty one stays empty, and is refused
    if temporary_allowed:
        folder = os.path.join(tempfile.gettempdir(), f"temporary-{uuid.uuid4()}")
        os.mkdir(folder, 0o700)
        _temporary_checkpoints.add(folder)
        return folder, True
    raise analysis_error(session, "_LEGACY_ERROR_TEMP_1298", config="spark.sql.streaming.checkpointLocation")


def delete_temporary_checkpoint(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _temporary_checkpoints.discard(folder)


# The temporary checkpoints that have not been deleted yet, which is done at exit.
_temporary_checkpoints: set[str] = set()


@atexit.register
def _delete_temporary_checkpoints() -> None:
    for folder in list(_temporary_checkpoints):
        delete_temporary_checkpoint(folder)


def _absolute(session: SparkSession, location: str) -> str:
    """A path of this machine in full. A relative one is resolved by the JVM, in the folder in which Spark was started.

    Raises:
        IllegalArgumentException: there is no such path (nothing, `a:b`, or `file://host/a` with a host).
    """
    is_elsewhere = re.match(r"(?i)(?!file:)[a-z][\w+.-]*:/", location)
    return location if is_elsewhere else str(hadoop.qualified(session, location)[1].toString())
