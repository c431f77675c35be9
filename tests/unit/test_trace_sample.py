"""The trace that the other tests draw: a windowed count with a 10-minute watermark, stopped by an error in batch 3, run again.

    batch   rows (event time)        late   evict  out                  next watermark
    0       12:02 12:07              -      -      -                    11:57
    1       12:14                    -      11:57  -                    12:04
    2       12:21 12:08 12:04        11:57  12:04  -                    12:11
    3 (x2)  12:04 12:30              12:04  12:11  12:00=3 12:05=2      12:20
    4       12:05 12:40              12:11  12:20  12:10=1              12:30
    5       no data                  12:20  12:30  12:20=1              12:30

`python tests/unit/test_trace_sample.py` writes it to tests/golden/trace_sample.json.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from minispark_stream.trace.events import STEPS, Event
from minispark_stream.trace.trace import Trace

GOLDEN = Path(__file__).parents[1] / "golden" / "trace_sample.json"
SOURCE = "FileStreamSource[file:/data/events/in]"
NAMED = f"0: {SOURCE}"
MINUTE = 60_000
ROWS = [["12:02", "12:07"], ["12:14"], ["12:21", "12:08", "12:04"], ["12:04", "12:30"], ["12:05", "12:40"], []]
CONF = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.multipleWatermarkPolicy": "min"}


def ms(clock: str) -> int:
    hours, minutes = map(int, clock.split(":"))
    return int(datetime(2024, 1, 1, hours, minutes, tzinfo=timezone.utc).timestamp() * 1000)


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def clock(time_ms: int) -> str:
    return iso(time_ms)[11:16]


class Tape:
    """Events with a clock that moves by what each step is said to take."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.trigger = 0
        self.batch_id: int | None = None

    def add(
        self, step: str, depth: int, took: float, ins: dict[str, Any], outs: dict[str, Any], error: str | None = None
    ) -> None:
        self.now += took
        self.events.append(
            Event(step, "model", self.trigger, self.batch_id, depth, self.now - took, took, ins, outs, error)
        )

    def around(self, step: str, depth: int, began: float, ins: dict[str, Any], outs: dict[str, Any], error: str | None = None) -> None:
        self.events.append(
            Event(step, "model", self.trigger, self.batch_id, depth, began, self.now - began, ins, outs, error)
        )


