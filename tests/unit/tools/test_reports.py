"""Progress reports in every form in which people have them, and what is said of them."""

from __future__ import annotations

import gzip
import json
import time
import tomllib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from minispark_stream import explain_output, trace_of
from minispark_stream.engine.checkpointing.budget import LimitExceeded
from minispark_stream.tools import reports
from minispark_stream.tools.cli import main
from minispark_stream.tools.pasted_text import objects
from minispark_stream.tools.reports import plain, read_saved, saved_in_text


def report(batch: int = 0, id: str = "q", name: str | None = "visits", **changes: Any) -> dict[str, Any]:
    end = {"logOffset": batch}
    return {
        "id": id, "runId": "r", "name": name, "timestamp": f"2026-03-01T12:00:0{batch}.000Z", "batchId": batch, "numInputRows": 2,
        "durationMs": {"addBatch": 70, "walCommit": 10, "triggerExecution": 100},
        "eventTime": {"watermark": "2026-03-01T11:50:00.000Z"},
        "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 4, "numRowsUpdated": 1, "numRowsDroppedByWatermark": 3}],
        "sources": [{"description": "FileStreamSource[file:/in]", "startOffset": None, "endOffset": end, "latestOffset": None, "numInputRows": 2}],
        "sink": {"description": "FileSink[/out]", "numOutputRows": -1},
    } | changes


TWO = [report(0), report(1)]
EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener$Query{}Event"
FORMS = {
    "one on a line": "\n".join(map(json.dumps, TWO)),
    "pretty printed, one after the other": "\n".join(json.dumps(one, indent=2) for one in TWO),
    "a list": json.dumps(TWO, indent=1),
    "a log": "".join(
        f"26/03/01 12:00:00 INFO MicroBatchExecution: Streaming query made progress: {json.dumps(one, indent=2)}\n"
        "26/03/01 12:00:01 WARN Plan: {braces} of others\n" for one in TWO
    ),
    "an event log": "\n".join(json.dumps({"Event": EVENT.format("Progress"), "progress": one}) for one in TWO),
    "as Python prints dicts": f"In [3]: query.recentProgress\nOut[3]: {TWO}",
    "text around it": f"My query {{does}} nothing, here's what it says: {json.dumps(TWO[0])} and then {json.dumps(TWO[1], indent=4)}. Why?",
    "each twice": "\n".join(map(json.dumps, TWO + TWO)),
}


@pytest.mark.parametrize("form", FORMS)
def test_reports_are_found_in(form: str, tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_text(FORMS[form])
    (saved,) = read_saved(path)
    assert (saved.called, [one["batchId"] for one in saved.reports]) == ("visits", [0, 1])
    assert saved.reports[1]["sources"][0]["endOffset"] == '{"logOffset":1}'
    trace = trace_of(path)
    assert [batch.batch_id for batch in trace.batches] == [0, 1] and "reports alone" in str(trace.note)
    said = str(explain_output(path))
    assert "batches 0 to 1: 4 rows in" in said and "6 rows too late for stateStoreSave" in said
    assert "4 rows in stateStoreSave" in said and "checkpoint was not given" in said


def test_a_compressed_event_log_with_the_error_that_ended_the_query(tmp_path: Path) -> None:
    path = tmp_path / "events.gz"
    ended = {"Event": EVENT.format("Terminated"), "id": "q", "runId": "r", "exception": "StreamingQueryException: boom"}
    path.write_bytes(gzip.compress("\n".join([FORMS["an event log"], json.dumps(ended)]).encode()))
    assert trace_of(path).batches[-1].error == "StreamingQueryException: boom"
    assert "the query ended: StreamingQueryException: boom" in str(explain_output(path))


def test_one_of_several_queries_is_chosen_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text("\n".join(map(json.dumps, [*TWO, report(7, id="other", name=None)])))
    with pytest.raises(ValueError, match="reports of 2 queries; choose one by its name or id, as name=…: visits, other"):
        trace_of(path)
    assert [batch.batch_id for batch in trace_of(path, name="other").batches] == [7]
    assert "batch 7" in str(explain_output(path, name="other"))
    assert main(["why", str(path)]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith("query ")] == ["visits", "other"]


def test_why_of_a_log_with_a_known_error_is_about_the_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "driver.log"
    path.write_text(FORMS["a log"] + "ERROR [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.\n")
    assert main(["why", str(path)]) == 0
    assert "Two queries with one checkpoint" in capsys.readouterr().out


@pytest.mark.parametrize("broken", [
    report(batchId="7"), report(batchId=-1), report(durationMs=[]), report(sources=None), {"batchId": 3}, {},
], ids=str)
def test_what_is_no_report_is_none(broken: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(broken))
    with pytest.raises(ValueError, match="has no reports of streaming queries"):
        trace_of(path)


def test_a_report_with_wrong_values_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    wrong = report() | {
        "name": ["n"], "timestamp": None, "durationMs": {"addBatch": 7, "walCommit": float("nan"), "queryPlanning": "long"},
        "stateOperators": [7, {"operatorName": {}, "numRowsTotal": 10**400, "customMetrics": [1]}],
        "sources": [{"endOffset": "\x1b[2J"}, 3], "sink": "s", "eventTime": {"watermark": "soon"}, "id": "<script>",
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(wrong))
    trace = trace_of(path)
    assert "<script>alert" not in trace.to_html(tmp_path / "a.html").read_text()
    assert "batch 0" in str(explain_output(path)) and trace.to_text()
    ((kept,),) = (saved.reports for saved in read_saved(path))
    assert (kept["name"], kept["durationMs"], kept["eventTime"]) == (None, {"addBatch": 7}, {"watermark": "soon"})
    assert [one["description"] for one in kept["sources"]] == ["unknown"] and kept["sink"]["description"] == "unknown"
    assert [(one["operatorName"], one["numRowsTotal"], one["customMetrics"]) for one in kept["stateOperators"]] == [("an unnamed operator", 0, {})]


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "{'a':" * 50_000, '{"' * 50_000, "{'" * 50_000, "{" * 100_000, "{'a': [" * 50_000])
def test_a_text_that_is_made_to_be_slow_is_not(text: str) -> None:
    try:
        assert list(objects(text)) == []
    except ValueError as e:
        assert "nested too deeply" in str(e)


