"""What is wrong with a checkpoint as a whole, or worth looking at, beyond files that cannot be read.

Each check is a function that makes findings from what was read, with the command that mends it, if there is one:

    restart        a restart fails, or runs a batch again
    gaps           a batch is missing in a log, between two others
    partitions     the number of shuffle partitions was changed, or a partition of an operator is missing
    growing        the state only ever grows
    ahead          there is state of versions that the logs do not know
    future         the watermark is later than the clock: a row with a wrong time has moved it
    rewound        a source has lost its offset, and is read from its beginning again
    strays         there are temporary files of writers that died
    not_listed     there are directories or files that must not or cannot be read

A state grows if the number of keys never went down over all its known versions, at least 10 of them, and grew by half or more
in the second half of them: 10 20 30 40 50 60 70 80 90 100 grows; 10 20 25 25 25 25 25 25 25 25 does not.

Differs from Spark: Spark finds these problems one at a time, when it fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from minispark_stream.lens.view.words import time_words
from minispark_stream.tools.inspection.contents import Finding, LoggedBatch, NextBatch, StoredOperator
from minispark_stream.tools.inspection.logs import Logs
from minispark_stream.tools.inspection.operators import states_ahead
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles

REPAIR, MENDED_COPY = "repair CHECKPOINT", "repair CHECKPOINT --to COPY"
CLOCKS_DIFFER_MS = 60_000  # by less, two machines may differ
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_HISTORY = 10


def check(
    files: ReadOnlyFiles, logs: Logs, batches: Sequence[LoggedBatch], upcoming: NextBatch, operators: Sequence[StoredOperator]
) -> Iterator[Finding]:
    """Every finding of every check."""
    yield from restart(upcoming)
    yield from gaps(logs)
    yield from partitions(batches, operators)
    yield from growing(operators)
    yield from ahead(batches, operators)
    yield from future(batches)
    yield from rewound(batches)
    yield from strays(files)
    yield from not_listed(files)


def restart(upcoming: NextBatch) -> Iterator[Finding]:
    """A restart fails, runs a batch again, or does what cannot be told."""
    if (refused := upcoming.refused) is not None:
        yield Finding("error", refused.where, f"a restart fails {refused.when}: {refused.quoted}{refused.says}", REPAIR)
    elif (unknown := upcoming.unknown) is not None:
        yield Finding("warning", unknown.where, f"what a restart does cannot be told: {unknown.says}")
    if upcoming.rerun:
        yield Finding("warning", "logs", f"batch {upcoming.batch_id} was planned but is not committed: it runs again")
        if "disagree" in upcoming.says or "is empty" in upcoming.says:
            yield Finding("warning", "logs", upcoming.says)


def gaps(logs: Logs) -> Iterator[Finding]:
    """A batch is missing in a log between two others."""
    for name, ids in (("offsets", sorted(logs.offsets)), ("commits", sorted(logs.commits))):
        for a, b in zip(ids, ids[1:]):
            if b > a + 1:
                missing = f"{a + 1} is" if b == a + 2 else f"{a + 1} to {b - 1} are"
                yield Finding("warning", name, f"{missing} missing, between {a} and {b}")


def partitions(batches: Sequence[LoggedBatch], operators: Sequence[StoredOperator]) -> Iterator[Finding]:
    """The number of shuffle partitions was changed, but not by a repartition of the state; or a partition is missing."""
    logged = [(b.batch_id, b.conf[SHUFFLE_PARTITIONS]) for b in batches if SHUFFLE_PARTITIONS in b.conf]
    has_moved = any(str(operator.num_partitions) == logged[-1][1] for operator in operators) if logged else False
    for (_, before), (batch_id, after) in zip(logged, logged[1:]):
        if before != after and operators and not has_moved:
            yield Finding(
                "error", f"offsets/{batch_id}", f"{SHUFFLE_PARTITIONS} was changed from {before} to {after}: keys are searched "
                "in partitions where they are not", f"rollback CHECKPOINT {batch_id - 1}" if batch_id else ""
            )
    for operator in operators:
        for store in operator.stores:
            there = {p.partition for p in store.partitions}
            where = f"state/{operator.operator_id} ({store.name})"
            expected = operator.num_partitions
            if expected is None or not there or there == {0}:  # without a grouping key there is partition 0 alone
                continue
            if max(there) >= expected:
                says = f"partition {max(there)} exists, although the metadata says {expected} partitions"
                yield Finding("warning", where, says)
            if len([p for p in there if p < expected]) < expected:
                lost = next(p for p in range(expected) if p not in there)
                says = f"partition {lost} is missing: only {len(there)} of {expected} partitions exist"
                yield Finding("error", where, says, REPAIR)


def growing(operators: Sequence[StoredOperator]) -> Iterator[Finding]:
    """The state only ever grows."""
    for operator in operators:
        for store in operator.stores:
            keys = list(store.history.values())
            if len(keys) < _HISTORY or keys[-1] < 1.5 * keys[len(keys) // 2] or any(b < a for a, b in zip(keys, keys[1:])):
                continue
            versions = list(store.history)
            yield Finding(
                "warning", f"state/{operator.operator_id} ({store.name})",
                f"the state only grows: {keys[0]:,} keys in version {versions[0]}, {keys[-1]:,} in version {versions[-1]}, and "
                "never fewer than before. Without a watermark, or with one that does not move, nothing is ever removed",
                f"inspect CHECKPOINT --operator {operator.operator_id} --store {store.name} "
                f"--diff {versions[-2]} {versions[-1]}"
            )


def ahead(batches: Sequence[LoggedBatch], operators: Sequence[StoredOperator]) -> Iterator[Finding]:
    """There is state of versions that the logs do not know."""
    last = max((b.batch_id for b in batches if b.offsets is not None or b.unreadable), default=-1)
    if last < 0:
        return  # a restart fails, which is a finding already
    for operator_id, version in states_ahead(operators, last + 1):
        yield Finding(
            "warning", f"state/{operator_id}", f"version {version} exists, although batch {last} is the last one in offsets/: "
            "the logs were set back without the state, or are incomplete. When the query reaches its version, Spark would load "
            "a snapshot that was left; a rollback takes the state back, too", f"rollback CHECKPOINT {last}"
        )


def future(batches: Sequence[LoggedBatch]) -> Iterator[Finding]:
    """The watermark is later than the clock: a row with a wrong time has moved it."""
    last = max(batches, key=lambda batch: batch.batch_id, default=None)
    if last is not None and (says := ahead_of_the_clock(last.next_watermark_ms or last.watermark_ms, last.timestamp_ms)):
        fine = (b for b in batches if b.next_watermark_ms is not None and ahead_of_the_clock(b.next_watermark_ms) is None)
        newest = max((b.batch_id for b in fine), default=None)
        yield Finding("warning", "logs", says, "" if newest is None else f"rollback CHECKPOINT {newest}")


def ahead_of_the_clock(watermark_ms: int | None, batch_ms: int | None = None) -> str | None:
    """What is to be said of a watermark that is later than the time of the batch and than now; None if it is not."""
    clock_ms = max(batch_ms or 0, time.time() * 1000)
    if watermark_ms is None or watermark_ms - clock_ms < CLOCKS_DIFFER_MS:
        return None
    times = f"{time_words(watermark_ms)}, is later than the clock, {time_words(clock_ms // 1000 * 1000)}"
    return (
        f"the watermark, {times}: a row with an event time in the future has moved it there. It never goes back, so every "
        "row with a smaller event time is late until then. If that time was wrong: remove such rows before withWatermark, and "
        "begin with a new checkpoint, or with a copy from before that row"
    )


def rewound(batches: Sequence[LoggedBatch]) -> Iterator[Finding]:
    """The newest entry has no offset of a source that had one."""
    known = [b for b in batches if b.offsets is not None]
    newest = known[-1].offsets if known else None
    for source_id, offset in (newest or {}).items():
        if offset is None and any((b.offsets or {}).get(source_id) is not None for b in known[:-1]):
            yield Finding(
                "warning", f"offsets/{known[-1].batch_id}", f"source {source_id} has no offset here, although it had one "
                "before: the next batch reads the source from its beginning again", f"rollback CHECKPOINT {known[-2].batch_id}"
            )


def strays(files: ReadOnlyFiles) -> Iterator[Finding]:
    """There are temporary files of writers that died."""
    found = [name for name in files.files if name.rsplit("/", 1)[-1].startswith(".") and name.endswith(".tmp")]
    if found:
        some = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        yield Finding("note", "files", f"temporary files of a writer that died, or is writing now: {some}", MENDED_COPY)


def not_listed(files: ReadOnlyFiles) -> Iterator[Finding]:
    """There are directories or files that must not or cannot be read."""
    for name, reason in files.not_listed.items():
        yield Finding("warning", name, f"left out, because {reason}")
