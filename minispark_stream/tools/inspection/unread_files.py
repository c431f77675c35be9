"""Which files of a source's folder no batch has read yet, or why there are none.

1. The path of a file source is a pattern, as in Hadoop: `*`, `?`, `[ab]` and `{a,b}` stand for something else.
2. A file whose name begins with "." or "_" is hidden. Folders called `name=value` are partitions; others are not looked into.
3. Only folders of this machine are looked at, and only patterns that Python reads in the same way.

    "/data/in"      3 files, 2 in the log    ->  "1 file in /data/in was not read by any batch yet, such as c.csv ..."
    "/data/[x]"     ->  "/data/[x] is a pattern, and no file fits it; there is a folder of exactly this name: ..."
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from glob import glob
from pathlib import Path
from urllib.parse import unquote, urlsplit

from minispark_stream.lens.view.words import plural

_PATTERN = re.compile(r"[*?\[\]{}\\]")
_HADOOP_ALONE = re.compile(r"[{}\\]|\[\^")  # (3)
MOST = 10_000  # files that are looked at
OPTIONS = "options such as pathGlobFilter, maxFileAge or latestFirst may leave files out"


def local_path(uri: str) -> str | None:
    """The path of a file on this machine; None if the file is elsewhere."""
    if uri.startswith("/"):
        return uri
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def unread(folder: str, read: Collection[str]) -> str | None:
    """What is to be said of a source's folder, in words; None if all its files were read, or if this cannot be known.

    Args:
        folder: the path of the source, as its plan has it.
        read: the files that are in the source's log, as URIs.
    """
    path = local_path(folder) if folder.startswith(("/", "file:")) else None
    if path is None:
        return None
    is_pattern = _PATTERN.search(path) is not None  # (1)
    if is_pattern and _HADOOP_ALONE.search(path):
        return None if read else f"{path} is a pattern; whether a file fits it was not checked"
    files = list(_files(Path(one) for one in (glob(path) if is_pattern else [path])))
    if is_pattern and not files:
        escaped = _PATTERN.sub(r"\\\g<0>", path)
        exact = f"; there is a folder of exactly this name, for which one writes {escaped}" if Path(path).exists() else ""
        return f"{path} is a pattern, and no file fits it{exact}"
    if not files:
        return f"there is no file in {path} (files whose names begin with . or _ do not count)"
    known = {local_path(one) for one in read}
    new = [file for file in files[:MOST] if str(file) not in known]
    if not new:
        return None
    return f"{plural(len(new), 'file')} in {path} that no batch has read so far, such as {new[0].name}; {OPTIONS}"


def _files(places: Iterator[Path]) -> Iterator[Path]:  # (2)
    for place in places:
        if place.is_file():
            yield place
        elif place.is_dir():
            inside = sorted(one for one in place.iterdir() if not one.name.startswith((".", "_")))
            yield from (one for one in inside if one.is_file())
            yield from _files(one for one in inside if one.is_dir() and "=" in one.name)
