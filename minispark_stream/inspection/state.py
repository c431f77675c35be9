"""The state of a checkpoint: which versions there are, what is in them, and whether they can be loaded (About state).

1. The listing gives operators, partitions, stores and the versions on disk. Version N is the state before batch N; batch N
   writes version N + 1.
2. Each store is replayed once, from its oldest file to its newest: deltas are applied; a snapshot must say the same as the
   deltas before it. That gives the number of keys of every version, and finds every missing or damaged file.
3. A store whose files, decompressed, may be larger than `max_bytes` is not replayed from the oldest file but from the newest
   snapshot, and one whose state is larger still is listed only.
4. `rows`, `find` and `diff` load a version when asked: from the newest snapshot up to it that can be read, and the deltas after it.

    1.delta {a}  2.delta {b}  3.delta {-a}  3.snapshot {b}      keys 1, 2, 1; version 3 is 3.snapshot

Only a few rows are decoded for the report; the bytes of the state are dropped after each store.
Differs from Spark: a restart reads only what it needs, so it does not find damage in files that are not needed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.inspection.report import StateChange, StateRow
from minispark_stream.inspection.values import column_names, decode_rows
from minispark_stream.state.state_files import Pair, StateFiles
from minispark_stream.state.state_store import StateStoreConf, StateStoreId

State = dict[bytes, bytes]
DAMAGED = (ValueError, PySparkException, OSError)


@dataclass(frozen=True)
class StoreKey:
    operator_id: int
    partition: int
    name: str


class TooLarge(ValueError):
    """A state that has more bytes than may be held in memory."""


class StoreOnDisk:
    """One partition of one store. `versions`: version -> suffix ("delta", "snapshot") -> size in bytes."""

    def __init__(self, files: StateFiles, versions: Mapping[int, Mapping[str, int]], max_bytes: int):
        self.files, self.versions, self.max_bytes = files, versions, max_bytes

    def replay(self, wanted: int | None = None) -> Iterator[tuple[int, State | None, Exception | None]]:  # (2)
        """(version, state or None when it cannot be known, what is wrong with its files), oldest version first.

        The state is the same dict each time: it is changed by the next step.
        """
        state: State | None = None
        size = 0
        before = 0
        for version in sorted(self.versions):
            if wanted is not None and version > wanted:
                return
            suffixes = self.versions[version]
            wrong: Exception | None = None
            if version != before + 1 and before:
                missing = f"{before + 1}.delta" if version == before + 2 else f"{before + 1}.delta to {version - 1}.delta"
                state, wrong = None, None if "snapshot" in suffixes else ValueError(f"missing: {missing}")
            elif version == 1 and "delta" in suffixes:
                state, size = {}, 0
            elif not before and "snapshot" not in suffixes:
                wrong = ValueError("no snapshot and no delta before it")
            before = version
            if state is not None and "delta" in suffixes:
                try:
                    size += apply(state, self.files.read_delta(version))
                    self._check_size(size)
                except DAMAGED as e:
                    state, wrong = None, e
            elif state is not None and "snapshot" not in suffixes:
                state = None
            if "snapshot" in suffixes:
                try:
                    snapshot = self.files.read_snapshot(version)
                    if state is not None and state != snapshot:
                        wrong = ValueError(f"{version}.snapshot is not what the deltas before it add up to")
                    state, size = snapshot, sum(map(len, snapshot)) + sum(map(len, snapshot.values()))
                    self._check_size(size)
                except DAMAGED as e:
                    wrong = wrong or e
            yield version, state, wrong
