"""The steps of real Structured Streaming, from what it leaves behind.

Models: what StreamingQueryProgress, the listener and the checkpoint directory tell about MicroBatchExecution (SIGMOD'18
paper, section 7.4: monitoring).

Spark cannot be asked for its steps, but each of them leaves something:

    durationMs of the progress     how long each phase took
    offsets/N  commits/N           what was logged before and after the batch, watermark included
    sources/i/n                    which files came in a log entry
    stateOperators                 what the stateful operators did
    collected rows                 what the sink got (a foreachBatch that looks)

1. `read_logs` keeps the log files of each batch while they are there (Spark purges them later).
2. `spark_trace` puts progress reports and logs together as the same events that the model records, so one drawing shows both.

Spark reports how long a phase took and not when it began, so the phases of a trigger are laid end to end.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.trace.events import MAX_ROWS, Event
from minispark_stream.trace.trace import Trace


@dataclass(frozen=True)
class SparkBatch:
    """One batch that Spark ran: its progress report, its log files (name -> text), and the rows that the sink got."""

    progress: Mapping[str, Any]
    logs: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]] | None = None
    rerun: bool = False


def read_logs(checkpoint: str, batch_id: int, progress: Mapping[str, Any]) -> dict[str, str]:
    """The log files of one batch: its offsets, its commit, and the source log entries that came with it."""
    files = CheckpointFileManager(checkpoint)
    names = [f"offsets/{batch_id}", f"commits/{batch_id}"]
    for i, source in enumerate(progress.get("sources", ())):
        start, end = (_log_offset(source.get(key)) for key in ("startOffset", "endOffset"))
        if end is not None:
            for n in range(0 if start is None else start + 1, end + 1):
                names += [f"sources/{i}/{n}", f"sources/{i}/{n}.compact"]
    found = {}
    for name in names:
        try:
            found[name] = files.open(name).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
    return found


def spark_trace(batches: Sequence[SparkBatch], name: str | None = None, plan: str | None = None) -> Trace:
    """The trace of batches that Spark ran, in the order in which they ran."""
    return Trace(tuple(_events(batches)), engine="spark", name=name, plan=plan)


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
    previous: SparkBatch | None = None
    for trigger, batch in enumerate(batches):
        writer = _Writer(trigger, int(batch.progress["batchId"]), now_ms)
        _trigger(writer, batch, previous)
        now_ms, previous = writer.now_ms, batch
        yield from writer.events


def _trigger(writer: _Writer, batch: SparkBatch, previous: SparkBatch | None) -> None:
    progress = batch.progress
    durations = progress.get("durationMs", {})
    n, began = writer.batch_id, writer.now_ms
    sources = progress.get("sources", [])
    watermark = _metadata(batch, "batchWatermarkMs")
    late = None if previous is None else _metadata(previous, "batchWatermarkMs")
    if previous is None or batch.rerun:
        writer.step(
            "populateStartOffsets", 0, 0, {},
            {"batchId": n, "rerun": batch.rerun, "start": _by_source(sources, "startOffset"), "watermark": watermark},
        )
    if not batch.rerun:
        _construct(writer, batch, sources, durations, watermark)
    run_began = writer.now_ms
    for i, source in enumerate(sources):
        if source.get("startOffset") != source.get("endOffset"):
            writer.step(
                "getBatch", 2, durations.get("getBatch", 0) if i == 0 else 0,
                {
                    "source": _name(i, source),
                    "start": _text(source.get("startOffset")),
                    "end": _text(source.get("endOffset")),
                },
                {"files": _files(batch, i)},
            )
    writer.step(
        "queryPlanning", 2, durations.get("queryPlanning", 0),
        {"watermarkLate": late or 0, "watermarkEviction": watermark or 0, "timestamp": _metadata(batch, "batchTimestampMs")},
        {"operators": [
            {"operatorId": i, "operator": op["operatorName"]} for i, op in enumerate(progress.get("stateOperators", []))
        ]},
    )
    add_began, spent = writer.now_ms, durations.get("addBatch", 0)
    for i, op in enumerate(progress.get("stateOperators", [])):
        writer.step("stateOperator", 3, 0, {"operatorId": i, "operator": op["operatorName"], "version": n}, {"metrics": op})
    rows = {} if batch.rows is None else {"rows": list(batch.rows)[:MAX_ROWS], "emitted": len(batch.rows)}
    writer.step(
        "addBatch", 2, spent, {"sink": progress["sink"]["description"], "batchId": n},
        {**rows, "numOutputRows": progress["sink"].get("numOutputRows")}, add_began,
    )
    after = _metadata(batch, "nextBatchWatermarkMs")
    writer.step("updateWatermark", 2, 0, {"watermark": watermark}, {"watermark": after})
    writer.step("commitOffsets", 2, durations.get("commitOffsets", 0), {"file": f"commits/{n}"},
                {"text": batch.logs.get(f"commits/{n}")})
    writer.step("runBatch", 1, writer.now_ms - run_began, {
        "batchId": n, "start": _by_source(sources, "startOffset"), "end": _by_source(sources, "endOffset")}, {}, run_began)
    writer.step("finishTrigger", 1, 0, {}, {"progress": dict(progress)})
    total = max(durations.get("triggerExecution", 0), writer.now_ms - began)
    writer.step("trigger", 0, total, {}, {"ran": True, "message": "Processing new data" if progress.get("numInputRows")
                                          else "No new data but cleaning up state"}, began)


def _construct(
    writer: _Writer, batch: SparkBatch, sources: Sequence[Mapping[str, Any]], durations: Mapping[str, float], watermark: Any
) -> None:
    began, n = writer.now_ms, writer.batch_id
    new_data = any(s.get("startOffset") != s.get("endOffset") for s in sources)
    for i, source in enumerate(sources):
        writer.step(
            "latestOffset", 2, durations.get("latestOffset", 0) if i == 0 else 0,
            {"source": _name(i, source), "start": _text(source.get("startOffset"))},
            {"end": _text(source.get("endOffset")), "files": _files(batch, i)},
        )
    wal = f"offsets/{n}"
    writer.step("walCommit", 2, durations.get("walCommit", 0), {"file": wal}, {"text": batch.logs.get(wal)})
    writer.step(
        "constructNextBatch", 1, writer.now_ms - began, {"start": _by_source(sources, "startOffset")},
        {"end": _by_source(sources, "endOffset"), "newData": new_data, "anotherBatch": not new_data, "run": True,
         "watermark": watermark}, began,
    )


def _metadata(batch: SparkBatch, key: str) -> int | None:
    """A number of the batch's offset or commit log entry."""
    n = batch.progress["batchId"]
    text = batch.logs.get(f"commits/{n}" if key == "nextBatchWatermarkMs" else f"offsets/{n}")
    try:
        value = json.loads((text or "").split("\n")[1])[key]
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return value if isinstance(value, int) else None


