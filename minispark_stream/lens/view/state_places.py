"""Where the state is, as its tasks and maintenance told: which worker has which version of a partition in memory.

1. A task says in which process it ran, which version it read or made there, and how the process got the version that it read.
   From then on, this version is in the memory of the process. If all workers of an executor share a large table, it is in the
   memory of all of them.
2. A worker has one version of a partition: the newest that a task has read or made there. What other workers had before is
   shown below; whether they still have it, only they know (engine/state/loaded_providers.py).
3. Processes are called worker 1, worker 2 and so on, in the order in which they appear.
4. Maintenance has a line of its own: what was done, and in which process; for RocksDB also how many tables a zip has added.

    part.   version   in memory of   what it read
    0       4         worker 1       had it in memory
            3         worker 2       read it from the files
    worker 2 wrote version 11 of partition 0 whole, from its memory
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from typing import Any

from minispark_stream.lens.view.style import table
from minispark_stream.lens.view.words import plain, plural

# How a worker got the version that it read (`LoadedFrom` in engine/state/state_store.py).
CAME = {
    "new": "nothing was there", "memory": "had it in memory", "taken over": "found it in common memory",
    "deltas": "had an older one, read the deltas", "files": "read it from the files",
}
DEFAULT = "default"  # the name of an operator's only store
MOST_COPIES, MOST_LINES = 3, 16  # of a partition; of an operator


@dataclass(frozen=True)
class Copy:
    """(1) A version of a partition, and the worker that has it. `came`: how the worker got it; for each store, if they differ.
    `new`: whether it has it since this step."""

    partition: int
    worker: str
    version: int
    came: tuple[str, ...]
    shared: bool
    new: bool = True


@dataclass(frozen=True)
class StatePlaces:
    """Those of one operator. `workers`: all that have appeared; `done`: what maintenance has done since the last batch."""

    copies: tuple[Copy, ...] = ()
    workers: tuple[str, ...] = ()
    done: tuple[str, ...] = ()

    def after(self, told: Sequence[Any], workers: Sequence[str]) -> StatePlaces:
        """The places after the tasks of a batch have run."""
        by_worker: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
        for one in told:
            by_worker.setdefault((one.get("partition") or 0, plain(one.get("worker"))), []).append(one)
        met = [_copy(partition, worker, of_worker) for (partition, worker), of_worker in by_worker.items()]
        common = {one.partition for one in met if one.shared}  # one table for all: whatever is older is gone
        old = [
            replace(one, new=False) for one in self.copies
            if (one.partition, one.worker) not in by_worker and not (one.shared and one.partition in common)
        ]
        found = sorted((*met, *old), key=lambda one: (one.partition, -one.version, not one.new))
        few = (one for _, of_one in groupby(found, key=lambda one: one.partition) for one in list(of_one)[:MOST_COPIES])
        return StatePlaces(tuple(few), tuple(dict.fromkeys((*workers, *(one.worker for one in met)))))

    def looked_after(
        self, ins: Mapping[str, Any], outs: Mapping[str, Any], workers: Sequence[str], tables: Set[str] = frozenset()
    ) -> StatePlaces:  # (4)
        """The places after maintenance has done something for a store. `tables`: those of RocksDB that existed before."""
        worker, snapshot = plain(outs.get("worker")), outs.get("snapshot")
        known = tuple(dict.fromkeys((*workers, worker)))
        store = f", store {plain(ins.get('store'))}" if ins.get("store") not in (None, DEFAULT) else ""
        of = f"of partition {plain(ins.get('partition'))}{store}"
        source = "from its memory" if outs.get("fromMemory") else "read from the files"
        wrote = "" if snapshot is None else f"wrote version {snapshot} {of} whole, {source}"
        if wrote and (names := outs.get("tables", {}).keys()):
            wrote += f", with {plural(len(names - tables), 'new table')} and {len(names & tables)} shared"
        files = plural(len(outs.get("deleted", ())), "file")
        deleted = f"deleted {files}{f' {of}' if not wrote else ''}" if outs.get("deleted") else ""
        words = ", and ".join(filter(None, [wrote, deleted]))
        return replace(self, workers=known, done=(*self.done, f"{_name(known, worker)} {words}"))


def places(found: StatePlaces) -> str:
    """The table, folded: the rows of the state come first. Empty if nothing was told."""
    lines = list(_lines(found))
    more = f"<p class='note'>and {plural(len(lines) - MOST_LINES, 'line')} more</p>" if len(lines) > MOST_LINES else ""
    head = ("<span class='whole'>part.</span>", "version", "in memory of", "what it read")
    return f"<details><summary>Where it is</summary>{table(head, lines[:MOST_LINES])}{more}</details>" if lines else ""


def maintained(found: StatePlaces) -> str:
    """What maintenance did."""
    return "".join(f"<p class='note'>Maintenance: {escape(words)}.</p>" for words in found.done)


def _lines(found: StatePlaces) -> Iterator[tuple[str, list[str]]]:
    before = None
    for one in found.copies:
        part = "" if one.partition == before else str(one.partition)
        before = one.partition
        name = f"<span class='whole' title='{escape(one.worker)}'>{_name(found.workers, one.worker)}</span>"
        came = "; ".join(CAME.get(words, "") for words in one.came) if one.new else "was here before"
        where = f"{name}, in common" if one.shared else name
        yield "" if one.new else " class='same'", [part, str(one.version), where, came]


def _copy(partition: int, worker: str, told: Sequence[Mapping[str, Any]]) -> Copy:  # (2)
    first = min(one.get("version") or 0 for one in told)
    return Copy(
        partition=partition,
        worker=worker,
        version=max(one.get("version") or 0 for one in told),
        came=tuple(dict.fromkeys(plain(one.get("came")) for one in told if (one.get("version") or 0) == first)),
        shared=all(one.get("shared") is True for one in told),
    )


def _name(workers: Sequence[str], worker: str) -> str:
    return f"worker {workers.index(worker) + 1}"  # (3)
