"""A progress report as plain data: StreamingQueryProgress, as far as something reads it; it may have other entries besides.

    {"batchId": 4, "numInputRows": 2, "eventTime": {"watermark": "2024-01-01T12:11:00.000Z"}, "durationMs": {...}, ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class OperatorReport(TypedDict, total=False):
    """A stateful operator."""

    operatorName: str
    numRowsTotal: int
    numRowsUpdated: int
    numRowsRemoved: int
    numRowsDroppedByWatermark: int
    numShufflePartitions: int
    numStateStoreInstances: int
    memoryUsedBytes: int
    customMetrics: Mapping[str, int]


class SourceReport(TypedDict, total=False):
    """A source. Its offsets are text or JSON values."""

    description: str
    startOffset: Any
    endOffset: Any
    latestOffset: Any
    numInputRows: int


class SinkProgress(TypedDict, total=False):
    """The sink."""

    description: str
    numOutputRows: int | None


class ProgressReport(TypedDict, total=False):
    """A batch, or a trigger without one."""

    name: str | None
    batchId: int
    runId: Any
    timestamp: str
    numInputRows: int
    batchDuration: int
    durationMs: Mapping[str, float]
    eventTime: Mapping[str, str]
    stateOperators: Sequence[OperatorReport]
    sources: Sequence[SourceReport]
    sink: SinkProgress
