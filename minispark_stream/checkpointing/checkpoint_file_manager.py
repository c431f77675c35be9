"""Files of a checkpoint: read whole, and appear whole or not at all.

Models: CheckpointFileManager (FileContextBasedCheckpointFileManager).

1. Write to a hidden file `.<name>.<uuid>.tmp` in the same folder.
2. Give it its name in one step. Without `overwrite` that step fails when the name is taken: two runs of a query cannot
   both write batch 7.

       offsets/.7.5c1e….tmp   ->   offsets/7          (the second writer gets FileExistsError)

A local folder uses the system's own atomic calls (`link`, `replace`); every other file system comes from pyarrow.fs
(`s3://`, `gs://`, `hdfs://`, `abfs://`), where "fails when the name is taken" is a check followed by a move.

Differs from Spark: no `.crc` files are written (nothing needs them), and stale ones are removed with their file.
"""

from __future__ import annotations

import os
import uuid
from pathlib import PurePosixPath

from pyarrow import fs


class CheckpointFileManager:
    """The files under one folder. Names are relative to it, with `/`.

    Args:
        path: a local path, `file:/...`, or a URI that pyarrow.fs knows.
        filesystem: where `path` is, for a file system that no URI describes.

    Attributes:
        root: the folder as Spark prints it (`file:/tmp/checkpoint`).
    """

    def __init__(self, path: str, filesystem: fs.FileSystem | None = None):
        local = _local_path(path) if filesystem is None else None
        if filesystem is not None:
            self._fs: fs.FileSystem | None = filesystem
            self._path = self.root = path.rstrip("/")
        elif local is not None:
            self._fs = None
            self._path, self.root = local, f"file:{local}"
        else:
            self._fs, self._path = fs.FileSystem.from_uri(path)
            self.root = path.rstrip("/")

    def create_atomic(self, name: str, data: bytes, overwrite: bool = False) -> None:
        """Write a file.

        Raises:
            FileExistsError: the file is there and `overwrite` is false.
        """
        target = self._full(name)
        parent, base = target.rsplit("/", 1)
        temporary = f"{parent}/.{base}.{uuid.uuid4()}.tmp"  # (1)
        if self._fs is None:
            _create_local(temporary, target, data, overwrite)
            return
        self._fs.create_dir(parent)
        with self._fs.open_output_stream(temporary) as out:
            out.write(data)
        if not overwrite and self.exists(name):  # (2)
            self._fs.delete_file(temporary)
            raise FileExistsError(target)
        self._fs.move(temporary, target)

    def open(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError."""
        if self._fs is None:
            with open(self._full(name), "rb") as file:
                return file.read()
        with self._fs.open_input_stream(self._full(name)) as stream:
            return bytes(stream.read())

    def list(self, name: str = "") -> list[tuple[str, int, int]]:
        """(name, size in bytes, modification time in ms) of the entries of a folder; empty when it does not exist."""
        if self._fs is None:
            try:
                with os.scandir(self._full(name)) as entries:
                    return [(e.name, s.st_size, s.st_mtime_ns // 1_000_000) for e, s in _stats(entries)]
            except FileNotFoundError:
                return []
        found = self._fs.get_file_info(fs.FileSelector(self._full(name), allow_not_found=True))
        return [(i.base_name, i.size or 0, (i.mtime_ns or 0) // 1_000_000) for i in found]

    def exists(self, name: str) -> bool:
        if self._fs is None:
            return os.path.exists(self._full(name))
        return bool(self._fs.get_file_info(self._full(name)).type != fs.FileType.NotFound)

    def delete(self, name: str) -> None:
        """Delete a file, and its `.crc` if it has one; no error when it does not exist."""
        for one in (self._full(name), _crc(self._full(name))):
            try:
                if self._fs is None:
                    os.unlink(one)
                else:
                    self._fs.delete_file(one)
            except FileNotFoundError:
                pass

    def mkdirs(self, name: str = "") -> None:
        if self._fs is None:
            os.makedirs(self._full(name), exist_ok=True)
        else:
            self._fs.create_dir(self._full(name))

    def _full(self, name: str) -> str:
        return f"{self._path}/{name}" if name else self._path


def _create_local(temporary: str, target: str, data: bytes, overwrite: bool) -> None:
    try:
        file = open(temporary, "xb")
    except FileNotFoundError:  # the first file of a folder makes the folder
        os.makedirs(os.path.dirname(target), exist_ok=True)
        file = open(temporary, "xb")
    try:
        with file:
            file.write(data)
        if overwrite:
            os.replace(temporary, target)
            if os.path.exists(_crc(target)):
                os.unlink(_crc(target))
        else:
            os.link(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _stats(entries: os._ScandirIterator[str]) -> list[tuple[os.DirEntry[str], os.stat_result]]:
    """Entries with their stat; one that vanishes meanwhile (a temporary file) is left out."""
    found = []
    for entry in entries:
        try:
            found.append((entry, entry.stat()))
        except FileNotFoundError:
            continue
    return found


def _crc(path: str) -> str:
    name = PurePosixPath(path)
    return str(name.with_name(f".{name.name}.crc"))


def _local_path(path: str) -> str | None:
    for scheme in ("file://", "file:"):
        if path.startswith(scheme):
            return os.path.abspath(path.removeprefix(scheme))
    return None if "://" in path else os.path.abspath(path)
