"""The versions of one partition of a store, from its files alone (About state: delta and snapshot files).

1. `replay` goes through all files once, the oldest first. A delta is applied to the version before it; a snapshot replaces what
   the deltas make, and must be equal to it. This finds the number of keys of every version, and every missing or damaged file.
2. After a gap or a damaged file, nothing is known until the next snapshot.
3. `load` makes one version, as a restart would: from the newest snapshot up to it that can be read, and the deltas after it.

    1.delta {a}  2.delta {b}  3.delta {-a}  3.snapshot {b}  5.delta {c}
    replay       1 key        2 keys        1 key           unknown: 4.delta is missing

A `StoreReader` reads the content of a file. The one for the HDFS-backed store is below. That for RocksDB is in
rocksdb/store_reader.py, where a delta is called changelog and a snapshot zip, a change may append to a value, and a key begins
with the number of its column family.

The files are not trusted: what a reader takes is lent from the budget of the inspection, and a version may need no more than
is left of it. If the files of a store are too large to read all of them, `replay` begins at the newest snapshot that the next
batch may need.

Differs from Spark: a restart reads only the files that it needs, so damage in the others is seen here first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from minispark_stream.engine.checkpointing.budget import BYTES_PER_RECORD, Budget, LimitExceeded
from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.engine.state.replay import bases
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import records
from minispark_stream.extras.rocksdb.changes import Append, Changes
from minispark_stream.tools.inspection.read_only_files import NotRead, is_unread

DAMAGED = (ValueError, PySparkException, OSError)


class NotLoaded(ValueError):
    """A version cannot be loaded. `condition`: Spark's error condition for it."""

    def __init__(self, message: str, condition: str):
        super().__init__(message)
        self.condition = condition


class StoreReader(Protocol):
    """Reads the files of a store. `delta` and `snapshot` are the suffixes of their names; a key begins with `family_size` bytes
    that identify its column family; `reads_all`: whether all files may be read to find the number of keys of each version.
    `missing`: Spark's error condition if a file does not exist; `goes_back`: whether Spark goes back to an older snapshot even
    if a delta after it is missing, which is the error then.
    """

    root: str
    delta: str
    snapshot: str
    missing: str
    goes_back: bool
    family_size: int
    reads_all: bool

    def read_delta(self, version: int) -> Changes: ...

    def read_snapshot(self, version: int) -> Changes: ...


class DeltaReader:
    """The files of an HDFS-backed store."""

    delta, snapshot, family_size, goes_back = "delta", "snapshot", 0, True
    missing = "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"

    def __init__(self, files: StateFiles, reads_all: bool):
        self.files, self.root, self.reads_all = files, files.root, reads_all

    def read_delta(self, version: int) -> Changes:
        return dict(records(self.files.read_delta(version)))

    def read_snapshot(self, version: int) -> Changes:
        return dict(records(self.files.read_snapshot(version)))


class ReplayedState:
    """The keys and values of a version, and the number of their bytes."""

    def __init__(self, entries: dict[bytes, bytes], family_size: int = 0):
        self.entries, self.family_size = entries, family_size
        self.num_bytes = num_bytes(entries)
        self._of_families = self._count(entries)

    def apply(self, changes: Changes) -> None:
        """Change the state as a file says; a record without a value removes its key."""
        before = {k: v for k in changes if (v := self.entries.get(k)) is not None}
        puts = {k: v.to(before.get(k)) if isinstance(v, Append) else v for k, v in changes.items() if v is not None}
        removed = [k for k, v in changes.items() if v is None and k in before]
        self.entries.update(puts)
        for key in removed:
            del self.entries[key]
        self.num_bytes += num_bytes(puts) - num_bytes(before)
        self._of_families += self._count(k for k in puts if k not in before) if self.family_size else Counter()
        self._of_families.subtract(self._count(removed))

    @property
    def memory(self) -> int:
        """The bytes of memory that it needs."""
        return self.num_bytes + BYTES_PER_RECORD * len(self.entries)

    def num_keys(self, family: bytes) -> int:
        """How many keys a column family has; for b"", all keys are counted."""
        return self._of_families[family] if family else len(self.entries)

    def of_family(self, family: bytes) -> dict[bytes, bytes]:
        """The keys of a column family without its number, and their values."""
        if not family:
            return self.entries
        return {k[len(family) :]: v for k, v in self.entries.items() if k.startswith(family)}

    def copy(self) -> ReplayedState:
        return ReplayedState(dict(self.entries), self.family_size)

    def _count(self, keys: Iterable[bytes]) -> Counter[bytes]:
        return Counter(k[: self.family_size] for k in keys) if self.family_size else Counter()


def _without_frames(error: Exception) -> Exception:
    """The error without the calls in which it was raised: what these had read would stay in memory as long as the error."""
    if is_unread(error) and not isinstance(error, LimitExceeded):
        return NotRead(str(error))
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def num_bytes(entries: Mapping[bytes, bytes]) -> int:
    return sum(map(len, entries)) + sum(map(len, entries.values()))


@dataclass(frozen=True)
class ReplayStep:
    """A version in a replay. `state` is None if it is not known, and is changed by the next step."""

    version: int
    state: ReplayedState | None
    damage: Exception | None = None


