"""A copy of the small files of a checkpoint, on which a query can be planned.

1. `metadata`, both logs, the logs of the sources, and the metadata and schemas of the operators are copied. The state itself
   is not: folders take its place. All of it is a few kilobytes.
2. The metadata of an operator with column families names its schema files by their full paths: the copy names those of
   the copy.

    /data/checkpoint/state/0/_stateSchema/default/0_x    in the metadata becomes    /tmp/shadow/state/0/_stateSchema/default/0_x

The checkpoint is only read (tools/inspection/read_only_files.py), so neither its files nor their times change.

Models: nothing of Spark.
Shown by tests/unit/tools/operations/test_check.py::test_a_shadow_has_the_small_files_alone.
"""

from __future__ import annotations

import re
from pathlib import Path

from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles

WHOLE = ("offsets", "commits", "sources")
OF_STATE = ("_metadata", "_stateSchema")


def copy_small_files(files: ReadOnlyFiles, target: Path) -> None:
    """Write the shadow of a checkpoint into a folder.

    Raises:
        ValueError: a name leads out of the checkpoint, or the files need more memory than they may take.
    """
    names = files.files  # the listing that knows the folders, too
    for folder in sorted(files.folders):
        if folder.split("/")[0] in (*WHOLE, "state"):
            _inside(target, folder).mkdir(parents=True, exist_ok=True)
    with files.budget.lent():
        for name in names:
            if is_small(name):  # (1)
                copy = _inside(target, name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(_of_shadow(name, files.open(name), target))


def is_small(name: str) -> bool:
    """Whether a file belongs to the shadow; a hidden one (a checksum, or what a killed write has left) does not."""
    parts = name.split("/")
    if parts[-1].startswith("."):
        return False
    return name == "metadata" or parts[0] in WHOLE or parts[0] == "state" and any(part in OF_STATE for part in parts)


def _inside(target: Path, name: str) -> Path:
    if ".." in name.split("/"):
        raise ValueError(f"{name!r} leads out of the checkpoint")
    return target / name


def _of_shadow(name: str, data: bytes, target: Path) -> bytes:
    if "/_metadata/v2/" not in name:  # (2)
        return data
    return re.sub(rb'"[^"]*?/state/(\d+)/_stateSchema/', rb'"' + str(target).encode() + rb"/state/\1/_stateSchema/", data)
