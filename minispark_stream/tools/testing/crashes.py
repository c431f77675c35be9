"""A crash that a test asks for: the query dies at a step of the next batch, and leaves on disk what a kill would leave.

Both engines can be killed at three moments, because their steps look the same from outside:

1. `walCommit`: the name of the next log entry is already taken, so the engine ends as if it had died before writing it.
2. `addBatch` (and what comes before it: `runBatch`, `getBatch`, `queryPlanning`): the sink raises before it has read anything.
3. `commitOffsets` (and `updateWatermark`): the sink has done its work, and the name of the commit is already taken.
4. The model can also die at the beginning of its other steps, where its observer raises. Real Spark does not announce them.

    Crash("commitOffsets", "model")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from minispark_stream.engine.observer import Ended, Observer
from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.view.words import perhaps
from minispark_stream.tools.compare.engine_run import cause_of

MOMENTS = {
    "walCommit": "walCommit",
    "runBatch": "addBatch", "getBatch": "addBatch", "queryPlanning": "addBatch", "addBatch": "addBatch",
    "updateWatermark": "commitOffsets", "commitOffsets": "commitOffsets",
}
OF_THE_MODEL = ("trigger", "constructNextBatch", "latestOffset", "commitSource", "purge", "stateOperator", "finishTrigger")


class Killed(Exception):
    """The query has died at the step that the test asked for."""


class Crash:
    """One crash.

    Args:
        step: a step of `STEPS`.
        engine: "model" or "spark".

    Raises:
        ValueError: there is no such step, or the engine cannot die there.
    """

    def __init__(self, step: str, engine: str):
        if step not in STEPS:
            known = [s for s in STEPS if s in MOMENTS or s in OF_THE_MODEL]
            raise ValueError(f"there is no step {step!r}{perhaps(step, known)}; steps: {', '.join(known)}")
        if step not in MOMENTS and (engine == "spark" or step not in OF_THE_MODEL):
            at = ", ".join([*MOMENTS, *(OF_THE_MODEL if engine == "model" else ())])
            raise ValueError(f"a query on {engine} cannot be killed at {step}, which cannot be seen from outside, but at {at}")
        self.step = step
        self._moment = MOMENTS.get(step)
        self._in_the_way: Path | None = None
        self._raised = False

    def before_a_trigger(self, query: Any, checkpoint: Path) -> None:
        """The query waits for its next trigger."""
        if self._moment == "walCommit" and self._in_the_way is None:  # (1)
            self._take_the_name(checkpoint / "offsets" / str(1 + newest(checkpoint / "offsets")))
        elif self._moment is None:
            execution = query._execution
            if not isinstance(execution.observer, DeadlyObserver):
                execution.observer = DeadlyObserver(execution.observer, self)

    def before_the_sink(self) -> None:
        if self._moment == "addBatch":  # (2)
            self.die()

    def after_the_sink(self, checkpoint: Path, batch_id: int) -> None:
        if self._moment == "commitOffsets":  # (3)
            self._take_the_name(checkpoint / "commits" / str(batch_id))

    def die(self) -> None:
        self._raised = True
        raise Killed(f"killed at {self.step}")

    def did(self, error: PySparkException) -> bool:
        """Whether this crash has ended the query."""
        cause = cause_of(str(error))
        met = self._in_the_way is not None and cause is not None and cause.name == "CONCURRENT_STREAM_LOG_UPDATE"
        return self._raised or met

    def clear_up(self) -> None:
        """Remove the file whose name was taken."""
        if self._in_the_way is not None:
            self._in_the_way.unlink(missing_ok=True)
            self._in_the_way = None

    def _take_the_name(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._in_the_way = path


class DeadlyObserver(Observer):
    """(4) Passes everything on to another observer, and raises at the step of a crash."""

    def __init__(self, observer: Observer, crash: Crash):
        self._observer, self._crash = observer, crash
        self.begin_trigger, self.end_trigger = observer.begin_trigger, observer.end_trigger  # type: ignore[method-assign]

    @contextmanager
    def step(self, name: str, query: Any, /, **arguments: Any) -> Iterator[Ended]:
        if name == self._crash.step:
            self._crash.die()
        with self._observer.step(name, query, **arguments) as ended:
            yield ended


def newest(log: Path) -> int:
    """The id of the last entry of a log; -1 if it is empty."""
    return max((int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()), default=-1)
