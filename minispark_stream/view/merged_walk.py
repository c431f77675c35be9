"""The walk through one or more traces, stop by stop: what every engine's world looks like, and what the flow diagram shows.

1. Each engine's events become its worlds (world_changes.py), one per moment.
2. The walks are merged: the same moment (batch, attempt, step, how often) of two engines is one stop. At a step that only
   one engine shows (real Spark tells less than the model) the others stay as they were.
3. A stop has the captions of the steps of its batch so far, and a look for every step: lit, done, to do, or pale if the
   batch never gets there.

    model   trigger latestOffset walCommit getBatch ...
    spark   trigger latestOffset walCommit          ...      -> stops trigger latestOffset walCommit getBatch ...

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from minispark_stream.trace.recording import Recording
from minispark_stream.view.captions import caption_lines, captions_of
from minispark_stream.view.flow import FRAMES
from minispark_stream.view.walk import Key, Moment, failed
from minispark_stream.view.world import LogEntry, SourceView, World
from minispark_stream.view.world_changes import worlds

T = TypeVar("T")


@dataclass(frozen=True)
class Stop:
    """What is shown at one step. `here` are the engines that took it, `worlds` what each engine has got to.

    `captions` (engine -> step -> words) and `looks` (step -> CSS class) are for the flow diagram.
    """

    moment: Moment
    here: tuple[str, ...]
    worlds: Mapping[str, World]
    captions: Mapping[str, Mapping[str, str]]
    looks: Mapping[str, str]

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
        for at, key in enumerate(order):
            here = {engine: walk[key] for engine, walk in walks.items() if key in walk}
            latest = {**latest, **here}
            captions = {
                engine: captions_of(walk[k].moment.event for k in order[: at + 1] if k in walk)
                for engine, walk in walks.items()
            }
            looks = _looks(key[2], captions, [step for _, _, step, _ in order], here)
            found.append(Stop(next(iter(here.values())).moment, tuple(here), latest, captions, looks))
    return tuple(found)


def merged(walks: Sequence[Sequence[T]]) -> list[T]:
    """One order that holds every item once: that of the first walk, what only others have put in where they have it."""
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


def _looks(  # (3)
    lit: str, captions: Mapping[str, Mapping[str, str]], steps_of_batch: Sequence[str], here: Mapping[str, World]
) -> dict[str, str]:
    looks = dict.fromkeys(steps_of_batch, "todo")
    for engine in captions:
        for step in captions[engine]:
            differs = len(caption_lines(step, captions)) > 1
            looks[step] = "differs" if differs else "frame" if step in FRAMES else "done"
    wrong = any(failed(world.moment.event) for world in here.values())
    looks[lit] = "lit failed" if wrong else "lit"
    return looks


# -- two engines -------------------------------------------------------------------------------------------

def completed(world: World, other: World) -> World:
    """A world in which what this trace does not tell is taken from the other: silence is not a difference."""
    own, others_sources = ({s.name: s for s in w.sources} for w in (world, other))
    operators = {o.operator_id: o for o in other.operators}
    mark, others = world.watermark, other.watermark
    return replace(
        world,
        offset_log=_entries(world.offset_log, other.offset_log),
        commit_log=_entries(world.commit_log, other.commit_log),
        sources=tuple(_source(s, others_sources.get(name, s)) for name, s in sorted({**others_sources, **own}.items())),
        watermark=replace(
            mark, operators=mark.operators or others.operators,
            **{name: getattr(others, name) for name in ("late", "eviction", "next") if getattr(mark, name) is None},
        ),
        operators=tuple(
            replace(o, rows=operators[o.operator_id].rows) if o.rows is None and o.operator_id in operators else o
            for o in world.operators
        ),
        rows_out=other.rows_out if world.rows_out is None else world.rows_out,
        num_rows_out=other.num_rows_out if world.num_rows_out in (None, -1) else world.num_rows_out,
    )


def _entries(log: tuple[LogEntry, ...], other: tuple[LogEntry, ...]) -> tuple[LogEntry, ...]:
    texts = {entry.id: entry.text for entry in other}
    return tuple(replace(e, text=texts.get(e.id)) if e.text is None else e for e in log)


def _source(source: SourceView, other: SourceView) -> SourceView:
    unknown = {name: getattr(other, name) for name in ("done", "rows", "num_rows") if getattr(source, name) is None}
    files = any(entry.files for entry in source.log)
    return replace(source, log=source.log if files else other.log, **unknown)
