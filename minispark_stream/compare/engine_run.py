"""What one engine did with a query: its batches, its trace and the files that it left.

    EngineRun(batches=(EngineBatch(0, {...progress...}, rows=(("a", 2), ("b", 1)), logs={"offsets/0": "v1\\n..."}),),
              trace=..., files={"commits/0": ..., "state/0/1/1.delta": ...})

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.trace.trace import Trace

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class EngineBatch:
    """What one engine did in one batch: the progress report, the rows that the sink got, the log files it left."""

    batch_id: int
    progress: Mapping[str, Any]
    rows: Rows
    logs: Mapping[str, str]


@dataclass(frozen=True)
class EngineRun:
    """All batches of one engine, its trace, and the comparable content of its checkpoint's files."""

    batches: tuple[EngineBatch, ...]
    trace: Trace
    files: Mapping[str, Any]
    error: str | None = None
