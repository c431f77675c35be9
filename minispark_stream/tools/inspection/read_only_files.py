"""The files of somebody else's checkpoint: listed once, read up to a limit, and never written.

1. The whole directory is listed recursively once, because on an object store each listing is a request, and a checkpoint has
   three levels of directories. Only plain files count: a link may lead to a file outside the checkpoint. This one listing says
   which entries and versions exist, so two answers cannot contradict each other while a query is running.
2. A file takes its bytes from the budget of the inspection before it is read; a text takes what Python needs for its lines and
   for the JSON in them, too. Every method that would write raises an error.

    ReadOnlyFiles("/data/checkpoint", None, Budget(1 << 20)).files    {"commits/0": 29, "metadata": 45, "offsets/0": 712}
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NoReturn

from pyarrow import ArrowException, fs

from minispark_stream.engine.checkpointing.budget import Budget, LimitExceeded
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, redacted


class NotRead(ValueError):
    """The system does not let a file be read."""


class ReadOnlyFiles(CheckpointFileManager):
    """The files under one directory.

    Args:
        budget: the memory that may be taken for what is in them.
        text: whether `open` reads texts.

    Attributes:
        not_listed: what the listing had to leave out: path -> reason.
        folders: the folders that the listing has seen, by their paths relative to this directory.
    """

    def __init__(self, path: str, filesystem: fs.FileSystem | None, budget: Budget, text: bool = False):
        with _in_one_line(path):
            super().__init__(_as_pyarrow_calls_it(path), filesystem)
        self.budget, self._text = budget, text
        self.not_listed: dict[str, str] = {}
        self.folders: set[str] = set()

    def folder(self, name: str, text: bool = False) -> ReadOnlyFiles:
        """The files of a subdirectory, read in the same way."""
        below = ReadOnlyFiles(f"{self._path}/{name}" if name else self._path, self._fs, self.budget, text)
        below.root = f"{self.root}/{name}" if name else self.root
        return below

    def open_text(self, name: str) -> bytes:
        """The content of a text: a log entry, a schema, metadata."""
        folder, _, base = name.rpartition("/")
        return self.folder(folder, text=True).open(base)

    @cached_property
    def files(self) -> Mapping[str, int]:  # (1)
        """Size in bytes of every file, by its path relative to this directory. Raises FileNotFoundError."""
        return dict(sorted(self._walk_local() if self._fs is None else self._walk(self._fs)))

    def _walk_local(self) -> Iterator[tuple[str, int]]:
        if not os.path.isdir(self._path):
            raise FileNotFoundError(f"{self.root} is not a directory")
        for folder, folders, names in os.walk(self._path, onerror=lambda e: self._leave_out(str(e.filename), e)):
            for name in (*folders, *names):
                path = os.path.join(folder, name)
                try:
                    found = os.lstat(path)
                except OSError as e:
                    self._leave_out(path, e)
                    continue
                if stat.S_ISREG(found.st_mode):
                    yield self._relative(path), found.st_size
                elif stat.S_ISDIR(found.st_mode):
                    self.folders.add(self._relative(path))
                elif stat.S_ISLNK(found.st_mode):
                    self.not_listed[self._relative(path)] = "it is a symbolic link"

    def _leave_out(self, path: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # gone meanwhile
            self.not_listed[self._relative(path)] = f"it cannot be listed: {error.strerror or error}"

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self._path).replace(os.sep, "/")

    def _walk(self, filesystem: fs.FileSystem) -> Iterator[tuple[str, int]]:
        base = self._path.strip("/")
        with _in_one_line(self.root):
            found = filesystem.get_file_info(fs.FileSelector(self._path, recursive=True, allow_not_found=True))
        if not found:
            raise FileNotFoundError(f"{self.root} is not a directory with files")
        for info in found:
            relative = info.path.strip("/").removeprefix(base).lstrip("/")
            if info.type == fs.FileType.File:
                yield relative, info.size or 0
            elif info.type == fs.FileType.Directory:
                self.folders.add(relative)

    def list(self, name: str = "", only_files: bool = False) -> list[tuple[str, int, int]]:
        """As for any checkpoint; a local folder that cannot be listed is already in `not_listed`, and is empty here."""
        try:
            with _in_one_line(self.root):
                return super().list(name, only_files)
        except OSError:
            if self._fs is not None:
                raise
            return []

    def open(self, name: str) -> bytes:  # (2)
        """The content of a file. Raises FileNotFoundError, NotRead, LimitExceeded."""
        path = self._full(name)
        try:
            if self._fs is None:
                with open(path, "rb", opener=_open_no_link) as file:
                    return self._read(name, os.fstat(file.fileno()).st_size, file)
            with self._fs.open_input_file(path) as remote:
                return self._read(name, remote.size(), remote)
        except FileNotFoundError:
            raise
        except IsADirectoryError as e:
            raise FileNotFoundError(f"{self.root}/{name} is a folder") from e
        except (OSError, ArrowException) as e:  # what a remote file system says is not always an OSError
            raise NotRead(f"{self.root}/{name}: {getattr(e, 'strerror', None) or e}") from e

    def _read(self, name: str, size: int, file: Any) -> bytes:
        try:
            self.budget.take(size)
            data = bytes(file.read(size))
            if self._text:
                self.budget.take_text(data)
        except LimitExceeded as e:
            raise LimitExceeded(f"{self.root}/{name}: {e}") from e
        return data

    def create_atomic(self, name: str, data: bytes, overwrite: bool = False, new_folder: bool = True) -> NoReturn:
        """Raises PermissionError, as the next two methods do."""
        raise PermissionError(f"{self.root}: inspecting writes nothing")

    def delete(self, name: str) -> NoReturn:
        raise PermissionError(f"{self.root}: inspecting deletes nothing")

    def mkdirs(self, name: str = "") -> NoReturn:
        raise PermissionError(f"{self.root}: inspecting writes nothing")


def is_unread(error: BaseException) -> bool:
    """Whether a file is not damaged, but was not read: it needs too much memory, or the system does not allow it."""
    return isinstance(error, (LimitExceeded, NotRead)) or error.__cause__ is not None and is_unread(error.__cause__)


def _as_pyarrow_calls_it(path: str) -> str:
    """A path of Hadoop's or Databricks' names: `s3a://bucket/x` is `s3://bucket/x`, and `dbfs:/x` is mounted at `/dbfs/x`."""
    return re.sub("^dbfs:/+", "/dbfs/", re.sub("^s3[an]:", "s3:", path))


@contextmanager
def _in_one_line(where: str) -> Iterator[None]:
    """Raise what a remote file system says (no credentials, no network) as an OSError with one line."""
    try:
        yield
    except (ArrowException, NotImplementedError) as e:
        if isinstance(e, (ValueError, OSError)):
            raise
        raise OSError(f"{redacted(where)} cannot be read: {str(e).strip().splitlines()[0]}") from e


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