class StoreVersions:
    """The versions of one partition. `versions`: version -> suffix (one of the reader's) -> size of the file in bytes."""

    def __init__(self, reader: StoreReader, versions: Mapping[int, Mapping[str, int]], budget: Budget):
        self.reader, self.budget = reader, budget
        self.versions = {v: versions[v] for v in sorted(versions)}

    def replay(self, needed: int) -> Iterator[ReplayStep]:  # (1)
        """All versions; `needed` is the one with which the next batch begins."""
        first = 0 if self.reader.reads_all else bases(self._snapshots(), needed)[0]
        state: ReplayedState | None = self._nothing()
        last, was_known = 0, True
        for version in self.versions:
            if version < first:
                yield ReplayStep(version, None)
                continue
            before = state if version == last + 1 else None  # (2)
            state, damage = self._step(before, version)
            if state is None and damage is None and (was_known or version != last + 1):
                damage = self._missing(self._lacks(last, version))
            yield ReplayStep(version, state, damage)
            last, was_known = version, state is not None

    def load(self, version: int) -> ReplayedState:  # (3)
        """One version. Raises ValueError if it is not on disk, or the error of the files that it needs."""
        found = self._load(version)
        if isinstance(found, ReplayedState):
            return found
        raise found[0]

    def why_not_loaded(self, version: int) -> Exception | None:
        """Why a restart cannot load a version; None if it can."""
        found = self._load(version)
        if isinstance(found, ReplayedState):
            return None
        decisive = found[-1] if self.reader.goes_back else found[0]
        known = decisive.getCondition() if isinstance(decisive, PySparkException) else getattr(decisive, "condition", None)
        why = NotLoaded(re.sub(r"^\[[A-Z_.]+\] ", "", str(found[0])), known or "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED")
        return found[0] if is_unread(found[0]) else why

    def _load(self, version: int) -> ReplayedState | list[Exception]:
        """The version, or the errors of all bases that were tried."""
        if version == 0:
            return self._nothing()
        if version not in self.versions:
            on_disk = f"{min(self.versions)} to {max(self.versions)} are" if self.versions else "none is"
            return [self._missing(f"version {version} is not on disk, {on_disk}")]
        errors: list[Exception] = []
        for base in bases(self._snapshots(), version):
            try:
                return self._load_from(base, version)
            except DAMAGED as e:
                errors.append(_without_frames(e))
        return errors

    def load_two(self, a: int, b: int) -> tuple[ReplayedState, ReplayedState]:
        """Two versions; the later one is made from the earlier one if the deltas between them exist. Raises: as `load` does."""
        first, last = sorted((a, b))
        state = self.load(first)
        try:
            later = self._continue(state.copy(), first, last)
        except DAMAGED:
            later = self.load(last)
        return (state, later) if a <= b else (later, state)

    def _load_from(self, base: int, version: int) -> ReplayedState:
        state = self._snapshot(base) if base else self._nothing()
        self._check(state, base)
        return self._continue(state, base, version)

    def _continue(self, state: ReplayedState, base: int, version: int) -> ReplayedState:
        """Apply the deltas after `base` up to `version`."""
        last = base
        for v in [v for v in self.versions if base < v <= version]:
            if v != last + 1 or self.reader.delta not in self.versions[v]:
                raise self._missing(self._lacks(last, v))
            state.apply(self._delta(v))
            self._check(state, v)
            last = v
        if last != version:
            raise self._missing(f"version {version} is not on disk")
        return state

    def _step(self, before: ReplayedState | None, version: int) -> tuple[ReplayedState | None, Exception | None]:
        state: ReplayedState | None = None
        damage: Exception | None = None
        if before is not None and self.reader.delta in self.versions[version]:
            try:
                before.apply(self._delta(version))
                self._check(before, version)
                state = before
            except DAMAGED as e:
                damage = _without_frames(e)
        if self.reader.snapshot in self.versions[version]:
            try:
                snapshot = self._snapshot(version)
                self._check(snapshot, version)
                if state is not None and state.entries != snapshot.entries:
                    name, deltas = f"{version}.{self.reader.snapshot}", f"{self.reader.delta}s"
                    damage = ValueError(f"{self.reader.root}/{name} is not what the {deltas} before it add up to")
                state = snapshot
            except DAMAGED as e:
                damage = damage or _without_frames(e)
        return state, damage

    def _nothing(self) -> ReplayedState:
        return ReplayedState({}, self.reader.family_size)

    def _snapshots(self) -> list[int]:
        return [v for v, suffixes in self.versions.items() if self.reader.snapshot in suffixes]

    def _snapshot(self, version: int) -> ReplayedState:
        state = self._nothing()
        with self.budget.lent():
            changes = self.reader.read_snapshot(version)
        state.apply(changes)
        return state

    def _delta(self, version: int) -> Changes:
        with self.budget.lent():
            return self.reader.read_delta(version)

    def _check(self, state: ReplayedState, version: int) -> None:
        if state.memory > self.budget.left:
            raise LimitExceeded(
                f"{self.reader.root}: version {version} has {len(state.entries):,} keys, which need {state.memory:,} bytes of "
                f"memory; {self.budget.left:,} are left: allow more with --max-bytes (max_bytes)"
            )

    def _missing(self, what: str) -> NotLoaded:
        return NotLoaded(f"{self.reader.root}: {what}", self.reader.missing)

    def _lacks(self, last: int, version: int) -> str:
        delta = self.reader.delta
        if version == last + 1:
            return f"version {last} is not known, and there is no {version}.{self.reader.snapshot}"
        if version == last + 2:
            return f"{last + 1}.{delta} is missing"
        return f"{last + 1}.{delta} to {version - 1}.{delta} are missing"

