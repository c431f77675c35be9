"""What a listener hears of queries, as numbers."""

from __future__ import annotations

import json
from typing import Any

from minispark_stream.tools.monitoring.families import FAMILIES, OF_QUERY, SPARKS_OWN, Sample
from minispark_stream.tools.monitoring.ledger import Ledger, counts_of, gauges_of

REPORT: dict[str, Any] = json.loads("""{
    "id": "q", "runId": "r", "name": "counts", "timestamp": "2024-01-01T12:10:00.000Z", "batchId": 7, "numInputRows": 5,
    "inputRowsPerSecond": 2.5, "processedRowsPerSecond": 10.0, "durationMs": {"addBatch": 400, "triggerExecution": 500},
    "eventTime": {"watermark": "2024-01-01T12:00:00.000Z"},
    "stateOperators": [
        {"operatorName": "stateStoreSave", "numRowsTotal": 3, "numRowsUpdated": 2, "numRowsRemoved": 1, "memoryUsedBytes": 1000, "numRowsDroppedByWatermark": 4},
        {"operatorName": "dedupe", "numRowsTotal": 10, "numRowsUpdated": 0, "numRowsRemoved": 0, "memoryUsedBytes": 500, "numRowsDroppedByWatermark": 0}
    ],
    "sources": [
        {"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 15, "1": 7}}, "numInputRows": 5, "metrics": {"maxOffsetsBehindLatest": "10"}},
        {"endOffset": {"logOffset": 3}, "latestOffset": null, "numInputRows": 0}
    ],
    "sink": {"numOutputRows": -1}
}""")


def values(samples: list[Sample]) -> dict[str, float]:
    """The samples by name and own labels, such as state_rows{0,stateStoreSave}."""
    return {one.name + ("{" + ",".join(one.labels) + "}" if one.labels else ""): one.value for one in samples}


def known(ledger: Ledger, query_id: str = "q") -> dict[str, float]:
    of_query = [one for one in ledger.samples() if one.labels[1] == query_id]
    return values([Sample(one.name, one.value, one.labels[2:]) for one in of_query])


def test_the_gauges_of_a_report():
    found = values(list(gauges_of(REPORT)))
    assert [found[name] for name in SPARKS_OWN] == [2.5, 10.0, 500, 1_704_110_400_000, 13, 1500]
    assert found["watermark_lag_seconds"] == 600
    assert found["phase_seconds{addBatch}"] == 0.4
    assert found["source_lag{0}"] == 10 and "source_lag{1}" not in found
    assert found["source_metric{0,maxOffsetsBehindLatest}"] == 10
    assert found["state_rows{1,dedupe}"] == 10


def test_what_a_report_lacks_is_left_out_or_what_spark_says():
    found = values(list(gauges_of({"id": "q", "processedRowsPerSecond": "NaN", "sources": None, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}})))
    assert found == {"inputRate-total": 0, "latency": 0, "eventTime-watermark": 0, "states-rowsTotal": 0, "states-usedBytes": 0}


def test_counters_add_up_and_gauges_are_replaced():
    ledger = Ledger()
    ledger.started("q", "counts", "2024-01-01T12:00:00.000Z")
    ledger.reported(REPORT)
    ledger.reported({**REPORT, "batchId": 8, "inputRowsPerSecond": 1.0})
    found = known(ledger)
    assert found["batches"] == 2 and found["source_rows{0}"] == 10 and found["rows_dropped_by_watermark{0,stateStoreSave}"] == 8
    assert found["batch_id"] == 8 and found["inputRate-total"] == 1.0 and found["active"] == 1
    assert found["last_commit_timestamp_seconds"] == found["last_report_timestamp_seconds"] + 0.5
    assert "sink_rows" not in found  # the sink does not count


def test_a_trigger_without_a_batch_is_a_sign_of_life_and_no_commit():
    ledger = Ledger()
    ledger.reported(REPORT)
    before = known(ledger)
    ledger.reported({**REPORT, "timestamp": "2024-01-01T12:11:00.000Z", "durationMs": {"latestOffset": 1, "triggerExecution": 1}})
    ledger.idle("q", "2024-01-01T12:12:00.000Z")
    after = known(ledger)
    assert after["last_report_timestamp_seconds"] == before["last_report_timestamp_seconds"] + 120
    assert after["last_commit_timestamp_seconds"] == before["last_commit_timestamp_seconds"]
    assert after["batches"] == before["batches"]


def test_what_remains_when_a_query_has_ended():
    ledger = Ledger()
    ledger.reported(REPORT)
    ledger.ended("q", True, "STREAM_FAILED")
    found = known(ledger)
    assert found["active"] == 0 and found["ended{STREAM_FAILED}"] == 1 and found["terminations{STREAM_FAILED}"] == 1
    assert "batch_id" not in found and found["batches"] == 1
    ledger.started("q", "counts")
    again = known(ledger)
    assert again["active"] == 1 and "ended{STREAM_FAILED}" not in again and again["batches"] == 1
    ledger.ended("q", False, None)
    ledger.started("q", "counts")
    ledger.ended("q", True, "whatever a program raises\n")
    assert known(ledger)["terminations{none}"] == known(ledger)["terminations{unknown}"] == 1


def test_the_number_of_queries_is_bounded_and_those_that_ended_go_first():
    ledger = Ledger(most=3)
    for i in range(3):
        ledger.started(str(i), None)
    ledger.ended("1", False, None)
    ledger.started("3", None)
    assert {one.labels[1] for one in ledger.samples()} == {"0", "2", "3"}
    for i in range(10_000):
        ledger.started(f"more {i}", None)
    assert len({one.labels[1] for one in ledger.samples()}) == 3


def test_ten_thousand_reports_take_no_more_room_than_one():
    ledger = Ledger()
    ledger.reported(REPORT)
    series = len(ledger.samples())
    for i in range(10_000):
        ledger.reported({**REPORT, "batchId": i})
    assert len(ledger.samples()) == series


def test_every_sample_has_the_labels_of_its_family():
    samples = [*gauges_of(REPORT), *counts_of(REPORT)]
    assert all(len(one.labels) == len(FAMILIES[one.name].labels) for one in samples)
    assert OF_QUERY == ("query", "query_id")
