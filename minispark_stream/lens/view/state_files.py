"""The files of a state store, as the steps of a trace tell them: who wrote which, which are deleted, and what a load reads.

1. Batch N reads version N and writes version N + 1, as a delta, in every partition of every store.
2. In the background, maintenance writes a snapshot of a version, and deletes the files that none of the kept versions needs.
3. To load version v, the newest snapshot up to v and the deltas after it are read. This happens when a run begins, and when a
   task runs in a process that has no version of the store in memory.
4. A snapshot of RocksDB, a zip, names the *tables* (SST files) of its version, and shares them with other versions. The first
   zip that names a table has added it; the table is deleted when no zip names it any more. Tables have long names, so they are
   numbered in the order in which they were added.
5. Partitions and stores with the same files are one chain. Real Spark reports only for some stores which version was the last
   to get a snapshot, and no deletions; its checkpoint says which zips there are, and their tables.

    batch 0   batch 1   batch 2   batch 3
                        3.snapshot              made by maintenance
    (1.delta) (2.delta) 3.delta   4.delta       load version 4: 3.snapshot, 4.delta
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from minispark_stream.engine.state.replay import bases, file_names
from minispark_stream.engine.state.state_files import LAST_UPLOADED_OF, last_uploaded
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.words import plural

MOST_PARTITIONS = 1000
_FILE = re.compile(r"(\d{1,18})(?:_[0-9a-f-]{36})?\.(delta|snapshot|changelog|zip)")

StorePlace = tuple[int, int, str]  # operator, partition, store


@dataclass(frozen=True)
class StoreFiles:
    """What is known about one store in one partition. `deltas`: how many times each version was written. `suffixes`: those of
    deltas and snapshots. `whole`: the versions that a batch wrote as a snapshot, as RocksDB does without changelogs. `tables`:
    the names of the tables of each snapshot, as far as they are known. `deleted` has files of versions, and tables.

    `tells_snapshots` is False for a store that is not in real Spark's reports.
    """

    deltas: Mapping[int, int] = field(default_factory=dict)
    snapshots: frozenset[int] = frozenset()
    deleted: frozenset[str] = frozenset()
    tells_snapshots: bool = True
    suffixes: tuple[str, str] = ("delta", "snapshot")
    whole: frozenset[int] = frozenset()
    tables: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def load(self, version: int) -> tuple[str, ...] | None:
        """(3) The files that loading a version reads; None if the trace does not have all of them."""
        base = bases((v for v in self.snapshots if f"{v}.{self.suffixes[1]}" not in self.deleted), version)[0]
        is_known = self.tells_snapshots and all(v in self.deltas for v in range(base + 1, version + 1))
        return tuple(file_names(base, version, *self.suffixes)) if is_known else None

    def numbers(self) -> dict[str, int]:
        """(4) The number of each table."""
        names = (name for version in sorted(self.tables) for name in sorted(self.tables[version]))
        return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}

    def with_snapshot(self, version: int, tables: Mapping[str, Any]) -> StoreFiles:
        known = {version: frozenset(tables)} if tables else {}
        return replace(self, snapshots=self.snapshots | {version}, tables={**self.tables, **known})


@dataclass(frozen=True)
class Load:
    """The version that a run began with, and the files that it read."""

    run: int
    version: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Chain:
    """The files of some stores of an operator that have the same files. `next_load` is what loading `newest` reads. `tables`:
    the numbers of the tables of each snapshot; `gone`: those that are deleted."""

    operator: int
    title: str
    places: str
    newest: int
    deltas: Mapping[int, int]
    snapshots: tuple[int, ...]
    deleted: tuple[str, ...]
    next_load: tuple[str, ...] | None
    loads: tuple[Load, ...]
    tells_snapshots: bool
    suffixes: tuple[str, str] = ("delta", "snapshot")
    whole: tuple[int, ...] = ()
    tables: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    gone: tuple[int, ...] = ()

    def words(self, names: tuple[str, ...]) -> str:
        """The files that are read, in words, with the tables of the snapshot that comes first."""
        first, *more = names
        version = int(first.partition(".")[0])
        if version in self.tables and first.endswith(self.suffixes[1]):
            first += f" with {table_words(self.tables[version])}"
        few = ", ".join([first, *more])
        return few if len(names) <= 8 else f"{first}, {more[0]} and so on up to {more[-1]} ({len(names)} files)"


def table_words(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    listed = ", ".join(map(str, found[:-1])) + " and " if len(found) > 1 else ""
    return f"{'tables' if len(found) > 1 else 'table'} {listed}{found[-1]}"


def chains(recording: Recording) -> tuple[Chain, ...]:
    """The chains of every operator; none if no state was written."""
    files: dict[StorePlace, StoreFiles] = {}
    loads: dict[StorePlace, list[Load]] = {}
    names: dict[int, str] = {}
    run, begins = 0, set[StorePlace]()
    for event in recording.events:
        if event.step == "populateStartOffsets":
            run, begins = run + 1, set()
        if event.step == "stateOperator" and event.error is None:
            operator, version = event.inputs.get("operatorId") or 0, event.inputs.get("version")
            names[operator] = str(event.inputs.get("operator"))
            for place in places(event) if version else ():
                known = files.get(place)
                if known and place not in begins and version and (read := known.load(version)) is not None:
                    loads.setdefault(place, []).append(Load(run, version, read))
            begins.update(places(event))
        files.update(changed(files, event))
    return tuple(chain for operator in sorted(names) for chain in chains_of(operator, names[operator], files, loads))


def changed(files: Mapping[StorePlace, StoreFiles], event: Event) -> dict[StorePlace, StoreFiles]:
    """The files of the stores that a step has changed, after this step."""
    if event.step == "maintenance":
        return _maintained(files, event)
    version = event.inputs.get("version")
    if event.step != "stateOperator" or event.error is not None or version is None:
        return {}
    found = {}
    for place in places(event):
        known = files.get(place, StoreFiles())
        deltas = {**known.deltas, version + 1: known.deltas.get(version + 1, 0) + 1}  # (1)
        found[place] = _reported(replace(known, deltas=deltas), event, place, version + 1)
    for zipped in event.outputs.get("zips", ()):
        partition, of = zipped.get("partition") or 0, zipped.get("version")
        place = (event.inputs.get("operatorId") or 0, partition, str(zipped.get("store")))
        if place in found and of is not None:
            found[place] = found[place].with_snapshot(of, zipped.get("tables", {}))
    return found


def places(event: Event) -> Iterator[StorePlace]:
    """The stores that a stateful operator has written."""
    operator, metrics = event.inputs.get("operatorId") or 0, event.outputs.get("metrics", {})
    told = (LAST_UPLOADED_OF.fullmatch(str(name)) for name in metrics.get("customMetrics", {}))
    stores = event.inputs.get("stores", ()) or sorted({found["store"] for found in told if found}) or ("default",)
    partitions = metrics.get("numShufflePartitions") or 0  # of the query; some operators have one partition
    if instances := metrics.get("numStateStoreInstances"):
        partitions = min(partitions, -(-instances // len(stores)))
    for partition in range(min(partitions, MOST_PARTITIONS)):
        yield from ((operator, partition, str(store)) for store in stores)


def _maintained(files: Mapping[StorePlace, StoreFiles], event: Event) -> dict[StorePlace, StoreFiles]:  # (2)
    operator, partition = (event.inputs.get(name) for name in ("operatorId", "partition"))
    place = operator or 0, partition or 0, str(event.inputs.get("store"))
    known, deleted = files.get(place, StoreFiles()), set[str]()
    if (snapshot := event.outputs.get("snapshot")) is not None:
        known = known.with_snapshot(snapshot, event.outputs.get("tables", {}))
    for name in map(str, event.outputs.get("deleted", ())):
        file = _FILE.fullmatch(name)
        deleted.add(f"{file[1]}.{file[2]}" if file else name.removeprefix("SSTs/"))
    return {place: replace(known, deleted=known.deleted | deleted)}


def _reported(known: StoreFiles, event: Event, place: StorePlace, written: int) -> StoreFiles:
    """With what real Spark reports about snapshots, and the model about those that a batch wrote."""
    told = event.outputs.get("metrics", {}).get("customMetrics", {})
    suffixes = ("changelog", "zip") if any(str(name).startswith("rocksdb") for name in told) else known.suffixes
    version = told.get(last_uploaded(*place[1:]))
    return replace(
        known,
        suffixes=suffixes,
        tells_snapshots=event.engine == "model" or version is not None,
        snapshots=known.snapshots | ({version} if version is not None and version > 0 else set()),
        whole=known.whole | ({written} if version == written and suffixes[1] == "zip" else set()),
    )


def chains_of(
    operator: int, name: str, files: Mapping[StorePlace, StoreFiles], loads: Mapping[StorePlace, list[Load]] | None = None
) -> Iterator[Chain]:
    """(5) One chain for all partitions and stores of an operator with the same files and loads."""
    groups: dict[str, list[StorePlace]] = {}
    found: dict[StorePlace, Chain] = {}
    for place in sorted(place for place in files if place[0] == operator and files[place].deltas):
        one = files[place]
        newest, numbers = max(one.deltas), one.numbers()
        found[place] = Chain(
            operator=operator,
            title=f"operator {operator}: {name}",
            places="",
            newest=newest,
            deltas=one.deltas,
            snapshots=tuple(sorted(one.snapshots)),
            deleted=tuple(sorted(name for name in one.deleted if _FILE.fullmatch(name))),
            next_load=one.load(newest),
            loads=tuple((loads or {}).get(place, ())),
            tells_snapshots=one.tells_snapshots,
            suffixes=one.suffixes,
            whole=tuple(sorted(one.whole)),
            tables={v: tuple(sorted(numbers[name] for name in one.tables[v])) for v in sorted(one.tables)},
            gone=tuple(number for name, number in numbers.items() if name in one.deleted),
        )
        groups.setdefault(repr(found[place]), []).append(place)
    for same in groups.values():
        yield replace(found[same[0]], places=_place_words(same))


def _place_words(found: list[StorePlace]) -> str:
    partitions = sorted({partition for _, partition, _ in found})
    stores = sorted({store for _, _, store in found})
    first, last = partitions[0], partitions[-1]
    if len(partitions) == 1:
        words = f"partition {first}"
    elif len(partitions) == 2:
        words = f"partitions {first} and {last}"
    elif partitions == list(range(first, last + 1)):
        words = f"partitions {first} to {last}"
    else:
        words = "partitions " + ", ".join(map(str, partitions))
    if stores == ["default"]:
        return words
    if len(found) < len(partitions) * len(stores):
        return f"{len(found)} stores of {words}"
    return f"{words}, {stores[0] if len(stores) == 1 else plural(len(stores), 'store')}"
