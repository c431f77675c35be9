"""What a step did, in a sentence and in a few words.

`STEPS[step].says` tells what a step is for; here is what it did this time, from its inputs and outputs:

    populateStartOffsets   offsetLog 4, commitLog 3   -> "the offset log ends at batch 4, the commit log at 3: batch 4 was
                                                          planned but not finished, run it again"
    updateWatermark        12:04 -> 12:11             -> "12:21:00 - 10 min = 12:11:00; the watermark goes from 12:04:00 to 12:11:00"

`narrate` gives the sentence, for the text and the panels; `caption` the few words under a step in the flow diagram.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from minispark_stream.trace.events import Event
from minispark_stream.trace.panels import state_changes
from minispark_stream.trace.words import (
    as_int, as_list, as_map, clock_words, number, offset_words, plain, plural, short, time_words,
)

Values = Mapping[str, Any]


def narrate(event: Event) -> str:
    """What this step did, as a sentence without a full stop."""
    if event.error is not None:
        return f"failed: {short(event.error)}"
    return _SENTENCES[event.step](event.inputs, event.outputs)


def caption(event: Event) -> str:
    """What this step did, in a few words."""
    if event.error is not None:
        return "failed"
    return _CAPTIONS[event.step](event.inputs, event.outputs)


# -- sentences ---------------------------------------------------------------------------------------------


def _start_query(ins: Values, outs: Values) -> str:
    name = f"query {plain(ins['name'])}" if ins.get("name") else "a query without a name"
    return f"{name}, output mode {plain(ins.get('outputMode'))}, into {short(plain(ins.get('sink')))}"


def _populate(ins: Values, outs: Values) -> str:
    logged, committed, batch = as_int(ins.get("offsetLog")), as_int(ins.get("commitLog")), plain(outs.get("batchId"))
    if logged is None:
        return "the offset log is empty: a new query, begin with batch 0"
    ends = f"the offset log ends at batch {logged}, the commit log " + ("is empty" if committed is None else f"at {committed}")
    if outs.get("rerun"):
        return f"{ends}: batch {batch} was planned but not finished, run it again with the offsets in the log"
    return f"{ends}: batch {logged} is done, go on with batch {batch}"


def _decide(ins: Values, outs: Values) -> str:
    if outs.get("newData"):
        return "there is new data: run a batch"
    if outs.get("anotherBatch"):
        return "no new data, but the watermark has moved past the last batch's: run a batch without data to evict and emit"
    return "no new data and nothing to clean up: run a batch" if outs.get("run") else "no new data: wait"


def _latest_offset(ins: Values, outs: Values) -> str:
    if outs.get("end") is None or outs.get("end") == ins.get("start"):
        return f"{_source(ins)}: nothing after {offset_words(ins.get('start'))}"
    files = [short(plain(f)) for f in as_list(outs.get("files"))]
    listed = f", {plural(len(files), 'file')}: {', '.join(files)}" if files else ""
    return f"{_source(ins)}: from {offset_words(ins.get('start'))} up to {offset_words(outs['end'])}{listed}"


def _log_entry(ins: Values, outs: Values) -> str:
    lines = plain(outs.get("text")).splitlines()[1:]
    metadata = offset_metadata(outs.get("text"))
    offsets = ", ".join(offset_words(line) for line in lines[1:])
    return f"{plain(ins.get('file'))} written: read up to {offsets}; watermark {time_words(metadata.get('batchWatermarkMs'))}"


def _commit_entry(ins: Values, outs: Values) -> str:
    watermark = offset_metadata(outs.get("text")).get("nextBatchWatermarkMs")
    return f"{plain(ins.get('file'))} written: the batch is done; the next watermark is {time_words(watermark)}"


def _get_batch(ins: Values, outs: Values) -> str:
    files = plural(len(as_list(outs.get("files"))), "file") if as_list(outs.get("files")) else "the rows"
    return f"{_source(ins)}: a plan for {files} after {offset_words(ins.get('start'))} up to {offset_words(ins.get('end'))}"


def _planning(ins: Values, outs: Values) -> str:
    if as_int(ins.get("watermarkEviction")) is None:
        return "the new data is in the template plan; no state in this query"
    if not as_int(ins.get("watermarkEviction")):
        return "no watermark yet: no row is late, no state leaves"
    late, eviction = time_words(ins.get("watermarkLate")), time_words(ins.get("watermarkEviction"))
    return f"late rows are those up to {late} (watermark of the batch before), state up to {eviction} leaves"


def _add_batch(ins: Values, outs: Values) -> str:
    return f"batch {plain(ins.get('batchId'))} computed and handed to {short(plain(ins.get('sink')))}{_out_rows(outs)}"


def _out_rows(outs: Values) -> str:
    rows = outs.get("rows")
    if isinstance(rows, (list, tuple)):
        return f": {plural(len(rows), 'row')} out"
    count = as_int(outs.get("numOutputRows"))
    return f": {plural(count, 'row')} out" if count is not None and count >= 0 else ""


def _state(ins: Values, outs: Values) -> str:
    metrics, version = as_map(outs.get("metrics")), as_int(ins.get("version")) or 0
    counts = [
        f"{number(metrics.get(key, 0))} {word}"
        for key, word in (("numRowsUpdated", "updated"), ("numRowsRemoved", "removed"), ("numRowsDroppedByWatermark", "dropped as late"))
    ]
    total = plural(metrics.get("numRowsTotal", 0), "row")
    return f"{plain(ins.get('operator'))}: version {version} read, version {version + 1} written: {', '.join(counts)}, {total} kept"


def _watermark(ins: Values, outs: Values) -> str:
    before, after = ins.get("watermark"), outs.get("watermark")
    seen = [o for o in map(as_map, as_list(outs.get("operators"))) if as_int(o.get("count")) or o.get("max") and o.get("count") is None]
    if not as_list(outs.get("operators")):
        return "no watermark in this query"
    sums = "; ".join(_reached(o) for o in seen) or "no row with an event time in this batch"
    if len(as_list(outs.get("operators"))) > 1:
        sums += f"; of all operators the {plain(ins.get('policy'))}imum counts"
    if before == after:
        return f"{sums}; the watermark stays at {time_words(after)}"
    return f"{sums}; the watermark goes from {time_words(before)} to {time_words(after)}"


def _reached(operator: Values) -> str:
    newest, delay = operator.get("max"), as_int(operator.get("delayMs"))
    if delay is None:
        return f"newest event time {time_words(newest)}"
    return f"{time_words(newest)} - {delay_words(delay)} = {time_words((as_int(newest) or 0) - delay)}"


def delay_words(ms: int) -> str:
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def _finish(ins: Values, outs: Values) -> str:
    progress = as_map(outs.get("progress"))
    return f"batch {plain(progress.get('batchId'))}: {plural(progress.get('numInputRows'), 'row')} in"


def _maintain(ins: Values, outs: Values) -> str:
    store = f"operator {plain(ins.get('operatorId'))}, partition {plain(ins.get('partition'))}"
    snapshot = as_int(outs.get("snapshot"))
    written = f"{snapshot}.snapshot written" if snapshot is not None else "no snapshot due"
    deleted = [plain(f) for f in as_list(outs.get("deleted"))]
    return f"{store}: {written}, " + (f"deleted {', '.join(deleted)}" if deleted else "nothing deleted")


def _source(ins: Values) -> str:
    return short(plain(ins.get("source")))


def offset_metadata(text: Any) -> Values:
    """The JSON line of an entry of the offset log or the commit log."""
    lines = plain(text).splitlines()
    try:
        return as_map(json.loads(lines[1])) if len(lines) > 1 else {}
    except (ValueError, RecursionError):
        return {}


_SENTENCES: dict[str, Callable[[Values, Values], str]] = {
    "startQuery": _start_query,
    "trigger": lambda ins, outs: f"{plain(ins.get('trigger'))}: {plain(outs.get('message', '')).lower()}".removesuffix(": "),
    "populateStartOffsets": _populate,
    "constructNextBatch": _decide,
    "latestOffset": _latest_offset,
    "walCommit": _log_entry,
    "commitSource": lambda ins, outs: f"{_source(ins)}: done with everything up to {offset_words(ins.get('end'))}",
    "purge": lambda ins, outs: f"log entries below {plain(ins.get('before'))} deleted: {plural(len(as_list(outs.get('deleted'))), 'entry')}",
    "runBatch": lambda ins, outs: f"batch {plain(ins.get('batchId'))} begins",
    "getBatch": _get_batch,
    "queryPlanning": _planning,
    "addBatch": _add_batch,
    "stateOperator": _state,
    "updateWatermark": _watermark,
    "commitOffsets": _commit_entry,
    "finishTrigger": _finish,
    "maintenance": _maintain,
    "terminate": lambda ins, outs: f"ended with {short(plain(outs['error']))}" if outs.get("error") else "ended",
}


# -- captions ----------------------------------------------------------------------------------------------


def _populate_caption(ins: Values, outs: Values) -> str:
    logged, committed = as_int(ins.get("offsetLog")), as_int(ins.get("commitLog"))
    if logged is None:
        return "new query: batch 0"
    return f"logs {logged} / {'-' if committed is None else committed}: {'re-run' if outs.get('rerun') else 'next is'} {plain(outs.get('batchId'))}"


def _decide_caption(ins: Values, outs: Values) -> str:
    if outs.get("newData"):
        return "new data: run"
    return "watermark moved: run" if outs.get("run") else "nothing new: wait"


def _planning_caption(ins: Values, outs: Values) -> str:
    if not as_int(ins.get("watermarkEviction")):
        return "no state" if as_int(ins.get("watermarkEviction")) is None else "no watermark yet"
    return f"late {clock_words(ins.get('watermarkLate'))}, evict {clock_words(ins.get('watermarkEviction'))}"


def _state_caption(ins: Values, outs: Values) -> str:
    version = as_int(ins.get("version")) or 0
    if isinstance(outs.get("after"), (list, tuple)):
        marks = Counter(r.mark for r in state_changes(as_list(outs.get("before")), as_list(outs.get("after"))))
        changes = " ".join(f"{mark}{marks[mark]}" for mark in "+~-" if marks[mark]) or "unchanged"
    else:
        metrics = as_map(outs.get("metrics"))
        changes = f"{plain(metrics.get('numRowsUpdated', 0))} upd, {plain(metrics.get('numRowsRemoved', 0))} rem"
    return f"v{version} -> v{version + 1}: {changes}"


def _watermark_caption(ins: Values, outs: Values) -> str:
    before, after = ins.get("watermark"), outs.get("watermark")
    if not as_list(outs.get("operators")):
        return "none in this query"
    return f"stays {clock_words(after)}" if before == after else f"{clock_words(before)} -> {clock_words(after)}"


_CAPTIONS: dict[str, Callable[[Values, Values], str]] = {
    "startQuery": lambda ins, outs: f"output mode {plain(ins.get('outputMode'))}",
    "trigger": lambda ins, outs: plain(ins.get("trigger")),
    "populateStartOffsets": _populate_caption,
    "constructNextBatch": _decide_caption,
    "latestOffset": lambda ins, outs: f"{offset_words(ins.get('start'))} -> {offset_words(outs.get('end'))}",
    "walCommit": lambda ins, outs: plain(ins.get("file")),
    "commitSource": lambda ins, outs: f"up to {offset_words(ins.get('end'))}",
    "purge": lambda ins, outs: f"{plural(len(as_list(outs.get('deleted'))), 'entry')} deleted",
    "runBatch": lambda ins, outs: f"batch {plain(ins.get('batchId'))}",
    "getBatch": lambda ins, outs: f"({offset_words(ins.get('start'))}, {offset_words(ins.get('end'))}]",
    "queryPlanning": _planning_caption,
    "addBatch": lambda ins, outs: (_out_rows(outs).removeprefix(": ") or short(plain(ins.get("sink")))),
    "stateOperator": _state_caption,
    "updateWatermark": _watermark_caption,
    "commitOffsets": lambda ins, outs: plain(ins.get("file")),
    "finishTrigger": lambda ins, outs: f"{plural(as_map(outs.get('progress')).get('numInputRows'), 'row')} in",
    "maintenance": lambda ins, outs: (
        f"{plain(outs['snapshot'])}.snapshot" if as_int(outs.get("snapshot")) is not None
        else f"{plural(len(as_list(outs.get('deleted'))), 'file')} deleted"
    ),
    "terminate": lambda ins, outs: "error" if outs.get("error") else "ended",
}