def test_a_long_report_is_read_as_a_whole() -> None:
    sources = [{"description": f"topic {i}", "startOffset": None, "endOffset": {"p": i}} for i in range(5_000)]
    (one,) = objects(json.dumps(report(sources=sources), indent=2))
    assert len(one["sources"]) == 5_000


def test_a_file_that_is_too_long_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(FORMS["a list"])
    with pytest.raises(ValueError, match="has more than 100 bytes"):
        read_saved(path, max_bytes=100)
    damaged = tmp_path / "events.zstd"
    damaged.write_bytes(b"no zstd")
    with pytest.raises(ValueError, match="cannot be decompressed.*spark.eventLog.compress=false"):
        read_saved(damaged)


def bare(number: int, sources: str = "", **more: str) -> str:
    members = "".join(f',"{name}":{value}' for name, value in more.items())
    return f'{{"id":"{number}","runId":"","batchId":0,"timestamp":"","durationMs":{{}},"sources":[{sources}]{members}}}'


@pytest.mark.parametrize("text", [
    bare(0, more=f"[{'{},' * 300_000}0]"), bare(0, "{}," * 100_000 + "{}"), "".join(map(bare, range(8_000))),
    "".join(bare(i, "{}," * 20_000 + "{}") for i in range(8)), bare(0) + "\U0001d11e" * 3_000_000,
    "".join(f'{{"event":"QueryTerminatedEvent","id":"{i}","exception":""}}' for i in range(10_000)),
], ids=["objects", "sources", "queries", "reports", "wide characters", "ends"])
def test_a_text_that_is_made_to_take_memory_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an event log, each is compressed to a few kilobytes."""
    path = tmp_path / "events.gz"
    path.write_bytes(gzip.compress(text.encode(), 1))
    monkeypatch.setattr(reports, "MOST_MEMORY", 16 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="events.gz takes more than 16 MB of memory: save the part of it"):
            read_saved(path, max_bytes=16 << 20)
        assert tracemalloc.get_traced_memory()[1] < 6 * (16 << 20)
    finally:
        tracemalloc.stop()


def test_of_many_reports_the_newest_are_kept_and_the_others_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(bare(0, n=str(i)).replace('"runId":""', f'"runId":"{i}"') for i in range(20_000))
    monkeypatch.setattr(reports, "MOST_MEMORY", 36 << 20)
    (saved,) = saved_in_text(text)
    assert [one["n"] for one in saved.reports] == list(range(10_000, 20_000))
    monkeypatch.setattr(reports, "MOST_REPORTS", 20_000)
    with pytest.raises(LimitExceeded):
        saved_in_text(text)


def test_the_offsets_of_pyspark_35_are_texts_of_python() -> None:
    source = {"description": "f", "startOffset": "None", "endOffset": "{'logOffset': 3}"}
    found = plain(report(sources=[source]))["sources"][0]
    assert (found["startOffset"], found["endOffset"]) == (None, '{"logOffset": 3}')


def test_the_rows_of_a_report_without_their_sum_are_those_of_its_sources() -> None:
    """As over Spark Connect, and in the events of the history server."""
    one = report()
    del one["numInputRows"]
    assert plain(one)["numInputRows"] == 2
    assert "2 rows in" in str(explain_output([one]))


PASTED = tomllib.loads(Path(__file__).with_name("pasted_reports.toml").read_text())["report"]


@pytest.mark.parametrize("one", PASTED, ids=[one["name"] for one in PASTED])
def test_what_people_have_pasted_is_read(one: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(one["text"])
    assert main(["why", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert [part for part in one["says"] if part not in said] == []
    assert trace_of(path).note


def test_a_report_that_is_cut_off_is_read_in_one_pass() -> None:
    began = time.monotonic()
    assert saved_in_text('{"batchId": 1, "x": 2, ' * 10_000) == []
    assert time.monotonic() - began < 5
