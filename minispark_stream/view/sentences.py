"""What a step did, in a sentence and in a few words; and why there is such a step at all.

`STEPS[step].says` tells what a step does in every batch; here is what it did this time, from its inputs and outputs:

    populateStartOffsets   offsetLog 4, commitLog 3   -> "the offset log ends at batch 4, the commit log at 3: batch 4
                                                          was planned but not finished, run it again ..."
    updateWatermark        12:04 -> 12:11             -> "12:21 - 10 min = 12:11; the watermark goes from 12:04 to 12:11"

`narrate` gives the sentence, for the text and the panels; `caption` the few words under a step in the flow diagram;
`WHY` what would go wrong without the step.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from minispark_stream.trace.events import Event
from minispark_stream.view.walk import SHOWN_BEFORE_ITS_STEPS
from minispark_stream.view.words import (
    as_int,
    as_list,
    as_map,
    clock_words,
    number,
    offset_words,
    plain,
    plural,
    short,
    time_words,
)

Values = Mapping[str, Any]


def narrate(event: Event) -> str:
    """What this step did, as a sentence without a full stop."""
    if event.error is None:
        return _SENTENCES[event.step](event.inputs, event.outputs)
    if event.step in SHOWN_BEFORE_ITS_STEPS:
        return f"{_SENTENCES[event.step](event.inputs, event.outputs)}; it ends with an error"
    return f"failed: {short(event.error)}"


def caption(event: Event) -> str:
    """What this step did, in a few words."""
    if event.error is not None and event.step not in SHOWN_BEFORE_ITS_STEPS:
        return "failed"
    return _CAPTIONS[event.step](event.inputs, event.outputs)


def failed(event: Event) -> bool:
    """Whether this step is where something went wrong: not a step around it."""
    ended_badly = event.step == "terminate" and bool(event.outputs.get("error"))
    return ended_badly or event.error is not None and event.step not in SHOWN_BEFORE_ITS_STEPS


# -- sentences ---------------------------------------------------------------------------------------------


def _start_query(ins: Values, outs: Values) -> str:
    name = f"query {plain(ins['name'])}" if ins.get("name") else "a query without a name"
    return f"{name}, output mode {plain(ins.get('outputMode'))}, into {short(plain(ins.get('sink')))}"


def _populate(ins: Values, outs: Values) -> str:
    logged, committed, batch = as_int(ins.get("offsetLog")), as_int(ins.get("commitLog")), plain(outs.get("batchId"))
    if "offsetLog" not in ins:
        return f"run batch {batch} again, with the offsets in the log" if outs.get("rerun") else f"begin with batch {batch}"
    if logged is None:
        return "the offset log is empty: a new query, begin with batch 0"
    ends = f"the offset log ends at batch {logged}, the commit log "
    ends += "is empty" if committed is None else f"at {committed}"
    if outs.get("rerun"):
        return f"{ends}: batch {batch} was planned but not finished, run it again with the offsets in the log"
    return f"{ends}: batch {logged} is done, go on with batch {batch}"


def _decide(ins: Values, outs: Values) -> str:
    if outs.get("newData"):
        return "there is new data: run a batch"
    if outs.get("anotherBatch"):
        return (
            "no new data, but the watermark has moved since the last batch: run a batch without data, "
            "to emit and drop the state that is finished now"
        )
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
    start, end = offset_words(ins.get("start")), offset_words(ins.get("end"))
    return f"{_source(ins)}: a plan for {files} after {start} up to {end}"


def _planning(ins: Values, outs: Values) -> str:
    if as_int(ins.get("watermarkEviction")) is None:
        return "the new data is in the template plan; no state in this query"
    if not as_int(ins.get("watermarkEviction")):
        return "no watermark yet: no row is late, no state leaves"
    late, eviction = as_int(ins.get("watermarkLate")), time_words(ins.get("watermarkEviction"))
    dropped = f"what ended by {time_words(late)} is too late (watermark of the batch before)" if late else "no row is late"
    return f"{dropped}; state that ended by {eviction} is finished and leaves"


def _add_batch(ins: Values, outs: Values) -> str:
    return f"batch {plain(ins.get('batchId'))} computed and handed to {short(plain(ins.get('sink')))}{_out_rows(outs)}"


def _out_rows(outs: Values) -> str:
    emitted, rows = as_int(outs.get("emitted")), outs.get("rows")
    if emitted is None and isinstance(rows, (list, tuple)):
        emitted = len(rows)
    count = as_int(outs.get("numOutputRows")) if emitted is None else emitted
    return f": {plural(count, 'row')} out" if count is not None and count >= 0 else ""


def _state(ins: Values, outs: Values) -> str:
    metrics, version = as_map(outs.get("metrics")), as_int(ins.get("version")) or 0
    words = {
        "numRowsUpdated": "updated", "numRowsRemoved": "removed", "numRowsDroppedByWatermark": "dropped as late",
    }
    counts = ", ".join(f"{number(metrics.get(key, 0))} {word}" for key, word in words.items())
    total = plural(metrics.get("numRowsTotal", 0), "row")
    return f"{plain(ins.get('operator'))}: version {version} read, version {version + 1} written: {counts}, {total} kept"


def _watermark(ins: Values, outs: Values) -> str:
    before, after = ins.get("watermark"), outs.get("watermark")
    measured = [as_map(o) for o in as_list(outs.get("operators"))]
    if not measured and "operators" in outs:
        return "no watermark in this query"
    seen = [o for o in measured if as_int(o.get("count")) or o.get("max") and o.get("count") is None]
    sums = "; ".join(map(_reached, seen)) + "; " if seen else ""
    if measured and not seen:
        sums = "no row with an event time in this batch; "
    if len(measured) > 1:
        sums += f"of all operators the {plain(ins.get('policy'))}imum counts; "
    if before == after:
        return f"{sums}the watermark stays at {time_words(after)}"
    return f"{sums}the watermark goes from {time_words(before)} to {time_words(after)}"


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


def _deleted(outs: Values, noun: str) -> str:
    return f"{plural(len(as_list(outs.get('deleted'))), noun)} deleted"


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
    "trigger": lambda ins, outs: ": ".join(
        filter(None, (plain(ins.get("trigger", "")), plain(outs.get("message", "")).lower()))) or "a trigger",
    "populateStartOffsets": _populate,
    "constructNextBatch": _decide,
    "latestOffset": _latest_offset,
    "walCommit": _log_entry,
    "commitSource": lambda ins, outs: f"{_source(ins)}: done with everything up to {offset_words(ins.get('end'))}",
    "purge": lambda ins, outs: f"entries of batches before {plain(ins.get('before'))}: {_deleted(outs, 'file')}",
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
    if "offsetLog" not in ins:
        return ""
    if logged is None:
        return "new query: batch 0"
    action = "run again" if outs.get("rerun") else "next is"
    return f"logs end at {logged}, {'none' if committed is None else committed}: {action} {plain(outs.get('batchId'))}"


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
    metrics = as_map(outs.get("metrics"))
    changes = ", ".join(
        f"{plain(metrics[key])} {word}"
        for key, word in (("numRowsUpdated", "upd"), ("numRowsRemoved", "rem"), ("numRowsDroppedByWatermark", "late"))
        if metrics.get(key)
    ) or "unchanged"
    return f"v{version} -> v{version + 1}: {changes}"


def _watermark_caption(ins: Values, outs: Values) -> str:
    before, after = ins.get("watermark"), outs.get("watermark")
    if not after:
        return ""
    return f"stays {clock_words(after)}" if before == after else f"{clock_words(before)} -> {clock_words(after)}"


_CAPTIONS: dict[str, Callable[[Values, Values], str]] = {
    "startQuery": lambda ins, outs: f"output mode {plain(ins.get('outputMode'))}",
    "trigger": lambda ins, outs: plain(ins.get("trigger", "")),
    "populateStartOffsets": _populate_caption,
    "constructNextBatch": _decide_caption,
    "latestOffset": lambda ins, outs: f"{offset_words(ins.get('start'))} -> {offset_words(outs.get('end'))}",
    "walCommit": lambda ins, outs: plain(ins.get("file")),
    "commitSource": lambda ins, outs: f"up to {offset_words(ins.get('end'))}",
    "purge": lambda ins, outs: _deleted(outs, "file"),
    "runBatch": lambda ins, outs: f"batch {plain(ins.get('batchId'))}",
    "getBatch": lambda ins, outs: f"({offset_words(ins.get('start'))}, {offset_words(ins.get('end'))}]",
    "queryPlanning": _planning_caption,
    "addBatch": lambda ins, outs: _out_rows(outs).removeprefix(": "),
    "stateOperator": _state_caption,
    "updateWatermark": _watermark_caption,
    "commitOffsets": lambda ins, outs: plain(ins.get("file")),
    "finishTrigger": lambda ins, outs: f"{plural(as_map(outs.get('progress')).get('numInputRows'), 'row')} in",
    "maintenance": lambda ins, outs: (
        f"{plain(outs['snapshot'])}.snapshot" if as_int(outs.get("snapshot")) is not None
        else _deleted(outs, "file")
    ),
    "terminate": lambda ins, outs: "error" if outs.get("error") else "ended",
}


# -- why ---------------------------------------------------------------------------------------------------

WHY: Mapping[str, str] = {
    "startQuery": "The plan is analysed once: every batch runs the same query, and a query that cannot be computed batch "
                  "by batch is refused here, before any data is read.",
    "trigger": "A stream has no end, so something has to decide when the data that has arrived makes a batch.",
    "populateStartOffsets": "Memory is gone after a crash; these two logs are what is left. A batch that is in the offset "
                            "log but not in the commit log may be half written: it runs again, with the same offsets.",
    "latestOffset": "The batch needs a fixed end. What arrives from now on waits for the next batch.",
    "constructNextBatch": "Even an empty batch costs a Spark job. So there is one only for new data, or when the watermark "
                          "has moved and finished state waits to be emitted.",
    "walCommit": "Written before anything is read: after a crash, exactly this batch can be run again. That is the first "
                 "half of exactly-once (a repeatable source and a sink that knows the batch id are the other).",
    "commitSource": "This batch is in the log, so no restart can ask for the data of the batch before: the source may "
                    "forget it.",
    "purge": "A restart needs only the newest entries; the logs of a query that runs for years must not grow for ever.",
    "runBatch": "From here on everything can be repeated: two offsets fix what is read, and state and output carry the "
                "batch id.",
    "getBatch": "Spark is lazy: this only describes the data after the start offset up to the end offset. The files are "
                "read when the sink asks for rows.",
    "queryPlanning": "Every batch plans the same query over other data. Late rows are judged by the watermark of the batch "
                     "before and state by that of this batch, so that what one operator emits is not late for the next.",
    "addBatch": "Only the sink starts a Spark job. Until here nothing was read; a sink that asks twice computes twice.",
    "stateOperator": "A version is never changed in place. If the batch fails now, the old version is still there, and the "
                     "next try writes the new one again.",
    "updateWatermark": "The watermark moves only between batches, so that all tasks of a batch agree on it. That is why a "
                       "window is emitted one batch after the row that closed it.",
    "commitOffsets": "With this entry the batch is over; without it, a restart runs the batch again.",
    "finishTrigger": "What lastProgress and the listeners tell: the same numbers that Spark reports.",
    "maintenance": "To load a version means to read the newest snapshot and every delta after it; without new snapshots "
                   "that would take longer with every batch.",
    "terminate": "Logs, state and output stay. A start with the same checkpoint goes on from there.",
}
