"""The observer that also records the code that ran in each step: `MiniSparkSession(spark, trace="code")`.

    query.trace.code(batch=1, step="walCommit")     the functions that ran, and their lines (lens/view/shown_code.py)

What a step inside a step runs belongs to the inner one alone. What the tasks of an operator run belongs to its stateOperator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.observer import Ended
from minispark_stream.engine.operators.metrics import Reports
from minispark_stream.engine.operators.state_task import StateTask
from minispark_stream.lens.recording.code_that_ran import Code, CodeThatRan, TracedTask, unnoted
from minispark_stream.lens.recording.recorded import RECORDED
from minispark_stream.lens.recording.recording_observer import RecordingObserver
from minispark_stream.lens.trace.recorder import Recorder


class CodeObserver(RecordingObserver):
    """Keeps what RECORDED says of each step, and under the name `code`, what ran in it."""

    def __init__(self, recorder: Recorder, session: SparkSession | None = None):
        super().__init__(recorder)
        self._session = session
        self._of_tasks: dict[int, list[Accumulator[list[Code]]]] = {}  # by operator

    @contextmanager
    def step(self, name: str, query: Any, /, **arguments: Any) -> Iterator[Ended]:
        recorded, ran = RECORDED[name], CodeThatRan()
        with unnoted(), self.recorder.step(name, **recorded.before(query, **arguments)) as step:

            def ended(result: Any) -> None:
                with unnoted():
                    step.out(**recorded.after(query, result, **arguments))

            try:
                with ran.noted():
                    yield ended
            finally:
                of_tasks = self._taken(arguments["operator"].operator_id) if name == "stateOperator" else []
                step.out(code=[*of_tasks, *ran.code])

    def task(self, task: Any) -> Any:
        if self._session is None or not isinstance(task, StateTask):
            return task
        codes = self._session.sparkContext.accumulator(list[Code](), Reports[Code]())
        self._of_tasks.setdefault(task.info.operator_id, []).append(codes)
        return TracedTask(task, codes)

    def end_trigger(self, ran: bool) -> None:
        for operator_id in list(self._of_tasks):  # of a batch that has failed
            self._taken(operator_id)
        super().end_trigger(ran)

    def _taken(self, operator_id: int) -> Code:
        """What the tasks of an operator have run in this batch, all partitions together."""
        whole = CodeThatRan()
        for codes in self._of_tasks.pop(operator_id, []):
            for code in codes.value:
                whole.add(code)
            sessions.forget_accumulator(codes)
        return whole.code
