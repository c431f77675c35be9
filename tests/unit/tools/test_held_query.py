"""What a query tells of itself, on whichever engine; the queries here are stand-ins for those of Spark Connect."""

from __future__ import annotations

import io
import json
import threading
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from minispark_stream import TraceListener, explain_output, trace_of
from minispark_stream.tools.held_query import as_model_query, look, reports
from tests.unit.hand_made import windowed_count
from tests.unit.tools.test_reports import report

PLAN = "StateStoreSave [window#1], state info [ checkpoint = file:{}/state, runId = 7, opId = 0, ver = 3, numPartitions = 2], Append"


def of_connect(plan: str = "No physical plan.", **more: Any) -> Any:
    has = {
        "__module__": "pyspark.sql.connect.streaming.query", "explain": lambda self: print(plan), "id": "q", "name": "visits",
        "recentProgress": [report(0), report(1)], "exception": lambda self: None, "isActive": True, "status": {"message": "waits"},
    }
    return type("StreamingQuery", (), has | more)()


def test_a_stateful_query_of_connect_says_in_its_plan_where_its_checkpoint_is(tmp_path: Path) -> None:
    checkpoint = windowed_count(tmp_path / "cp")
    query = of_connect(PLAN.format(checkpoint))
    assert look(query).checkpoint == f"file:{checkpoint}"
    assert "operator 0" in str(explain_output(query))
    assert any(event.outputs.get("text") for event in trace_of(query).events), "the log entries are read"


def test_for_other_queries_the_caller_says_it(tmp_path: Path) -> None:
    checkpoint = windowed_count(tmp_path / "cp")
    assert look(of_connect()).checkpoint is None
    assert "the checkpoint was not given (explain_output takes it as checkpoint=…)" in str(explain_output(of_connect()))
    assert "operator 0" in str(explain_output(of_connect(), checkpoint=checkpoint))
    assert trace_of(of_connect()).note and trace_of(of_connect(), checkpoint=checkpoint).note is None


def test_what_others_print_while_a_query_is_asked_is_not_lost() -> None:
    def explain(self: Any) -> None:
        other = threading.Thread(target=print, args=("from another thread",))
        other.start()
        other.join()
        print(PLAN.format("/cp"))

    with redirect_stdout(io.StringIO()) as printed:
        assert look(of_connect(explain=explain)).checkpoint == "file:/cp"
    assert printed.getvalue() == "from another thread\n"


def test_reports_are_plain_data() -> None:
    assert reports(of_connect())[1]["sources"][0]["endOffset"] == '{"logOffset":1}'
    assert as_model_query(of_connect()) is None


def test_a_listener_of_connect_35_is_refused() -> None:
    """There, it would run in a process of the server."""
    old: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "version": "3.5.9"})()
    with pytest.raises(PySparkRuntimeError, match=r"Spark Connect 3\.5\.9 runs listeners in a process of the server.*trace_of\(query"):
        TraceListener(old)


def test_a_listener_of_connect_is_told_where_checkpoints_are(tmp_path: Path) -> None:
    checkpoint = windowed_count(tmp_path / "cp")
    session: Any = type("SparkSession", (), {
        "__module__": "pyspark.sql.connect.session", "version": "4.3.0", "streams": SimpleNamespace(get=lambda id: of_connect()),
    })()
    listener = TraceListener(session, checkpoints={"visits": str(checkpoint)})
    listener.onQueryStarted(SimpleNamespace(id="q", name="visits"))  # type: ignore[arg-type]
    for one in (report(0), report(1)):
        listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(id="q", json=json.dumps(one))))  # type: ignore[arg-type]
    trace = listener.traces["visits"]
    assert trace.note is None and [batch.batch_id for batch in trace.batches] == [0, 1]
