"""What has gone into a query and come out of it, as its progress reports say it, and what it has not read yet.

1. A report has the rows that were read and those that the sink took. A reader of files applies filters itself, and Spark does
   not count what it leaves out; it counts a row again whenever foreachBatch reads the batch. Without a report, the logs of the
   checkpoint say which batches have run.
2. A source says up to where it has read, and up to where there is data; of Kafka, also how many records are between. The
   folders of files say which of them were not read (unread_files.py).
3. An operator counts the rows that it drops because they are late.

    batches    batches 0 to 3: 7 rows in, rows out: 0; output mode append
    dropped    1 row too late for dedupe, in batch 3

Differs from Spark: Spark has no such answer; everything comes from its reports and its logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.view.words import delay_words, duration_words, number, offset_words, plural, short, time_words
from minispark_stream.tools.inspection.asked import Asked
from minispark_stream.tools.inspection.offset_meaning import records_behind
from minispark_stream.tools.inspection.plan_text import folders, removing
from minispark_stream.tools.inspection.unread_files import unread
from minispark_stream.tools.pasted_text import CUT_OFF

FOREACH_BATCH = "ForeachBatchSink"  # as progress reports call it


def in_and_out(asked: Asked) -> Iterator[tuple[str, str]]:  # (1)
    """The batches that ran, the rows that they have read and emitted, and what waits to be read."""
    batches = [p for p in asked.progress if "addBatch" in p.get("durationMs", {})]
    if batches:
        yield from _reported(asked, batches)
    elif asked.progress and asked.report is None:
        idle = ": no source had anything new, so nothing comes out and the watermark stands" if _is_idle(asked.progress) else ""
        yield "batches", f"none has run in the time of these reports{idle}"
    else:
        yield "batches", _logged(asked)
    read = {path for source in asked.report.sources for path in source.paths} if asked.report is not None else set()
    for folder in folders(asked.plan) if asked.report is not None or not batches else ():  # without the log, who knows
        if says := unread(folder, read):
            yield "not read yet", says
    if asked.interval_ms:
        began_ms = iso_ms(batches[-1].get("timestamp")) if batches else None
        began = "" if began_ms is None else f", the last one began {time_words(began_ms // 1000 * 1000)}"
        every = delay_words(asked.interval_ms)
        yield "next batch", f"the trigger lets one begin every {every}{began}; what arrives in between waits"


def _logged(asked: Asked) -> str:
    found = asked.report.batches if asked.report is not None else ()
    done = [b.batch_id for b in found if b.committed]
    begun = [b.batch_id for b in found if not b.committed and b.offsets is not None]
    newest = f", the last is {done[-1]}" if done else ""
    begun_too = f"; batch {begun[-1]} has begun and is not committed" if begun and begun[-1] > max(done, default=-1) else ""
    return f"{plural(len(done), 'batch')} committed{newest}{begun_too}"


def _reported(asked: Asked, batches: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    rows_in = sum(p.get("numInputRows") or 0 for p in batches)
    counts = [p.get("sink", {}).get("numOutputRows") for p in batches]
    rows_out = "not reported by the sink"
    if all(count is not None and count >= 0 for count in counts):
        rows_out = number(sum(count or 0 for count in counts))
    first, last = batches[0].get("batchId"), batches[-1].get("batchId")
    which = f"batch {last}" if first == last else f"batches {first} to {last}"
    by_function = str(batches[-1].get("sink", {}).get("description")) == FOREACH_BATCH
    again = " (each counts again whenever the function of foreachBatch reads its batch)" if by_function and rows_in else ""
    mode = f"; output mode {asked.mode}" if asked.mode else ""
    yield "batches", f"{which}: {plural(rows_in, 'row')} in{again}, rows out: {rows_out}{mode}"
    if asked.is_active is None:
        yield "took", _took(batches[-1])
        if after := batches[-1].get(CUT_OFF):
            yield "cut off", f"what the report says after {after} is missing"
    sources = batches[-1].get("sources", ())  # (2)
    for source in sources if not asked.is_real_time else ():  # there, `latestOffset` is from the beginning of the batch
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if latest not in (None, "null", end):
            name = short(str(source.get("description")))
            behind = records_behind(_parsed(end), _parsed(latest))
            records = "" if behind is None else f", {plural(behind, 'record')} more"
            says = f"read up to {offset_words(end)}, but there is data up to {offset_words(latest)}"
            yield "not read yet", f"{name}: {says}{records}"
    if rows_in == 0:
        yield "no input", _no_row(asked, batches, by_function)


def _parsed(offset: Any) -> Any:
    """An offset as JSON says it; a report has it as a value, or as a text."""
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except (ValueError, RecursionError):
        return None


def _is_idle(progress: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no source had anything new in the time of these reports."""
    sources = [source for p in progress for source in p.get("sources", ())]
    return bool(sources) and all(source.get("startOffset") == source.get("endOffset") for source in sources)


def _took(report: Mapping[str, Any]) -> str:
    """How long a batch took, and its phases of at least a tenth of that."""
    took = dict(report.get("durationMs", {}))
    whole_ms = took.pop("triggerExecution", sum(took.values()))
    longest = sorted(((ms, name) for name, ms in took.items() if ms * 10 >= whole_ms), reverse=True)
    parts = ", ".join(f"{name} {duration_words(ms)}" for ms, name in longest)
    return f"batch {report.get('batchId')}: {duration_words(whole_ms)}{', of which ' if parts else ''}{parts}"


def _no_row(asked: Asked, batches: Sequence[Mapping[str, Any]], by_function: bool) -> str:
    """Why no row was counted, although batches ran."""
    if _is_idle(batches):
        return "no row has arrived: no source had anything new"
    first = batches[0].get("sources", ())
    if len(batches) == 1 and any(one.get("startOffset") is None and "Kafka" in str(one.get("description")) for one in first):
        unless = "unless startingOffsets says earliest"
        return f"this is the first batch, and a stream of Kafka begins at the end of its topics, {unless}"
    reasons = ["what was read has no rows"]
    if filters := removing(asked.plan)[1]:
        reasons.append(f"the reader has left out the rows that do not pass {' and '.join(filters)}, which Spark does not count")
    if by_function:
        reasons.append("the function of foreachBatch has not read its batch")
    return f"something was read, and no row of it was counted: {', or '.join(reasons)}"


def dropped(progress: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:  # (3)
    """The rows that operators have dropped because they were late."""
    late: dict[str, int] = {}
    batches = []
    for report in progress:
        for operator in report.get("stateOperators", ()):
            count = operator.get("numRowsDroppedByWatermark") or 0
            name = str(operator.get("operatorName"))
            if count:
                late[name] = late.get(name, 0) + count
                batches.append(str(report.get("batchId")))
    for name, count in late.items():
        merged = ": an aggregation counts the rows of a key in a batch as one" if name == "stateStoreSave" else ""
        yield "dropped", f"{plural(count, 'row')} too late for {name}, in batch {', '.join(dict.fromkeys(batches))}{merged}"
