"""What a step did, in the few words below it in the flow diagram.

    populateStartOffsets   offsetLog 4, commitLog 3   -> "batch 4 again"
    stateOperator          version 4                  -> "v4 → v5: 1 updated, 2 removed"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.values import as_int, as_map
from minispark_stream.lens.view.sentences import Values, deleted_words, out_rows
from minispark_stream.lens.view.walk import failed
from minispark_stream.lens.view.words import offset_words, plain, plural, short_clock


def caption(event: Event) -> str:
    """What this step did, in a few words."""
    said = _CAPTIONS.get(event.step)
    return "failed" if failed(event) else said(event.inputs, event.outputs) if said else ""


def captions_of(events: Iterable[Event]) -> dict[str, str]:
    """Step -> caption, for the steps that happened; several events of one step (two sources) share a caption."""
    found: dict[str, list[str]] = {}
    for event in events:
        found.setdefault(event.step, []).append(caption(event))
    return {step: " | ".join(dict.fromkeys(words)) for step, words in found.items()}


def caption_lines(step: str, captions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """One line if the engines agree (or one says nothing), else one per engine; none if the step did not happen."""
    said = {engine: words[step] for engine, words in captions.items() if step in words}
    if len({words for words in said.values() if words}) > 1:
        return [f"{engine}: {words}" for engine, words in said.items()]
    return [max(said.values(), key=len)] if said else []


def _offset(offset: object) -> str:
    """An offset; that of the file source as a number only, because a caption has little room."""
    return offset_words(offset).removeprefix("logOffset ").removeprefix("the ")


def _populate_caption(ins: Values, outs: Values) -> str:
    if "offsetLog" not in ins:
        return ""
    if as_int(ins.get("offsetLog")) is None:
        return "new query"
    return f"batch {plain(outs.get('batchId'))}{' again' if outs.get('rerun') else ' is next'}"


def _decide_caption(ins: Values, outs: Values) -> str:
    if outs.get("newData"):
        return "new data"
    return "work without data" if outs.get("run") else "nothing new"


def _planning_caption(ins: Values, outs: Values) -> str:
    if not as_int(ins.get("watermarkEviction")):
        return "no state" if as_int(ins.get("watermarkEviction")) is None else "no watermark"
    late = f"late {short_clock(ins.get('watermarkLate'))}" if ins.get("watermarkLate") else "none late"
    return f"{late}, evict {short_clock(ins.get('watermarkEviction'))}"


def _state_caption(ins: Values, outs: Values) -> str:
    version = as_int(ins.get("version")) or 0
    metrics = as_map(outs.get("metrics"))
    changes = ", ".join(
        f"{plain(metrics[key])} {word}"
        for key, word in (("numRowsUpdated", "updated"), ("numRowsRemoved", "removed"), ("numRowsDroppedByWatermark", "late"))
        if metrics.get(key)
    ) or "unchanged"
    return f"v{version} → v{version + 1}: {changes}"


def _watermark_caption(ins: Values, outs: Values) -> str:
    before, after = ins.get("watermark"), outs.get("watermark")
    if not after:
        return ""
    if before == after:
        return f"stays {short_clock(after)}"
    return f"{short_clock(before)} → {short_clock(after)}" if before else f"first: {short_clock(after)}"


_CAPTIONS: dict[str, Callable[[Values, Values], str]] = {
    "startQuery": lambda ins, outs: f"output mode {plain(ins.get('outputMode'))}",
    "trigger": lambda ins, outs: plain(ins.get("trigger", "")).replace("Trigger", ""),
    "populateStartOffsets": _populate_caption,
    "constructNextBatch": _decide_caption,
    "latestOffset": lambda ins, outs: f"{_offset(ins.get('start'))} → {_offset(outs.get('end'))}",
    "walCommit": lambda ins, outs: plain(ins.get("file")),
    "commitSource": lambda ins, outs: f"up to {_offset(ins.get('end'))}",
    "purge": lambda ins, outs: deleted_words(outs),
    "runBatch": lambda ins, outs: f"batch {plain(ins.get('batchId'))}",
    "getBatch": lambda ins, outs: f"after {_offset(ins.get('start'))} up to {_offset(ins.get('end'))}",
    "queryPlanning": _planning_caption,
    "addBatch": lambda ins, outs: out_rows(outs).removeprefix(": "),
    "stateOperator": _state_caption,
    "updateWatermark": _watermark_caption,
    "commitOffsets": lambda ins, outs: plain(ins.get("file")),
    "finishTrigger": lambda ins, outs: f"{plural(as_map(outs.get('progress')).get('numInputRows'), 'row')} in",
    "maintenance": lambda ins, outs: (
        f"snapshot of version {plain(outs['snapshot'])}" if as_int(outs.get("snapshot")) is not None else deleted_words(outs)
    ),
    "getStartOffset": lambda ins, outs: f"epoch {plain(outs.get('epoch'))}",
    "runContinuous": lambda ins, outs: "",
    "addOffset": lambda ins, outs: plain(ins.get("file")),
    "commitEpoch": lambda ins, outs: plain(ins.get("file")),
}
