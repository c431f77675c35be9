"""How a run of a query ends: with an error, by `stop()`, or not at all because somebody waits on the wrong thread."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.accumulators import Accumulator, _accumulatorRegistry
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.errors.exceptions import captured

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.errors import JavaError
from minispark_stream.engine.observer import Observer
from minispark_stream.engine.operators.metrics import Reports
from minispark_stream.engine.runtime import run_batch as run_batch_module
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.progress_reporter import ProgressReporter
from minispark_stream.engine.runtime.run_batch import run_batch
from minispark_stream.engine.runtime.stream_execution import QueryStopped, StreamExecution
from minispark_stream.engine.runtime.stream_failure import StreamFailure, error_of_job
from minispark_stream.engine.sinks.foreach_batch import ForeachBatchUserFunctionError
from minispark_stream.lens.trace.recorder import Recorder


class DeadJvm:
    """A plan, or a gateway, that can no longer be asked."""

    def __str__(self) -> str:
        raise ConnectionError("the JVM is gone")

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError("the JVM is gone")


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """An error with a stack trace."""
    try:
        raise error from cause
    except type(error) as e:
        return e


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's captured exceptions insist on a gateway; this one answers nothing."""
    monkeypatch.setattr(SparkContext, "_jvm", DeadJvm())
    monkeypatch.setattr(SparkContext, "_gateway", DeadJvm())


def test_a_query_whose_jvm_died_has_failed(no_jvm: None) -> None:
    query: Any = SimpleNamespace(
        analyzed=DeadJvm(), plan_text="~Project", context=MicroBatchExecutionContext(), sources=SimpleNamespace(sources=["a source"]),
        _pretty=lambda: "counts",
    )
    where = StreamExecution._where(cast(StreamExecution, query))
    failure = StreamFailure("1", "2", OSError("broken pipe"), where)
    assert "terminated with exception: broken pipe SQLSTATE: XXKST" in str(failure.raised())
    assert "Thread State: RUNNABLE\n\nLogical Plan:\n~Project" in str(failure.returned())
    assert failure.condition is None
    failure = StreamFailure("1", "2", JavaError("o7.collect", SimpleNamespace(_target_id="o8", _gateway_client=DeadJvm())), where)
    assert failure.message == "Py4JJavaError" and failure.condition is None and "Py4JJavaError" in failure.stack_trace


def test_a_step_in_which_the_jvm_dies_is_recorded(no_jvm: None) -> None:
    """And its error goes on as it is."""
    died = JavaError("o7.collect", SimpleNamespace(_target_id="o8", _gateway_client=DeadJvm()))
    recorder = Recorder()
    with pytest.raises(JavaError) as e, recorder.step("addBatch"):
        raise died
    assert e.value is died and recorder.events[0].error == "Py4JJavaError"


def test_a_source_that_cannot_be_stopped_keeps_no_other_open(caplog: pytest.LogCaptureFixture) -> None:
    stopped = []

    def refuse() -> None:
        raise OSError("the broker is gone")

    query: Any = SimpleNamespace(
        sources=[SimpleNamespace(stop=refuse), SimpleNamespace(stop=lambda: stopped.append(True))], _pretty=lambda: "counts"
    )
    query.attempt = lambda let_go: StreamExecution.attempt(cast(StreamExecution, query), let_go)
    StreamExecution.release(cast(StreamExecution, query))
    assert stopped == [True] and "Failed to stop all of counts" in caplog.text


def test_a_query_that_goes_on_after_its_spark_is_stopped_says_so(no_jvm: None) -> None:
    ended: list[str] = []
    query: Any = SimpleNamespace(
        session=SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None)), id="1", run_id="2", started=threading.Event(),
        _pretty=lambda: "counts", _where=lambda: "", _finish=lambda: ended.append("finished"),
        _is_interrupted_by_stop=lambda error: False,
    )
    StreamExecution._run_stream(cast(StreamExecution, query))
    assert "The SparkSession was stopped while the query was running" in str(query.failure.raised())
    assert ended == ["finished"]


