"""What a restart asks of the sources: the logs of files, and the last offsets of all.

Models: FileStreamSource (its constructor and getBatch), FileStreamSourceLog.get, and `deserializeOffset` of the other sources.

1. A file source reads its whole log when it is made: the newest compact file and every file after it. How far compact files are
   apart follows from the names of the two newest ones.
2. It is asked once more for the last batch, whose entries, from the end of the batch before to its own, must be in the log.
3. Other sources only parse the offset with which the next batch begins, and its end, if it runs again.

    offsets/2 {"logOffset":2}   offsets/3 {"logOffset":5}   sources/0/ 0 ... 4      batch 5 doesn't exist

Kafka's brokers, files that were read, and sources whose offsets have a form of their own are not looked at.
Differs from Spark: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from minispark_stream.engine.checkpointing.compactible_file_stream_log import (
    CompactionConf,
    batch_of_file,
    compact_interval,
    is_compact,
    log_offset,
    names_of_batch,
)
from minispark_stream.tools.inspection.contents import FIRST, Reasons, Refusal, SourceLog
from minispark_stream.tools.inspection.logs import Logs
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.restart.of_logs import stray_numbers, unreadable
from minispark_stream.tools.inspection.sources import FILES, KAFKA, NUMBER, RATE, RATE_MICRO_BATCH, json_value

MOST_ENTRIES = 10_000  # of a file source's log, in one batch: a forged offset may be far away
_WORDS = {RATE_MICRO_BATCH: "No usable value for", KAFKA: "Expected e.g.", RATE: "", NUMBER: ""}


def of_logs_of_files(files: ReadOnlyFiles, sources: Sequence[SourceLog]) -> Reasons:  # (1)
    """Why a file source cannot be made again."""
    for source in sources:
        if source.kind == FILES:
            yield from _opened(files, source)


def of_offsets(logs: Logs, sources: Sequence[SourceLog]) -> Reasons:
    """Why a source cannot go on from the last offsets."""
    last = max(logs.offsets)
    end, before = logs.offsets[last], logs.offsets.get(last - 1)
    again = logs.restart.again
    for source in sources:
        found = [one.by_id().get(source.source_id) if one is not None else None for one in (before, end)]
        if source.kind == FILES:
            yield from _files(source, last, found[0], found[1])
            continue
        for batch_id, offset in [(last - 1, found[0]), (last, found[1])][0 if again else 1:]:
            if offset is not None and not _fits(source.kind, offset):  # (3)
                says = f"source {source.source_id} cannot parse its offset"
                message = _WORDS.get(source.kind, "") if json_value(offset) is not None else ""
                yield Refusal(FIRST, f"offsets/{batch_id}", says, message=message)


def of_next_entry(files: ReadOnlyFiles, sources: Sequence[SourceLog]) -> Reasons:
    """Why a file source cannot log the files of a new batch."""
    for source in sources:
        if source.kind == FILES:
            name = f"sources/{source.source_id}/{_name(source, max(_ids(source), default=-1) + 1)}"
            if name in files.folders:
                says = "it is a folder in the place of the next entry"
                yield Refusal(FIRST, name, says, message="Concurrent update to the log")


def _ids(source: SourceLog) -> list[int]:
    return [i for name in source.entries if (i := batch_of_file(name)) is not None]


def _interval(source: SourceLog) -> int:
    """How far compact files are apart, for Spark; the files need not confirm it."""
    compact = sorted(i for name in source.entries if is_compact(name) and (i := batch_of_file(name)) is not None)
    return compact_interval(CompactionConf().interval, compact)


def _name(source: SourceLog, entry_id: int) -> str:
    """The file of an entry, as Spark looks for it."""
    return names_of_batch(entry_id)[(entry_id + 1) % _interval(source) == 0]


def _opened(files: ReadOnlyFiles, source: SourceLog) -> Reasons:
    folder, ids, interval = f"sources/{source.source_id}", _ids(source), _interval(source)
    latest = max(ids, default=-1)
    if folder in files.files:
        yield Refusal(FIRST, folder, "it is a file", message="does not exist")
    yield from stray_numbers(files, folder, latest, ".compact")
    if ids and _name(source, latest) not in source.entries:
        says = f"the newest entry is missing under this name: compact files are {interval} entries apart"
        yield Refusal(FIRST, f"{folder}/{_name(source, latest)}", says, message="does not exist")
        return
    for entry_id in range(max(0, (latest + 1) // interval * interval - 1), latest + 1):
        where = f"{folder}/{_name(source, entry_id)}"
        if where in source.errors:
            yield unreadable(FIRST, files, where, source.errors[where])
        elif where not in files.files:
            says = "it is missing: the newest compact file and all files after it are read"
            yield Refusal(FIRST, where, says, message="doesn't exist (latestId")
            return


def _files(source: SourceLog, last: int, before: str | None, end: str | None) -> Reasons:  # (2)
    for batch_id, offset in ((last - 1, before), (last, end)):
        if offset is not None and log_offset(offset) is None:
            says = f"source {source.source_id} cannot parse its offset"
            value = json_value(offset)
            is_other = isinstance(value, dict) and not isinstance(value.get("logOffset"), int)
            message = "No usable value for logOffset" if is_other else ""
            yield Refusal(FIRST, f"offsets/{batch_id}", says, message=message)
    start, until = -1 if before is None else log_offset(before), log_offset(end)
    if start is None or until is None:
        return
    if until < start:
        says = f"source {source.source_id} would go back from entry {start} of its log to entry {until}"
        yield Refusal(FIRST, f"offsets/{last}", says, message="assertion failed")
    wanted = range(start + 1, min(until, start + MOST_ENTRIES) + 1)
    missing = [i for i in wanted if _name(source, i) not in source.entries and i not in source.logged]
    if missing:
        says = f"batch {last} reads the entries {start + 1} to {until} of the log, which does not have all of them"
        message = f"batch {missing[0]} doesn't exist" if len(missing) == 1 else "don't"
        yield Refusal(FIRST, f"sources/{source.source_id}", says, message=message)


def _fits(kind: str, offset: str) -> bool:
    value = json_value(offset)
    if kind == RATE_MICRO_BATCH:
        return isinstance(value, dict) and all(isinstance(value.get(name), (int, float)) for name in ("offset", "timestamp"))
    if kind == KAFKA:
        return isinstance(value, dict) and all(
            isinstance(of_topic, dict) and all(isinstance(at, int) for at in of_topic.values()) for of_topic in value.values()
        )
    return kind not in (RATE, NUMBER) or re.fullmatch(r"[+-]?[0-9]{1,18}", offset) is not None
