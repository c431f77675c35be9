"""The code that ran in a step: which functions and lines are shown, and to which step they belong."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minispark_stream.engine.runtime.construct_next_batch import construct_next_batch
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.times import iso_time
from minispark_stream.lens.recording.code_observer import CodeObserver
from minispark_stream.lens.trace.recorder import Recorder
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.page import page
from minispark_stream.lens.view.shown_code import functions
from tests.unit.fake_query import Counter, FakeQuery, events
from tests.unit.golden_trace import TRACE

WAL_COMMIT = """\
walCommit
  engine/runtime/construct_next_batch.py
      @step("walCommit")
      def wal_commit(query: RunningQuery, context: MicroBatchExecutionContext, entry: OffsetSeqBase) -> None:
          query.update_status(message="Writing offsets to log")
          if not query.offset_log.add(context.batch_id, entry):
          ... 1 line
          clean_up(query, context.batch_id)
  engine/checkpointing/metadata_log.py
          def add(self, batch_id: int, entry: T) -> bool:"""


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """The construction of batch 0 of a source that is a number."""
    query: Any = FakeQuery(tmp_path, Counter(newest=7))
    query.observer, query.status = CodeObserver(Recorder("code")), {"message": ""}
    query.observer.begin_trigger(0)
    with query.observer.step("trigger", query) as ended:
        construct_next_batch(query, MicroBatchExecutionContext())
        ended(True)
    return Trace(events(query))


def test_the_functions_of_a_step_in_the_order_of_their_first_call(trace: Trace) -> None:
    text = str(trace.code(batch=0, step="walCommit"))
    assert re.sub(r"(?m)^ +\d+  ", "      ", text).startswith(WAL_COMMIT)


def test_what_a_step_inside_a_step_runs_belongs_to_the_inner_one(trace: Trace) -> None:
    code = {event.step: [one[2] for one in event.outputs["code"]] for event in trace.events}
    assert code["constructNextBatch"][:2] == ["construct_next_batch", "latest_offsets"]
    assert code["latestOffset"] == ["latest_offset", "report_latest_offset"]  # Counter is not in the package
    assert "wal_commit" in code["walCommit"] and "wal_commit" not in code["constructNextBatch"]


def test_the_trace_keeps_it_and_the_page_shows_it(trace: Trace, tmp_path: Path) -> None:
    kept = Trace.load(trace.save(tmp_path / "trace.json"))
    assert str(kept.code()) == str(trace.code()) and "<h4>walCommit</h4>" in kept.code()._repr_html_()
    html = page({"model": kept})
    assert "engine/runtime/construct_next_batch.py" in html and "1 line\\u003c/summary>" in html


def test_of_a_statement_all_lines_are_shown_and_other_statements_are_folded() -> None:
    first = MicroBatchExecutionContext.next.__code__.co_firstlineno
    [shown] = functions([["engine/runtime/micro_batch_execution_context.py", first, "next", [first, first + 2, first + 4]]])
    assert [(part.ran, len(part.lines)) for part in shown.parts] == [(True, 1), (False, 1), (True, 10)]
    assert shown.parts[2].lines[0].strip() == "return MicroBatchExecutionContext("


def test_a_lambda_is_shown_within_the_function_around_it() -> None:
    first = iso_time.__code__.co_firstlineno
    [shown] = functions([["engine/times.py", first, "iso_time", [first]], ["engine/times.py", first + 2, "<lambda>", [first + 2]]])
    assert [(part.ran, part.first - first) for part in shown.parts] == [(True, 0), (False, 1), (True, 2), (False, 3)]


def test_code_of_another_version_is_named_and_not_shown() -> None:
    moved, gone, outside = functions([
        ["engine/times.py", 2, "iso_time", [2, 3]], ["engine/was_here.py", 1, "f", [1]], ["../../etc/passwd.py", 1, "f", [1]],
    ])
    assert moved.note == "iso_time: this version of the package has it elsewhere" and not moved.parts
    assert not gone.parts and not outside.parts
    assert functions(None) == functions([]) == []


def test_what_was_not_recorded_is_said() -> None:
    assert str(TRACE.code()).startswith("The code that ran was not recorded")
    assert str(replace(TRACE, engine="spark").code()).startswith("Real Spark runs in the JVM")
    with pytest.raises(ValueError, match="the batch has no step 'walComit'"):
        TRACE.code(step="walComit")
    with pytest.raises(ValueError, match="the trace has no batch 99; batches: "):
        TRACE.code(batch=99)
