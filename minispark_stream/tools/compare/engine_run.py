"""What one engine did with a query: its batches, its trace and the files that it left.

    EngineRun(batches=(EngineBatch(0, {...progress...}, rows=(("a", 2), ("b", 1)), logs={"offsets/0": "v1\\n..."}),),
              trace=..., files={"commits/0": ..., "state/0/1/1.delta": ...})

A run that failed has the condition of the error (STREAM_FAILED, whatever went wrong) and its cause, which is taken from the
message; if the message names no error, the cause is the text of the message:

    "[STREAM_FAILED] Query [...] terminated with exception: ... ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. ..."
    ->  Cause("DIVIDE_BY_ZERO", "Division by zero. ...")
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.words import printable, short

Rows = Sequence[tuple[Any, ...]]
# The conditions that Spark puts around a user's error: those of the query, of its sink and of its Python worker.
WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "PYTHON_EXCEPTION")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] (?=([^\n]*))")
_RAISED = re.compile(r"(?:^|[ .])(\w+(?:Error|Exception)): (?=([^\n]*))", re.MULTILINE)


@dataclass(frozen=True)
class EngineBatch:
    """What one engine did in one batch: the progress report, the rows that the sink received, the log files that it wrote."""

    batch_id: int
    progress: Mapping[str, Any]
    rows: Rows
    logs: Mapping[str, str]


@dataclass(frozen=True)
class Cause:
    """What went wrong below the wrappers: Spark's condition, or the class of an exception, or ""; and the message."""

    name: str
    message: str

    @property
    def has_condition(self) -> bool:
        return self.name.isupper()

    def __str__(self) -> str:
        return printable(short(f"{self.name}: {self.message}" if self.name else self.message))


def cause_of(message: str) -> Cause | None:
    """The innermost error that the message of a StreamingQueryException names, or else its text; None for other messages."""
    text = message.split("\n=== Streaming Query ===")[0]
    conditions = [found for found in _CONDITION.findall(text) if found[0] not in WRAPPERS]
    found = conditions or _RAISED.findall(text)
    name, says = found[-1] if found else ("", text.partition("terminated with exception: ")[2].split("\n")[0])
    return Cause(name, re.sub(r" SQLSTATE: \w{5}\.?", "", says)) if says else None


@dataclass(frozen=True)
class EngineRun:
    """All batches of one engine, its trace, and the comparable content of its checkpoint's files; how it failed, if it did."""

    batches: tuple[EngineBatch, ...]
    trace: Trace
    files: Mapping[str, Any]
    condition: str | None = None
    cause: Cause | None = None

    @property
    def error(self) -> str | None:
        """The error that ended the query, with its cause; None if there was none."""
        return self.condition and ": ".join(map(str, filter(None, (self.condition, self.cause))))
