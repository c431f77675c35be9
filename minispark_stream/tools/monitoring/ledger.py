"""What is known of the queries of a session, from what a listener hears.

1. A report sets the gauges of its query, and adds to its counters.
2. When the query ends, its gauges go: nobody should take old numbers for new ones. Its counters, and when it committed last,
   stay, so that a counter goes on when the query is started again on its checkpoint.
3. At most `most` queries are known. If there are more, one that has ended is forgotten first.

    report {"inputRowsPerSecond": 5.0, "sources": [{"numInputRows": 3}]}   ->   inputRate-total 5.0, source_rows{source="0"} +3

A listener must be quick and must not fail, so nothing here waits or reads, and what a report does not have is left out.

Shown by tests/unit/tools/monitoring/test_ledger.py.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.gauges import gauges
from minispark_stream.engine.times import iso_ms
from minispark_stream.tools.inspection.offset_meaning import records_behind
from minispark_stream.tools.monitoring.families import Sample

SeriesKey = tuple[str, tuple[str, ...]]  # name and labels
_CONDITION = re.compile(r"[A-Z0-9_.]{1,200}")


@dataclass
class _Query:
    name: str
    active: bool = True
    gauges: tuple[Sample, ...] = ()
    lasting: dict[SeriesKey, float] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        key = sample.name, sample.labels
        self.lasting[key] = self.lasting.get(key, 0) + sample.value

    def seen(self, name: str, time: Any, later_ms: float = 0) -> None:
        if (ms := iso_ms(time)) is not None:
            self.lasting[name, ()] = (ms + later_ms) / 1000


class Ledger:
    """The newest numbers of each query, by its id."""

    def __init__(self, most: int = 100):
        self._most = most
        self._queries: dict[str, _Query] = {}
        self._lock = threading.Lock()

    def started(self, query_id: str, name: str | None, time: Any = None) -> None:
        with self._lock:
            query = self._running(query_id, name)
            query.gauges = ()
            query.seen("last_report_timestamp_seconds", time)

    def reported(self, report: Mapping[str, Any]) -> None:  # (1)
        """A progress report, as the JSON of Spark has it."""
        query_id = str(report.get("id"))
        gauges, counts = tuple(gauges_of(report)), tuple(counts_of(report))
        with self._lock:
            query = self._running(query_id, report.get("name"))
            query.gauges = gauges
            for sample in counts:
                query.add(sample)
            query.seen("last_report_timestamp_seconds", report.get("timestamp"))
            if has_run_a_batch(report):
                took = _number(_map(report.get("durationMs")).get("triggerExecution")) or 0
                query.seen("last_commit_timestamp_seconds", report.get("timestamp"), took)

    def idle(self, query_id: str, time: Any) -> None:
        with self._lock:
            if (query := self._queries.get(query_id)) is not None:
                query.seen("last_report_timestamp_seconds", time)

    def ended(self, query_id: str, failed: bool, condition: str | None) -> None:  # (2)
        with self._lock:
            if (query := self._queries.get(query_id)) is not None:
                known = condition if condition and _CONDITION.fullmatch(condition) else "unknown"
                labels = (known if failed else "none",)
                query.active, query.gauges = False, (Sample("ended", 1, labels),)
                query.add(Sample("terminations", 1, labels))

    def samples(self) -> list[Sample]:
        """All numbers; the first two labels of each are the name and the id of its query."""
        with self._lock:
            return [
                Sample(one.name, one.value, (query.name, query_id, *one.labels))
                for query_id, query in self._queries.items() for one in _all(query)
            ]

    def _running(self, query_id: str, name: str | None) -> _Query:
        """What is known of a query that runs; it may have been started before anybody listened."""
        query = self._queries.pop(query_id, None) or _Query("")
        query.name, query.active = name or query_id, True
        self._queries[query_id] = query
        while len(self._queries) > self._most:  # (3)
            ended = (i for i, one in self._queries.items() if not one.active)
            del self._queries[next(ended, next(iter(self._queries)))]
        return query


def _all(query: _Query) -> Iterator[Sample]:
    yield Sample("active", int(query.active))
    yield from query.gauges
    yield from (Sample(name, value, labels) for (name, labels), value in query.lasting.items())


def has_run_a_batch(report: Mapping[str, Any]) -> bool:
    """Whether a report is that of a batch; with a continuous trigger, a report of an epoch has no durations."""
    durations = _map(report.get("durationMs"))
    return "addBatch" in durations or not durations


def gauges_of(report: Mapping[str, Any]) -> Iterator[Sample]:
    """What a report says of this moment."""
    durations, operators = _map(report.get("durationMs")), _operators(report)
    trigger, watermark = iso_ms(report.get("timestamp")), iso_ms(_map(report.get("eventTime")).get("watermark"))
    lag = (trigger - watermark) / 1000 if trigger is not None and watermark else None
    for name, value in {**gauges(report), "batch_id": report.get("batchId"), "watermark_lag_seconds": lag}.items():
        yield from _samples(name, [((), value)])
    yield from _samples("phase_seconds", [((phase,), ms) for phase, ms in durations.items()], 1 / 1000)
    for number, source in enumerate(_maps(report.get("sources"))):
        behind = records_behind(source.get("endOffset"), source.get("latestOffset"))
        yield from _samples("source_lag", [((str(number),), behind)])
        own = _map(source.get("metrics")).items()
        yield from _samples("source_metric", [((str(number), name), value) for name, value in own])
    for labels, operator in operators:
        yield from _samples("state_rows", [(labels, operator.get("numRowsTotal"))])
        yield from _samples("state_memory_bytes", [(labels, operator.get("memoryUsedBytes"))])


def counts_of(report: Mapping[str, Any]) -> Iterator[Sample]:
    """What a report adds to what was counted before."""
    yield Sample("batches", int(has_run_a_batch(report)))
    for number, source in enumerate(_maps(report.get("sources"))):
        yield from _samples("source_rows", [((str(number),), source.get("numInputRows"))])
    written = _number(_map(report.get("sink")).get("numOutputRows"))
    if written is not None and written >= 0:  # -1: the sink does not count
        yield Sample("sink_rows", written)
    names = {
        "state_rows_updated": "numRowsUpdated", "state_rows_removed": "numRowsRemoved",
        "rows_dropped_by_watermark": "numRowsDroppedByWatermark",
    }
    for labels, operator in _operators(report):
        for name, in_report in names.items():
            yield from _samples(name, [(labels, operator.get(in_report))])


def _operators(report: Mapping[str, Any]) -> list[tuple[tuple[str, str], Mapping[str, Any]]]:
    found = enumerate(_maps(report.get("stateOperators")))
    return [((str(i), str(one.get("operatorName", ""))), one) for i, one in found]


def _samples(name: str, values: list[tuple[tuple[str, ...], Any]], unit: float = 1) -> Iterator[Sample]:
    yield from (Sample(name, n * unit, labels) for labels, value in values if (n := _number(value)) is not None)


def _number(value: Any) -> float | None:
    """A number, or a text that is one; the metrics of a source are texts."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [_map(one) for one in value] if isinstance(value, list) else []