def test_the_faces_of_a_failure(no_jvm: None) -> None:
    cause = raised(PySparkException(message="no such file", errorClass="PATH_NOT_FOUND", messageParameters={}))
    failure = StreamFailure("1", "2", cause, "=== Streaming Query ===")
    error, kept = failure.raised(), failure.returned()
    assert isinstance(error, StreamingQueryException) and type(error).__name__ == type(kept).__name__ == "StreamingQueryException"
    assert (error.getCondition(), error.getSqlState()) == ("STREAM_FAILED", "XXKST")
    assert error.getMessageParameters() == {"id": "1", "runId": "2", "message": "[PATH_NOT_FOUND] no such file"}
    assert (kept.getCondition(), kept.getSqlState(), kept.getMessageParameters()) == (None, None, None)
    assert kept._desc == "[PATH_NOT_FOUND] no such file\n=== Streaming Query ==="
    assert error._cause is not None and kept._cause is not None and "no such file" in kept._cause._desc
    assert "in raised" in kept._stackTrace and failure.stack_trace == kept._stackTrace
    assert failure.condition == "PATH_NOT_FOUND"


def test_the_cause_of_a_foreach_batch_error_is_the_users_own(no_jvm: None) -> None:
    own = raised(ValueError("no"))
    failure = StreamFailure("1", "2", raised(ForeachBatchUserFunctionError(own), own), "where")
    assert failure.condition == "FOREACH_BATCH_USER_FUNCTION_ERROR"
    assert failure.message.startswith("[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function")
    assert "in raised\n" in failure.message and failure.message.endswith("ValueError: no\n SQLSTATE: 39000")
    assert failure.returned()._desc.startswith("An exception was raised by the Python Proxy. Return Message: Traceback")
    assert failure.raised().__cause__ is own is failure.returned().__cause__
    assert str(failure.error).endswith("sink. Reason: ValueError: no SQLSTATE: 39000"), "in one line for the log, which has the traceback"


def test_only_the_error_of_a_job_may_be_that_of_a_state_store(no_jvm: None) -> None:
    text = "SparkRuntimeException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] lost SQLSTATE: 58030"
    of_job = captured.PythonException(desc="An exception was thrown from the Python worker:\n" + text, stackTrace=text)
    assert str(error_of_job(of_job)) == "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] lost SQLSTATE: 58030"
    of_function = ForeachBatchUserFunctionError(of_job)
    for error in (of_function, ValueError(text), captured.StreamingQueryException(desc=text, stackTrace=text)):
        assert error_of_job(error) is error


def test_a_stopped_query_does_not_begin_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """`stop()` comes while the driver still plans the batch."""
    query: Any = SimpleNamespace(
        stop_requested=threading.Event(), observer=Observer(), reporter=ProgressReporter(100), start_maintenance=lambda _: None
    )
    query.check_not_stopped = lambda: StreamExecution.check_not_stopped(query)
    planned = SimpleNamespace(batch=None)
    monkeypatch.setattr(run_batch_module, "get_batches", lambda *_: {})
    monkeypatch.setattr(run_batch_module, "plan_batch", lambda *_: query.stop_requested.set() or planned)
    monkeypatch.setattr(run_batch_module, "add_batch", lambda *_: pytest.fail("the sink was given the batch"))
    with pytest.raises(QueryStopped):
        run_batch(query, MicroBatchExecutionContext())


def test_the_counters_of_a_run_go_with_it() -> None:
    accumulator: Accumulator[Any] = Accumulator(10**9, [], Reports())
    accumulator += [(0, None)]
    sessions.forget_accumulator(accumulator)
    assert 10**9 not in _accumulatorRegistry and accumulator.value == [(0, None)]
    sessions.forget_accumulator(accumulator)
