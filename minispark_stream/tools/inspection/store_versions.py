"""The versions of one partition of a store, from its files alone (About state: delta and snapshot files).

1. `replay` goes through all files once, oldest first. A delta is applied to the version before it; a snapshot replaces it,
   and must be equal to it. So the number of keys of every version is found, and every missing or damaged file.
2. After a gap or a damaged file nothing is known until the next snapshot.
3. `load` brings one version, as a restart would: from the newest snapshot up to it that can be read, and the deltas after it.

    1.delta {a}  2.delta {b}  3.delta {-a}  3.snapshot {b}  5.delta {c}
    replay       1 key        2 keys        1 key           unknown: 4.delta is missing

The files are not trusted: besides StateFiles' checks, no more than `max_bytes` of keys and values are held. If the files
of a store together are larger than that, `replay` begins at the newest snapshot.

Differs from Spark: a restart reads only the files that it needs, so damage in the others is seen here first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.errors import PySparkException

from minispark_stream.engine.checkpointing.lz4_block import LimitExceeded
from minispark_stream.engine.state.replay import bases
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import Change, records

DAMAGED = (ValueError, PySparkException, OSError)


class State:
    """The keys and values of a version, and how many bytes they have."""

    def __init__(self, entries: dict[bytes, bytes]):
        self.entries = entries
        self.num_bytes = _bytes(entries)

    def apply(self, delta: list[Change]) -> None:
        """Change the state as a delta file says; a record without a value removes its key."""
        changes = dict(records(delta))
        before = {k: v for k in changes if (v := self.entries.get(k)) is not None}
        puts = {k: v for k, v in changes.items() if v is not None}
        self.entries.update(puts)
        for key in [k for k, v in changes.items() if v is None and k in before]:
            del self.entries[key]
        self.num_bytes += _bytes(puts) - _bytes(before)


def _bytes(entries: Mapping[bytes, bytes]) -> int:
    return sum(map(len, entries)) + sum(map(len, entries.values()))


@dataclass(frozen=True)
class Step:
    """A version in a replay. `state` is None when it is not known, and is changed by the next step."""

    version: int
    state: State | None
    damage: Exception | None = None


class StoreVersions:
    """`versions`: version -> suffix ("delta", "snapshot") -> size of the file in bytes."""

    def __init__(self, files: StateFiles, versions: Mapping[int, Mapping[str, int]], max_bytes: int):
        self.files, self.max_bytes = files, max_bytes
        self.versions = {v: versions[v] for v in sorted(versions)}

    def replay(self) -> Iterator[Step]:  # (1)
        total = sum(sum(suffixes.values()) for suffixes in self.versions.values())
        snapshots = [v for v, suffixes in self.versions.items() if "snapshot" in suffixes]
        first = snapshots[-1] if snapshots and total > self.max_bytes else 0
        state: State | None = State({})
        last, was_known = 0, True
        for version in self.versions:
            if version < first:
                yield Step(version, None)
                continue
            before = state if version == last + 1 else None  # (2)
            state, damage = self._step(before, version)
            if state is None and damage is None and (was_known or version != last + 1):
                damage = ValueError(f"{self.files.root}: {self._lacks(last, version)}")
            yield Step(version, state, damage)
            last, was_known = version, state is not None

    def load(self, version: int) -> State:  # (3)
        """Raises ValueError when the version is not on disk, or what is wrong with the files that it needs."""
        if version == 0:
            return State({})
        if version not in self.versions:
            on_disk = f"{min(self.versions)} to {max(self.versions)} are" if self.versions else "none is"
            raise ValueError(f"{self.files.root}: version {version} is not on disk, {on_disk}")
        errors: list[Exception] = []
        for base in bases((v for v, suffixes in self.versions.items() if "snapshot" in suffixes), version):
            try:
                return self._load_from(base, version)
            except DAMAGED as e:
                errors.append(e)
        raise errors[0]

    def load_two(self, a: int, b: int) -> tuple[State, State]:
        """Two versions; the later one from the earlier one if the deltas between them are there. Raises: as `load` does."""
        first, last = sorted((a, b))
        state = self.load(first)
        try:
            later = self._continue(State(dict(state.entries)), first, last)
        except DAMAGED:
            later = self.load(last)
        return (state, later) if a <= b else (later, state)

    def _load_from(self, base: int, version: int) -> State:
        state = self._snapshot(base) if base else State({})
        self._check(state, base)
        return self._continue(state, base, version)

    def _continue(self, state: State, base: int, version: int) -> State:
        """Apply the deltas after `base` up to `version`."""
        last = base
        for v in [v for v in self.versions if base < v <= version]:
            if v != last + 1 or "delta" not in self.versions[v]:
                raise ValueError(f"{self.files.root}: {self._lacks(last, v)}")
            state.apply(self.files.read_delta(v))
            self._check(state, v)
            last = v
        if last != version:
            raise ValueError(f"{self.files.root}: version {version} is not on disk")
        return state

    def _step(self, before: State | None, version: int) -> tuple[State | None, Exception | None]:
        state: State | None = None
        damage: Exception | None = None
        if before is not None and "delta" in self.versions[version]:
            try:
                before.apply(self.files.read_delta(version))
                self._check(before, version)
                state = before
            except DAMAGED as e:
                damage = e
        if "snapshot" in self.versions[version]:
            try:
                snapshot = self._snapshot(version)
                self._check(snapshot, version)
                if state is not None and state.entries != snapshot.entries:
                    damage = ValueError(f"{self.files.root}/{version}.snapshot is not what the deltas before it add up to")
                state = snapshot
            except DAMAGED as e:
                damage = damage or e
        return state, damage

    def _snapshot(self, version: int) -> State:
        state = State({})
        state.apply(self.files.read_snapshot(version))
        return state

    def _check(self, state: State, version: int) -> None:
        if state.num_bytes > self.max_bytes:
            raise LimitExceeded(
                f"{self.files.root}: version {version} has more than {self.max_bytes:,} bytes of keys and values, "
                "which is the most that is read (max_bytes)"
            )

    def _lacks(self, last: int, version: int) -> str:
        if version == last + 1:
            return f"version {last} is not known, and there is no {version}.snapshot"
        if version == last + 2:
            return f"{last + 1}.delta is missing"
        return f"{last + 1}.delta to {version - 1}.delta are missing"
