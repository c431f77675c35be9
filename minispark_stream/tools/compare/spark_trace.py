"""The steps of real Structured Streaming, from its reports and its checkpoint.

Models: what StreamingQueryProgress, the listener and the checkpoint directory tell about MicroBatchExecution (SIGMOD'18
paper, section 7.4: monitoring).

Spark cannot be asked for its steps, but each of them leaves something:

    durationMs of the progress     how long each phase took
    offsets/N  commits/N           what was logged before and after the batch, including the watermark
    sources/i/n                    which files are in a log entry
    stateOperators                 what the stateful operators did
    state/i/p/N.zip                for RocksDB: which versions exist as a whole, and which tables they have
    collected rows                 what the sink received (from a foreachBatch that keeps it)

`spark_trace` combines progress reports and logs (spark_batch.py) into the same events that the model records, so one drawing
shows both.

Spark reports how long a phase took, but not when it began, so the phases of a trigger are laid end to end. In real-time mode, a
batch is logged when it ends, because only then it is known how far it has read. If the reports do not begin with batch 0, or
the logs are gone, the trace has a note that says so.

The watermark that finds late rows is shown as that of the batch before. This is so unless
`spark.sql.streaming.statefulOperator.allowMultiple` is off, and neither reports nor logs say whether it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.checkpointing.compactible_file_stream_log import batch_of_file
from minispark_stream.engine.runtime.progress_reporter import status_message
from minispark_stream.lens.trace.events import MAX_ROWS, Event
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.trace.values import as_map
from minispark_stream.tools.compare.engine_run import cause_of
from minispark_stream.tools.compare.spark_batch import Sources, SparkBatch, offset_text


def spark_trace(
    batches: Sequence[SparkBatch], name: str | None = None, plan: str | None = None, error: str | None = None
) -> Trace:
    """The trace of batches that Spark ran, in the order in which they ran; `error` is what ended the query after them."""
    events = list(_events(batches))
    if error is not None:
        words = str(cause_of(error) or error.partition("\n=== Streaming Query ===")[0].strip())
        events += _failed(batches, words, events[-1].start_ms + events[-1].duration_ms if events else 0.0)
    return Trace(tuple(events), engine="spark", name=name, plan=plan, note=_note(batches))


def _note(batches: Sequence[SparkBatch]) -> str | None:
    """What is missing in the trace."""
    if not batches:
        return "No batch has ended yet, so there are no steps to show: reports of triggers without new data have none."
    missing = []
    if batches[0].batch_id > 0:
        missing.append(
            f"Batches before {batches[0].batch_id} are missing: a query only reports the newest batches of its own run "
            "(spark.sql.streaming.numRecentProgressUpdates)."
        )
    if not any(batch.logs for batch in batches):
        missing.append(
            "The checkpoint is not there (a temporary one is deleted when its query stops, and reports alone do not name it): "
            "files and log entries are not known, and watermarks are those of the progress reports."
        )
    return " ".join(missing) or None


@dataclass
class _Writer:
    """Lays steps end to end, and closes the steps that contain them."""

    trigger: int
    batch_id: int
    now_ms: float
    events: list[Event] = field(default_factory=list)

    def step(
        self, name: str, depth: int, duration_ms: float, inputs: Mapping[str, Any], outputs: Mapping[str, Any],
        start_ms: float | None = None,
    ) -> None:
        start = self.now_ms if start_ms is None else start_ms
        self.events.append(Event(
            name, "spark", self.trigger, self.batch_id, depth, start, duration_ms, inputs=dict(inputs), outputs=dict(outputs)
        ))
        self.now_ms = max(self.now_ms, start + duration_ms)


def _events(batches: Sequence[SparkBatch]) -> Iterator[Event]:
    now_ms = 0.0
    watermarks = {batch.batch_id: batch.watermark_ms for batch in batches}
    run_id = None
    for trigger, batch in enumerate(batches):
        writer = _Writer(trigger, batch.batch_id, now_ms)
        begins = batch.batch_id == 0 if run_id is None else batch.progress.get("runId") != run_id
        _trigger(writer, batch, begins or batch.rerun, watermarks)
        now_ms, run_id = writer.now_ms, batch.progress.get("runId")
        yield from writer.events


def _failed(batches: Sequence[SparkBatch], error: str, now_ms: float) -> Iterator[Event]:
    """The trigger in which the query failed. Spark does not report in which step this was."""
    batch_id = batches[-1].batch_id + 1 if batches else 0
    for depth, step in ((1, "runBatch"), (0, "trigger")):
        yield Event(step, "spark", len(batches), batch_id, depth, now_ms, 0.0, {"batchId": batch_id}, error=error)


def _trigger(writer: _Writer, batch: SparkBatch, begins: bool, watermarks: Mapping[int, int | None]) -> None:
    """`begins`: whether the batch is the first one of a run."""
    progress = batch.progress
    durations = progress.get("durationMs", {})
    n, began = writer.batch_id, writer.now_ms
    sources = batch.sources
    watermark = batch.watermark_ms
    new_data = any(source.get("startOffset") != source.get("endOffset") for _, source in sources)
    if begins:
        writer.step(
            "populateStartOffsets", 0, 0, {},
            {"batchId": n, "rerun": batch.rerun, "start": _by_source(sources, "startOffset"), "watermark": watermark},
        )
    if not batch.rerun:
        _construct(writer, batch, sources, durations, watermark, new_data)
    run_began = writer.now_ms
    late = watermarks.get(n - 1) if n > 0 else 0  # unknown, if the batch before is not in here
    for i, (name, source) in enumerate(sources):
        if batch.is_real_time or source.get("startOffset") != source.get("endOffset"):
            writer.step(
                "getBatch", 2, durations.get("getBatch", 0) if i == 0 else 0,
                {
                    "source": _name(name, source),
                    "start": offset_text(source.get("startOffset")),
                    "end": None if batch.is_real_time else offset_text(source.get("endOffset")),
                },
                {"files": _files(batch, name)},
            )
    writer.step(
        "queryPlanning", 2, durations.get("queryPlanning", 0),
        {"watermarkLate": late, "watermarkEviction": watermark or 0, "timestamp": batch.timestamp_ms},
        {"operators": [
            {"operatorId": i, "operator": op["operatorName"]} for i, op in enumerate(progress.get("stateOperators", []))
        ]},
    )
    add_began, spent = writer.now_ms, durations.get("addBatch", 0)
    for i, op in enumerate(progress.get("stateOperators", [])):
        zips = {"zips": batch.zips[i]} if i in batch.zips else {}
        ins = {"operatorId": i, "operator": op["operatorName"], "version": n}
        writer.step("stateOperator", 3, 0, ins, {"metrics": op, **zips})
    rows = {} if batch.rows is None else {"rows": list(batch.rows)[:MAX_ROWS], "emitted": len(batch.rows)}
    writer.step(
        "addBatch", 2, spent, {"sink": progress["sink"]["description"], "batchId": n},
        {**rows, "numOutputRows": progress["sink"].get("numOutputRows")}, add_began,
    )
    after = watermarks.get(n + 1) if batch.next_watermark_ms is None else batch.next_watermark_ms
    writer.step("updateWatermark", 2, 0, {"watermark": watermark}, {"watermark": after})
    if batch.is_real_time:
        _log(writer, batch)
    writer.step("commitOffsets", 2, durations.get("commitOffsets", 0), {"file": f"commits/{n}"},
                {"text": batch.logs.get(f"commits/{n}")})
    writer.step("runBatch", 1, writer.now_ms - run_began, {
        "batchId": n, "start": _by_source(sources, "startOffset"), "end": _by_source(sources, "endOffset")}, {}, run_began)
    writer.step("finishTrigger", 1, 0, {}, {"progress": dict(progress)})
    total = max(durations.get("triggerExecution", 0), writer.now_ms - began)
    writer.step("trigger", 0, total, {}, {"ran": True, "message": status_message(new_data)}, began)


def _construct(
    writer: _Writer, batch: SparkBatch, sources: Sources, durations: Mapping[str, float], watermark: Any, new_data: bool
) -> None:
    began = writer.now_ms
    if batch.is_real_time:  # there is always a batch, and where it ends is not known yet
        writer.step(
            "constructNextBatch", 1, durations.get("latestOffset", 0), {"start": _by_source(sources, "startOffset")},
            {"realTime": True, "run": True, "watermark": watermark},
        )
        return
    for i, (name, source) in enumerate(sources):
        writer.step(
            "latestOffset", 2, durations.get("latestOffset", 0) if i == 0 else 0,
            {"source": _name(name, source), "start": offset_text(source.get("startOffset"))},
            {"end": offset_text(source.get("endOffset")), "files": _files(batch, name)},
        )
    _log(writer, batch)
    writer.step(
        "constructNextBatch", 1, writer.now_ms - began, {"start": _by_source(sources, "startOffset")},
        {"end": _by_source(sources, "endOffset"), "newData": new_data, "run": True, "watermark": watermark,
         **({} if new_data else {"anotherBatch": True})}, began,  # Spark does not say what would happen without new data
    )


def _log(writer: _Writer, batch: SparkBatch) -> None:
    file, took = f"offsets/{batch.batch_id}", as_map(batch.progress.get("durationMs"))
    writer.step("walCommit", 2, took.get("walCommit", 0), {"file": file}, {"text": batch.logs.get(file)})


def _files(batch: SparkBatch, source: str) -> list[str]:
    """The files that a source received in this batch, from its log entries."""
    found = []
    for name, text in batch.logs.items():
        if name.startswith(f"sources/{source}/"):
            own = batch_of_file(name.rpartition("/")[2])
            for line in text.split("\n")[1:]:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if entry.get("batchId") == own:
                    found.append(entry.get("path"))
    return found


def _by_source(sources: Sources, key: str) -> dict[str, str | None]:
    return {_name(name, source): offset_text(source.get(key)) for name, source in sources}


def _name(name: str, source: Mapping[str, Any]) -> str:
    """The name of a source, which distinguishes it from others with the same description."""
    return f"{name}: {source['description']}"
