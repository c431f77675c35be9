"""The identity of a query: `metadata`, one line of JSON at the top of its checkpoint.

Models: StreamMetadata.

    <checkpoint>/metadata      {"id":"5b2f…"}

The id is made once, and stays the same over all restarts. A checkpoint with logs but without this file has been damaged. With
a new id it would be another query (a Delta table could no longer tell which batches it has), so Spark refuses to continue it,
and so does this engine.

Differs from Spark: if the file is not JSON, the error names the file and says what to do; Spark shows the error of its JSON
parser.
Shown by tests/unit/tools/inspection/test_fuzz_checkpoint.py::test_the_id_of_a_query_may_be_anything_but_a_crash.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number
from minispark_stream.engine.checkpointing.errors import SparkRuntimeException
from minispark_stream.engine.checkpointing.metadata_log import is_true, json_object, to_json


def read_id(checkpoint: str | CheckpointFileManager) -> str | None:
    """The id in a checkpoint's metadata file; None if there is no such file.

    Raises:
        SparkRuntimeException: the file is damaged.
    """
    files = CheckpointFileManager(checkpoint) if isinstance(checkpoint, str) else checkpoint
    try:
        data = files.open("metadata")
    except FileNotFoundError:
        return None
    try:
        query_id = json_object(data.decode("utf-8"))["id"]
        if not isinstance(query_id, str):
            raise ValueError("the id is not a text")
        return query_id
    except (ValueError, KeyError, RecursionError) as e:
        raise SparkRuntimeException(
            message=f"Error reading stream metadata from {files.root}/metadata: {type(e).__name__}: {e}. Nothing was changed. "
            "Restore the file from a copy, or start the query with a new checkpoint location."
        ) from e


def read_or_create(checkpoint: str, conf_get: Callable[[str], str | None]) -> str:
    """The id of the query that a checkpoint belongs to; a new one for a new checkpoint.

    Raises:
        SparkRuntimeException: the file is missing although there are logs (STREAMING_CHECKPOINT_MISSING_METADATA_FILE), or
            it is damaged.
    """
    query_id = read_id(checkpoint)
    if query_id is not None:
        return query_id
    files = CheckpointFileManager(checkpoint)
    if is_true(conf_get("spark.sql.streaming.checkpoint.verifyMetadataExists.enabled") or "true") and any(
        canonical_number(name) is not None for log in ("offsets", "commits") for name, _, _ in files.list(log, only_files=True)
    ):
        raise SparkRuntimeException(
            message=f"Checkpoint location {files.root} is in an inconsistent state: the metadata file is missing but offset "
            "and/or commit logs contain data. Please restore the metadata file or create a new checkpoint directory. "
            "SQLSTATE: 42K03",
            errorClass="STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            messageParameters={"checkpointLocation": files.root},
        )
    query_id = str(uuid.uuid4())
    files.create_atomic("metadata", to_json({"id": query_id}).encode())
    return query_id
