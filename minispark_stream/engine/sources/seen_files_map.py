"""Which files has the source already seen?

Models: FileStreamSource.SeenFilesMap (Source document, "seenFiles").

A file counts as new if its path is not in the map, and if it is not older than files that the map may have forgotten. So a file
that is written again under the same path is not read again. The map forgets files that are more than `max_age_ms` older than
the *newest file*. The clock plays no part, so even a backlog of old files is read completely. The age limit only moves when
`purge` is called, so it is the same for all files of a listing.

    max age 10     add a@100, b@95;  purge -> border 90     c@91 new    d@89 too old    a@100 seen

Differs from Spark: nothing.
"""

from __future__ import annotations

from minispark_stream.engine.jvm.errors import illegal_argument


class SeenFilesMap:
    """Files (percent-encoded URIs) with their modification times in ms.

    Args:
        max_age_ms: how much older than the newest file a file may be; None: nothing is forgotten.
        file_name_only: whether names are compared without their folders.

    Raises:
        IllegalArgumentException: the age is negative.
    """

    def __init__(self, max_age_ms: int | None, file_name_only: bool):
        if max_age_ms is not None and max_age_ms < 0:
            raise illegal_argument("requirement failed")
        self._max_age_ms = max_age_ms
        self._file_name_only = file_name_only
        self._files: dict[str, int] = {}
        self._newest = 0
        self._border = 0

    def add(self, uri: str, timestamp: int) -> None:
        self._files[self._key(uri)] = timestamp
        self._newest = max(self._newest, timestamp)

    def is_new_file(self, uri: str, timestamp: int) -> bool:
        return timestamp >= self._border and self._key(uri) not in self._files

    def purge(self) -> int:
        """Forget files that are too old; returns how many these were."""
        if self._max_age_ms is None or self._newest - self._max_age_ms <= self._border:
            return 0
        self._border = self._newest - self._max_age_ms
        old = [uri for uri, timestamp in self._files.items() if timestamp < self._border]
        for uri in old:
            del self._files[uri]
        return len(old)

    def __len__(self) -> int:
        return len(self._files)

    def _key(self, uri: str) -> str:
        return uri.rsplit("/", 1)[-1] if self._file_name_only else uri
