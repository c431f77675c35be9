"""What a step did, in a sentence.

`STEPS[step].says` says what a step does in every batch; this module says what it did this time, from its inputs and outputs:

    populateStartOffsets   offsetLog 4, commitLog 3   -> "the offset log ends at batch 4, the commit log at 3: batch 4
                                                          was planned but not finished, run it again ..."
    updateWatermark        12:04 -> 12:11             -> "12:21 - 10 min = 12:11; the watermark goes from 12:04 to 12:11"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minispark_stream.engine.checkpointing.join_stores import SIDES
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.measured import Measured, measured
from minispark_stream.lens.trace.steps import STEPS
from minispark_stream.lens.trace.values import as_int, as_list, as_map, as_watermark, entry_metadata
from minispark_stream.lens.view.walk import failed
from minispark_stream.lens.view.words import delay_words, number, offset_words, plain, plural, short, source_words, time_words

Values = Mapping[str, Any]

# What the watermarks of a batch mean, here and in the panel of the watermarks (panels.py).
LATE_MEANS = "rows that end by then may be dropped"
EVICTION_MEANS = "state that ends by then may be evicted"
WITHOUT_WATERMARK = "event time makes no row late, and evicts no state"
NO_EVENT_TIME = "no event time that gives a watermark"


def narrate(event: Event) -> str:
    """What this step did, as a sentence without a full stop."""
    if failed(event):
        return f"failed: {short(str(event.error))}"
    said = _SENTENCES.get(event.step)
    sentence = said(event.inputs, event.outputs) if said else STEPS[event.step].says
    if event.error is None:
        return sentence
    # Real Spark does not say in which step of the batch this was, so the batch itself has the words.
    words = f": {short(event.error)}" if event.engine == "spark" and event.step == "runBatch" else ""
    return f"{sentence}; it ends with an error{words}"


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
    return f"{ends}: batch {logged} is done, continue with batch {batch}"


def _decide(ins: Values, outs: Values) -> str:
    if outs.get("realTime"):
        return "real-time mode: there is always a batch, and how far it reads is known and logged when it ends"
    if outs.get("newData"):
        return "there is new data: run a batch"
    if outs.get("anotherBatch"):
        return (
            "no new data, but a stateful operator has work, because the watermark has moved or it has timers in processing "
            "time: run a batch without data, to emit and evict the state that is finished now"
        )
    return "no new data: wait"


def _latest_offset(ins: Values, outs: Values) -> str:
    if outs.get("end") is None or outs.get("end") == ins.get("start"):
        return f"{_source(ins)}: nothing after {offset_words(ins.get('start'))}"
    files = as_list(outs.get("files"))
    listed = f", {_how_many_files(files)}: {', '.join(short(plain(f)) for f in files)}" if files else ""
    return f"{_source(ins)}: from {offset_words(ins.get('start'))} up to {offset_words(outs['end'])}{listed}"


def _log_entry(ins: Values, outs: Values) -> str:
    lines = str(outs.get("text", "")).split("\n")[1:]
    metadata = entry_metadata(outs.get("text"))
    offsets = ", ".join(offset_words(line) for line in lines[1:])
    return f"{_written(ins, outs)}: read up to {offsets}; {_mark(metadata.get('batchWatermarkMs'))}"


def _commit_entry(ins: Values, outs: Values) -> str:
    watermark = entry_metadata(outs.get("text")).get("nextBatchWatermarkMs")
    return f"{_written(ins, outs)}: the batch is done; next, {_mark(watermark)}"


def _written(ins: Values, outs: Values) -> str:
    """What became of an entry; with asynchronous progress tracking, not every batch has one in the logs."""
    return f"{plain(ins.get('file'))} {'kept in memory only' if outs.get('inMemory') else 'written'}"


def _mark(watermark: Any) -> str:
    return "no watermark" if watermark == 0 else f"watermark {time_words(watermark)}"


def _get_batch(ins: Values, outs: Values) -> str:
    files = _how_many_files(as_list(outs.get("files"))) or "the rows"
    if ins.get("end") is None:
        return f"{_source(ins)}: a plan that reads on from {offset_words(ins.get('start'))} as long as the batch lasts"
    start, end = offset_words(ins.get("start")), offset_words(ins.get("end"))
    return f"{_source(ins)}: a plan for {files} after {start} up to {end}"


def _planning(ins: Values, outs: Values) -> str:
    if as_int(ins.get("watermarkEviction")) is None:
        return "the new data is in the template plan; no state in this query"
    if not as_int(ins.get("watermarkEviction")):
        return f"no watermark: {WITHOUT_WATERMARK}"
    late, eviction = as_watermark(ins.get("watermarkLate")), time_words(ins.get("watermarkEviction"))
    dropped = f"late watermark {time_words(late)}: {LATE_MEANS}" if late else "no late watermark yet"
    return f"{dropped}; eviction watermark {eviction}: {EVICTION_MEANS}{_of_their_own(outs)}"


def _of_their_own(outs: Values) -> str:
    """Why operators may have other bounds than the query."""
    names = [as_map(one).get("operator") for one in as_list(outs.get("operators"))]
    if "symmetricHashJoin" in names:
        return ", but each side of a join has a bound of its own"
    return ", as far as the operators below let the watermark through" if len(names) > 1 else ""


def _add_batch(ins: Values, outs: Values) -> str:
    if not outs:
        return f"batch {plain(ins.get('batchId'))} is handed to {short(plain(ins.get('sink')))}, which asks for its rows"
    return f"batch {plain(ins.get('batchId'))} computed and handed to {short(plain(ins.get('sink')))}{out_rows(outs)}"


def out_rows(outs: Values) -> str:
    """`: 3 rows out`, or nothing if the trace does not say."""
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
    done = f"version {version} read, version {version + 1} written: {counts}, {total} kept"
    return f"{plain(ins.get('operator'))}: {done}{_bounds(as_map(ins.get('decides')))}"


def _bounds(decides: Values) -> str:
    """Up to which time the rows of each side of a join are evicted."""
    leaves = map(as_watermark, as_list(decides.get("leaves_ms")) if decides.get("join_type") else ())
    said = [f"{side} rows up to {time_words(ms)}" for side, ms in zip(SIDES, leaves) if ms]
    return f"; {' and '.join(said)} are evicted" if said else ""


def _watermark(ins: Values, outs: Values) -> str:
    before, after = ins.get("watermark"), outs.get("watermark")
    nodes = measured(outs)
    if not nodes and "operators" in outs:
        return "no watermark in this query"
    seen = [one for one in nodes if one.newest_ms is not None]
    sums = "; ".join(map(_reached, seen)) + "; " if seen else ""
    if nodes and not seen:
        sums = "no row with an event time in this batch; "
    if len(nodes) > 1:
        sums += f"the {plain(ins.get('policy'))}imum of all operators counts; "
    if before == after:
        return f"{sums}" + (f"the watermark stays at {time_words(after)}" if after else "there is no watermark")
    if not before:
        return f"{sums}the first watermark is {time_words(after)}"
    return f"{sums}the watermark goes from {time_words(before)} to {time_words(after)}"


def _reached(one: Measured) -> str:
    if one.reached_ms is None:
        return NO_EVENT_TIME
    return f"{time_words(one.newest_ms)} - {delay_words(one.delay_ms)} = {time_words(one.reached_ms)}"


def _finish(ins: Values, outs: Values) -> str:
    progress = as_map(outs.get("progress"))
    return f"batch {plain(progress.get('batchId'))}: {plural(progress.get('numInputRows'), 'row')} in"


def _maintain(ins: Values, outs: Values) -> str:
    store = f"operator {plain(ins.get('operatorId'))}, partition {plain(ins.get('partition'))}"
    snapshot = as_int(outs.get("snapshot"))
    is_told = "worker" in outs  # else the trace is older than this
    source = "" if not is_told else " from memory" if outs.get("fromMemory") else " from the files"
    written = "no snapshot due" if snapshot is None else f"snapshot of version {snapshot} written{source}"
    deleted = [plain(f) for f in as_list(outs.get("deleted"))]
    done = f"{store}: {written}, " + (f"deleted {', '.join(deleted)}" if deleted else "nothing deleted")
    return f"{done}, by the worker {plain(outs['worker'])}" if is_told else done


def _how_many_files(names: Sequence[Any]) -> str:
    """How many files a step had; of many files, a trace has only the first names, and then "and 900 more"."""
    cut_off = re.fullmatch(r"and (\d+) more", plain(names[-1])) if names else None
    count = len(names) - 1 + int(cut_off[1]) if cut_off else len(names)
    return plural(count, "file") if names else ""


def deleted_words(outs: Values) -> str:
    """`2 files deleted`."""
    return f"{plural(len(as_list(outs.get('deleted'))), 'file')} deleted"


def _source(ins: Values) -> str:
    return source_words(plain(ins.get("source")))


_SENTENCES: dict[str, Callable[[Values, Values], str]] = {
    "startQuery": _start_query,
    "trigger": lambda ins, outs: ": ".join(
        filter(None, (plain(ins.get("trigger", "")), plain(outs.get("message", "")).lower()))) or "a trigger",
    "populateStartOffsets": _populate,
    "constructNextBatch": _decide,
    "latestOffset": _latest_offset,
    "walCommit": _log_entry,
    "commitSource": lambda ins, outs: f"{_source(ins)}: done with everything up to {offset_words(ins.get('end'))}",
    "purge": lambda ins, outs: f"entries of batches before {plain(ins.get('before'))}: {deleted_words(outs)}",
    "runBatch": lambda ins, outs: f"batch {plain(ins.get('batchId'))} begins",
    "getBatch": _get_batch,
    "queryPlanning": _planning,
    "addBatch": _add_batch,
    "stateOperator": _state,
    "updateWatermark": _watermark,
    "commitOffsets": _commit_entry,
    "finishTrigger": _finish,
    "maintenance": _maintain,
    "getStartOffset": lambda ins, outs: f"begin with epoch {plain(outs.get('epoch'))}, from {offset_words(outs.get('start'))}",
    "runContinuous": lambda ins, outs: "the continuous job ends",
    "addOffset": lambda ins, outs: f"{plain(ins.get('file'))} written: epoch {plain(ins.get('epoch'))} has been read",
    "commitEpoch": lambda ins, outs: (
        f"{plain(ins.get('file'))} written: epoch {plain(ins.get('epoch'))} is done, up to {offset_words(ins.get('end'))}"
    ),
}
