"""The walk through one or more traces, stop by stop: the world of every engine, and what the step did, in a few words.

1. Each engine's events become its worlds (world_changes.py), one per moment.
2. The walks are merged: the same moment (batch, attempt, step, occurrence) of two engines is one stop. At a step that only one
   engine shows (real Spark tells less than the model), the others stay as they were.
3. A stop has the caption of its step: one line, or one for each engine if they differ.

    model   trigger latestOffset walCommit getBatch ...
    spark   trigger latestOffset walCommit          ...      -> stops trigger latestOffset walCommit getBatch ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.sentences import caption, caption_lines
from minispark_stream.lens.view.state_files import StoreFiles, StorePlace
from minispark_stream.lens.view.walk import Key, Moment, failed
from minispark_stream.lens.view.world import LogEntry, SourceView, World
from minispark_stream.lens.view.world_changes import worlds

T = TypeVar("T")


@dataclass(frozen=True)
class Stop:
    """What is shown at one step. `here` are the engines that took it, `worlds` is the present world of each engine.

    `caption` says in a few words what the step has done in this batch so far; it has several lines if the engines differ.
    """

    moment: Moment
    here: tuple[str, ...]
    worlds: Mapping[str, World]
    caption: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether something went wrong in this step, on any engine."""
        return any(failed(self.worlds[engine].moment.event) for engine in self.here)

    @property
    def batch(self) -> tuple[int | None, int]:
        """Batch id and attempt: a batch that is run again after a restart is another one."""
        return (self.moment.batch_id, self.moment.attempt)


def stops(recordings: Mapping[str, Recording]) -> tuple[Stop, ...]:
    """The steps of one or more traces, in the order in which they are shown."""
    walks: dict[str, dict[Key, World]] = {
        engine: {w.moment.key: w for w in worlds(recording.events)} for engine, recording in recordings.items()  # (1)
    }
    by_batch = [
        {batch: list(keys) for batch, keys in groupby(walk, key=lambda key: key[:2])} for walk in walks.values()
    ]
    found: list[Stop] = []
    latest: dict[str, World] = {}
    for batch in merged([list(groups) for groups in by_batch]):  # (2)
        order = merged([groups.get(batch, []) for groups in by_batch])
        captions: dict[str, dict[str, dict[str, None]]] = {engine: {} for engine in walks}
        for key in order:
            here = {engine: walk[key] for engine, walk in walks.items() if key in walk}
            latest = {**latest, **here}
            for engine, world in here.items():
                captions[engine].setdefault(key[2], {})[caption(world.moment.event)] = None
            said = {engine: {key[2]: " | ".join(filter(None, of[key[2]]))} for engine, of in captions.items() if key[2] in of}
            lines = tuple(caption_lines(key[2], said))  # (3)
            found.append(Stop(next(iter(here.values())).moment, tuple(here), latest, lines))
    return tuple(found)


def merged(walks: Sequence[Sequence[T]]) -> list[T]:
    """All items once, in the order of the first walk; items that only others have are inserted where the others have them."""
    order = list(walks[0]) if walks else []
    for walk in walks[1:]:
        at = 0
        for item in walk:
            if item in order:
                at = order.index(item) + 1
            else:
                order.insert(at, item)
                at += 1
    return order


# -- two engines -------------------------------------------------------------------------------------------

def completed(world: World, other: World) -> World:
    """A world in which what this trace does not tell is taken from the other: missing values are not a difference."""
    own, others_sources = ({s.name: s for s in w.sources} for w in (world, other))
    operators = {o.operator_id: o for o in other.operators}
    mark, others = world.watermark, other.watermark
    return replace(
        world,
        offset_log=_entries(world.offset_log, other.offset_log),
        commit_log=_entries(world.commit_log, other.commit_log),
        sources=tuple(_source(s, others_sources.get(name, s)) for name, s in sorted({**others_sources, **own}.items())),
        watermark=replace(
            mark, measured=mark.measured or others.measured,
            **{name: getattr(others, name) for name in ("late", "eviction", "next") if getattr(mark, name) is None},
        ),
        operators=tuple(
            replace(
                o, rows=known.rows, num_rows=known.num_rows, functions=known.functions, places=known.places,
                files=_files(o.files, known.files),
            )
            if o.rows is None and (known := operators.get(o.operator_id)) is not None else o
            for o in world.operators
        ),
        rows_out=other.rows_out if world.rows_out is None else world.rows_out,
        num_rows_out=other.num_rows_out if world.num_rows_out in (None, -1) else world.num_rows_out,
    )


def _entries(log: tuple[LogEntry, ...], other: tuple[LogEntry, ...]) -> tuple[LogEntry, ...]:
    texts = {entry.id: entry.text for entry in other}
    return tuple(replace(e, text=texts.get(e.id)) if e.text is None else e for e in log)


def _files(files: Mapping[StorePlace, StoreFiles], other: Mapping[StorePlace, StoreFiles]) -> dict[StorePlace, StoreFiles]:
    """Files with what the other trace knows: Spark reports only the snapshots of some stores, and no deletions."""
    found = {}
    for place, own in files.items():
        known = other.get(place, own)
        found[place] = replace(own, deleted=own.deleted or known.deleted) if own.tells_snapshots else known
    return found


def _source(source: SourceView, other: SourceView) -> SourceView:
    unknown = {name: getattr(other, name) for name in ("done", "rows", "num_rows") if getattr(source, name) is None}
    files = any(entry.files for entry in source.log)
    return replace(source, log=source.log if files else other.log, **unknown)
