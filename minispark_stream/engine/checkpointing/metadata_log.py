"""A log with one file per batch.

Models: HDFSMetadataLog, the base of the offset log, the commit log and the source logs (Execution flow; About Trigger).

    offsets/          the name of a file is the id of its batch
      41  42  43      its content is a line "v1", and then the entry

1. `add` creates the file of a batch, once: a second writer gets False.
2. The two entries that were written last are kept in memory, because each batch asks for the one before it.
3. `purge(n)` deletes the entries before batch n; a restart needs only the newest ones.

A file is untrusted input: it is decoded as text and JSON, and an error in it is reported with the name of the file.

Differs from Spark: a stray file `010` is not an entry, because no engine writes such a name; Spark takes it for batch 10, and
fails because there is no file `10`.
Shown by
tests/unit/engine/checkpointing/test_checkpoint_logs.py::TestOffsetSeqLog::test_only_names_that_spark_writes_are_entries.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number
from minispark_stream.engine.checkpointing.errors import SparkRuntimeException

T = TypeVar("T")


class HDFSMetadataLog(ABC, Generic[T]):
    """A log in the folder `path` (or in the folder of a file manager). Entries are immutable."""

    incomplete = "Incomplete log file"
    max_version = 1

    def __init__(self, path: str | CheckpointFileManager):
        self.files = CheckpointFileManager(path) if isinstance(path, str) else path
        self._cache: dict[int, T] = {}

    @abstractmethod
    def serialize(self, entry: T) -> bytes:
        """The content of a log file."""

    @abstractmethod
    def deserialize_lines(self, version: int, lines: list[str]) -> T:
        """An entry from the lines that follow the version line. Raises ValueError."""

    def deserialize(self, data: bytes) -> T:
        """The entry in a log file. Raises ValueError with what is wrong."""
        lines = lines_of(data.decode("utf-8"))
        if not lines:
            raise ValueError(self.incomplete)
        return self.deserialize_lines(validate_version(lines[0].strip(), self.max_version), lines[1:])

    # -- the batches of the log ---------------------------------------------------------------------------

    def add(self, batch_id: int, entry: T) -> bool:  # (1)
        """Write the entry of a batch; False if the batch has one already.

        Raises:
            FileNotFoundError: the local folder, in which this log has written entries before, is gone.
        """
        if not self.write(batch_id, entry, new_folder=not self._cache):
            return False
        self._remember(batch_id, entry)
        return True

    def write(self, batch_id: int, entry: T, new_folder: bool) -> bool:
        """Write the file of a batch; False if there is one already.

        Raises:
            FileNotFoundError: there is no local folder, and `new_folder` is false.
        """
        try:
            self.files.create_atomic(self.file_name(batch_id), self.serialize(entry), new_folder=new_folder)
        except FileExistsError:
            return False
        return True

    def is_in_file(self, batch_id: int) -> bool:
        """Whether the entry of a batch that was added outlives this run."""
        return True

    def get(self, batch_id: int) -> T | None:
        """The entry of a batch; None if there is none.

        Raises:
            SparkRuntimeException: the file is damaged.
        """
        if batch_id in self._cache:
            return self._cache[batch_id]
        try:
            data = self.files.open(self.file_name(batch_id))
        except FileNotFoundError:
            return None
        try:
            return self.deserialize(data)
        except (ValueError, RecursionError) as e:  # bad UTF-8 and bad JSON are ValueErrors
            raise self._unreadable(batch_id, e) from e

    def get_latest(self) -> tuple[int, T] | None:
        """The newest batch and its entry."""
        latest = self.get_latest_batch_id()
        if latest is None:
            return None
        entry = self.get(latest)
        return None if entry is None else (latest, entry)

    def get_latest_batch_id(self) -> int | None:
        return max(self.list_batches(), default=None)

    def list_batches(self) -> list[int]:
        """The ids of all batches in the log, oldest first."""
        ids = (self.batch_id_of(name) for name, _, _ in self.files.list(only_files=True))
        return sorted({i for i in ids if i is not None})

    def purge(self, threshold: int) -> list[int]:  # (3)
        """Delete the entries before batch `threshold`; returns their ids."""
        expired = [i for i in self.list_batches() if i < threshold]
        for batch_id in expired:
            self.files.delete(self.file_name(batch_id))
            self._cache.pop(batch_id, None)
        return expired

    def purge_after(self, threshold: int) -> None:
        """Delete the entries after batch `threshold`."""
        for batch_id in self.list_batches():
            if batch_id > threshold:
                self.files.delete(self.file_name(batch_id))
                self._cache.pop(batch_id, None)

    # -- names ---------------------------------------------------------------------------------------------

    def file_name(self, batch_id: int) -> str:
        return str(batch_id)

    def batch_id_of(self, name: str) -> int | None:
        """The batch that a file belongs to; None for anything that is not a batch file."""
        return canonical_number(name)

    def _remember(self, batch_id: int, entry: T) -> None:  # (2)
        self._cache[batch_id] = entry
        while len(self._cache) > 2:
            del self._cache[next(iter(self._cache))]

    def _unreadable(self, batch_id: int, error: Exception) -> SparkRuntimeException:
        return SparkRuntimeException(
            message=f"Failed to read log file {self.files.root}/{self.file_name(batch_id)}. {error}. Nothing was changed. "
            "Restore the file from a copy, or start the query with a new checkpoint location."
        )


def lines_of(text: str) -> list[str]:
    """The lines of a log file as Java reads them: U+2028, U+2029 and U+0085, which JSON may contain, do not end a line."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def validate_version(text: str, max_supported: int) -> int:
    """The number of a version line such as "v1". Raises ValueError with Spark's words."""
    if text[:1] == "v" and text[1:].isascii() and text[1:].isdigit() and len(text) < 10 and int(text[1:]) > 0:
        version = int(text[1:])
        if version <= max_supported:
            return version
        raise ValueError(
            f"[INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION] UnsupportedLogVersion. The maximum supported log version is "
            f"v{max_supported}, but encountered v{version}. The log file was produced by a newer version of Spark and cannot "
            "be read by this version. You need to upgrade. SQLSTATE: KD002"
        )
    raise ValueError(
        f"[MALFORMED_LOG_FILE] Log file was malformed: failed to read correct log version from {text[:80]}. SQLSTATE: KD002"
    )


def json_object(text: str) -> dict[str, Any]:
    """The JSON object with which a text begins; as in Spark, what follows it does not count. Raises ValueError."""
    value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object was expected, not {text[:80]!r}")
    return value


def to_json(value: object) -> str:
    """JSON as Spark writes it: without spaces, and without escapes for characters that are not ASCII."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def is_true(conf: str | None) -> bool:
    """A conf that is true or false; spaces around it and its case do not count, as in Spark."""
    return conf is not None and conf.strip().lower() == "true"


def number(values: dict[str, Any], key: str, default: int | None = 0) -> int:
    """An integer field of a JSON object; as in Spark, 3.0 is 3. Raises ValueError if it is no number, or lacks a default."""
    value = values.get(key, default)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{key} must be an integer of 64 bits, not {str(value)[:80]!r}")
    return int(value)