def _files(batch: SparkBatch, source: int) -> list[str]:
    """The files that came to a source in this batch, from its log entries."""
    found = []
    for name, text in batch.logs.items():
        if name.startswith(f"sources/{source}/"):
            own = int(name.rsplit("/", 1)[-1].removesuffix(".compact"))
            for line in text.split("\n")[1:]:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if entry.get("batchId") == own:
                    found.append(entry.get("path"))
    return found


def _log_offset(offset: Any) -> int | None:
    try:
        value = json.loads(offset)["logOffset"]
    except (KeyError, TypeError, ValueError):  # an offset of another source
        return None
    return value if isinstance(value, int) else None


def _text(offset: Any) -> str | None:
    """An offset as it stands in the log; progress reports put spaces into its JSON, and have `null` for none."""
    try:
        value = json.loads(offset or "null")
    except (TypeError, ValueError):
        return str(offset)
    return None if value is None else json.dumps(value, separators=(",", ":"))


def _by_source(sources: Sequence[Mapping[str, Any]], key: str) -> dict[str, str | None]:
    return {_name(i, source): _text(source.get(key)) for i, source in enumerate(sources)}


def _name(number: int, source: Mapping[str, Any]) -> str:
    """What tells a source from another one with the same description."""
    return f"{number}: {source['description']}"
