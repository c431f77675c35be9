"""What the trace keeps of the engine's steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from minispark_stream.engine.observer import Observer
from minispark_stream.engine.runtime.construct_next_batch import construct_next_batch
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.lens.recording.previews import warn_of_nulls
from minispark_stream.lens.recording.recorded import MAX_FILES, RECORDED
from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.view.sentences import narrate
from tests.unit.fake_query import Counter, FakeQuery, events
from tests.unit.golden_trace import TRACE

NOT_IN_GOLDEN = {"zips", "tasks", "realTime", "inMemory", "read"}
OF_EPOCHS = {"getStartOffset", "runContinuous", "addOffset", "commitEpoch"}  # tests/conformance/test_continuous.py looks at these


def test_a_step_is_recorded_with_what_goes_in_and_what_comes_out(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter(newest=7))
    construct_next_batch(query, MicroBatchExecutionContext())
    latest, wal, _ = events(query)
    assert (latest.step, latest.inputs["source"], latest.outputs["end"]) == ("latestOffset", "0: Counter", "7")
    assert (wal.step, wal.inputs["file"]) == ("walCommit", "offsets/0")
    assert wal.outputs["text"] == (tmp_path / "offsets" / "0").read_text()


def test_with_tracing_off_steps_are_timed(tmp_path: Path) -> None:
    query = FakeQuery(tmp_path, Counter(newest=7))
    query.observer = Observer()
    construct_next_batch(query, MicroBatchExecutionContext())
    assert {"latestOffset", "walCommit"} < set(query.reporter.durations())


def test_of_many_files_the_first_names_are_kept_and_how_many_more_there_were() -> None:
    names = [f"{i}.csv" for i in range(MAX_FILES + 20)]
    few = [*names[:MAX_FILES], "and 20 more"]
    source = SimpleNamespace(last_look=lambda most: {"files": names}, files_between=lambda start, end: names)
    query = SimpleNamespace(sink=SimpleNamespace(written={"file": "0", "added": names}), observer=Observer())
    after = SimpleNamespace(num_output_rows=None)
    assert RECORDED["latestOffset"].after(query, ("1", None), source, "0", None)["files"] == few
    assert RECORDED["getBatch"].after(query, None, source, "0", "1")["files"] == few
    assert RECORDED["addBatch"].after(query, after, None, None)["written"] == {"file": "0", "added": few}
    del names[MAX_FILES:]
    assert RECORDED["getBatch"].after(query, None, source, "0", "1")["files"] == names


def test_columns_without_any_value_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_nulls([{"t": None, "k": 1, "n": None}, {"t": None, "k": None, "n": None}], "FileStreamSource[in]")
    assert "t, n are null in every row" in caplog.text
    caplog.clear()
    warn_of_nulls([{"t": None}], "one row proves nothing")
    warn_of_nulls([{"t": 1}, {"t": None}], "a value")
    warn_of_nulls([], "no rows")
    assert not caplog.text


def test_what_a_trace_holds_of_a_step_is_what_the_step_declares() -> None:
    """The golden trace was recorded with rows, over a restart, and has every step of micro-batches but the two below; its state
    is not in RocksDB, which alone has `zips`, and it was recorded before `tasks` were; `realTime` and `inMemory` are of other runs."""
    for step in (step for step in STEPS.values() if step.name not in ("purge", "maintenance", *OF_EPOCHS)):
        events = [event for event in TRACE.events if event.step == step.name]
        assert {name for event in events for name in event.inputs} == set(step.ins.__annotations__), step.name
        assert {name for event in events for name in event.outputs} == {*step.outs.__annotations__} - NOT_IN_GOLDEN, step.name


def test_the_sentence_of_a_step_counts_all_files() -> None:
    found = {"end": '{"logOffset":3}', "files": [f"{i}.json" for i in range(2)] + ["and 900 more"]}
    step = Event("latestOffset", "model", 0, 0, 1, 0.0, 1.0, {"source": "0: FileStreamSource[in]"}, found)
    assert "902 files: 0.json, 1.json, and 900 more" in narrate(step)
