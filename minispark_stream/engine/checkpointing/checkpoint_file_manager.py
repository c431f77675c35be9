"""The files of a checkpoint: a file is read as a whole, and it appears as a whole or not at all.

Models: CheckpointFileManager (FileContextBasedCheckpointFileManager).

1. Write a hidden file `.<name>.<uuid>.tmp` in the same folder, and wait until it is on the disk.
2. Give it its name in one step. Without `overwrite`, this step fails if the name is taken: two runs of a query cannot both
   write batch 7.
3. Wait until the name is on the disk, too. So a power failure cannot destroy this file and spare one that is written later,
   such as the commit of the batch.

       offsets/.7.5c1e….tmp   ->   offsets/7          (the second writer gets FileExistsError)

In a local folder, the system's own atomic calls are used (`link`, `replace`). Where there are no links (exFAT, some network
file systems), the name is looked up under a lock of the folder, which the system releases if the process is killed. All other
file systems are those of pyarrow.fs (`s3://`, `gs://`, `hdfs://`, `abfs://`). In the first two, a file appears only when its
upload is complete, so it is written under its own name at once. None of them can be asked by pyarrow to fail if the name is
taken. So the name is looked up before the write, and two writers at the same moment may both find it free: then the second
one's file remains, and neither gets an error.

A URI may have options, `s3://bucket/ck?region=eu-west-1`. The engine appends the names of folders to it, and these belong to
the path: `s3://bucket/ck?region=eu-west-1/offsets` means `s3://bucket/ck/offsets?region=eu-west-1`. A URI may also contain a
password (`s3://KEY:SECRET@bucket/ck`). People are shown a URI without its options, and with `***` for the password
(`redacted`).

Differs from Spark: a file and its name are on the disk before the next step begins; Spark leaves this to the system, so a
power failure may destroy what it wrote last. No `.crc` files are written, because nothing here reads them; a `.crc` file that
Spark left is deleted with its file.
Shown by
tests/unit/engine/checkpointing/test_checkpoint_logs.py::TestCheckpointFileManager::test_content_and_name_are_on_the_disk,
tests/unit/engine/checkpointing/test_checkpoint_logs.py::TestCheckpointFileManager::test_a_file_can_be_created_once,
tests/unit/engine/checkpointing/test_checkpoint_logs.py::TestCheckpointFileManager::test_overwriting_removes_a_checksum_that_no_longer_fits,
tests/unit/engine/checkpointing/test_object_store.py::test_a_file_is_created_once.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from contextlib import suppress
from pathlib import PurePosixPath
from stat import S_ISREG

from pyarrow import fs

WHOLE_WHEN_UPLOADED = ("s3", "gcs")  # pyarrow's names


class CheckpointFileManager:
    """The files under one folder. Names are relative to it, with `/`.

    Args:
        path: a local path, `file:/...`, or a URI that pyarrow.fs knows.
        filesystem: the file system that `path` is on, if no URI describes it.

    Attributes:
        location: the folder as a `path` for another manager (`file:/tmp/checkpoint`).
        root: the folder as people are shown it: in Spark's spelling, without options or a password.
    """

    def __init__(self, path: str, filesystem: fs.FileSystem | None = None):
        local = _local_path(path) if filesystem is None else None
        if filesystem is not None:
            self._fs: fs.FileSystem | None = filesystem
            self._path = self.location = path.rstrip("/")
        elif local is not None:
            self._fs = None
            self._path, self.location = local, f"file:{local}"
        else:
            self._fs, self._path = _from_uri(path)
            self.location = path.rstrip("/")
        self.root = redacted(self.location)

    def create_atomic(self, name: str, data: bytes, overwrite: bool = False, new_folder: bool = True) -> object:
        """Write a file.

        Args:
            overwrite: whether the file may exist already.
            new_folder: whether a local folder that does not exist is created.

        Returns:
            The identity of the file. For a local file, it is that of this very file, even if another one has replaced it since.

        Raises:
            FileExistsError: the file exists and `overwrite` is false.
            FileNotFoundError: the folder of a local file does not exist and `new_folder` is false.
        """
        target = self._full(name)
        parent, base = target.rsplit("/", 1)
        temporary = f"{parent}/.{base}.{uuid.uuid4()}.tmp"  # (1)
        if self._fs is None:
            return _create_local(temporary, target, data, overwrite, new_folder)
        if not overwrite and self.exists(name):
            raise FileExistsError(target)
        if self._fs.type_name in WHOLE_WHEN_UPLOADED:
            _write(self._fs, target, data)
        else:
            self._fs.create_dir(parent)
            _write(self._fs, temporary, data)
            self._fs.move(temporary, target)  # (2)
        return self.identity(name)

    def open(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError."""
        if self._fs is None:
            with open(self._full(name), "rb") as file:
                return file.read()
        with self._fs.open_input_stream(self._full(name)) as stream:
            return bytes(stream.read())

    def copy_to(self, name: str, path: str) -> None:
        """Make a file also available under a local `path`, by a link if that is possible. Raises FileNotFoundError.

        Since the two may be one and the same file, nobody may write into either of them afterwards.
        """
        if self._fs is None:
            try:
                os.link(self._full(name), path)
                return
            except FileNotFoundError:
                raise
            except OSError:  # on another disk, or on one without links
                pass
        with open(path, "wb") as file:
            file.write(self.open(name))

    def list(self, name: str = "", only_files: bool = False) -> list[tuple[str, int, int]]:
        """(name, size in bytes, modification time in ms) of the entries of a folder; empty when it does not exist.

        If there is a file in the place of the folder, it is that file, as from Hadoop's `listStatus`.
        """
        if self._fs is None:
            try:
                with os.scandir(self._full(name)) as entries:
                    found = [(e.name, s) for e, s in _stats(entries) if not only_files or S_ISREG(s.st_mode)]
            except FileNotFoundError:
                return []
            except NotADirectoryError:
                found = [(os.path.basename(self._full(name)), os.stat(self._full(name)))]  # raises it if a parent is the file
            return [(base_name, s.st_size, s.st_mtime_ns // 1_000_000) for base_name, s in found]
        infos = self._fs.get_file_info(fs.FileSelector(self._full(name), allow_not_found=True))
        kept = (i for i in infos if not only_files or i.type == fs.FileType.File)
        return [(i.base_name, i.size or 0, (i.mtime_ns or 0) // 1_000_000) for i in kept]

    def exists(self, name: str) -> bool:
        if self._fs is None:
            return os.path.exists(self._full(name))
        return bool(self._fs.get_file_info(self._full(name)).type != fs.FileType.NotFound)

    def identity(self, name: str) -> object:
        """A value that distinguishes a file from another one that replaces it; None if there is no file."""
        if self._fs is None:
            try:
                return _local_identity(os.stat(self._full(name)))
            except FileNotFoundError:
                return None
        try:
            with self._fs.open_input_file(self._full(name)) as stream:
                described = stream.metadata()  # an object store has a tag of the content here; its times are whole seconds
        except FileNotFoundError:
            return None
        info = self._fs.get_file_info(self._full(name))
        return described or (info.size, info.mtime_ns)

    def delete(self, name: str) -> None:
        """Delete a file, and its `.crc` file if it has one. It is no error if the file does not exist."""
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


def redacted(uri: str) -> str:
    """A path or URI as people are shown it: `s3://***@bucket/ck/offsets` for `s3://KEY:SECRET@bucket/ck?region=x/offsets`."""
    return re.sub(r"(?<=://)[^/@]*:[^/@]*@", "***@", re.sub(r"(://[^?]*)[?][^/]*", r"\1", uri))


def canonical_number(name: str) -> int | None:
    """The number that a file name is: 7 for "7"; None for all other names, also for "07" and "٧", which Spark never writes."""
    return int(name) if re.fullmatch(r"0|[1-9][0-9]{0,17}", name) else None


def _from_uri(uri: str) -> tuple[fs.FileSystem, str]:
    if "?" in uri:
        uri = re.sub("([?][^/]*)(.*)", r"\2\1", uri)  # the options last
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
        return found
    except ValueError as e:  # pyarrow's message has the whole URI, which may not even be one
        raise ValueError(re.sub("://.*@", "://***@", str(e))) from None


def _write(filesystem: fs.FileSystem, path: str, data: bytes) -> None:
    """Write a whole file in one call: if that fails, the upload is never completed, and the file never appears."""
    with filesystem.open_output_stream(path) as out:
        out.write(data)


def _create_local(temporary: str, target: str, data: bytes, overwrite: bool, new_folder: bool) -> object:
    try:
        file = open(temporary, "xb")
    except FileNotFoundError:
        if not new_folder:
            raise FileNotFoundError(f"{target} cannot be written, because its folder is gone") from None
        os.makedirs(os.path.dirname(target), exist_ok=True)
        file = open(temporary, "xb")
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            identity = _local_identity(os.fstat(file.fileno()))  # it stays the same under the new name
        if overwrite:
            os.replace(temporary, target)
            if os.path.exists(_crc(target)):
                os.unlink(_crc(target))
        else:
            _link(temporary, target)
        _sync_folder(os.path.dirname(target))  # (3)
        return identity
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _local_identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ino


def _link(temporary: str, target: str) -> None:
    """Give a file the name `target`. Raises FileExistsError if the name is taken."""
    try:
        os.link(temporary, target)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # file systems without links raise various errors
        folder = os.open(os.path.dirname(target), os.O_RDONLY)
        try:
            with suppress(ImportError, OSError):  # without a lock, it is as on an object store
                from fcntl import LOCK_EX, flock

                flock(folder, LOCK_EX)
            if os.path.lexists(target):
                raise FileExistsError(target) from None
            os.replace(temporary, target)
        finally:
            os.close(folder)  # which releases the lock


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems sync files only
            raise
    finally:
        os.close(folder)


def _stats(entries: os._ScandirIterator[str]) -> list[tuple[os.DirEntry[str], os.stat_result]]:
    """Entries with their stat results; one that vanishes meanwhile (a temporary file) is left out."""
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
    if local := re.match("(?i)file:(//)?", path):
        return os.path.abspath(path[local.end():])
    return None if re.match(r"[A-Za-z][\w+.-]+:/", path) else os.path.abspath(path)
