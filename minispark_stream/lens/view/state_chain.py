"""The files of a state store as a chain: which batch wrote which version, where there is a snapshot, what a load reads.

1. Batch N reads version N and writes version N + 1, as a delta, in every partition of every store.
2. In the background, maintenance writes a snapshot of a version, and deletes files that no version needs that is kept.
3. To load version v is to read its newest snapshot and the deltas after it. That happens when a run begins, and when a task
   comes to a process that has nothing of the store in memory.
4. Partitions and stores whose files are the same are one chain; of a long chain the newest `MOST` versions are shown. Real
   Spark reports of some stores which version it has made a snapshot of last, and no deletions.

    batch 0   batch 1   batch 2   batch 3
                        3.snapshot              made by maintenance
    (1.delta) (2.delta) 3.delta   4.delta       load version 4: 3.snapshot, 4.delta
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from minispark_stream.engine.state.replay import bases, file_names
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.values import as_int, as_list, as_map
from minispark_stream.lens.view.sheet import GONE, GREY, MARGIN, MARKED, NEW, PALE, VIOLET, Sheet, Shown, clipped
from minispark_stream.lens.view.words import plural

MOST, MOST_PARTITIONS = 14, 1000
LABEL, COLUMN, BOX, TALL = 172.0, 82.0, 74.0, 20.0
_SNAPSHOT = re.compile(r"SnapshotLastUploaded\.partition_\d+_(.+)")
_FILE = re.compile(r"(\d{1,18})(?:_[0-9a-f-]{36})?\.(delta|snapshot|changelog|zip)")


@dataclass
class Files:
    """What is known of one store in one partition. `deltas`: how many times each version was written. `suffixes`: what deltas
    and snapshots are called. `whole`: the versions that a batch wrote as a snapshot, as RocksDB does without changelogs.

    `tells_snapshots` is False for a store of which real Spark's reports do not speak.
    """

    deltas: dict[int, int] = field(default_factory=dict)
    snapshots: set[int] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    tells_snapshots: bool = True
    suffixes: tuple[str, str] = ("delta", "snapshot")
    whole: set[int] = field(default_factory=set)

    def load(self, version: int) -> tuple[str, ...] | None:
        """(3) The files that loading a version reads; None: the trace does not know all of them."""
        base = bases((v for v in self.snapshots if f"{v}.{self.suffixes[1]}" not in self.deleted), version)[0]
        is_known = self.tells_snapshots and all(v in self.deltas for v in range(base + 1, version + 1))
        return tuple(file_names(base, version, *self.suffixes)) if is_known else None


@dataclass(frozen=True)
class Load:
    """The version that a run began with, and the files that it read."""

    run: int
    version: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Chain:
    """The files of some stores of an operator that have the same. `next_load` is what loading `newest` reads."""

    title: str
    places: str
    newest: int
    deltas: Mapping[int, int]
    snapshots: frozenset[int]
    deleted: frozenset[str]
    next_load: tuple[str, ...] | None
    loads: tuple[Load, ...]
    tells_snapshots: bool
    suffixes: tuple[str, str] = ("delta", "snapshot")
    whole: frozenset[int] = frozenset()


Place = tuple[int, int, str]  # operator, partition, store


def chains(recording: Recording) -> tuple[Chain, ...]:
    """The chains of every operator; none where no state was written."""
    files: dict[Place, Files] = {}
    loads: dict[Place, list[Load]] = {}
    names: dict[int, str] = {}
    run, begins = 0, set[Place]()
    for event in recording.events:
        if event.step == "populateStartOffsets":
            run, begins = run + 1, set()
        if event.step == "maintenance":
            _maintained(files, event)
        if event.step != "stateOperator" or event.error is not None:
            continue
        operator = as_int(event.inputs.get("operatorId")) or 0
        version = as_int(event.inputs.get("version"))
        names[operator] = str(event.inputs.get("operator"))
        if version is None:
            continue
        for place in _places(event, operator):
            known = files.setdefault(place, Files())
            if place not in begins and version and (read := known.load(version)) is not None:
                loads.setdefault(place, []).append(Load(run, version, read))
            begins.add(place)
            known.deltas[version + 1] = known.deltas.get(version + 1, 0) + 1  # (1)
            _reported(known, event, place, version + 1)
    return tuple(_grouped(files, loads, names))


def _places(event: Event, operator: int) -> Iterator[Place]:
    metrics = as_map(event.outputs.get("metrics"))
    told = (_SNAPSHOT.fullmatch(str(name)) for name in as_map(metrics.get("customMetrics")))
    stores = as_list(event.inputs.get("stores")) or sorted({found[1] for found in told if found}) or ("default",)
    for partition in range(min(as_int(metrics.get("numShufflePartitions")) or 0, MOST_PARTITIONS)):
        yield from ((operator, partition, str(store)) for store in stores)


def _maintained(files: dict[Place, Files], event: Event) -> None:  # (2)
    operator, partition = (as_int(event.inputs.get(name)) for name in ("operatorId", "partition"))
    known = files.setdefault((operator or 0, partition or 0, str(event.inputs.get("store"))), Files())
    if (snapshot := as_int(event.outputs.get("snapshot"))) is not None:
        known.snapshots.add(snapshot)
    deleted = (_FILE.fullmatch(str(name)) for name in as_list(event.outputs.get("deleted")))
    known.deleted.update(f"{found[1]}.{found[2]}" for found in deleted if found)


def _reported(known: Files, event: Event, place: Place, written: int) -> None:
    """What real Spark tells of snapshots, and the model of those that a batch wrote."""
    told = as_map(as_map(event.outputs.get("metrics")).get("customMetrics"))
    if any(str(name).startswith("rocksdb") for name in told):
        known.suffixes = ("changelog", "zip")
    version = as_int(told.get(f"SnapshotLastUploaded.partition_{place[1]}_{place[2]}"))
    known.tells_snapshots = event.engine == "model" or version is not None
    if version is not None and version > 0:
        known.snapshots.add(version)
    if version == written and known.suffixes[1] == "zip":
        known.whole.add(version)


def _grouped(files: Mapping[Place, Files], loads: Mapping[Place, list[Load]], names: Mapping[int, str]) -> Iterator[Chain]:
    """(4) One chain for all partitions and stores of an operator with the same files and loads."""
    groups: dict[str, list[Place]] = {}
    for place in sorted(files):
        one = files[place]
        if place[0] in names and one.deltas:
            files_of = (one.deltas, sorted(one.snapshots), sorted(one.deleted), one.tells_snapshots, sorted(one.whole))
            alike = (place[0], files_of, loads.get(place))
            groups.setdefault(repr(alike), []).append(place)
    for places in groups.values():
        operator, one = places[0][0], files[places[0]]
        newest = max(one.deltas)
        yield Chain(
            title=f"operator {operator}: {names[operator]}",
            places=_place_words(places),
            newest=newest,
            deltas=dict(one.deltas),
            snapshots=frozenset(one.snapshots),
            deleted=frozenset(one.deleted),
            next_load=one.load(newest),
            loads=tuple(loads.get(places[0], ())),
            tells_snapshots=one.tells_snapshots,
            suffixes=one.suffixes,
            whole=frozenset(one.whole),
        )


def _place_words(places: list[Place]) -> str:
    partitions = sorted({partition for _, partition, _ in places})
    stores = sorted({store for _, _, store in places})
    first, last = partitions[0], partitions[-1]
    if len(partitions) == 1:
        words = f"partition {first}"
    elif partitions == list(range(first, last + 1)):
        words = f"partitions {first} to {last}"
    else:
        words = "partitions " + ", ".join(map(str, partitions))
    if stores == ["default"]:
        return words
    if len(places) < len(partitions) * len(stores):
        return f"{len(places)} stores of {words}"
    return f"{words}, {stores[0] if len(stores) == 1 else plural(len(stores), 'store')}"


# -- the drawing -------------------------------------------------------------------------------------------

CAPTION = (
    "Every batch adds a delta: only what it has changed. A snapshot is the whole state at a version. To load the newest "
    "version, a task reads the framed files: the newest snapshot and the deltas after it; without a snapshot, all of them."
)


def svg(found: tuple[Chain, ...]) -> str | None:
    """The picture; None if there is no state."""
    if not found:
        return None
    legend: list[Shown] = [
        (NEW, "delta, written by a batch", True),
        (VIOLET, "snapshot, made by maintenance", any(one.snapshots for one in found)),
        (MARKED, "read to load the newest version", any(one.next_load for one in found)),
        (GONE, "deleted by maintenance", any(one.deleted for one in found)),
    ]
    newest = max(one.newest for one in found)
    first = max(newest - MOST + 1, min(min(one.deltas) for one in found))
    width = 2 * MARGIN + LABEL + COLUMN * max(newest - first + 1, 6)
    sheet = Sheet("state-files", width, "The files of the state", CAPTION, legend)
    title = ""
    for one in found:
        if one.title != title:
            title = one.title
            sheet.words(MARGIN, sheet.top + 6, title, size=11, bold=True)
            sheet.top += 22
            for version in range(first, newest + 1):
                x = MARGIN + LABEL + COLUMN * (version - first) + BOX / 2
                sheet.words(x, sheet.top + 4, f"batch {version - 1}", size=8.5, ink=GREY, align="center")
            sheet.top += 16
        _chain(sheet, one, first)
    if any(min(one.deltas) < first for one in found):
        sheet.note(f"The newest {MOST} versions; those before them are left out.")
    return sheet.svg()


def _chain(sheet: Sheet, one: Chain, first: int) -> None:
    upper, lower = sheet.top, sheet.top + (TALL + 6 if one.snapshots else 0)
    sheet.line([MARGIN, sheet.width - MARGIN], [upper - 4] * 2, PALE, 0.8, layer=1)
    sheet.words(MARGIN, lower + TALL / 2, clipped(one.places, LABEL - 20, 9), size=9, bold=True)
    needed = one.next_load or ()
    delta, snapshot = one.suffixes
    for version in range(first, one.newest + 1):
        x = MARGIN + LABEL + COLUMN * (version - first)
        whole = "the whole state, made by " + (f"batch {version - 1}" if version in one.whole else "maintenance")
        has_delta = version in one.deltas and version not in one.whole
        for name, y, look, is_there, says in (
            (f"{version}.{snapshot}", upper, VIOLET, version in one.snapshots, whole),
            (f"{version}.{delta}", lower, NEW, has_delta, f"what batch {version - 1} has changed"),
        ):
            if is_there:
                look = GONE if name in one.deleted else MARKED if name in needed else look
                again = one.deltas.get(version, 1) > 1 and name.endswith(delta)
                tip = f"{name}: {says}{', written again when the batch ran again' if again else ''}"
                sheet.box(x, y, BOX, TALL, name + (" ×2" if again else ""), look, tip=tip, size=8.5)
    sheet.top = lower + TALL + 5
    for run, version, names in ((load.run, load.version, load.names) for load in one.loads):
        sheet.note(f"Run {run} began with version {version}: {_names(names)}.", MARGIN + LABEL)
    if not one.tells_snapshots:
        sheet.note("Whether there are snapshots of it, real Spark did not report.", MARGIN + LABEL)
    if needed:
        sheet.note(f"To load version {one.newest}: {_names(needed)}.", MARGIN + LABEL)
    sheet.top += 12


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{names[0]}, {names[1]} and so on up to {names[-1]} ({len(names)} files)"
