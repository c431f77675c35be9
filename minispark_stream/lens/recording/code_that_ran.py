"""Which functions of the package ran, and which of their lines (level "code" of the trace).

1. Python tells of each function that is called on a thread, and of each line that it runs (`sys.settrace`). This makes the code
   slower, so it is done only where it was asked for.
2. Functions of lens/ and tools/, and what announces a step, are left out: they look at a query and are no part of it.
3. A task of an operator runs in a Python worker. It is given to Spark inside a `TracedTask`, whose accumulator brings to the
   driver what has run there.

    ran = CodeThatRan()
    with ran.noted():
        wal_commit(...)
    ran.code     [["engine/runtime/construct_next_batch.py", 76, "wal_commit", [76, 78, 79, 81]], ...], by the first calls
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.accumulators import Accumulator

Tracer = Callable[[FrameType, str, Any], Any]
Code = list[list[Any]]  # of each function: its file in the package, its first line, its name, and the lines that ran

PACKAGE = str(Path(__file__).parents[2]) + os.sep
LOOK_ON = tuple(PACKAGE + path.replace("/", os.sep) for path in ("lens/", "tools/", "engine/observer.py"))  # (2)


class CodeThatRan:
    """Notes what runs."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int, str], set[int]] = {}

    def noted(self) -> AbstractContextManager[None]:
        """Note what runs on this thread, except in a `noted` inside this one."""
        return _traced_by(self._begin)

    def _begin(self, frame: FrameType, _: str, __: Any) -> Tracer | None:  # (1)
        code = frame.f_code
        file = code.co_filename
        is_function = code.co_flags & CO_OPTIMIZED  # not a module, nor the body of a class
        if not file.startswith(PACKAGE) or file.startswith(LOOK_ON) or not is_function:
            return None
        where = (Path(file[len(PACKAGE) :]).as_posix(), code.co_firstlineno, code.co_name)
        lines = self._lines.setdefault(where, {code.co_firstlineno})

        def in_function(frame: FrameType, event: str, _: Any) -> Tracer:
            if event == "line":
                lines.add(frame.f_lineno)
            return in_function

        return in_function

    def add(self, code: Code) -> None:
        """Add what has run somewhere else."""
        for file, first, name, lines in code:
            self._lines.setdefault((file, first, name), set()).update(lines)

    @property
    def code(self) -> Code:
        return [[*where, sorted(lines)] for where, lines in self._lines.items()]


class TracedTask:
    """(3) The task of an operator, which also reports its code to `codes`."""

    def __init__(self, task: Any, codes: Accumulator[list[Code]]):
        self._task, self._codes = task, codes

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        ran = CodeThatRan()
        with ran.noted():
            emitted = iter(self._task(batches))
        while True:
            with ran.noted():
                batch = next(emitted, None)
            if batch is None:
                break
            yield batch
        self._codes.add([ran.code])


def unnoted() -> AbstractContextManager[None]:
    """Nothing of what runs on this thread is noted."""
    return _traced_by(None)


@contextmanager
def _traced_by(tracer: Tracer | None) -> Iterator[None]:
    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(outer)
