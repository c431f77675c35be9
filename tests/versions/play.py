"""Every tool once, on the PySpark of the Python that runs this; each line of the output is a cell of the matrix, as JSON.

    /tmp/env-3.5/bin/python tests/versions/play.py classic /tmp/out
    {"tool": "inspect", "cell": "ok"}
    {"tool": "TraceListener", "cell": "refused: Spark Connect 3.5.9 runs listeners in a process of the server, ..."}

It needs nothing of the tests of this project, so that an environment of an old version needs no more than a user's.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import minispark_stream as ms
from minispark_stream.testing import stream_test
from minispark_stream.tools.cli import main

CHECKED: list[tuple[str, Callable[..., None]]] = []


def tool(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def keep(function: Callable[..., None]) -> Callable[..., None]:
        CHECKED.append((name, function))
        return function

    return keep


def session(kind: str, events: Path) -> Any:
    events.mkdir(parents=True)
    builder: Any = SparkSession.builder
    builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")
    confs = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false", "spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    for key, value in confs.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def counts(session: Any, folder: Path) -> Any:
    rows = session.readStream.schema("time timestamp, page string").json(str(folder / "in"))
    return rows.withWatermark("time", "10 minutes").groupBy(F.window("time", "5 minutes"), "page").count()


class Run:
    """A windowed count in three batches, whose last row is late; it still runs."""

    def __init__(self, spark: Any, folder: Path):
        self.spark, self.folder = spark, folder
        self.checkpoint = folder / "checkpoint"
        self.listener: Any = None
        self.refused = ""
        try:
            self.listener = ms.TraceListener(spark, checkpoints={"visits": str(self.checkpoint)})
            spark.streams.addListener(self.listener)
        except Exception as e:
            self.refused = str(e)
        (folder / "in").mkdir(parents=True)
        writer = counts(spark, folder).writeStream.outputMode("append").format("parquet").option("path", str(folder / "out"))
        self.query = writer.option("checkpointLocation", str(self.checkpoint)).queryName("visits").start()
        for i, at in enumerate(["12:02", "12:40", "12:03"]):
            hidden = folder / "in" / f".{i}.json"
            hidden.write_text(json.dumps({"time": f"2026-03-01 {at}:00", "page": "home"}) + "\n")
            hidden.rename(folder / "in" / f"{i}.json")
            self.query.processAllAvailable()


@tool("inspect")
def _(run: Run) -> None:
    report = ms.inspect(str(run.checkpoint))
    assert report.operators[0].name in ("stateStoreSave", None), report.operators  # 3.5 does not write its name
    assert not [finding for finding in report.findings if finding.level != "note"], report.findings
    assert [row.value for row in report.rows()] == [{"count": 1}], report.rows()
    assert "visits" in str(report) or report.batches


@tool("why CHECKPOINT")
def _(run: Run) -> None:
    assert main(["why", str(run.checkpoint)]) == 0
    assert main(["why", "STREAM_FAILED"]) == 0


@tool("why REPORTS")
def _(run: Run) -> None:
    path = run.folder / "progress.jsonl"
    path.write_text("\n".join(json.dumps(dict(p), default=str) for p in run.query.recentProgress))
    assert main(["why", str(path)]) == 0


@tool("explain_output(query)")
def _(run: Run) -> None:
    said = str(ms.explain_output(run.query))
    assert "waits for" in said and "2026-03-01 12:30:00" in said, said
    assert "1 row too late" in said, said


@tool("explain_output(checkpoint)")
def _(run: Run) -> None:
    assert "waits for" in str(ms.explain_output(str(run.checkpoint)))


@tool("trace_of(query)")
def _(run: Run) -> None:
    check_trace(ms.trace_of(run.query))


def check_trace(trace: Any) -> None:
    assert "2026-03-01 12:30" in trace.to_text() or "12:30:00" in trace.to_text(), trace.to_text()[-1500:]
    assert any(event.outputs.get("files") for event in trace.events), "no files"
    assert trace.note is None, trace.note


@tool("trace_of(reports)")
def _(run: Run) -> None:
    trace = ms.trace_of([dict(p) for p in run.query.recentProgress])
    assert trace.note and len({event.batch_id for event in trace.events}) >= 3, trace.note


@tool("trace_of(event log)")
def _(run: Run) -> None:
    logs = [path for path in (run.folder / "events").rglob("*") if path.is_file() and path.stat().st_size > 1000]
    trace = ms.trace_of(logs[0], name="visits")
    assert [batch.batch_id for batch in trace.batches][:3] == [0, 1, 2], trace
    assert "visits" in trace.to_text() and "2026-03-01 12:30:00" in str(ms.explain_output(logs[0], name="visits"))


@tool("TraceListener")
def _(run: Run) -> None:
    if run.listener is None:
        raise RuntimeError(run.refused)
    for _ in range(100):
        if "visits" in run.listener.traces and len({e.batch_id for e in run.listener.traces["visits"].events}) >= 4:
            break
        time.sleep(0.1)
    check_trace(run.listener.traces["visits"])


@tool("PrometheusListener")
def _(run: Run) -> None:
    monitor = ms.PrometheusListener(registry=CollectorRegistry())
    run.spark.streams.addListener(monitor)
    shutil.copy(run.folder / "in" / "2.json", run.folder / "in" / "3.json")
    run.query.processAllAvailable()
    for _ in range(100):
        if "watermark" in str(samples := [sample.name for family in monitor.collect() for sample in family.samples]):
            break
        time.sleep(0.1)
    assert any("watermark" in name for name in samples), samples


@tool("live")
def _(run: Run) -> None:
    view = ms.live(run.query)
    time.sleep(1.5)
    view.close()


@tool("stepper")
def _(run: Run) -> None:
    assert ms.trace_of(run.query).stepper() is not None


@tool("page")
def _(run: Run) -> None:
    page = Path(ms.trace_of(run.query).to_html(run.folder / "run.html"))
    assert "visits" in page.read_text()


@tool("rollback")
def _(run: Run) -> None:
    run.query.stop()
    ms.rollback(str(run.checkpoint), 1, to=str(run.folder / "back"), sink="none")
    assert ms.inspect(str(run.folder / "back")).next.batch_id == 2


@tool("repair, metrics")
def _(run: Run) -> None:
    (run.folder / "back" / "metadata").unlink()
    ms.repair(str(run.folder / "back"), to=str(run.folder / "mended"))
    assert (run.folder / "mended" / "metadata").exists()
    assert "checkpoint_committed_batch" in {sample.name for sample in ms.metrics(str(run.folder / "mended"))}


@tool("check")
def _(run: Run) -> None:
    build = partial(counts, folder=run.folder)
    answer = ms.check(run.spark, str(run.checkpoint), build, build, output_mode="append", sink=str(run.folder / "out"))
    assert answer.exit_code == 0, answer


@tool("stream_test")
def _(run: Run) -> None:
    def counts(session: Any, events: Any) -> Any:
        return events.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes"), "k").count().select("k", "count")

    with stream_test(run.spark, counts, engine="spark", schemas={"events": "t timestamp, k string"}) as t:
        t.add([("2026-03-01 12:02", "a"), ("2026-03-01 12:04", "a")])
        t.expect([])
        t.expect_state(rows=1)
        t.add([("2026-03-01 12:30", "b")])
        t.expect([("a", 2)])
        t.expect_watermark("2026-03-01 12:20")
        t.add([("2026-03-01 12:01", "late")])
        t.expect_late(1)
        t.restart()
        t.add([("2026-03-01 13:00", "c")])
        t.expect([("b", 1)])
    try:
        with stream_test(run.spark, counts, engine="spark", schemas={"events": "t timestamp, k string"}) as t:
            t.add([("2026-03-01 12:02", "a")])
            t.expect([("a", 1)])
    except AssertionError as e:
        assert "missing" in str(e) and "waits for" in str(e), e
    else:
        raise AssertionError("a wrong expectation has passed")


@tool("stream_test: crash, advance")
def _(run: Run) -> None:
    def counts(session: Any, events: Any) -> Any:
        return events.groupBy("k").count()

    with stream_test(run.spark, counts, "update", engine="spark", schemas={"events": "k string"}) as t:
        t.crash("commitOffsets")
        t.add([("a",)])
        t.restart()
        t.expect([("a", 1)])
        t.advance("1 hour")


@tool("the model")
def _(run: Run) -> None:
    ms.MiniSparkSession(run.spark)


def play(kind: str, folder: Path) -> None:
    spark = session(kind, folder / "events")
    run = Run(spark, folder)
    for name, check in CHECKED:
        try:
            check(run)
            cell = "ok"
        except (AssertionError, AttributeError, NameError, KeyError, IndexError) as e:
            traceback.print_exc()
            cell = f"FAILED: {type(e).__name__}: {' '.join(str(e).split())[:300]}"
        except Exception as e:
            traceback.print_exc()
            cell = f"refused: {' '.join(str(e).split())[:400]}"
        print(json.dumps({"tool": name, "cell": cell}), flush=True)
    spark.stop()


if __name__ == "__main__":
    play(sys.argv[1], Path(sys.argv[2]))
