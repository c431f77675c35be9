"""The files of a checkpoint in a temporary folder, by links where that is possible: a place to try what is going to be done.

No file is written into; one that is replaced gets another inode, so the checkpoint that the links lead to does not change.
Temporary files of writers that died stay behind.

    with scratch_of(files, source) as folder: ...     files {"metadata": 45, "offsets/.7.1f.tmp": 0}  ->  folder/metadata
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.operations.rollback import is_left_out


@contextmanager
def scratch_of(files: ReadOnlyFiles, source: CheckpointFileManager) -> Iterator[str]:
    """A folder with the files of a checkpoint, which is deleted at the end."""
    with TemporaryDirectory(prefix="minispark_stream_") as folder:
        for name in files.files.keys() - set(left_behind(files)):
            os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
            source.copy_to(name, f"{folder}/{name}")
        yield folder


def left_behind(files: ReadOnlyFiles) -> tuple[str, ...]:
    """Temporary files of writers that died."""
    return tuple(sorted(name for name in files.files if is_left_out(name) and name.endswith((".tmp", ".tmp.crc"))))