class Query:
    """Just enough of a windowed count to fill the events in."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.state: dict[int, int] = {}
        self.watermark = 0
        self.evicted_at = 0
        self.offset: str | None = None

    def start(self, batch: int, logged: int | None, committed: int | None) -> None:
        tape = self.tape
        tape.batch_id = None
        tape.add("startQuery", 0, 30, {
            "name": "windows", "outputMode": "append", "sink": "MemorySink", "checkpoint": "file:/data/events/checkpoint",
        }, {"id": "9f0c", "runId": f"run-{batch}", "plan": PLAN})
        end = {NAMED: f'{{"logOffset":{logged}}}'} if logged is not None else {}
        start = {NAMED: self.offset} if self.offset else {}
        tape.add("populateStartOffsets", 0, 6, {"offsetLog": logged, "commitLog": committed}, {
            "batchId": batch, "start": start, "end": end, "rerun": logged == batch, "watermark": self.watermark,
        })

    def batch(self, number: int, rerun: bool = False, fails: bool = False) -> None:
        tape, tape.batch_id = self.tape, number
        began, rows = tape.now, ROWS[number]
        late, evict = self.evicted_at, self.watermark
        start, end = self.offset, f'{{"logOffset":{number}}}' if rows else self.offset
        if not rerun:
            self._construct(number, start, end, evict)
        run_began = tape.now
        if rows:
            values = [{"time": f"2024-01-01 {r}:00", "key": "abc"[i]} for i, r in enumerate(rows)]
            tape.add("getBatch", 2, 8, {"source": SOURCE, "start": start, "end": end},
                     {"files": [f"file:///data/events/in/{number}.csv"], "rows": values})
        tape.add("queryPlanning", 2, 22, {"watermarkLate": late, "watermarkEviction": evict, "timestamp": 1_795_209_918_406 + number},
                 {"plan": PLAN, "operators": [{"operatorId": 0, "operator": "stateStoreSave"}]})
        job_began = tape.now
        runs = {"batchId": number, "start": {NAMED: start} if start else {}, "end": {NAMED: end}}
        if fails:
            tape.add("addBatch", 2, 90, {"sink": "MemorySink", "batchId": number}, {}, "OSError: No space left on device")
            tape.around("runBatch", 1, run_began, runs, {}, "OSError: No space left on device")
            tape.around("trigger", 0, began, {"trigger": "ProcessingTimeTrigger(0 ms)"}, {}, "OSError: No space left on device")
            tape.trigger, tape.batch_id = tape.trigger + 1, None
            return tape.add("terminate", 0, 0, {}, {"error": "OSError: No space left on device"})
        tape.now += 120
        out, metrics = self._state(number, rows, late, evict)
        tape.around("addBatch", 2, job_began, {"sink": "MemorySink", "batchId": number}, {"rows": out, "numOutputRows": len(out)})
        self._watermark(rows)
        self.evicted_at = evict
        self.offset = end
        tape.add("commitOffsets", 2, 25, {"file": f"commits/{number}"}, {"text": f'v1\n{{"nextBatchWatermarkMs":{self.watermark}}}'})
        tape.around("runBatch", 1, run_began, runs, {})
        if number == 4:
            tape.events.append(Event("maintenance", "model", tape.trigger, number, 0, tape.now, 9.0,
                                     {"operatorId": 0, "partition": 1, "store": "default"}, {"snapshot": 4, "deleted": ["1.delta"]}))
        progress = {
            "id": "9f0c", "batchId": number, "numInputRows": len(rows), "timestamp": "2026-11-20T21:25:23.332Z",
            "durationMs": {"getBatch": 8, "latestOffset": 12, "queryPlanning": 22, "addBatch": 120, "walCommit": 40,
                           "commitOffsets": 25, "triggerExecution": 240},
            "eventTime": {"watermark": iso(evict)}, "stateOperators": [metrics],
            "sources": [{"description": SOURCE, "numInputRows": len(rows)}],
        }
        tape.add("finishTrigger", 1, 1, {}, {"progress": progress})
        tape.around("trigger", 0, began, {"trigger": "ProcessingTimeTrigger(0 ms)"}, {
            "ran": True, "message": "Processing new data" if rows else "No new data but cleaning up state"})
        tape.trigger += 1

    def _construct(self, number: int, start: str | None, end: str | None, evict: int) -> None:
        tape, began = self.tape, self.tape.now
        files = [f"file:///data/events/in/{number}.csv"] if start != end else []
        tape.add("latestOffset", 2, 12, {"source": SOURCE, "start": start, "limit": "ReadMaxFiles(max_files 1)"}, {"end": end, "files": files})
        metadata = json.dumps({"batchWatermarkMs": evict, "batchTimestampMs": 1_795_209_918_406, "conf": CONF}, separators=(",", ":"))
        tape.add("walCommit", 2, 40, {"file": f"offsets/{number}"}, {"text": f"v1\n{metadata}\n{end}"})
        if number > 0:
            tape.add("commitSource", 2, 1, {"source": SOURCE, "end": start}, {})
        if number > 3:
            tape.add("purge", 2, 2, {"before": number - 3}, {"deleted": [f"offsets/{number - 4}", f"commits/{number - 4}"]})
        tape.around("constructNextBatch", 1, began, {"start": {NAMED: start} if start else {}}, {
            "end": {NAMED: end}, "newData": start != end, "anotherBatch": start == end, "run": True, "watermark": evict})

    def _state(self, number: int, rows: list[str], late: int, evict: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        before = self._rows()
        size = 5 * MINUTE
        windows = [ms(r) // size * size for r in rows]
        kept = [w for w in windows if w + size > late]
        for window in kept:
            self.state[window] = self.state.get(window, 0) + 1
        gone = sorted(w for w in self.state if w + size <= evict)
        out = [{"start": f"2024-01-01 {clock(w)}:00", "count": self.state.pop(w)} for w in gone]
        metrics = {
            "operatorName": "stateStoreSave", "numRowsTotal": len(self.state), "numRowsUpdated": len(set(kept)),
            "numRowsRemoved": len(gone), "numRowsDroppedByWatermark": len(set(windows) - set(kept)),
            "numShufflePartitions": 2, "numStateStoreInstances": 2, "customMetrics": {},
        }
        self.tape.add("stateOperator", 3, 0, {
            "operatorId": 0, "operator": "stateStoreSave", "outputMode": "append", "version": number,
        }, {"metrics": metrics, "before": before, "after": self._rows()})
        return out, metrics

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"store": "default", "partition": w // MINUTE // 5 % 2,
             "key": {"window": {"start": f"2024-01-01 {clock(w)}:00", "end": f"2024-01-01 {clock(w + 5 * MINUTE)}:00"}},
             "value": {"count": n}}
            for w, n in sorted(self.state.items())
        ]

    def _watermark(self, rows: list[str]) -> None:
        times = [ms(r) for r in rows]
        before, delay = self.watermark, 10 * MINUTE
        self.watermark = max([before, *(t - delay for t in times)])
        measured = {"max": max(times, default=0), "min": min(times, default=0), "avg": sum(times) / max(len(times), 1), "count": len(times)}
        operator = {"node": "time", "delayMs": delay, "watermark": self.watermark, **measured}
        self.tape.add("updateWatermark", 2, 0, {"policy": "min", "watermark": before}, {"operators": [operator], "watermark": self.watermark})


PLAN = (
    "Project [window#12.start AS start#20, count#19L]\n+- Aggregate [window#13], [window#13 AS window#12, count(1) AS count#19L]\n"
    "   +- EventTimeWatermark time#0, 10 minutes\n      +- StreamingRelation csv, [time#0, key#1]"
)


def sample() -> Trace:
    query = Query()
    query.start(0, None, None)
    for number in range(3):
        query.batch(number)
    query.batch(3, fails=True)
    query.tape.trigger += 1
    query.start(3, 3, 2)
    query.batch(3, rerun=True)
    query.batch(4)
    query.batch(5)
    return Trace(tuple(query.tape.events), name="windows", plan=PLAN)


def test_the_saved_sample_is_this_one():
    assert Trace.load(GOLDEN) == sample()


def test_the_sample_has_every_step():
    assert {e.step for e in sample().events} == set(STEPS)


if __name__ == "__main__":
    sample().save(GOLDEN)
